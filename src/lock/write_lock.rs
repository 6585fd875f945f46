//! The write side of a read/write lock.

use std::sync::Arc;
use std::time::Duration;

use super::inter_process_lock::{InterProcessLock, Made, MadeOf, Sealed};
use super::options::LockOptions;
use super::owner::Owner;
use crate::error::Result;
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::acquiring::ticket::Ticket;
use crate::lock::acquiring::wait::Wait;
use crate::lock::holding::guard::LockGuard;
use crate::lock::operating::participant::Participant;

/// The write side of a [`ReadWriteLock`](crate::ReadWriteLock): one owner holds it alone.
///
/// This is a handle that can be cloned; clones are the same lock object.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct WriteLock {
    pub(super) lock: Reentrant,
}

debug_by!(WriteLock, |it| path: it.path());

impl WriteLock {
    /// Returns a handle to the same lock object that acquires with these options. See
    /// [`InterProcessMutex::with_options`](crate::InterProcessMutex::with_options).
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::with_options`](crate::InterProcessMutex::with_options).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { lock: self.lock.with_options(options)? })
    }

    /// Returns a handle to the same lock object that acquires for this owner instead of the current task. See
    /// [`InterProcessMutex::owned_by`](crate::InterProcessMutex::owned_by).
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self { lock: self.lock.owned_by(owner) }
    }

    /// Acquires the lock, waiting until it is available.
    ///
    /// An owner that holds the [`ReadLock`](crate::ReadLock) cannot acquire this one: release the read lock first.
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire);
    /// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) also if the owner holds the read lock.
    ///
    /// # Cancel safety
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.lock.acquire().await
    }

    /// Acquires the lock if it is available immediately; returns `None` otherwise. See
    /// [`InterProcessMutex::try_acquire`](crate::InterProcessMutex::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.lock.try_acquire(Wait::No).await
    }

    /// Acquires the lock, waiting at most `within`. Returns `None` if that time elapsed in the queue. See
    /// [`InterProcessMutex::try_acquire_for`](crate::InterProcessMutex::try_acquire_for).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and [`Error::NotConnected`](crate::Error::NotConnected) if the queue was not
    /// reached within this time.
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        self.lock.try_acquire(Wait::at_most(within)).await
    }

    /// Enters the queue, and returns a [`Ticket`] for the place in it. See
    /// [`InterProcessMutex::enqueue`](crate::InterProcessMutex::enqueue).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left in the queue.
    pub async fn enqueue(&self) -> Result<Ticket> {
        Ticket::enter(&self.lock).await
    }

    /// Returns the writer that holds the lock and all waiting writers, in queue order. See
    /// [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.lock.participants().await
    }

    /// Returns whether a writer holds the lock, in any process. A lock whose path does not exist is not held.
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn is_locked(&self) -> Result<bool> {
        self.lock.is_locked().await
    }

    /// Returns the writer that holds the lock, in any process. `None` if there is none or the path does not exist.
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn holder(&self) -> Result<Option<Participant>> {
        self.lock.holder().await
    }

    /// Returns whether the path exists, which tells a free lock from a mistyped path. See
    /// [`InterProcessMutex::path_exists`](crate::InterProcessMutex::path_exists).
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::path_exists`](crate::InterProcessMutex::path_exists).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn path_exists(&self) -> Result<bool> {
        self.lock.path_exists().await
    }

    /// Returns whether any owner holds this side of the lock through this object. Makes no request: a lost lock
    /// counts until its last guard is gone.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.lock.is_acquired_in_this_process()
    }

    /// Returns whether this owner holds this side of the lock through this object. Makes no request: a lost lock
    /// counts until its last guard is gone.
    pub fn is_owned_by(&self, owner: &Owner) -> bool {
        self.lock.is_owned_by(owner)
    }

    /// Returns the full path of the lock, including the namespace.
    pub fn path(&self) -> &str {
        self.lock.path()
    }
}

impl Sealed for WriteLock {
    fn made_of(&self) -> MadeOf<'_> {
        MadeOf(Made::Reentrant(&self.lock))
    }
}

impl InterProcessLock for WriteLock {
    fn owned_by(&self, owner: &Owner) -> Arc<dyn InterProcessLock> {
        Arc::new(self.owned_by(owner))
    }

    fn with_options(&self, options: LockOptions) -> Result<Arc<dyn InterProcessLock>> {
        Ok(Arc::new(self.with_options(options)?))
    }
}
