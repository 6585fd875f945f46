//! The mutual exclusion lock.

use std::time::Duration;

use async_trait::async_trait;

use super::InterProcessLock;
use super::guard::LockGuard;
use super::owner::Owner;
use super::participant::Participant;
use super::reentrant::Reentrant;
use super::ticket::Ticket;
use crate::client::Client;
use crate::error::Result;
use crate::queue::{LockInternals, MUTEX, exclusive};

/// A lock that one owner at a time holds, among all processes that use the same path.
///
/// Fair: first in, first out. Compatible with Curator's `InterProcessMutex` and go-zookeeper's `Lock` on the
/// same path, in both directions.
///
/// Re-entrant: an [`Owner`], by default the tokio task, that holds the lock can acquire it again through the
/// same object; the last of its guards releases. So it does not exclude futures of one task from each other,
/// unless each acquires it [for an owner of its own](Self::acquire_as).
///
/// A handle that can be cloned; clones are the same lock object. Two objects on one path, in one process or
/// in two, are two parties to the lock.
///
/// On the wire, an acquire is a create and a list sent back to back, so one round trip if nobody is before
/// it; a release is a delete; a re-entrant acquire is nothing. A waiter watches only the contender right
/// before it.
///
/// ```no_run
/// use zk_recipes::{Client, InterProcessMutex};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/orders")?;
///
/// let guard = mutex.acquire().await?;
/// println!("we hold it, with token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Sources: Curator's `InterProcessMutex` and `LockInternals`; the lock recipe of "ZooKeeper Recipes and
/// Solutions".
#[derive(Clone, Debug)]
pub struct InterProcessMutex {
    lock: Reentrant,
}

impl InterProcessMutex {
    /// A lock at `path`, below the client's namespace. Nothing is sent. The path and its parents are made by
    /// the first acquire, as containers: the server removes them when they have been empty for a while.
    ///
    /// The path must be used for nothing else, and by no other kind of recipe.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath).
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { lock: Reentrant::new(LockInternals::new(client, path, &MUTEX, exclusive)?) })
    }

    /// Acquires the lock for the current task, waiting for as long as it takes.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the server refuses, as for a missing right; at once.
    ///   Or it cannot be reached, and the client's [retry policy](crate::RetryPolicy) is exhausted.
    /// - [`Error::NotConnected`](crate::Error::NotConnected): the same before anything could be sent.
    /// - [`Error::WouldDeadlock`](crate::Error::WouldDeadlock): the same owner holds this path through
    ///   another lock object of this client.
    /// - [`Error::LockLost`](crate::Error::LockLost): the owner has entered before, and its hold was lost.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed, now or while waiting.
    ///
    /// A lost connection, an expired session or a deleted node do not end the wait. The place in the queue is
    /// kept for as long as the session lives; otherwise the wait goes on from the end of the queue.
    ///
    /// # Cancel safety
    /// The place in the queue is lost, and nothing stays behind: no node and no watch.
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.acquire_as(&Owner::current()).await
    }

    /// Acquires the lock for an explicit owner.
    ///
    /// ```no_run
    /// # async fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
    /// let owner = zk_recipes::Owner::new();
    /// let guard = mutex.acquire_as(&owner).await?;
    /// // Another task that works for the same owner may enter.
    /// tokio::spawn(async move {
    ///     let again = mutex.acquire_as(&owner).await?;
    ///     again.release().await
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_as(&self, owner: &Owner) -> Result<LockGuard> {
        self.lock.acquire(owner).await
    }

    /// Acquires the lock for the current task if nobody holds it or waits for it; `None` otherwise. Waits for
    /// the server, but for no other contender.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.try_acquire_as(&Owner::current()).await
    }

    /// Acquires the lock for an explicit owner if nobody holds it or waits for it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire_as(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        self.lock.try_acquire(owner).await
    }

    /// Acquires the lock for the current task if that can be done within this time; `None` otherwise.
    ///
    /// The time bounds everything, also while the servers are down or silent. Leaving the queue at its end
    /// may take a round trip more, 100 ms at most. Zero is [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        self.try_acquire_for_as(&Owner::current(), within).await
    }

    /// Acquires the lock for an explicit owner if that can be done within this time.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_for_as(&self, owner: &Owner, within: Duration) -> Result<Option<LockGuard>> {
        self.lock.try_acquire_for(owner, within).await
    }

    /// Enters the queue for the current task, and returns with the place in it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub async fn enqueue(&self) -> Result<Ticket> {
        self.enqueue_as(&Owner::current()).await
    }

    /// Enters the queue for an explicit owner, and returns with the place in it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub async fn enqueue_as(&self, owner: &Owner) -> Result<Ticket> {
        Ticket::enter(&self.lock, owner).await
    }

    /// Everybody who holds the lock or waits for it, in order, the holder first. Empty if the path does not
    /// exist. Contenders of Curator, go-zookeeper and kazoo are among them. What was done before the call is
    /// seen, also through another server.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected)
    /// when the queue cannot be read; [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.lock.participants().await
    }

    /// Whether any owner holds the lock through this object. No request is made: a lock that was lost counts
    /// until its last guard is gone.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.lock.is_acquired_in_this_process()
    }

    /// Whether the current task, or outside of one the thread, holds the lock through this object.
    ///
    /// Curator's `isOwnedByCurrentThread`.
    pub fn is_owned_by_current(&self) -> bool {
        self.is_owned_by(&Owner::current())
    }

    /// Whether this owner holds the lock through this object.
    pub fn is_owned_by(&self, owner: &Owner) -> bool {
        self.lock.is_owned_by(owner)
    }

    /// The full path of the lock, namespace included.
    pub fn path(&self) -> &str {
        self.lock.path()
    }
}

#[async_trait]
impl InterProcessLock for InterProcessMutex {
    async fn acquire(&self) -> Result<LockGuard> {
        self.acquire().await
    }

    async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.try_acquire().await
    }

    async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        self.try_acquire_for(within).await
    }

    fn is_acquired_in_this_process(&self) -> bool {
        self.is_acquired_in_this_process()
    }

    fn path(&self) -> &str {
        self.path()
    }
}
