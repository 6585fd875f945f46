//! Several locks as one, for threads.

use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::guard::LockGuard;
use super::wait::wait;
use crate::error::Result;
use crate::lock::{InterProcessLock, LockOptions, Owner, Participant};

/// Several locks that are acquired and released as one: all or none. The blocking twin of
/// [`MultiLock`](crate::MultiLock).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, MultiLock};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let both = MultiLock::new(&client, ["/accounts/17", "/accounts/4"])?;
/// both.acquire()?.release()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct MultiLock {
    inner: crate::MultiLock,
}

debug_as_inner!(MultiLock);

impl MultiLock {
    /// Creates a multi-lock of the locks at these paths. Does not block. See
    /// [`MultiLock::new`](crate::MultiLock::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new<P: AsRef<str>>(client: &Client, paths: impl IntoIterator<Item = P>) -> Result<Self> {
        crate::MultiLock::new(&client.inner, paths).map(Self::from)
    }

    /// Creates a multi-lock of async locks, which `as_async` of each blocking lock returns. Does not block. See
    /// [`MultiLock::of`](crate::MultiLock::of).
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use zk_recipes::InterProcessLock;
    /// use zk_recipes::blocking::{InterProcessMutex, MultiLock, SemaphoreMutex};
    ///
    /// # fn example(orders: InterProcessMutex, printer: SemaphoreMutex) -> zk_recipes::Result<()> {
    /// let both: [Arc<dyn InterProcessLock>; 2] =
    ///     [Arc::new(orders.as_async().clone()), Arc::new(printer.as_async().clone())];
    /// MultiLock::of(both)?.acquire()?.release()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as the async method.
    pub fn of(locks: impl IntoIterator<Item = Arc<dyn InterProcessLock>>) -> Result<Self> {
        crate::MultiLock::of(locks).map(Self::from)
    }

    /// Returns a handle to the same lock object that acquires with these options.
    ///
    /// # Errors
    /// Same as [`MultiLock::with_options`](crate::MultiLock::with_options).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// Returns a handle to the same lock object that acquires for this owner instead of the current thread.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        self.inner.owned_by(owner).into()
    }

    /// Acquires all locks, blocking the thread until they are available. The blocking version of
    /// [`MultiLock::acquire`](crate::MultiLock::acquire).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn acquire(&self) -> Result<LockGuard> {
        wait(self.inner.acquire()).map(LockGuard::from)
    }

    /// Acquires all locks if all are available immediately; returns `None` otherwise. Blocks the thread for the
    /// round trips. The blocking version of [`MultiLock::try_acquire`](crate::MultiLock::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
    }

    /// Acquires all locks, blocking the thread for at most `within`. Returns `None` if that time elapsed in the
    /// queues. The blocking version of [`MultiLock::try_acquire_for`](crate::MultiLock::try_acquire_for).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
    }

    /// Returns the holders and all waiters in queue order. The blocking version of
    /// [`MultiLock::participants`](crate::MultiLock::participants).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn participants(&self) -> Result<Vec<Participant>> {
        wait(self.inner.participants())
    }

    /// Returns whether any of the locks is held, in any process. The blocking version of
    /// [`MultiLock::is_locked`](crate::MultiLock::is_locked).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn is_locked(&self) -> Result<bool> {
        wait(self.inner.is_locked())
    }

    /// Returns the holder of the first lock that is held. The blocking version of
    /// [`MultiLock::holder`](crate::MultiLock::holder).
    ///
    /// # Errors
    /// Same as [`is_locked`](Self::is_locked).
    pub fn holder(&self) -> Result<Option<Participant>> {
        wait(self.inner.holder())
    }

    /// Returns whether the paths of all locks exist. The blocking version of
    /// [`MultiLock::path_exists`](crate::MultiLock::path_exists).
    ///
    /// # Errors
    /// Same as [`is_locked`](Self::is_locked).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Returns whether each of the locks is held through its lock object. Does not block.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.inner.is_acquired_in_this_process()
    }

    /// Returns whether this owner holds each of the locks through this object. With [`Owner::current`], that is the
    /// current thread. Does not block.
    pub fn is_owned_by(&self, owner: &Owner) -> bool {
        self.inner.is_owned_by(owner)
    }

    /// Returns the full paths of the locks in the order in which they are acquired, including the namespaces.
    pub fn paths(&self) -> Vec<&str> {
        self.inner.paths()
    }

    /// Returns the async twin.
    pub fn as_async(&self) -> &crate::MultiLock {
        &self.inner
    }
}

impl From<crate::MultiLock> for MultiLock {
    fn from(inner: crate::MultiLock) -> Self {
        Self { inner }
    }
}

impl From<MultiLock> for crate::MultiLock {
    fn from(twin: MultiLock) -> Self {
        twin.inner
    }
}
