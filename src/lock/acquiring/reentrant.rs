//! A queue that recognizes its owners: the common part of the re-entrant locks.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::acquirable::{Acquirable, Contending, Entry};
use super::attempt;
use super::wait::{Wait, unending};
use crate::client::{Client, PAUSE, sleep_until};
use crate::error::{Error, Result};
use crate::lock::holding::claims::{Awaited, Claim, Place};
use crate::lock::holding::guard::LockGuard;
use crate::lock::holding::held_node::HeldNode;
use crate::lock::holding::hold::{Downgrading, Share};
use crate::lock::holding::line;
use crate::lock::holding::lingering::{InLine, Keeper, Lingering, Taken};
use crate::lock::holding::minder::Minder;
use crate::lock::holding::owners::{Owners, Waiting};
use crate::lock::operating::participant::{self, Participant};
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::meters::{LockMeters, WaitMeter};
use crate::queue::{Caller, Downgrade, Grant, Kind, LockInternals, Names, Seat, downgrade};

/// One side of a lock: the exclusive one or the shared one.
#[derive(Clone, Debug)]
pub(crate) struct Reentrant {
    client: Client,
    internals: Arc<LockInternals>,
    /// The owner map of both sides.
    owners: Arc<Owners>,
    kind: Kind,
    options: Arc<LockOptions>,
    /// `None` if the lock neither lingers nor has a cohort.
    lingering: Option<Arc<Keeper>>,
    meters: LockMeters,
    /// The current task, or outside of tasks the current thread, if it is `None`.
    owner: Option<Owner>,
}

/// An owner's place in the queue.
#[derive(Debug)]
pub(crate) struct Turn {
    lock: Reentrant,
    owner: Owner,
    seat: Seat,
    /// Of a lock with a cohort, until it is granted.
    turn_in_line: Option<line::Turn>,
    /// Set from the first wait on.
    waiting: Option<Waiting>,
    /// The guard by which the owner re-entered, if it acquired the lock through another place meanwhile.
    entered: Option<LockGuard>,
}

impl Reentrant {
    /// Creates an exclusive lock, with an owner map of its own or a [shared](Owners::shared) one. In metrics, the lock that
    /// the leader of an election holds is named after `election`.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    pub(crate) fn new(
        client: &Client,
        path: &str,
        names: &'static Names,
        owners: fn(&Arc<LockInternals>) -> Arc<Owners>,
        election: Option<&'static str>,
    ) -> Result<Self> {
        let internals = LockInternals::of(client, path, names)?;
        let meters = match election {
            Some(recipe) => client.labels().election_meters(internals.path(), recipe),
            None => client.labels().meters(internals.path(), internals.recipe()),
        };
        Ok(Self {
            client: client.clone(),
            owners: owners(&internals),
            internals,
            kind: Kind::Exclusive,
            options: Arc::default(),
            lingering: None,
            meters,
            owner: None,
        })
    }

    /// The same lock for background work, which does not keep the client open.
    pub(crate) fn detached(&self) -> Self {
        Self { client: self.client.detached(), ..self.clone() }
    }

    /// The same lock for contenders of another kind.
    pub(crate) fn side(&self, kind: Kind) -> Self {
        Self { kind, ..self.clone() }
    }

    /// The same lock, acquired with other options.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the options are not valid.
    pub(crate) fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { options: Arc::new(options.validated()?), lingering: None, ..self.clone() })
    }

    /// The same for a mutex, which may linger and have a cohort.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the options are not valid.
    pub(crate) fn with_options_of_mutex(&self, options: LockOptions) -> Result<Self> {
        let options = options.validated_for_mutex()?;
        let lingering = Keeper::of(&self.internals, &options);
        Ok(Self { options: Arc::new(options), lingering, ..self.clone() })
    }

    /// The same lock, acquired for this owner.
    pub(crate) fn owned_by(&self, owner: &Owner) -> Self {
        Self { owner: Some(owner.clone()), ..self.clone() }
    }

    /// Whether both are the same lock object.
    #[cfg(test)]
    pub(in crate::lock) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.owners, &other.owners)
    }

    pub(crate) fn meters(&self) -> &LockMeters {
        &self.meters
    }

    pub(crate) fn path(&self) -> &str {
        self.internals.path()
    }

    pub(crate) fn internals(&self) -> &Arc<LockInternals> {
        &self.internals
    }

    /// Enters for an owner that holds the other side: a writer may read as well.
    ///
    /// # Errors
    /// - [`Error::WouldDeadlock`]: a reader wants to write.
    /// - [`Error::LockLost`]: the other side is lost.
    async fn enter_from_the_other_side(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        match self.kind {
            Kind::Shared => {
                let writing = self.owners.hold_of(owner, Kind::Exclusive);
                let Some(writing) = writing.and_then(|writing| writing.downgrading()) else {
                    return Ok(None);
                };
                // In a task, so that the writer does not have to wait until the caller polls this.
                let (mut tell, told) = oneshot::channel();
                let (lock, owner) = (self.detached(), owner.clone());
                self.client.spawn(async move {
                    let reading = AssertUnwindSafe(lock.downgrade(&owner, writing)).catch_unwind();
                    tokio::select! {
                        biased;
                        reading = reading => drop(tell.send(reading)),
                        () = tell.closed() => {}
                    }
                });
                // Without a reply, the runtime of the client has ended.
                let reading = told.await.unwrap_or(Ok(Err(Error::Closed)));
                let reading = reading.unwrap_or_else(|panic| resume_unwind(panic))?;
                Ok(reading.map(|share| LockGuard::new(share, &self.client)))
            }
            Kind::Exclusive => {
                let Some(reading) = self.owners.hold_of(owner, Kind::Shared) else { return Ok(None) };
                reading.node().ensure_held()?;
                Err(self.would_deadlock())
            }
            Kind::Foreign(_) => Ok(None),
        }
    }

    /// Re-enters for a waiting owner that has acquired the lock through another place.
    ///
    /// # Errors
    /// - [`Error::WouldDeadlock`]: a reader wants to write.
    async fn enter_beside(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        loop {
            let entered = match self.enter_again(owner) {
                Ok(None) => self.enter_from_the_other_side(owner).await,
                entered => entered,
            };
            match entered {
                // A lost hold does not end the wait.
                Err(Error::LockLost { .. }) => return Ok(None),
                // Nor does an outage: the writer is lost if its session does not outlive it.
                // Boxed, because it is rare.
                Err(error) if error.is_retryable() => Box::pin(sleep_until(Instant::now() + PAUSE)).await,
                entered => return entered,
            }
        }
    }

    /// Makes a reader of a writer, without a gap for the next writer, whichever guard is released first. Returns `None`
    /// if the writer was released and cannot become a reader.
    async fn downgrade(&self, owner: &Owner, writing: Downgrading) -> Result<Option<Share>> {
        let writer = writing.hold.node();
        writer.ensure_held()?;
        let form = self.internals.form(self.kind, self.options().data());
        match downgrade(&self.internals, writer.session(), writer.path(), form).await? {
            // Keeps the token of the writer, which is smaller than that of every later writer.
            Downgrade::Reads(node, slot) => {
                let grant = Grant { slot: Some(slot), node, czxid: writer.token() };
                if !writer.session().is_worth_granting() {
                    // Otherwise, both are as valid as the create has shown.
                    let _ = writer.session().become_worth_granting().await;
                }
                // No one else was let in. But the owner must not continue on a lost hold.
                writer.ensure_held()?;
                Ok(Some(self.hold_share(grant, owner, None)))
            }
            // It stays a writer for as long as it reads.
            Downgrade::NoPlace => Ok(writing.hold.share()),
            Downgrade::WriterGone => Err(writer.deleted()),
        }
    }

    /// # Errors
    /// - [`Error::WouldDeadlock`]: this contender is not granted, and its owner holds what it would wait for,
    ///   directly or behind other waiters that do.
    pub(crate) fn ensure_no_deadlock(&self, czxid: Option<i64>, owner: &Owner) -> Result<()> {
        // An owner can have two contenders of this same object, started concurrently. It re-enters then.
        match czxid {
            Some(czxid) if self.owners.holds_elsewhere(owner, |token, _| token < czxid) => {
                Err(self.would_deadlock())
            }
            _ => Ok(()),
        }
    }

    fn would_deadlock(&self) -> Error {
        Error::WouldDeadlock { path: self.path().to_owned(), cycle: Vec::new() }
    }

    /// Returns a place in the queue, for those who look for deadlocks; `None` if it does not count.
    pub(crate) fn claimed(&self, czxid: i64) -> Option<Place> {
        let place = || Place { queue: self.internals.path().clone(), kind: self.kind, czxid };
        self.options.detect_deadlocks.then(place)
    }

    /// Returns what a waiter with that place waits for. See [`claimed`](Self::claimed).
    fn awaited(&self, czxid: i64) -> Option<Awaited> {
        let places = vec![self.claimed(czxid)?];
        Some(Awaited { path: self.internals.path().clone(), places, permits: None })
    }

    pub(crate) fn hold(&self, grant: Grant, owner: &Owner, turn_in_line: Option<line::Turn>) -> LockGuard {
        LockGuard::new(self.hold_share(grant, owner, turn_in_line), &self.client)
    }

    fn hold_share(&self, grant: Grant, owner: &Owner, turn_in_line: Option<line::Turn>) -> Share {
        let lingering = self.lingering.as_deref().map(Keeper::lingering);
        let lingers_at = lingering.map(|lingering| Arc::downgrade(lingering) as Weak<_>);
        let node = HeldNode::new(&self.client, grant, &self.options, &self.meters, lingers_at);
        Minder::mind(&self.client, &node);
        let share = self.owners.enter(owner, owner, self.kind, node.clone());
        tracing::debug!(node = &**node.path(), token = node.token(), "acquired");
        if let Some(lingering) = lingering.filter(|_| Arc::ptr_eq(share.node(), &node)) {
            lingering.begin(node, turn_in_line);
        }
        share
    }

    /// Holds by a node that has stayed.
    fn hold_again(&self, node: &Arc<HeldNode>, owner: &Owner) -> LockGuard {
        let share = self.owners.enter(owner, owner, self.kind, node.clone());
        if !Arc::ptr_eq(share.node(), node) && !node.stays() {
            // The owner holds already, by a grant that came at the same time.
            drop(node.take());
        }
        LockGuard::new(share, &self.client)
    }

    /// Waits in line until it is the owner's turn. Returns the turn if the owner has to enter the queue; it may instead hold
    /// by a node that was handed on, or through another call.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`], among others.
    ///
    /// # Cancel safety
    /// The line is left.
    async fn line_up(
        &self,
        lingering: &Lingering,
        mut in_line: InLine<'_>,
        owner: &Owner,
        caller: &Caller,
    ) -> Result<Entry<Option<line::Turn>>> {
        let mut turn = None;
        let mut claim = Claim::new(&self.client, owner, caller.has_deadline());
        let waits = async {
            tokio::select! {
                biased;
                its_turn = in_line.turn() => turn = Some(its_turn),
                // It waits for everyone who has a place in the queue.
                Err(error) = async { claim.waits_for(self.awaited(i64::MAX)) } => return Err(error),
                // In an outage, a caller must not wait for others before it learns of the outage.
                error = self.outage_behind(lingering) => return Err(error),
            }
            Ok(())
        };
        let waiting = self.wait_as(owner);
        if let Some(guard) = waiting.until(pin!(waits), || self.enter_beside(owner)).await? {
            return Ok(Entry::Granted(guard));
        }
        drop(claim);
        if let Some(node) = lingering.taken_in_turn(&mut turn).await {
            return Ok(Entry::Granted(self.hold_again(&node, owner)));
        }
        in_line.enters_queue();
        Ok(Entry::Queued(turn))
    }

    /// Waits for an outage in which no one of this client holds the lock or waits in its queue. As anyone in a queue, those
    /// in line behind one that does wait on for as long as its session lives.
    async fn outage_behind(&self, lingering: &Lingering) -> Error {
        loop {
            let error = self.client.outage().await;
            if !lingering.is_backed() {
                return error;
            }
            sleep_until(Instant::now() + PAUSE).await;
        }
    }

    /// Registers a waiting owner, which is notified when it acquires the lock through another place.
    pub(crate) fn wait_as(&self, owner: &Owner) -> Waiting {
        self.owners.wait_as(owner)
    }

    pub(in crate::lock) fn owner(&self) -> Owner {
        Owner::or_current(&self.owner)
    }

    pub(crate) async fn acquire(&self) -> Result<LockGuard> {
        unending(attempt::try_acquire(self, &self.owner(), Wait::Forever).await)
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        attempt::try_acquire(self, &self.owner(), Wait::No).await
    }

    pub(crate) async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        attempt::try_acquire(self, &self.owner(), Wait::at_most(within)).await
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>> {
        self.client().unless_closed(participant::of(&self.internals, Some(self.kind))).await
    }

    pub(crate) async fn is_locked(&self) -> Result<bool> {
        self.client().unless_closed(participant::is_held(&self.internals, self.kind)).await
    }

    pub(crate) async fn holder(&self) -> Result<Option<Participant>> {
        self.client().unless_closed(participant::holder(&self.internals, self.kind)).await
    }

    pub(crate) async fn path_exists(&self) -> Result<bool> {
        self.client().exists(self.path()).await
    }

    pub(crate) fn is_acquired_in_this_process(&self) -> bool {
        !self.owners.is_empty(self.kind)
    }

    pub(crate) fn is_owned_by(&self, owner: &Owner) -> bool {
        self.owners.holds(owner, self.kind)
    }
}

impl Acquirable for Reentrant {
    type Waiter = Turn;

    fn client(&self) -> &Client {
        &self.client
    }

    fn name(&self) -> impl Display {
        self.path()
    }

    fn recipe(&self) -> &'static str {
        self.internals.recipe()
    }

    fn options(&self) -> &LockOptions {
        &self.options
    }

    async fn first(&self) -> Result<Option<Participant>> {
        participant::first(&self.internals).await
    }

    fn wait_meter(&self) -> WaitMeter {
        LockMeters::wait([&self.meters])
    }

    fn enter_again(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        let Some(hold) = self.owners.hold_of(owner, self.kind) else { return Ok(None) };
        hold.node().ensure_held()?;
        Ok(hold.share().map(|share| LockGuard::new(share, &self.client)))
    }

    fn ensure_can_be_granted(&self, owner: &Owner) -> Result<()> {
        let keeps_out = |_, held| held == Kind::Exclusive || self.kind == Kind::Exclusive;
        if !self.owners.holds_elsewhere(owner, keeps_out) {
            return Ok(());
        }
        // To release what another kind of recipe holds here would not help.
        self.internals.ensure_recipe()?;
        Err(self.would_deadlock())
    }

    fn take_lingering(&self, owner: &Owner) -> Option<LockGuard> {
        let lingering = self.lingering.as_ref()?;
        match lingering.take(&mut lingering.try_turn(), false) {
            Taken::Granted(node) => {
                self.meters.granted_at_once();
                Some(self.hold_again(&node, owner))
            }
            Taken::Await | Taken::Confirm(_) | Taken::Queue => None,
        }
    }

    fn is_taken_here(&self) -> bool {
        self.lingering.as_ref().is_some_and(|lingering| lingering.is_taken())
    }

    /// Waits until it is known whether the owner may hold by a node that an earlier holder has left, and else
    /// [enters the queue](Self::enter_queue).
    async fn enter(&self, owner: &Owner, caller: Caller) -> Result<Entry<Turn>> {
        if let Some(lingering) = &self.lingering
            && !(lingering.has_line() && caller.may_wait())
            // Boxed, so that others do not carry its size.
            && let Some(node) = Box::pin(lingering.taken()).await
        {
            return Ok(Entry::Granted(self.hold_again(&node, owner)));
        }
        self.enter_queue(owner, caller).await
    }
}

impl Reentrant {
    /// Enters the queue, or this side of the lock for an owner that holds the other one. With a cohort, a caller that
    /// waits gets in line first, and may hold by a node that was handed on.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`], among others.
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left in the queue.
    pub(super) async fn enter_queue(&self, owner: &Owner, caller: Caller) -> Result<Entry<Turn>> {
        if let Some(granted) = self.enter_from_the_other_side(owner).await? {
            return Ok(Entry::Granted(granted));
        }
        let mut turn_in_line = None;
        if let Some(lingering) = self.lingering.as_ref().filter(|_| caller.may_wait())
            && let Some(in_line) = lingering.get_in_line(&caller)
        {
            // Boxed, so that others do not carry its size.
            match Box::pin(self.line_up(lingering, in_line, owner, &caller)).await? {
                Entry::Granted(guard) => return Ok(Entry::Granted(guard)),
                Entry::Queued(turn) => turn_in_line = turn,
            }
        }
        let form = self.internals.form(self.kind, self.options().data());
        let seat = Seat::take(&self.internals, form, caller).await?;
        Ok(Entry::Queued(Turn {
            lock: self.clone(),
            owner: owner.clone(),
            seat,
            turn_in_line,
            waiting: None,
            entered: None,
        }))
    }
}

impl Turn {
    pub(super) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(super) fn seat(&self) -> &Seat {
        &self.seat
    }

    pub(super) fn seat_mut(&mut self) -> &mut Seat {
        &mut self.seat
    }

    /// Re-enters if the owner has acquired the lock through another place. Returns whether it has.
    ///
    /// # Errors
    /// - [`Error::WouldDeadlock`]: a reader wants to write.
    pub(super) async fn enters_beside(&mut self) -> Result<bool> {
        self.entered = self.lock.enter_beside(&self.owner).await?;
        Ok(self.entered.is_some())
    }
}

impl Contending for Turn {
    fn take(&mut self) -> Option<LockGuard> {
        if self.entered.is_some() {
            return self.entered.take();
        }
        if self.lock.kind == Kind::Shared
            && self.seat.is_granted()
            && let Ok(Some(again)) = self.lock.enter_again(&self.owner)
        {
            // Another read acquire of the same owner was granted before.
            return Some(again);
        }
        let grant = self.seat.take_grant()?;
        Some(self.lock.hold(grant, &self.owner, self.turn_in_line.take()))
    }

    fn ensure_no_deadlock(&self) -> Result<()> {
        self.lock.ensure_no_deadlock(self.seat.czxid(), &self.owner)
    }

    fn awaited(&self) -> Option<Awaited> {
        self.lock.awaited(self.seat.czxid()?)
    }

    async fn wait(&mut self) -> Result<()> {
        let Self { lock, owner, seat, waiting, entered, .. } = self;
        tracing::debug!(path = lock.path(), position = seat.position(), "waiting");
        let waiting = waiting.get_or_insert_with(|| lock.wait_as(owner));
        *entered = waiting.until(pin!(seat.wait()), || lock.enter_beside(owner)).await?;
        Ok(())
    }

    async fn leave(self) -> Result<()> {
        let Self { seat, turn_in_line, .. } = self;
        // The next in line need not wait for the confirmation.
        drop(turn_in_line);
        seat.leave().await
    }
}
