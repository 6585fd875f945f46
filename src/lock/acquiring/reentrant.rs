//! A queue whose holders are known again: what the re-entrant locks share.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{self, Contending, Entry};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::lock::holding::books::{Books, Waiting};
use crate::lock::holding::guard::LockGuard;
use crate::lock::holding::held_node::HeldNode;
use crate::lock::holding::hold::Downgrading;
use crate::lock::operating::participant::{self, Participant};
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::queue::{Caller, Downgrade, Grant, Kind, LockInternals, Names, Seat, downgrade};

/// One side of a lock: of those that exclude each other, or of those that share it.
#[derive(Clone, Debug)]
pub(crate) struct Reentrant {
    client: Client,
    internals: Arc<LockInternals>,
    /// Of both sides.
    books: Arc<Books>,
    kind: Kind,
    options: LockOptions,
}

/// An owner's place in the queue.
#[derive(Debug)]
pub(crate) struct Turn {
    lock: Reentrant,
    owner: Owner,
    seat: Seat,
    /// From the first wait on.
    waiting: Option<Waiting>,
    /// What the owner has come to hold meanwhile, through another place.
    entered: Option<LockGuard>,
}

impl Reentrant {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn new(client: &Client, path: &str, names: &'static Names, kind: Kind) -> Result<Self> {
        let internals = LockInternals::of(client, path, names)?;
        Ok(Self::with_books(client, Books::new(&internals), internals, kind))
    }

    /// The same lock object as all that this gives for the path.
    ///
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn shared(client: &Client, path: &str, names: &'static Names, kind: Kind) -> Result<Self> {
        let internals = LockInternals::of(client, path, names)?;
        Ok(Self::with_books(client, Books::shared(&internals), internals, kind))
    }

    fn with_books(client: &Client, books: Arc<Books>, internals: Arc<LockInternals>, kind: Kind) -> Self {
        Self { client: client.clone(), internals, books, kind, options: LockOptions::new() }
    }

    /// The same lock for what works in the background, and does not keep the client open.
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
    /// [`Error::InvalidArgument`].
    pub(crate) fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { options: options.validated()?, ..self.clone() })
    }

    /// Whether it is the same lock object.
    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.books, &other.books)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn path(&self) -> &str {
        self.internals.path()
    }

    pub(crate) fn options(&self) -> &LockOptions {
        &self.options
    }

    pub(crate) fn internals(&self) -> &Arc<LockInternals> {
        &self.internals
    }

    /// Enters the queue, or a lock that the owner holds already.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`], among others.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn enter(&self, owner: &Owner) -> Result<Entry<Turn>> {
        match self.enter_again(owner)? {
            Some(again) => Ok(Entry::Granted(again)),
            None => self.enter_anew(owner, Caller::asking()).await,
        }
    }

    /// Enters the queue for an owner that does not hold this side of the lock.
    async fn enter_anew(&self, owner: &Owner, caller: Caller) -> Result<Entry<Turn>> {
        if let Some(granted) = self.enter_from_the_other_side(owner).await? {
            return Ok(Entry::Granted(granted));
        }
        let form = self.internals.form(self.kind, self.options.data());
        let seat = Seat::take(&self.internals, form, caller).await?;
        Ok(Entry::Queued(Turn {
            lock: self.clone(),
            owner: owner.clone(),
            seat,
            waiting: None,
            entered: None,
        }))
    }

    /// What an owner gets that holds the other side: a writer may read as well.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`] for a reader that wants to write. [`Error::LockLost`].
    async fn enter_from_the_other_side(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        match self.kind {
            Kind::Shared => {
                let writing = self.books.hold_of(owner, Kind::Exclusive);
                let Some(writing) = writing.and_then(|writing| writing.downgrading()) else {
                    return Ok(None);
                };
                // On the heap, since few do.
                Box::pin(self.downgrade(owner, &writing)).await.map(Some)
            }
            Kind::Exclusive => {
                let Some(reading) = self.books.hold_of(owner, Kind::Shared) else { return Ok(None) };
                reading.node().ensure_held()?;
                Err(self.would_deadlock())
            }
            Kind::Foreign(_) => Ok(None),
        }
    }

    /// What an owner that waits has come to hold through another place.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`].
    async fn enter_beside(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        let entered = match self.enter_again(owner) {
            Ok(None) => self.enter_from_the_other_side(owner).await,
            entered => entered,
        };
        match entered {
            // That is no reason to wait no longer.
            Err(Error::LockLost { .. }) => Ok(None),
            entered => entered,
        }
    }

    /// Another guard on what the owner holds already, if it does.
    ///
    /// # Errors
    /// [`Error::LockLost`].
    pub(crate) fn enter_again(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        let Some(hold) = self.books.hold_of(owner, self.kind) else { return Ok(None) };
        hold.node().ensure_held()?;
        Ok(hold.share().map(|share| LockGuard::new(share, &self.client)))
    }

    /// Lets a writer read, without a moment for the next writer in between, whichever guard goes first.
    async fn downgrade(&self, owner: &Owner, writing: &Downgrading) -> Result<LockGuard> {
        writing.node().ensure_held()?;
        let form = self.internals.form(self.kind, self.options.data());
        let writer = writing.node();
        match downgrade(&self.internals, writer.session(), writer.path(), form).await? {
            // The token of the writer: it is smaller than that of every writer to come.
            Downgrade::Reads(node, membership) => {
                // Nobody has been let in. But it is not to go on by what it has lost.
                writer.ensure_held()?;
                Ok(self.hold(Grant { membership: Some(membership), node, czxid: writing.token() }, owner))
            }
            // It goes on as a writer for as long as it reads.
            Downgrade::NoPlace => {
                let share = writing.share().ok_or_else(|| writer.deleted())?;
                Ok(LockGuard::new(share, &self.client))
            }
            Downgrade::WriterGone => Err(writer.deleted()),
        }
    }

    /// Refuses what an owner could not be granted before it releases what it holds, before anything is sent.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`].
    pub(crate) fn ensure_can_be_granted(&self, owner: &Owner) -> Result<()> {
        let keeps_out = |_, held| held == Kind::Exclusive || self.kind == Kind::Exclusive;
        if self.books.holds_elsewhere(owner, keeps_out) { Err(self.would_deadlock()) } else { Ok(()) }
    }

    /// # Errors
    /// [`Error::WouldDeadlock`] if the owner of this contender, which is not granted, holds what it would wait for: by itself,
    /// or behind others who do.
    pub(crate) fn ensure_no_deadlock(&self, czxid: Option<i64>, owner: &Owner) -> Result<()> {
        // Through this very object the owner may have two contenders, started at the same time. It enters again then.
        match czxid {
            Some(czxid) if self.books.holds_elsewhere(owner, |token, _| token < czxid) => {
                Err(self.would_deadlock())
            }
            _ => Ok(()),
        }
    }

    fn would_deadlock(&self) -> Error {
        Error::WouldDeadlock { path: self.path().to_owned() }
    }

    pub(crate) fn hold(&self, grant: Grant, owner: &Owner) -> LockGuard {
        let token = grant.czxid;
        let node = HeldNode::new(self.client(), grant, &self.options);
        tracing::debug!(node = &**node.path(), token, "acquired");
        LockGuard::new(self.books.enter(owner, self.kind, token, node), &self.client)
    }

    /// Lets an owner hear when it comes to hold through another place.
    pub(crate) fn wait_as(&self, owner: &Owner) -> Waiting {
        self.books.wait_as(owner)
    }

    pub(crate) async fn acquire(&self, owner: &Owner) -> Result<LockGuard> {
        match self.enter_again(owner)? {
            Some(again) => Ok(again),
            None => {
                self.ensure_can_be_granted(owner)?;
                attempt::acquire(self.client(), |caller| self.enter_anew(owner, caller)).await
            }
        }
    }

    pub(crate) async fn try_acquire(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        match self.enter_again(owner)? {
            Some(again) => Ok(Some(again)),
            None => {
                self.ensure_can_be_granted(owner)?;
                attempt::try_acquire(self.client(), |caller| self.enter_anew(owner, caller)).await
            }
        }
    }

    pub(crate) async fn try_acquire_for(&self, owner: &Owner, within: Duration) -> Result<Option<LockGuard>> {
        match self.enter_again(owner)? {
            Some(again) => Ok(Some(again)),
            None => {
                self.ensure_can_be_granted(owner)?;
                attempt::try_acquire_for(self.client(), within, |caller| self.enter_anew(owner, caller)).await
            }
        }
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
        !self.books.is_empty(self.kind)
    }

    pub(crate) fn is_owned_by(&self, owner: &Owner) -> bool {
        self.books.holds(owner, self.kind)
    }
}

impl Turn {
    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    pub(crate) fn seat_mut(&mut self) -> &mut Seat {
        &mut self.seat
    }

    /// Returns whether its owner has come to hold through another place, which it then shares.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`].
    pub(crate) async fn enters_beside(&mut self) -> Result<bool> {
        self.entered = self.lock.enter_beside(&self.owner).await?;
        Ok(self.entered.is_some())
    }
}

impl Contending for Turn {
    type Guard = LockGuard;

    fn ensure_no_deadlock(&self) -> Result<()> {
        self.lock.ensure_no_deadlock(self.seat.czxid(), &self.owner)
    }

    fn take(&mut self) -> Option<LockGuard> {
        if self.entered.is_some() {
            return self.entered.take();
        }
        if self.lock.kind == Kind::Shared
            && self.seat.is_granted()
            && let Ok(Some(again)) = self.lock.enter_again(&self.owner)
        {
            // Another reader of the same owner was granted before.
            return Some(again);
        }
        self.seat.take_grant().map(|grant| self.lock.hold(grant, &self.owner))
    }

    async fn wait(&mut self) -> Result<()> {
        self.ensure_no_deadlock()?;
        let Self { lock, owner, seat, waiting, entered } = self;
        tracing::debug!(path = lock.path(), position = seat.position(), "waiting");
        let waiting = waiting.get_or_insert_with(|| lock.wait_as(owner));
        *entered = waiting.until(pin!(seat.wait()), || lock.enter_beside(owner)).await?;
        Ok(())
    }

    async fn leave(self) -> Result<()> {
        self.seat.leave().await
    }
}
