//! The leases of a semaphore, given out one contender after the other.

use std::sync::Arc;

use futures_util::future::{join, join_all, select_all, try_join_all};
use zookeeper_client as zk;

use super::grant::Grant;
use super::internals::LockInternals;
use super::name::{Kind, LEASES, MUTEX};
use super::place::Place;
use crate::client::{Client, CreateOutcome, EphemeralNode, Failures, Session, Watcher};
use crate::error::{Error, Result};
use crate::shared_count::SharedCount;

/// How many leases there are.
#[derive(Clone, Debug)]
pub(crate) enum Limit {
    Fixed(u32),
    Shared(SharedCount),
}

/// The two queues of a semaphore: Curator's `locks`, a gate that one contender at a time passes, and
/// `leases`, where everybody has a node who holds.
#[derive(Debug)]
pub(crate) struct Leases {
    gate: Arc<LockInternals>,
    leases: Arc<LockInternals>,
    limit: Limit,
}

impl Leases {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn new(client: &Client, path: &str, limit: Limit) -> Result<Self> {
        let queue = |name: &str, names| LockInternals::of(client, &format!("{path}/{name}"), names);
        Ok(Self { gate: queue("locks", &MUTEX)?, leases: queue("leases", &LEASES)?, limit })
    }

    pub(crate) fn client(&self) -> &Client {
        self.gate.client()
    }

    pub(crate) fn gate(&self) -> &LockInternals {
        &self.gate
    }

    pub(crate) fn leases(&self) -> &LockInternals {
        &self.leases
    }

    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Enters the queue at the gate, and takes the leases wanted if nobody is to be waited for.
    ///
    /// # Cancel safety
    /// Nothing stays in any queue.
    pub(crate) async fn apply(self: &Arc<Self>, wanted: u32, data: Option<Arc<[u8]>>) -> Result<Applicant> {
        let session = self.client().session().await?;
        let form = self.gate.form(Kind::Exclusive, None);
        // Sent in this order: what is free is looked at when we are at the gate, if we are let in at once.
        let (place, free) = join(Place::enter(&self.gate, session.clone(), form), self.free(&session)).await;
        let place = place?;
        let free = free.ok().filter(|_| place.is_where_it_entered());
        let leases = self.clone();
        let mut applicant =
            Applicant { leases, wanted, data, place, taken: None, failures: Failures::default() };
        applicant.advance(false, free).await?;
        Ok(applicant)
    }

    /// How many leases are free; negative if there are more than the limit.
    async fn free(&self, session: &Session) -> Result<i64> {
        let (children, limit) = join(self.leases.list(session), self.read_limit(session)).await;
        let children = children.map_err(|source| self.cannot_count(source))?;
        Ok(i64::from(limit?) - self.count(children))
    }

    /// The same, and what tells of changes.
    async fn watch_free(&self, session: &Session) -> Result<(i64, Vec<Watcher>)> {
        let (listed, limit) = join(session.watch_list(self.leases.path()), self.watch_limit(session)).await;
        let (limit, limit_watcher) = limit?;
        let (children, children_watcher) = match listed {
            // Without a lease there is nothing to wait for, but for the limit.
            Err(zk::Error::NoNode) => (Vec::new(), None),
            Err(source) => return Err(self.cannot_count(source)),
            Ok((children, watcher)) => (children, Some(watcher)),
        };
        let watchers = children_watcher.into_iter().chain(limit_watcher).collect();
        Ok((i64::from(limit) - self.count(children), watchers))
    }

    fn count(&self, children: Vec<String>) -> i64 {
        self.leases.among(children).len() as i64
    }

    async fn read_limit(&self, session: &Session) -> Result<i32> {
        match &self.limit {
            Limit::Fixed(limit) => Ok(i32::try_from(*limit).unwrap_or(i32::MAX)),
            Limit::Shared(count) => count.read(session).await.map_err(|source| count.cannot_read(source)),
        }
    }

    async fn watch_limit(&self, session: &Session) -> Result<(i32, Option<Watcher>)> {
        let Limit::Shared(count) = &self.limit else {
            return Ok((self.read_limit(session).await?, None));
        };
        let (limit, watcher) = count.watch(session).await.map_err(|source| count.cannot_read(source))?;
        Ok((limit, Some(watcher)))
    }

    fn cannot_count(&self, source: zk::Error) -> Error {
        self.leases.error("count the leases of", source)
    }
}

/// A contender for leases. Dropping it leaves the queue, and gives back what it has taken.
#[derive(Debug)]
pub(crate) struct Applicant {
    leases: Arc<Leases>,
    wanted: u32,
    data: Option<Arc<[u8]>>,
    /// At the gate.
    place: Place,
    taken: Option<Vec<Grant>>,
    /// Failures in a row to reach the servers.
    failures: Failures,
}

/// What came of a try to take leases.
enum Try {
    Taken,
    /// There are not enough. If it is patient, the watchers tell of changes.
    Full(Vec<Watcher>),
    /// Something was in the way that is no longer.
    Again,
}

impl Applicant {
    /// The leases, if it got them. What is left of the applicant then is nothing: it makes way at the gate when
    /// it is dropped, and nobody waits for that.
    pub(crate) fn take_grants(&mut self) -> Option<Vec<Grant>> {
        self.taken.take()
    }

    /// Waits until it has its leases.
    ///
    /// # Cancel safety
    /// Only to be followed by dropping or leaving.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        self.advance(true, None).await
    }

    /// Leaves the queue, gives back what it has taken, and waits for the confirmation of the former.
    ///
    /// # Cancel safety
    /// Both are done in any case, in the background if this is cancelled.
    pub(crate) async fn leave(self) -> Result<()> {
        drop(self.taken);
        self.place.leave().await
    }

    /// Goes on until it has its leases or, if it is not patient, until it would have to wait for others. It may
    /// know already how many leases are free.
    async fn advance(&mut self, patient: bool, mut free: Option<i64>) -> Result<()> {
        while self.taken.is_none() {
            if !self.place.is_granted() {
                if !patient {
                    break;
                }
                self.place.wait().await?;
                continue;
            }
            match self.try_to_take(patient, free.take()).await {
                Ok(Try::Taken) => self.failures.reset(),
                Ok(Try::Again) => {}
                Ok(Try::Full(watchers)) if patient => {
                    self.failures.reset();
                    self.place.waits();
                    any_changed(watchers).await;
                }
                Ok(Try::Full(_)) => break,
                Err(error) if error.ends_session() => self.place.look().await?,
                Err(error) => self.failures.pause_after(error, self.leases.client().retry_policy()).await?,
            }
        }
        Ok(())
    }

    async fn try_to_take(&mut self, patient: bool, free: Option<i64>) -> Result<Try> {
        let Some(session) = self.place.session().cloned() else { return Ok(Try::Again) };
        let seen = match free {
            Some(free) => Ok((free, Vec::new())),
            None if patient => self.leases.watch_free(&session).await,
            None => self.leases.free(&session).await.map(|free| (free, Vec::new())),
        };
        let (free, watchers) = seen?;
        if free < i64::from(self.wanted) {
            return Ok(Try::Full(watchers));
        }
        self.take(&session).await
    }

    /// Creates all leases in one transaction, which is not done if our node at the gate is gone.
    async fn take(&mut self, session: &Arc<Session>) -> Result<Try> {
        let leases = &self.leases.leases;
        let error = |source| leases.error("create leases in", source);
        let Some(gate) = self.place.node_path() else { return Ok(Try::Again) };
        let form = leases.form(Kind::Shared, self.data.clone());
        let node = |_| EphemeralNode::new(leases.client(), session.clone(), leases.path(), form.clone());
        let mut nodes: Vec<EphemeralNode> = (0..self.wanted).map(node).collect();
        let failed = match EphemeralNode::create_together(&mut nodes, session, Some(&gate)).await {
            Ok(CreateOutcome::Created) => {
                match try_join_all(nodes.iter_mut().map(EphemeralNode::date)).await {
                    Ok(_) if session.is_over() => return Err(error(zk::Error::SessionExpired)),
                    Ok(_) => None,
                    // Somebody has deleted one; none is kept.
                    Err(source) => Some(source),
                }
            }
            Ok(CreateOutcome::ParentMissing) => {
                let made = leases.client().make_parents(session, leases.path()).await;
                made.map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
                return Ok(Try::Again);
            }
            Ok(CreateOutcome::Unknown(source)) => Some(source),
            Err(zk::Error::RuntimeInconsistent) => {
                self.place.look().await?;
                return Ok(Try::Again);
            }
            Err(source) => return Err(error(source)),
        };
        if let Some(source) = failed {
            // Done or not, it is undone; but it must not count when we look again.
            self.failures.pause_or(error(source), leases.client().retry_policy()).await?;
            join_all(nodes.iter_mut().map(EphemeralNode::settle)).await;
            join_all(nodes.into_iter().map(|node| node.remove(()))).await;
            return Ok(Try::Again);
        }
        let grant = |node: EphemeralNode| node.czxid().map(|czxid| Grant { membership: None, node, czxid });
        self.taken = nodes.into_iter().map(grant).collect();
        Ok(Try::Taken)
    }
}

async fn any_changed(watchers: Vec<Watcher>) {
    if !watchers.is_empty() {
        let mut watchers = watchers;
        select_all(watchers.iter_mut().map(|watcher| Box::pin(watcher.changed()))).await;
    }
}
