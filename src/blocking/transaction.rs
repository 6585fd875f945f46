//! Writes that are applied only while the lock is held, for threads.

use zookeeper_client::{CreateMode, MultiWriteResult};

use super::wait::wait;
use crate::error::Result;

/// A set of writes to ZooKeeper that are applied together, and only if the lock is still held at that moment. The
/// blocking twin of [`Transaction`](crate::Transaction).
///
/// ```no_run
/// # fn example(guard: zk_recipes::blocking::LockGuard) -> zk_recipes::Result<()> {
/// use zk_recipes::CreateMode;
///
/// let transaction = guard.transaction().set_data("/orders/last", b"4711", None);
/// transaction.create("/orders/4711", b"shipped", CreateMode::Persistent).commit()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction does nothing before `commit`"]
pub struct Transaction<'a> {
    inner: crate::Transaction<'a>,
}

debug_as_inner!(Transaction<'_>);

impl<'a> Transaction<'a> {
    pub(super) fn new(inner: crate::Transaction<'a>) -> Self {
        Self { inner }
    }

    /// Requires the data of a node to have this version. See [`Transaction::check`](crate::Transaction::check).
    pub fn check(self, path: &str, version: i32) -> Self {
        Self::new(self.inner.check(path, version))
    }

    /// Creates a node. See [`Transaction::create`](crate::Transaction::create).
    pub fn create(self, path: &str, data: impl Into<Vec<u8>>, mode: CreateMode) -> Self {
        Self::new(self.inner.create(path, data, mode))
    }

    /// Replaces the data of a node. See [`Transaction::set_data`](crate::Transaction::set_data).
    pub fn set_data(self, path: &str, data: impl Into<Vec<u8>>, version: impl Into<Option<i32>>) -> Self {
        Self::new(self.inner.set_data(path, data, version))
    }

    /// Deletes a node. See [`Transaction::delete`](crate::Transaction::delete).
    pub fn delete(self, path: &str, version: impl Into<Option<i32>>) -> Self {
        Self::new(self.inner.delete(path, version))
    }

    /// Applies all operations, or none. The blocking version of
    /// [`Transaction::commit`](crate::Transaction::commit).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn commit(self) -> Result<Vec<MultiWriteResult>> {
        wait(self.inner.commit())
    }
}
