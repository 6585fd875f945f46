//! The counting semaphore, for threads.

use std::time::Duration;

use super::client::Client;
use super::guard::LockGuard;
use super::shared::SharedCount;
use super::wait::wait;
use crate::error::Result;
use crate::lock::{LockOptions, Owner, Participant};

/// A number of permits, shared by all processes that use the same path. The blocking twin of
/// [`Semaphore`](crate::Semaphore).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, Semaphore};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let licences = Semaphore::new(&client, "/semaphores/licences", 10)?;
/// let three = licences.many(3)?.acquire()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    inner: crate::Semaphore,
}

debug_as_inner!(Semaphore);

impl Semaphore {
    /// Creates a semaphore with a fixed number of permits. Does not block. See
    /// [`Semaphore::new`](crate::Semaphore::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self> {
        crate::Semaphore::new(&client.inner, path, permits).map(Self::from)
    }

    /// Creates a semaphore whose number of permits is the value of a [`SharedCount`]. Does not block. See
    /// [`Semaphore::with_shared_count`](crate::Semaphore::with_shared_count).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn with_shared_count(client: &Client, path: &str, count: &SharedCount) -> Result<Self> {
        crate::Semaphore::with_shared_count(&client.inner, path, count.as_async()).map(Self::from)
    }

    /// Returns a handle to the same semaphore whose permits have these options.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the maximum hold time is zero, or the node
    ///   data is not allowed (see [`LockOptions::node_data`]).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// Returns a handle to the same semaphore that acquires this many permits at once, all or none. See
    /// [`Semaphore::many`](crate::Semaphore::many).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn many(&self, permits: u32) -> Result<Self> {
        self.inner.many(permits).map(Self::from)
    }

    /// Returns a handle to the same lock object that acquires for this owner instead of the current thread.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        self.inner.owned_by(owner).into()
    }

    /// Acquires a permit, blocking the thread until one is available. The blocking version of
    /// [`Semaphore::acquire`](crate::Semaphore::acquire).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn acquire(&self) -> Result<LockGuard> {
        wait(self.inner.acquire()).map(LockGuard::from)
    }

    /// Acquires a permit if one is available immediately; returns `None` otherwise. Blocks the thread for the
    /// round trip. The blocking version of [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
    }

    /// Acquires a permit, blocking the thread for at most `within`. Returns `None` if that time elapsed in the
    /// queue. The blocking version of [`Semaphore::try_acquire_for`](crate::Semaphore::try_acquire_for).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
    }

    /// Returns the number of permits that are free now. The blocking version of
    /// [`Semaphore::available_permits`](crate::Semaphore::available_permits).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn available_permits(&self) -> Result<u32> {
        wait(self.inner.available_permits())
    }

    /// Returns the holders of permits, followed by the waiters. The blocking version of
    /// [`Semaphore::participants`](crate::Semaphore::participants).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn participants(&self) -> Result<Vec<Participant>> {
        wait(self.inner.participants())
    }

    /// Returns whether no permit is free. The blocking version of
    /// [`Semaphore::is_locked`](crate::Semaphore::is_locked).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn is_locked(&self) -> Result<bool> {
        wait(self.inner.is_locked())
    }

    /// Returns the holder that has had its permit for the longest time. The blocking version of
    /// [`Semaphore::holder`](crate::Semaphore::holder).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn holder(&self) -> Result<Option<Participant>> {
        wait(self.inner.holder())
    }

    /// Returns whether the path exists. The blocking version of
    /// [`Semaphore::path_exists`](crate::Semaphore::path_exists).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Returns whether a permit is held through this object. Does not block.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.inner.is_acquired_in_this_process()
    }

    /// Returns whether a permit is held through this object that was acquired for this owner. Does not block.
    pub fn is_owned_by(&self, owner: &Owner) -> bool {
        self.inner.is_owned_by(owner)
    }

    /// Returns the full path of the semaphore, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }

    /// Returns the async twin.
    pub fn as_async(&self) -> &crate::Semaphore {
        &self.inner
    }
}

impl From<crate::Semaphore> for Semaphore {
    fn from(inner: crate::Semaphore) -> Self {
        Self { inner }
    }
}

impl From<Semaphore> for crate::Semaphore {
    fn from(twin: Semaphore) -> Self {
        twin.inner
    }
}
