//! The counting semaphore, for threads.

use std::time::Duration;

use super::client::Client;
use super::guard::{LockGuard, guards};
use super::shared_count::SharedCount;
use super::twin::twin;
use super::wait::wait;
use crate::error::Result;
use crate::lock::{LockOptions, Participant};

/// A number of permits, among all processes that use the same path. See [`Semaphore`](crate::Semaphore).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, Semaphore};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let licences = Semaphore::new(&client, "/semaphores/licences", 10)?;
/// let three = licences.acquire_many(3)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    inner: crate::Semaphore,
}

twin!(Semaphore);

impl Semaphore {
    /// As [`Semaphore::new`](crate::Semaphore::new).
    ///
    /// # Errors
    /// As there.
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self> {
        crate::Semaphore::new(&client.inner, path, permits).map(Self::from)
    }

    /// As [`Semaphore::with_shared_count`](crate::Semaphore::with_shared_count).
    ///
    /// # Errors
    /// As there.
    pub fn with_shared_count(client: &Client, path: &str, count: &SharedCount) -> Result<Self> {
        crate::Semaphore::with_shared_count(&client.inner, path, count.as_async()).map(Self::from)
    }

    /// The same semaphore, whose permits have these options.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument): a maximum hold time of zero.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// As [`Semaphore::acquire`](crate::Semaphore::acquire), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn acquire(&self) -> Result<LockGuard> {
        wait(self.inner.acquire()).map(LockGuard::from)
    }

    /// As [`Semaphore::acquire_many`](crate::Semaphore::acquire_many), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn acquire_many(&self, permits: u32) -> Result<Vec<LockGuard>> {
        wait(self.inner.acquire_many(permits)).map(guards)
    }

    /// As [`Semaphore::try_acquire`](crate::Semaphore::try_acquire), and blocks the thread for the round trip.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
    }

    /// As [`Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many), and blocks the thread for the round trip.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<LockGuard>>> {
        Ok(wait(self.inner.try_acquire_many(permits))?.map(guards))
    }

    /// As [`Semaphore::try_acquire_for`](crate::Semaphore::try_acquire_for), and blocks the thread for that time at most.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
    }

    /// As [`Semaphore::try_acquire_many_for`](crate::Semaphore::try_acquire_many_for), and blocks the thread for that time
    /// at most.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn try_acquire_many_for(&self, permits: u32, within: Duration) -> Result<Option<Vec<LockGuard>>> {
        Ok(wait(self.inner.try_acquire_many_for(permits, within))?.map(guards))
    }

    /// As [`Semaphore::available_permits`](crate::Semaphore::available_permits), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn available_permits(&self) -> Result<u32> {
        wait(self.inner.available_permits())
    }

    /// As [`Semaphore::participants`](crate::Semaphore::participants), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn participants(&self) -> Result<Vec<Participant>> {
        wait(self.inner.participants())
    }

    /// As [`Semaphore::is_locked`](crate::Semaphore::is_locked), and blocks the thread.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    pub fn is_locked(&self) -> Result<bool> {
        wait(self.inner.is_locked())
    }

    /// As [`Semaphore::holder`](crate::Semaphore::holder), and blocks the thread.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    pub fn holder(&self) -> Result<Option<Participant>> {
        wait(self.inner.holder())
    }

    /// As [`Semaphore::path_exists`](crate::Semaphore::path_exists), and blocks the thread.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Whether somebody has a permit through this object. It does not block.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.inner.is_acquired_in_this_process()
    }

    /// The full path of the semaphore, namespace included.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
