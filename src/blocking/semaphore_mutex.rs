//! The lock that knows no owner, for threads.

use std::time::Duration;

use super::client::Client;
use super::guard::LockGuard;
use super::twin::twin;
use super::wait::wait;
use crate::error::Result;
use crate::lock::{LockOptions, Participant};

/// A lock that one at a time holds, among all processes that use the same path, and that is not re-entrant: a thread that
/// acquires it twice waits for itself. See [`SemaphoreMutex`](crate::SemaphoreMutex).
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct SemaphoreMutex {
    inner: crate::SemaphoreMutex,
}

twin!(SemaphoreMutex);

impl SemaphoreMutex {
    /// As [`SemaphoreMutex::new`](crate::SemaphoreMutex::new).
    ///
    /// # Errors
    /// As there.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::SemaphoreMutex::new(&client.inner, path).map(Self::from)
    }

    /// The same lock, whose acquires have these options.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument): a maximum hold time of zero.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// As [`SemaphoreMutex::acquire`](crate::SemaphoreMutex::acquire), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn acquire(&self) -> Result<LockGuard> {
        wait(self.inner.acquire()).map(LockGuard::from)
    }

    /// As [`SemaphoreMutex::try_acquire`](crate::SemaphoreMutex::try_acquire), and blocks the thread for the round trip.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
    }

    /// As [`SemaphoreMutex::try_acquire_for`](crate::SemaphoreMutex::try_acquire_for), and blocks the thread for that time
    /// at most.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
    }

    /// As [`SemaphoreMutex::participants`](crate::SemaphoreMutex::participants), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn participants(&self) -> Result<Vec<Participant>> {
        wait(self.inner.participants())
    }

    /// As [`SemaphoreMutex::is_locked`](crate::SemaphoreMutex::is_locked), and blocks the thread.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    pub fn is_locked(&self) -> Result<bool> {
        wait(self.inner.is_locked())
    }

    /// As [`SemaphoreMutex::holder`](crate::SemaphoreMutex::holder), and blocks the thread.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    pub fn holder(&self) -> Result<Option<Participant>> {
        wait(self.inner.holder())
    }

    /// As [`SemaphoreMutex::path_exists`](crate::SemaphoreMutex::path_exists), and blocks the thread.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Whether somebody holds the lock through this object. It does not block.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.inner.is_acquired_in_this_process()
    }

    /// The full path of the lock, namespace included.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
