//! Places in several queues, of which one holds all or none.

use std::sync::Arc;

use futures_util::future::{OptionFuture, join_all, join3, try_join_all};
use zookeeper_client as zk;

use super::grant::Grant;
use super::internals::LockInternals;
use super::line::{Company, Moment};
use super::membership::SharedLine;
use super::name::Kind;
use super::place::Place;
use crate::client::{CreateOutcome, EphemeralNode, Failures, NodeForm, Session};
use crate::error::{Error, Result};

/// Contenders of one session in several queues. Dropping it leaves them all.
///
/// It enters all queues in one transaction. Where it has to wait, it leaves those that come after: as long as
/// everybody takes the queues in the same order, whoever waits keeps nobody from going on that it waits for,
/// be it in one step or one queue after the other, as Curator's `InterProcessMultiLock` does.
#[derive(Debug)]
pub(crate) struct Joint {
    /// In the order that all agree on.
    queues: Arc<[Arc<LockInternals>]>,
    data: Option<Arc<[u8]>>,
    /// In the first of the queues. All but the last of them are granted.
    places: Vec<Place>,
    /// Failures in a row to reach the servers.
    failures: Failures,
    /// Losses in a row of a node.
    losses: Failures,
}

impl Joint {
    /// Enters the queues.
    ///
    /// # Cancel safety
    /// Nothing stays in any queue.
    pub(crate) async fn enter(queues: &Arc<[Arc<LockInternals>]>, data: Option<Arc<[u8]>>) -> Result<Self> {
        let mut joint = Self {
            queues: queues.clone(),
            data,
            places: Vec::with_capacity(queues.len()),
            failures: Failures::default(),
            losses: Failures::default(),
        };
        joint.enter_rest().await?;
        Ok(joint)
    }

    /// The place in which it waits, and the index of the queue.
    pub(crate) fn waiting(&self) -> Option<(&Place, usize)> {
        let place = self.places.last().filter(|place| !place.is_granted() && !place.is_outside())?;
        Some((place, self.places.len() - 1))
    }

    /// What it holds, if that is all. What is left then is nothing.
    pub(crate) fn take_grants(&mut self) -> Option<Vec<Grant>> {
        let granted = self.is_everywhere() && self.places.iter().all(Place::is_granted);
        granted.then(|| self.places.drain(..).filter_map(|mut place| place.take_grant()).collect())
    }

    /// Waits until the contender before it is gone or changed, and goes on from there.
    ///
    /// # Cancel safety
    /// Only to be followed by dropping or leaving.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        let Some(last) = self.places.last_mut() else { return self.enter_rest().await };
        last.wait().await?;
        if last.has_waited() {
            self.losses.reset();
        }
        if last.is_granted() {
            if !self.is_everywhere() {
                self.enter_rest().await?;
            }
            if self.is_everywhere() {
                // Those held since long ago may have been lost meanwhile.
                try_join_all(self.places.iter_mut().map(Place::look)).await?;
            }
        }
        if self.places.iter().any(Place::is_outside) {
            self.leave_all("a node of it is gone");
            let lost = self.error(zk::Error::NoNode);
            self.losses.pause_or(lost, self.queues[0].client().retry_policy()).await?;
            self.enter_rest().await?;
        }
        Ok(())
    }

    /// Leaves all queues, and waits for the confirmations. Answers what went wrong.
    ///
    /// # Cancel safety
    /// The queues are left in any case, in the background if this is cancelled.
    pub(crate) async fn leave(self) -> Vec<Error> {
        let left = join_all(self.places.into_iter().map(Place::leave)).await;
        left.into_iter().filter_map(Result::err).collect()
    }

    fn is_everywhere(&self) -> bool {
        self.places.len() == self.queues.len()
    }

    fn leave_all(&mut self, why: &str) {
        tracing::info!(path = &**self.queues[0].path(), "leaving the queues of a multi-lock: {why}");
        self.places.clear();
    }

    /// Enters the queues that it is not in, up to the first in which it must wait.
    async fn enter_rest(&mut self) -> Result<()> {
        loop {
            let client = self.queues[0].client();
            let session = match self.places.first().and_then(Place::session) {
                Some(session) => session.clone(),
                None => client.session().await?,
            };
            match self.try_enter_rest(&session).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.ends_session() => self.leave_all("the session is over"),
                Err(error) => {
                    self.failures.pause_after(error, self.queues[0].client().retry_policy()).await?
                }
            }
        }
    }

    /// Answers whether that was done.
    async fn try_enter_rest(&mut self, session: &Arc<Session>) -> Result<bool> {
        let queues = &self.queues[self.places.len()..];
        let form = |queue: &LockInternals| queue.form(Kind::Exclusive, self.data.clone());
        let node = |queue: &Arc<LockInternals>| {
            EphemeralNode::new(queue.client(), session.clone(), queue.path(), form(queue))
        };
        let mut nodes: Vec<EphemeralNode> = queues.iter().map(node).collect();
        let lines: Vec<Arc<SharedLine>> = queues.iter().map(|queue| queue.line(session)).collect();
        let (company, mut moments): (Vec<Company>, Vec<Moment>) =
            lines.iter().map(|line| line.with(|line, now| (line.company(now), line.moment(now)))).unzip();
        let queue_watches = join_all(queues.iter().zip(&company).map(|(queue, company)| {
            OptionFuture::from(company.parent_watch.then(|| session.watch_existence(queue.path())))
        }));
        let lists =
            join_all(queues.iter().zip(&company).map(|(queue, company)| {
                OptionFuture::from(company.list.then(|| session.list(queue.path())))
            }));
        // `join3` polls in this order, and the first poll sends: the lists show our nodes already.
        let (queue_watches, outcome, lists) =
            join3(queue_watches, EphemeralNode::create_together(&mut nodes, session, None), lists).await;
        match outcome.map_err(|source| self.error(source))? {
            CreateOutcome::Created => {
                for ((line, at), watch) in lines.iter().zip(&mut moments).zip(queue_watches) {
                    if let Some(Ok((true, watch))) = watch {
                        *at = line.parent_watched(watch, at.on);
                    }
                }
            }
            CreateOutcome::ParentMissing => {
                let made = try_join_all(nodes.iter().map(EphemeralNode::make_parents)).await;
                made.map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
                return Ok(false);
            }
            // Done or not, it is undone.
            CreateOutcome::Unknown(source) => return Err(self.error(source)),
        }
        match try_join_all(nodes.iter_mut().map(EphemeralNode::date)).await {
            Ok(_) => {}
            Err(zk::Error::NoNode) => return Ok(false),
            Err(source) => return Err(self.error(source)),
        }
        let forms: Vec<NodeForm> = queues.iter().map(|queue| form(queue)).collect();
        let listed = lists.into_iter().zip(moments);
        for (((queue, node), form), (children, at)) in queues.iter().zip(nodes).zip(forms).zip(listed) {
            let children = children.and_then(Result::ok);
            let place = Place::of(queue, node, form, children, at).await?;
            let granted = place.is_granted();
            self.places.push(place);
            if !granted {
                // The nodes that are left leave their queues.
                break;
            }
        }
        self.failures.reset();
        Ok(true)
    }

    fn error(&self, source: zk::Error) -> Error {
        let paths: Vec<&str> = self.queues.iter().map(|queue| &**queue.path()).collect();
        Error::ZooKeeper { operation: "create nodes in", path: paths.join(", "), source }
    }
}
