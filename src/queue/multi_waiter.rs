//! Places in several queues, of which a contender holds all or none: drives [`AllOrNone`].

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;

use futures_util::future::{join, join_all, join3, select_all, try_join_all};
use zookeeper_client as zk;

use super::caller::Caller;
use super::grant::Grant;
use super::internals::LockInternals;
use super::losses::Losses;
use super::place::Place;
use super::prefetch::Prefetching;
use super::pure::all_or_none::{Action, AllOrNone, Event, Loss};
use super::pure::contender::Standing;
use super::pure::local_queue::Moment;
use super::pure::name::Kind;
use crate::client::{CreateOutcome, EphemeralNode, Failures};
use crate::error::{Error, Result};

/// One contender in several queues of one session. Dropping it leaves all queues.
///
/// It enters all queues in one transaction. Where it has to wait, it leaves the queues that come after. As long as
/// everyone takes the queues in the same order, a waiter never blocks a contender that it waits for. That includes
/// contenders that take one queue after another, like Curator's `InterProcessMultiLock`.
#[derive(Debug)]
pub(crate) struct MultiWaiter {
    /// In the order that all contenders agree on.
    queues: Arc<[Arc<LockInternals>]>,
    data: Option<Arc<[u8]>>,
    caller: Caller,
    machine: AllOrNone,
    /// The places in the first queues.
    places: Vec<Place>,
    /// The nodes in the next queues.
    newcomers: VecDeque<Newcomer>,
    /// Consecutive failures to reach the servers.
    failures: Failures,
    /// Consecutive losses of a node, or of the parents of one.
    losses: Losses,
    /// Whether it has created the parents of the queues since it last entered them.
    has_made_parents: bool,
}

/// A node whose standing is not known yet.
#[derive(Debug)]
struct Newcomer {
    node: EphemeralNode,
    /// The children listed behind its create, if that reply came.
    children: Option<Vec<String>>,
    /// When it was created.
    at: Moment,
}

impl MultiWaiter {
    /// Enters the queues.
    ///
    /// # Errors
    /// Among others, [`Error::InvalidArgument`] if the servers would reject a request that enters so many queues.
    ///
    /// # Cancel safety
    /// Nothing stays in any queue.
    pub(crate) async fn enter(
        queues: &Arc<[Arc<LockInternals>]>,
        data: Option<Arc<[u8]>>,
        caller: Caller,
    ) -> Result<Self> {
        queues.iter().try_for_each(|queue| queue.ensure_recipe())?;
        let size = |queue: &Arc<LockInternals>| {
            queue.form(Kind::Exclusive, data.clone()).size(queue.client(), queue.path())
        };
        queues[0].client().ensure_fits("members of a multi-lock", queues.iter().map(size))?;
        let mut waiter = Self {
            queues: queues.clone(),
            data,
            caller,
            machine: AllOrNone::new(queues.len()),
            places: Vec::with_capacity(queues.len()),
            newcomers: VecDeque::new(),
            failures: Failures::default(),
            losses: Losses::default(),
            has_made_parents: false,
        };
        let action = waiter.machine.start();
        waiter.drive(action).await?;
        Ok(waiter)
    }

    /// Returns the place in which it waits, and the index of its queue.
    pub(crate) fn waiting(&self) -> Option<(&Place, usize)> {
        let queue = self.machine.waits_in()?;
        Some((self.places.get(queue)?, queue))
    }

    /// Returns its places in the first queues.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Takes the grants, if it holds all. The contender is empty afterwards.
    pub(crate) fn take_grants(&mut self) -> Option<Vec<Grant>> {
        if !self.machine.is_granted() {
            return None;
        }
        self.machine = AllOrNone::new(self.queues.len());
        self.places.drain(..).map(|mut place| place.take_grant()).collect()
    }

    /// Waits until the contender ahead of it is gone or changed, and goes on from there.
    ///
    /// # Cancel safety
    /// If cancelled, the contender must be dropped or left.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        let action = self.machine.park();
        self.drive(action).await
    }

    /// Leaves all queues, and waits for the confirmations. Returns the errors.
    ///
    /// # Cancel safety
    /// The queues are left in any case; in the background if this is cancelled.
    pub(crate) async fn leave(self) -> Vec<Error> {
        let places = join_all(self.places.into_iter().map(Place::leave));
        let nodes = join_all(self.newcomers.into_iter().map(|newcomer| newcomer.node.remove(())));
        let (places, nodes) = join(places, nodes).await;
        places.into_iter().filter_map(Result::err).chain(nodes.into_iter().filter_map(Result::err)).collect()
    }

    /// Carries out one action after another until there is something to report.
    async fn drive(&mut self, mut action: Action) -> Result<()> {
        loop {
            let event = match action {
                Action::Report => return Ok(()),
                Action::Enter => self.try_enter().await?,
                Action::Locate => self.locate().await?,
                Action::Wait(queue) => self.wait_in(queue).await?,
                Action::LookAtAll => {
                    try_join_all(self.places.iter_mut().map(Place::look)).await?;
                    Event::Looked(self.places.iter().map(Place::standing).collect())
                }
                Action::LeaveBehind(queue) => {
                    // Dropping them leaves their queues.
                    self.places.truncate(queue + 1);
                    self.newcomers.clear();
                    Event::Left
                }
                Action::LeaveAll(loss) => self.leave_all(loss).await?,
            };
            action = self.machine.on(event);
        }
    }

    async fn leave_all(&mut self, loss: Loss) -> Result<Event> {
        tracing::info!(path = &**self.queues[0].path(), ?loss, "leaving the queues of a multi-lock");
        self.places.clear();
        self.newcomers.clear();
        match loss {
            Loss::Node => self.losses.pause(&self.paths()).await?,
            Loss::Session => {}
        }
        Ok(Event::Left)
    }

    async fn wait_in(&mut self, queue: usize) -> Result<Event> {
        let (held, rest) = self.places.split_at_mut(queue);
        // There is a place in each queue that the machine knows of.
        let Some(place) = rest.first_mut() else { return Ok(Event::SessionOver) };
        tokio::select! {
            biased;
            waited = place.wait() => waited?,
            // It then leaves all queues, including the one in which it waits.
            lost = any_gone(held) => return Ok(Event::Waited(lost, Standing::Outside)),
        }
        if place.has_waited() {
            self.losses.reset();
        }
        Ok(Event::Waited(queue, place.standing()))
    }

    async fn locate(&mut self) -> Result<Event> {
        // There is a node in each queue that the machine has entered.
        let Some(Newcomer { node, children, at }) = self.newcomers.pop_front() else {
            return Ok(Event::SessionOver);
        };
        let place = Place::of(&self.queues[self.places.len()], node, children, at).await?;
        let standing = place.standing();
        self.places.push(place);
        Ok(Event::Located(standing))
    }

    /// Enters the queues that it is not in.
    async fn try_enter(&mut self) -> Result<Event> {
        match self.enter_rest().await {
            Ok(event) => Ok(event),
            Err(error) if error.ends_session() => Ok(Event::SessionOver),
            Err(error) => {
                self.failures.pause_after(error, self.queues[0].client().retry_policy()).await?;
                Ok(Event::NotEntered)
            }
        }
    }

    async fn enter_rest(&mut self) -> Result<Event> {
        let form = |queue: &LockInternals| queue.form(Kind::Exclusive, self.data.clone());
        // Counted in one queue only: a contender that waited for admission to several would block those under way
        // in another.
        let first = &self.queues[self.places.len()];
        let counted = Arc::new(first.admission().enter(&form(first)).await);
        let client = self.queues[0].client();
        let session = match self.places.first().and_then(Place::session) {
            Some(session) => session.clone(),
            None => client.session().await?,
        };
        let session = &session;
        let queues = &self.queues[self.places.len()..];
        let node = |queue: &Arc<LockInternals>| {
            let mut node = EphemeralNode::new(client, session.clone(), queue.path(), form(queue));
            node.keep_until_gone(counted.clone());
            node
        };
        let nodes: Vec<EphemeralNode> = queues.iter().map(node).collect();
        let along = |queue: &Arc<LockInternals>| Prefetching::of(queue, &queue.local_queue(session));
        let along: Vec<Prefetching> = queues.iter().map(along).collect();
        let watches = join_all(along.iter().map(Prefetching::watch_parent));
        let lists = join_all(along.iter().map(Prefetching::list));
        // `join3` polls in this order, and the first poll sends: the lists already show our nodes.
        let creating = EphemeralNode::create_together(client, nodes, session, None);
        let attempted = client.attempt(session, join3(watches, creating, lists)).await;
        let Some((watched, (mut nodes, outcome), listed)) = attempted else {
            return Err(self.error(zk::Error::ConnectionLoss));
        };
        let learnt: Vec<(Option<Vec<String>>, Moment)> = match outcome.map_err(|source| self.error(source))? {
            CreateOutcome::Created => {
                nodes.iter_mut().for_each(EphemeralNode::keep_nothing);
                self.caller.reached();
                let replies = watched.into_iter().zip(listed);
                let learn = |(along, (watched, listed)): (Prefetching, _)| along.learn(watched, listed);
                along.into_iter().zip(replies).map(learn).collect()
            }
            CreateOutcome::ParentMissing | CreateOutcome::GuardMissing => {
                if std::mem::replace(&mut self.has_made_parents, true) {
                    // Something removes them as often as they are created.
                    self.losses.pause(&self.paths()).await?;
                }
                let made = try_join_all(nodes.iter().map(EphemeralNode::make_parents)).await;
                made.map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
                return Ok(Event::NotEntered);
            }
            CreateOutcome::TooLarge => {
                return Err(Error::RequestTooLarge { operation: "create nodes in", path: self.paths() });
            }
            // Whether it was done or not, it is undone.
            CreateOutcome::Unknown(source) => return Err(self.error(source)),
        };
        match try_join_all(nodes.iter_mut().map(EphemeralNode::date)).await {
            Ok(_) => {}
            Err(zk::Error::NoNode) => {
                drop(nodes);
                self.losses.pause(&self.paths()).await?;
                return Ok(Event::NotEntered);
            }
            Err(source) => return Err(self.error(source)),
        }
        let newcomers = nodes.into_iter().zip(learnt);
        self.newcomers = newcomers.map(|(node, (children, at))| Newcomer { node, children, at }).collect();
        self.failures.reset();
        self.has_made_parents = false;
        Ok(Event::Entered)
    }

    fn error(&self, source: zk::Error) -> Error {
        Error::ZooKeeper { operation: "create nodes in", path: self.paths(), source }
    }

    fn paths(&self) -> String {
        let paths: Vec<&str> = self.queues.iter().map(|queue| &**queue.path()).collect();
        paths.join(", ")
    }
}

/// Waits until the node of one of the places is gone, and returns its index.
async fn any_gone(places: &mut [Place]) -> usize {
    if places.is_empty() {
        return pending().await;
    }
    select_all(places.iter_mut().map(|place| Box::pin(place.gone()))).await.1
}
