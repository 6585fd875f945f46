//! The leases of a semaphore, given to one contender after another.

use std::sync::Arc;

use futures_util::future::{OptionFuture, join, join_all, join3, select_all, try_join_all};
use zookeeper_client as zk;

use super::admission::{OnTheWay, Pass};
use super::caller::Caller;
use super::fixed_limit::FixedLimit;
use super::grant::Grant;
use super::internals::LockInternals;
use super::place::Place;
use super::pure::connection::Connection;
use super::pure::contender::Sight;
use super::pure::name::{Kind, LEASES, MUTEX};
use super::pure::permits::{self, Action, Count, Event};
use super::seat::Seat;
use crate::client::{Client, CreateOutcome, EphemeralNode, Failures, NodeForm, Session, Watcher};
use crate::error::{Error, Result};
use crate::shared_count::SharedCount;

/// The number of permits.
#[derive(Debug)]
pub(crate) enum Limit {
    Fixed(FixedLimit),
    Shared(SharedCount),
}

/// The two queues of a semaphore: Curator's `locks`, a gate that one contender passes at a time, and `leases`, with
/// one node for each permit in use.
#[derive(Debug)]
pub(crate) struct Leases {
    /// The full path of the semaphore.
    path: Arc<str>,
    gate: Arc<LockInternals>,
    leases: Arc<LockInternals>,
    limit: Limit,
}

impl Leases {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn new(client: &Client, path: &str, limit: Limit) -> Result<Self> {
        let queue = |name: &str, names| LockInternals::of(client, &format!("{path}/{name}"), names);
        let path_of_all = client.full_path(path)?;
        Ok(Self {
            path: path_of_all,
            gate: queue("locks", &MUTEX)?,
            leases: queue("leases", &LEASES)?,
            limit,
        })
    }

    pub(crate) fn client(&self) -> &Client {
        self.gate.client()
    }

    /// The full path of the semaphore.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    pub(crate) fn gate(&self) -> &LockInternals {
        &self.gate
    }

    pub(crate) fn leases(&self) -> &Arc<LockInternals> {
        &self.leases
    }

    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// # Errors
    /// [`Error::InvalidArgument`] if the servers would reject a request that creates so many leases.
    pub(crate) fn ensure_fit(&self, wanted: u32, data: Option<Arc<[u8]>>) -> Result<()> {
        let gate = self.gate.form(Kind::Exclusive, None).size(self.client(), self.gate.path());
        let lease = self.leases.form(Kind::Shared, data).size(self.client(), self.leases.path());
        let leases = (0..wanted).map(|_| lease);
        self.client().ensure_fits("permits", leases.chain([gate]))
    }

    /// Enters the queue at the gate, and takes the leases if they are available immediately.
    ///
    /// # Cancel safety
    /// Nothing stays in any queue.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        wanted: u32,
        data: Option<Arc<[u8]>>,
        caller: Caller,
    ) -> Result<Applicant> {
        self.leases.ensure_recipe()?;
        let form = self.gate.form(Kind::Exclusive, None);
        let (seat, count) = match Seat::pass(&self.gate, &form, &caller).await? {
            Pass::TakeOver(mut seat) => {
                seat.arrive().await?;
                (seat, None)
            }
            Pass::Enter(on_the_way) => self.enter(form, caller, on_the_way).await?,
        };
        self.leases.is_used_now();
        let event = Event::Entered { passage: seat.passage(), count };
        let mut applicant = Applicant {
            leases: self.clone(),
            machine: permits::Applicant::new(wanted),
            wanted,
            data,
            seat,
            watchers: Vec::new(),
            in_doubt: Vec::new(),
            taken: None,
            has_made_parents: false,
            failures: Failures::default(),
        };
        let action = applicant.machine.on(event, applicant.connection());
        applicant.drive(action).await?;
        Ok(applicant)
    }

    /// Enters the queue at the gate. Returns the place, and the leases as counted right behind the create.
    async fn enter(
        &self,
        form: NodeForm,
        caller: Caller,
        on_the_way: OnTheWay,
    ) -> Result<(Seat, Option<Count>)> {
        let session = self.client().session_under_policy().await?;
        let asked_on = Connection(session.connection());
        // Sent in this order or not at all, so that the leases are counted when we are already in the queue.
        let enter = Seat::enter(&self.gate, session.clone(), form, caller.clone(), on_the_way);
        let look = async {
            match caller.has_sent() {
                true => self.look(&session, false).await.ok(),
                false => None,
            }
        };
        let (seat, seen) = join(enter, look).await;
        let count = |(leases, limit, _)| Count { leases, limit, asked_on, synced: false };
        Ok((seat?, seen.map(count)))
    }

    /// Counts the leases and reads the limit. With `watch`, also returns watches on changes of both.
    async fn look(&self, session: &Session, watch: bool) -> Result<(usize, permits::Limit, Vec<Watcher>)> {
        let (counted, limit) = join(self.count(session, watch), self.read_limit(session, watch)).await;
        let ((leases, leases_watcher), (limit, limit_watcher)) = (counted?, limit?);
        Ok((leases, limit, leases_watcher.into_iter().chain(limit_watcher).collect()))
    }

    async fn count(&self, session: &Session, watch: bool) -> Result<(usize, Option<Watcher>)> {
        let listed = if watch {
            session.watch_list(self.leases.path()).await.map(|(children, watcher)| (children, Some(watcher)))
        } else {
            session.list(self.leases.path()).await.map(|children| (children, None))
        };
        match listed {
            Ok((children, watcher)) => {
                self.leases.ensure_own_is_first(&children)?;
                Ok((self.leases.among(children).len(), watcher))
            }
            // Without any lease there is nothing to wait for except the limit.
            Err(zk::Error::NoNode) => Ok((0, None)),
            Err(source) => Err(self.cannot_count(source)),
        }
    }

    async fn read_limit(&self, session: &Session, watch: bool) -> Result<(permits::Limit, Option<Watcher>)> {
        let count = match &self.limit {
            Limit::Fixed(limit) => return Ok((permits::Limit::Fixed(limit.permits()), None)),
            Limit::Shared(count) => count,
        };
        let read = if watch {
            count.watch(session).await.map(|(limit, watcher)| (limit, Some(watcher)))
        } else {
            count.read(session).await.map(|limit| (limit, None))
        };
        let (limit, watcher) = read.map_err(|source| count.cannot_read(source))?;
        let limit = limit.ok_or_else(|| count.not_a_count())?;
        Ok((permits::Limit::Shared(limit), watcher))
    }

    fn cannot_count(&self, source: zk::Error) -> Error {
        self.leases.error("count the leases of", source)
    }
}

/// A contender for leases. Dropping it leaves the queue, and gives back what it has taken.
#[derive(Debug)]
pub(crate) struct Applicant {
    leases: Arc<Leases>,
    machine: permits::Applicant,
    wanted: u32,
    data: Option<Arc<[u8]>>,
    /// The place at the gate.
    seat: Seat,
    /// The watches that fire when the last count is out of date.
    watchers: Vec<Watcher>,
    /// Leases that may have been created.
    in_doubt: Vec<EphemeralNode>,
    taken: Option<Vec<Grant>>,
    /// Whether it has found the parent of the leases missing.
    has_made_parents: bool,
    /// Consecutive failures to reach the servers.
    failures: Failures,
}

impl Applicant {
    /// Takes the leases, if it got them. The applicant is empty afterwards: dropping it leaves the gate, and no one
    /// waits for that.
    pub(crate) fn take_grants(&mut self) -> Option<Vec<Grant>> {
        self.taken.take_if(|_| self.machine.is_granted())
    }

    /// Waits until it has its leases.
    ///
    /// # Cancel safety
    /// If cancelled, the applicant must be dropped or left.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        let action = self.machine.park(self.connection());
        self.drive(action).await
    }

    /// Leaves the queue and waits for the confirmation; gives back the leases that it has taken without waiting.
    ///
    /// # Cancel safety
    /// Both happen in any case; in the background if this is cancelled.
    pub(crate) async fn leave(self) -> Result<()> {
        drop((self.taken, self.in_doubt));
        self.seat.leave().await
    }

    /// Carries out one action after another until there is something to report.
    async fn drive(&mut self, mut action: Action) -> Result<()> {
        loop {
            let outcome = match action {
                Action::Report => return Ok(()),
                Action::AwaitGate => {
                    self.seat.wait().await?;
                    Ok(Event::Gate(self.seat.passage()))
                }
                Action::LookAtGate => {
                    self.seat.look().await?;
                    Ok(Event::Gate(self.seat.passage()))
                }
                Action::Count { sync, watch } => self.count(sync, watch).await,
                Action::Await => Ok(self.changed().await),
                Action::Take => self.take().await,
                Action::MakeParents => self.make_parents().await,
                Action::Undo => self.undo().await,
                Action::Refuse { leases, limit: permits } => {
                    let path = self.leases.path.to_string();
                    return Err(Error::PermitsDiffer { path, permits, leases });
                }
            };
            let event = match outcome {
                Ok(event) => event,
                Err(error) if error.ends_session() => Event::SessionOver,
                Err(error) => {
                    match self.seat.place_mut() {
                        Some(place) => place.pause_after(error).await?,
                        None => return Err(error),
                    }
                    Event::Failed
                }
            };
            action = self.machine.on(event, self.connection());
        }
    }

    /// Returns the session of the place at the gate.
    fn session(&self) -> Result<Arc<Session>> {
        let over = || self.leases.gate.error("stay in the queue of", zk::Error::SessionExpired);
        self.seat.place().and_then(Place::session).cloned().ok_or_else(over)
    }

    /// Returns the current connection of that session.
    fn connection(&self) -> Connection {
        self.seat.place().map_or(Connection::NONE, Place::connection)
    }

    /// Waits until that session takes requests, for as long as one attempt does.
    async fn ready(&self) {
        if let Ok(session) = self.session() {
            self.leases.client().ready(&session).await;
        }
    }

    /// Returns the path of the node at the gate.
    fn gate(&self) -> Option<String> {
        self.seat.place().and_then(Place::node_path)
    }

    async fn count(&mut self, sync: bool, watch: bool) -> Result<Event> {
        self.ready().await;
        let (session, asked_on) = (self.session()?, self.connection());
        self.watchers.clear();
        let leases = &self.leases;
        let synced = OptionFuture::from(sync.then(|| session.confirm()));
        let place = self.seat.place_mut().filter(|_| watch);
        let gate = OptionFuture::from(place.map(Place::watch_own));
        // `join3` polls in this order, and the first poll sends: the server is up to date when it counts.
        let (synced, gate, seen) = join3(synced, gate, leases.look(&session, watch)).await;
        synced.transpose().map_err(|source| leases.cannot_count(source))?;
        if gate.transpose()? == Some(Sight::Gone) {
            return Ok(Event::GateGone);
        }
        let (leases, limit, watchers) = seen?;
        self.watchers = watchers;
        Ok(Event::Counted(Count { leases, limit, asked_on, synced: sync }))
    }

    /// Waits for the watches of the last count.
    async fn changed(&mut self) -> Event {
        self.failures.reset();
        if let Some(place) = self.seat.place_mut() {
            place.waits();
        }
        let session = self.session().ok();
        tokio::select! {
            () = any_changed(&mut self.watchers) => {}
            // If our node at the gate is gone, it is the turn of those behind it.
            Some(()) = OptionFuture::from(self.seat.place_mut().map(Place::own_changed)) => {}
            // In case no watch fires.
            Some(()) = OptionFuture::from(session.as_ref().map(|session| session.ended())) => {}
        }
        self.watchers.clear();
        Event::Changed
    }

    /// Creates all leases in one transaction, on condition that our node at the gate exists.
    async fn take(&mut self) -> Result<Event> {
        self.ready().await;
        let session = self.session()?;
        let leases = &self.leases.leases;
        let error = |source| leases.error("create leases in", source);
        let Some(gate) = self.gate() else { return Ok(Event::GateGone) };
        let form = leases.form(Kind::Shared, self.data.clone());
        let node = |_| EphemeralNode::new(leases.client(), session.clone(), leases.path(), form.clone());
        let nodes = (0..self.wanted).map(node).collect();
        let (mut nodes, created) =
            EphemeralNode::create_together(leases.client(), nodes, &session, Some(gate)).await;
        let failed = match created {
            Ok(CreateOutcome::Created) => {
                match try_join_all(nodes.iter_mut().map(EphemeralNode::date)).await {
                    Ok(_) if session.is_over() => return Err(error(zk::Error::SessionExpired)),
                    Ok(_) => None,
                    // One has been deleted meanwhile, so none is kept.
                    Err(source) => Some(source),
                }
            }
            Ok(CreateOutcome::ParentMissing) => return Ok(Event::ParentMissing),
            Ok(CreateOutcome::GuardMissing) => return Ok(Event::GateGone),
            Ok(CreateOutcome::TooLarge) => return Err(leases.too_large("create leases in")),
            Ok(CreateOutcome::Unknown(source)) => Some(source),
            Err(source) => return Err(error(source)),
        };
        if let Some(source) = failed {
            let error = error(source);
            self.in_doubt = nodes;
            self.failures.pause_or(error, self.leases.client().retry_policy()).await?;
            return Ok(Event::TakeUnknown);
        }
        let grant = |node: EphemeralNode| node.czxid().map(|czxid| Grant { slot: None, node, czxid });
        self.taken = nodes.into_iter().map(grant).collect();
        self.failures.reset();
        Ok(Event::Taken)
    }

    async fn make_parents(&mut self) -> Result<Event> {
        let session = self.session()?;
        let leases = &self.leases.leases;
        if std::mem::replace(&mut self.has_made_parents, true) {
            // Something removes them as often as they are created.
            let missing = leases.error("create leases in", zk::Error::NoNode);
            self.failures.pause_or(missing, leases.client().retry_policy()).await?;
        }
        self.ready().await;
        let made = leases.client().make_parents(&session, leases.path()).await;
        made.map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
        Ok(Event::ParentsMade)
    }

    /// Deletes the leases that may have been created, since they must not count.
    async fn undo(&mut self) -> Result<Event> {
        self.ready().await;
        let mut nodes = std::mem::take(&mut self.in_doubt);
        join_all(nodes.iter_mut().map(EphemeralNode::settle)).await;
        join_all(nodes.into_iter().map(|node| node.remove(()))).await;
        Ok(Event::Undone)
    }
}

async fn any_changed(watchers: &mut [Watcher]) {
    if !watchers.is_empty() {
        select_all(watchers.iter_mut().map(|watcher| Box::pin(watcher.changed()))).await;
    }
}
