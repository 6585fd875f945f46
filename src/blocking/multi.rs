//! Several locks as one, for threads.

use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::guard::LockGuard;
use super::twin::twin;
use super::wait::wait;
use crate::error::Result;
use crate::lock::{InterProcessLock, LockOptions, Participant};

/// Several locks that one holds all of, or none. See [`MultiLock`](crate::MultiLock).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, MultiLock};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let both = MultiLock::new(&client, ["/accounts/17", "/accounts/4"])?;
/// both.acquire()?.release()
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct MultiLock {
    inner: crate::MultiLock,
}

twin!(MultiLock);

impl MultiLock {
    /// As [`MultiLock::new`](crate::MultiLock::new).
    ///
    /// # Errors
    /// As there.
    pub fn new<P: AsRef<str>>(client: &Client, paths: impl IntoIterator<Item = P>) -> Result<Self> {
        crate::MultiLock::new(&client.inner, paths).map(Self::from)
    }

    /// As [`MultiLock::of`](crate::MultiLock::of), of the async locks, as `as_async` of each returns them.
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
    /// As there.
    pub fn of(locks: impl IntoIterator<Item = Arc<dyn InterProcessLock>>) -> Result<Self> {
        crate::MultiLock::of(locks).map(Self::from)
    }

    /// The same lock object, whose acquires have these options.
    ///
    /// # Errors
    /// As [`MultiLock::with_options`](crate::MultiLock::with_options).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// As [`MultiLock::acquire`](crate::MultiLock::acquire), and blocks the thread, which is the owner.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn acquire(&self) -> Result<LockGuard> {
        wait(self.inner.acquire()).map(LockGuard::from)
    }

    /// As [`MultiLock::try_acquire`](crate::MultiLock::try_acquire), and blocks the thread for the round trips.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
    }

    /// As [`MultiLock::try_acquire_for`](crate::MultiLock::try_acquire_for), and blocks the thread for that time at most.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
    }

    /// As [`MultiLock::is_locked`](crate::MultiLock::is_locked), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn is_locked(&self) -> Result<bool> {
        wait(self.inner.is_locked())
    }

    /// As [`MultiLock::holder`](crate::MultiLock::holder), and blocks the thread.
    ///
    /// # Errors
    /// As [`is_locked`](Self::is_locked).
    pub fn holder(&self) -> Result<Option<Participant>> {
        wait(self.inner.holder())
    }

    /// As [`MultiLock::path_exists`](crate::MultiLock::path_exists), and blocks the thread.
    ///
    /// # Errors
    /// As [`is_locked`](Self::is_locked).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Whether each of the locks is held through its lock object. It does not block.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.inner.is_acquired_in_this_process()
    }

    /// The full paths of the locks in their order, namespaces included, separated by commas.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
