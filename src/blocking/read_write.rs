//! The read/write lock and its two sides, for threads.

use super::client::Client;
use crate::error::Result;
use crate::lock::{LockOptions, Owner};

/// A lock that many readers or one writer hold, among all processes that use the same path. The blocking twin of
/// [`ReadWriteLock`](crate::ReadWriteLock).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, ReadWriteLock};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let catalogue = ReadWriteLock::new(&client, "/locks/catalogue")?;
/// let writing = catalogue.write().acquire()?;
/// // Change it, and then keep others from changing it again while we read.
/// let reading = catalogue.read().acquire()?;
/// writing.release()?;
/// reading.release()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadWriteLock {
    inner: crate::ReadWriteLock,
}

twin!(ReadWriteLock);

impl ReadWriteLock {
    /// Creates a lock at `path`. Does not block. See [`ReadWriteLock::new`](crate::ReadWriteLock::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::ReadWriteLock::new(&client.inner, path).map(Self::from)
    }

    /// Returns the lock for readers.
    pub fn read(&self) -> ReadLock {
        self.inner.read().clone().into()
    }

    /// Returns the lock for writers.
    pub fn write(&self) -> WriteLock {
        self.inner.write().clone().into()
    }

    /// Returns a handle to the same lock object that acquires both sides with these options.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the maximum hold time is zero, or the node
    ///   data is not allowed (see [`LockOptions::node_data`]).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// Returns a handle to the same lock object that acquires both sides for this owner instead of the current
    /// thread.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        self.inner.owned_by(owner).into()
    }

    /// Returns the full path of the lock, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}

/// The read side of a [`ReadWriteLock`](super::ReadWriteLock): many owners hold it at once.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadLock {
    inner: crate::ReadLock,
}

reentrant_twin!(ReadLock);

/// The write side of a [`ReadWriteLock`](super::ReadWriteLock): one owner holds it alone.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct WriteLock {
    inner: crate::WriteLock,
}

reentrant_twin!(WriteLock);
