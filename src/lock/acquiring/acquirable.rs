//! What can be acquired, and what waits for it.

use std::fmt::{Debug, Display};

use crate::client::Client;
use crate::error::Result;
use crate::lock::holding::claims::Awaited;
use crate::lock::holding::guard::LockGuard;
use crate::lock::operating::participant::Participant;
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::meters::WaitMeter;
use crate::queue::Caller;

/// What can be acquired, by queueing for it.
pub(crate) trait Acquirable: Clone + Debug + Send + Sync + 'static {
    type Waiter: Contending;

    fn client(&self) -> &Client;

    /// Begins to measure a wait.
    fn wait_meter(&self) -> WaitMeter;

    /// Its path, or those of its members, for messages.
    fn name(&self) -> impl Display;

    fn recipe(&self) -> &'static str;

    fn options(&self) -> &LockOptions;

    /// Reads who is first in the queues, for messages.
    fn first(&self) -> impl Future<Output = Result<Option<Participant>>> + Send;

    /// Returns a guard if the owner already holds what it asks for. Makes no request.
    ///
    /// # Errors
    /// - [`LockLost`](crate::Error::LockLost): the owner's hold is lost.
    fn enter_again(&self, owner: &Owner) -> Result<Option<LockGuard>>;

    /// Refuses, before anything is sent, an acquire that could not be granted before the owner releases what it
    /// holds.
    ///
    /// # Errors
    /// - [`KindConflict`](crate::Error::KindConflict): the owner holds this path through another kind of recipe.
    /// - [`WouldDeadlock`](crate::Error::WouldDeadlock): the owner holds this path through another lock object.
    fn ensure_can_be_granted(&self, owner: &Owner) -> Result<()>;

    /// Returns a guard by a node that an earlier holder of this client has left, if the owner may hold by it right now.
    /// Makes no request.
    fn take_lingering(&self, _owner: &Owner) -> Option<LockGuard> {
        None
    }

    /// Whether an owner that does not wait is known to be behind others of this client. Makes no request.
    fn is_taken_here(&self) -> bool {
        false
    }

    /// Enters the queues for an owner that does not hold the lock.
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left in the queues.
    fn enter(
        &self,
        owner: &Owner,
        caller: Caller,
    ) -> impl Future<Output = Result<Entry<Self::Waiter>>> + Send;
}

/// The result of entering the queues.
#[derive(Debug)]
pub(crate) enum Entry<W> {
    /// The owner already holds what it asked for.
    Granted(LockGuard),
    Queued(W),
}

/// A waiter in its queues. Dropping it leaves them.
pub(crate) trait Contending: Debug + Send + Sync {
    /// Takes the guard if it was granted. After that, nothing is left in the queues.
    fn take(&mut self) -> Option<LockGuard>;

    /// # Errors
    /// - [`WouldDeadlock`](crate::Error::WouldDeadlock): it is not granted, and would wait for what its owner
    ///   holds.
    fn ensure_no_deadlock(&self) -> Result<()>;

    /// Returns what it waits for; `None` if that is not known, or does not count when deadlocks are looked for.
    fn awaited(&self) -> Option<Awaited>;

    /// Waits until something has changed.
    ///
    /// # Cancel safety
    /// If cancelled, only drop or leave it.
    fn wait(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Leaves the queues, and waits for the confirmation.
    ///
    /// # Cancel safety
    /// The queues are left in any case; if this is cancelled, in the background.
    fn leave(self) -> impl Future<Output = Result<()>> + Send;
}
