//! A waiter for the permits of a semaphore: drives [`PermitContender`].

use std::sync::Arc;

use futures_util::future::{OptionFuture, join3, select_all, try_join_all};
use zookeeper_client as zk;

use super::admission::Pass;
use super::caller::Caller;
use super::grant::Grant;
use super::leases::{Entered, Leases, undo};
use super::losses::Losses;
use super::place::Place;
use super::pure::connection::Connection;
use super::pure::contender::WatchState;
use super::pure::local_queue::Moment;
use super::pure::name::Kind;
use super::pure::permits::{Action, Count, Event, PermitContender};
use super::seat::Seat;
use crate::client::{CreateOutcome, EphemeralNode, Failures, Guard, Session, Watcher};
use crate::error::{Error, Result};

/// A contender for leases. Dropping it leaves the queue, and gives back what it has taken.
#[derive(Debug)]
pub(crate) struct PermitWaiter {
    leases: Arc<Leases>,
    machine: PermitContender,
    wanted: u32,
    data: Option<Arc<[u8]>>,
    caller: Caller,
    /// Leases that may have been created. Dropped before the seat, so that the next contender at the gate does not
    /// count them.
    in_doubt: Vec<EphemeralNode>,
    /// When they were created, if they have been.
    at: Option<Moment>,
    /// Why it is not known whether they have been.
    unknown: Option<Error>,
    /// Dropped before the seat as well.
    taken: Option<Vec<Grant>>,
    /// The place at the gate.
    seat: Seat,
    /// The watches that fire when the last count is out of date.
    watchers: Vec<Watcher>,
    /// How often the parent of the leases was missing again, since it has made it.
    missing: Option<Failures>,
    /// Consecutive takes in doubt, of one that has not waited.
    failures: Failures,
    /// The same of one that has waited.
    losses: Losses,
}

impl PermitWaiter {
    /// Enters the queue at the gate, and takes the leases if they are available immediately.
    ///
    /// # Cancel safety
    /// Nothing stays in any queue.
    pub(crate) async fn enter(
        leases: &Arc<Leases>,
        wanted: u32,
        data: Option<Arc<[u8]>>,
        caller: Caller,
    ) -> Result<Self> {
        leases.leases().ensure_recipe()?;
        let form = leases.gate().form(Kind::Exclusive, None);
        let Entered { leases: in_doubt, seat, count, at } =
            match Seat::pass(leases.gate(), &form, &caller).await? {
                // It may be waiting at the gate. To await that is the caller's business, who can be told of a deadlock.
                Pass::TakeOver(seat) => {
                    // The one that entered may have given up before this was known.
                    if !leases.leases().is_used()
                        && let Some(session) = seat.place().and_then(Place::session)
                    {
                        leases.ensure_no_other_recipe(session).await?;
                    }
                    Entered { leases: Vec::new(), seat, count: None, at: None }
                }
                Pass::Enter(on_the_way) => {
                    let lease = leases.leases().form(Kind::Shared, data.clone());
                    // On the heap: a waiter would keep the room for as long as it waits.
                    Box::pin(leases.enter(form, lease, wanted, caller.clone(), on_the_way)).await?
                }
            };
        leases.leases().is_used_now();
        let passage = seat.passage();
        let event = match in_doubt.is_empty() {
            true => Event::Entered { passage, count },
            false => Event::EnteredWithLeases { passage, count },
        };
        let mut waiter = Self {
            leases: leases.clone(),
            machine: PermitContender::new(wanted),
            wanted,
            data,
            caller,
            in_doubt,
            at,
            unknown: None,
            taken: None,
            seat,
            watchers: Vec::new(),
            missing: None,
            failures: Failures::default(),
            losses: Losses::default(),
        };
        let action = waiter.machine.on(event, waiter.connection());
        waiter.drive(action).await?;
        waiter.caller.reached();
        Ok(waiter)
    }

    /// Returns the transaction that created its node at the gate, as of the last look.
    pub(crate) fn czxid(&self) -> Option<i64> {
        self.seat.czxid()
    }

    /// Takes the leases, if it got them. It is empty afterwards: dropping it leaves the gate, and no one
    /// waits for that.
    pub(crate) fn take_grants(&mut self) -> Option<Vec<Grant>> {
        let grants = self.taken.take_if(|_| self.machine.is_granted())?;
        if self.leases.has_one_permit()
            && let Some(gate) = self.seat.place_mut()
        {
            // No one else could have a permit meanwhile. So a release that comes soon takes one write for both.
            gate.may_stay_a_moment();
        }
        Some(grants)
    }

    /// Waits until it has its leases.
    ///
    /// # Cancel safety
    /// If cancelled, it must be dropped or left.
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
                    self.waits();
                    Ok(Event::Gate(self.seat.passage()))
                }
                Action::LookAtGate => {
                    self.seat.look().await?;
                    Ok(Event::Gate(self.seat.passage()))
                }
                Action::Count { sync, watch } => self.count(sync, watch).await,
                Action::Await => Ok(self.changed().await),
                Action::Take(count) => self.take(count).await,
                Action::Keep(count) => self.keep(count).await,
                Action::MakeParents => self.make_parents().await,
                Action::Undo => self.undo().await,
                Action::Refuse { leases, limit: permits } => {
                    let path = self.leases.path().to_string();
                    return Err(Error::PermitsDiffer { path, permits, leases });
                }
            };
            if matches!(outcome, Ok(Event::Undone))
                && let Some(error) = self.unknown.take()
            {
                self.pause_after_take(error).await?;
            }
            let event = match outcome {
                Ok(event) => event,
                Err(error) if error.ends_session() => {
                    self.in_doubt.clear();
                    self.unknown = None;
                    Event::SessionOver
                }
                Err(error) => {
                    match self.seat.place_mut() {
                        Some(place) => place.pause_after(error).await?,
                        None => return Err(error),
                    }
                    // It must not count its own leases as those of others.
                    if self.in_doubt.is_empty() { Event::Failed } else { Event::TakeUnknown }
                }
            };
            action = self.machine.on(event, self.connection());
        }
    }

    /// Returns the session of the place at the gate.
    fn session(&self) -> Result<Arc<Session>> {
        let over = || self.leases.gate().error("stay in the queue of", zk::Error::SessionExpired);
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

    /// Records that the gate is its own, unless it has waited for permits already.
    fn waits_for_servers(&self) {
        if !self.machine.is_patient() {
            self.caller.takes();
        }
    }

    async fn count(&mut self, sync: bool, watch: bool) -> Result<Event> {
        self.waits_for_servers();
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
        if gate.transpose()? == Some(WatchState::Gone) {
            return Ok(Event::GateGone);
        }
        let (leases, limit, watchers) = seen?;
        self.watchers = watchers;
        Ok(Event::Counted(Count { leases, limit, asked_on, synced: sync }))
    }

    /// Records that it waits for others: what it did before went through, as far as it went.
    fn waits(&mut self) {
        self.failures.reset();
        self.losses.reset();
        self.missing = None;
    }

    /// Waits for the watches of the last count.
    async fn changed(&mut self) -> Event {
        self.waits();
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
    async fn take(&mut self, count: Count) -> Result<Event> {
        self.waits_for_servers();
        self.ready().await;
        let session = self.session()?;
        let leases = self.leases.leases();
        let Some(gate) = self.gate() else { return Ok(Event::GateGone) };
        let form = leases.form(Kind::Shared, self.data.clone());
        let node = |_| EphemeralNode::new(leases.client(), session.clone(), leases.path(), form.clone());
        let nodes = (0..self.wanted).map(node).collect();
        let guard = Some(Guard::Exists(gate));
        let local = leases.local_queue(&session);
        self.at = Some(local.moment());
        let (nodes, created) = EphemeralNode::create_together(leases.client(), nodes, &session, guard).await;
        match created {
            Ok(CreateOutcome::Created) => {
                self.leases.are_all(&local, &nodes);
                let leases = count.leases + nodes.len();
                self.in_doubt = nodes;
                self.keep(Count { leases, ..count }).await
            }
            Ok(CreateOutcome::ParentMissing) => Ok(Event::ParentMissing),
            Ok(CreateOutcome::GuardMissing) => Ok(Event::GateGone),
            Ok(CreateOutcome::TooLarge) => Err(leases.too_large("create leases in")),
            Ok(CreateOutcome::Unknown(source)) => {
                self.in_doubt = nodes;
                self.is_in_doubt(source)
            }
            Err(source) => Err(leases.error("create leases in", source)),
        }
    }

    /// Makes grants of the leases, which have been created and are among the counted ones.
    async fn keep(&mut self, count: Count) -> Result<Event> {
        if let Err(source) = try_join_all(self.in_doubt.iter_mut().map(EphemeralNode::date)).await {
            // One has been deleted meanwhile, so none is kept.
            return self.is_in_doubt(source);
        }
        let session = self.session()?;
        if !session.is_worth_granting() {
            self.ready().await;
            if let Err(source) = session.become_worth_granting().await {
                return self.is_in_doubt(source);
            }
        }
        let nodes = std::mem::take(&mut self.in_doubt);
        if session.is_over() {
            return Err(self.leases.leases().error("create leases in", zk::Error::SessionExpired));
        }
        let queue = self.leases.leases();
        let local = queue.local_queue(&session);
        let grant = |mut node: EphemeralNode| {
            // Never notified: a lease waits for no one.
            let slot = local.arrive(&queue.read(node.name()?)?, self.at, &Arc::default());
            node.keep_until_gone(local.lease());
            Some(Grant { czxid: node.czxid()?, slot: Some(slot), node })
        };
        self.taken = nodes.into_iter().map(grant).collect();
        if let Some(gate) = self.seat.place().and_then(Place::slot) {
            gate.takes(count.leases.saturating_sub(local.members()), count.limit);
        }
        self.failures.reset();
        Ok(Event::Taken)
    }

    fn is_in_doubt(&mut self, source: zk::Error) -> Result<Event> {
        let error = self.leases.leases().error("create leases in", source);
        if error.ends_session() {
            return Err(error);
        }
        self.unknown = Some(error);
        Ok(Event::TakeUnknown)
    }

    /// Waits before the next take, after one in doubt of which nothing is left.
    ///
    /// # Errors
    /// There were too many in a row. No outage ends the wait in a queue, but one whose takes no server answers keeps others
    /// from the permits.
    async fn pause_after_take(&mut self, error: Error) -> Result<()> {
        // A place that was taken over may have waited for another caller.
        if self.machine.is_patient() && self.seat.place().is_some_and(Place::has_waited) {
            self.losses.pause_after(error).await
        } else {
            self.failures.pause_or(error, self.leases.client().retry_policy()).await
        }
    }

    async fn make_parents(&mut self) -> Result<Event> {
        let session = self.session()?;
        let leases = self.leases.leases();
        if let Some(missing) = &mut self.missing {
            // Something removes them as often as they are created.
            let error = leases.error("create leases in", zk::Error::NoNode);
            missing.pause_or(error, leases.client().retry_policy()).await?;
        }
        self.ready().await;
        let made = leases.client().make_parents(&session, leases.path()).await;
        made.map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
        self.missing.get_or_insert_default();
        Ok(Event::ParentsMade)
    }

    /// Deletes the leases that may have been created, since they must not count.
    async fn undo(&mut self) -> Result<Event> {
        if let Some(session) = self.in_doubt.first().map(|node| node.session().clone()) {
            undo(self.leases.leases(), &session, &mut self.in_doubt).await?;
            if session.is_over() {
                // What it took, if anything, ended with that.
                self.unknown = None;
            }
        }
        self.in_doubt.clear();
        Ok(Event::Undone)
    }
}

async fn any_changed(watchers: &mut [Watcher]) {
    if !watchers.is_empty() {
        select_all(watchers.iter_mut().map(|watcher| Box::pin(watcher.changed()))).await;
    }
}
