//! The read/write lock, for threads.

use std::time::Duration;

use super::client::Client;
use super::guard::LockGuard;
use super::methods::reentrant_lock;
use super::ticket::Ticket;
use super::twin::twin;
use super::wait::wait;
use crate::error::Result;
use crate::lock::{LockOptions, Owner, Participant};

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
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadWriteLock {
    inner: crate::ReadWriteLock,
}

/// The read side of a [`ReadWriteLock`]: many owners hold it at once.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadLock {
    inner: crate::ReadLock,
}

/// The write side of a [`ReadWriteLock`]: one owner holds it alone.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct WriteLock {
    inner: crate::WriteLock,
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

    /// Returns the full path of the lock, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}

reentrant_lock!(ReadLock);
reentrant_lock!(WriteLock);
