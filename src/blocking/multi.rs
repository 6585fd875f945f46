//! Several locks as one, for threads.

use std::sync::Arc;

use super::client::Client;
use crate::error::Result;
use crate::lock::InterProcessLock;

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

lock_twin!(MultiLock, "all locks");

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

    /// Returns the full paths of the locks in the order in which they are acquired, including the namespaces.
    pub fn paths(&self) -> Vec<&str> {
        self.inner.paths()
    }
}
