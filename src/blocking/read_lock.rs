//! The read side of a read/write lock, for threads.

use std::time::Duration;

use super::guard::LockGuard;
use super::ticket::Ticket;
use super::wait::wait;
use crate::error::Result;
use crate::lock::{LockOptions, Owner, Participant};

/// The read side of a [`ReadWriteLock`](super::ReadWriteLock): many owners hold it at once.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadLock {
    inner: crate::ReadLock,
}

debug_as_inner!(ReadLock);

impl ReadLock {
    /// Returns a handle to the same lock object that acquires with these options.
    ///
    /// # Errors
    /// Same as [`ReadLock::with_options`](crate::ReadLock::with_options).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// Returns a handle to the same lock object that acquires for this owner instead of the current thread.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        self.inner.owned_by(owner).into()
    }

    /// Acquires the lock, blocking the thread until it is available. The blocking version of
    /// [`ReadLock::acquire`](crate::ReadLock::acquire).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn acquire(&self) -> Result<LockGuard> {
        wait(self.inner.acquire()).map(LockGuard::from)
    }

    /// Acquires the lock if it is available immediately; returns `None` otherwise. Blocks the thread for the round
    /// trip. The blocking version of [`ReadLock::try_acquire`](crate::ReadLock::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
    }

    /// Acquires the lock, blocking the thread for at most `within`. Returns `None` if that time elapsed in the
    /// queue. The blocking version of [`ReadLock::try_acquire_for`](crate::ReadLock::try_acquire_for).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
    }

    /// Enters the queue, blocking the thread until that is done, and returns a [`Ticket`]. The blocking version of
    /// [`ReadLock::enqueue`](crate::ReadLock::enqueue).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub fn enqueue(&self) -> Result<Ticket> {
        wait(self.inner.enqueue()).map(Ticket::from)
    }

    /// Returns the holders and all waiters in queue order. The blocking version of
    /// [`ReadLock::participants`](crate::ReadLock::participants).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn participants(&self) -> Result<Vec<Participant>> {
        wait(self.inner.participants())
    }

    /// Returns whether the lock is held, in any process. The blocking version of
    /// [`ReadLock::is_locked`](crate::ReadLock::is_locked).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn is_locked(&self) -> Result<bool> {
        wait(self.inner.is_locked())
    }

    /// Returns the holder of the lock, in any process. The blocking version of
    /// [`ReadLock::holder`](crate::ReadLock::holder).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn holder(&self) -> Result<Option<Participant>> {
        wait(self.inner.holder())
    }

    /// Returns whether the path exists. The blocking version of
    /// [`ReadLock::path_exists`](crate::ReadLock::path_exists).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Returns whether any owner holds the lock through this object. Does not block.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.inner.is_acquired_in_this_process()
    }

    /// Returns whether this owner holds the lock through this object. With [`Owner::current`], that is the current
    /// thread. Does not block.
    pub fn is_owned_by(&self, owner: &Owner) -> bool {
        self.inner.is_owned_by(owner)
    }

    /// Returns the full path of the lock, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }

    /// Returns the async twin.
    pub fn as_async(&self) -> &crate::ReadLock {
        &self.inner
    }
}

impl From<crate::ReadLock> for ReadLock {
    fn from(inner: crate::ReadLock) -> Self {
        Self { inner }
    }
}

impl From<ReadLock> for crate::ReadLock {
    fn from(twin: ReadLock) -> Self {
        twin.inner
    }
}
