//! The lock that has no owner, for threads.

use std::time::Duration;

use super::client::Client;
use super::guard::LockGuard;
use super::wait::wait;
use crate::error::Result;
use crate::lock::{LockOptions, Owner, Participant};

/// A non-re-entrant lock that one holder at a time holds, among all processes that use the same path. A thread
/// that acquires it twice waits for itself. The blocking twin of [`SemaphoreMutex`](crate::SemaphoreMutex).
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct SemaphoreMutex {
    inner: crate::SemaphoreMutex,
}

debug_as_inner!(SemaphoreMutex);

impl SemaphoreMutex {
    /// Creates a lock at `path`. Does not block. See [`SemaphoreMutex::new`](crate::SemaphoreMutex::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::SemaphoreMutex::new(&client.inner, path).map(Self::from)
    }

    /// Returns a handle to the same lock that acquires with these options.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the maximum hold time is zero, or the node
    ///   data is not allowed (see [`LockOptions::node_data`]).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// Returns a handle to the same lock object that acquires for this owner instead of the current thread.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        self.inner.owned_by(owner).into()
    }

    /// Acquires the lock, blocking the thread until it is available. The blocking version of
    /// [`SemaphoreMutex::acquire`](crate::SemaphoreMutex::acquire).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn acquire(&self) -> Result<LockGuard> {
        wait(self.inner.acquire()).map(LockGuard::from)
    }

    /// Acquires the lock if it is available immediately; returns `None` otherwise. Blocks the thread for the round
    /// trip. The blocking version of [`SemaphoreMutex::try_acquire`](crate::SemaphoreMutex::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
    }

    /// Acquires the lock, blocking the thread for at most `within`. Returns `None` if that time elapsed in the
    /// queue. The blocking version of [`SemaphoreMutex::try_acquire_for`](crate::SemaphoreMutex::try_acquire_for).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
    }

    /// Returns the holder of the lock, followed by the waiters. The blocking version of
    /// [`SemaphoreMutex::participants`](crate::SemaphoreMutex::participants).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn participants(&self) -> Result<Vec<Participant>> {
        wait(self.inner.participants())
    }

    /// Returns whether the lock is held, in any process. The blocking version of
    /// [`SemaphoreMutex::is_locked`](crate::SemaphoreMutex::is_locked).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn is_locked(&self) -> Result<bool> {
        wait(self.inner.is_locked())
    }

    /// Returns the holder of the lock, in any process. The blocking version of
    /// [`SemaphoreMutex::holder`](crate::SemaphoreMutex::holder).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn holder(&self) -> Result<Option<Participant>> {
        wait(self.inner.holder())
    }

    /// Returns whether the path exists. The blocking version of
    /// [`SemaphoreMutex::path_exists`](crate::SemaphoreMutex::path_exists).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Returns whether the lock is held through this object. Does not block.
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
    pub fn as_async(&self) -> &crate::SemaphoreMutex {
        &self.inner
    }
}

impl From<crate::SemaphoreMutex> for SemaphoreMutex {
    fn from(inner: crate::SemaphoreMutex) -> Self {
        Self { inner }
    }
}

impl From<SemaphoreMutex> for crate::SemaphoreMutex {
    fn from(twin: SemaphoreMutex) -> Self {
        twin.inner
    }
}
