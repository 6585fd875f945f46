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

/// A lock that many readers or one writer hold, among all processes that use the same path. See
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

/// The side of a [`ReadWriteLock`] that many hold at once.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadLock {
    inner: crate::ReadLock,
}

/// The side of a [`ReadWriteLock`] that one holds alone.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct WriteLock {
    inner: crate::WriteLock,
}

twin!(ReadWriteLock);

impl ReadWriteLock {
    /// As [`ReadWriteLock::new`](crate::ReadWriteLock::new).
    ///
    /// # Errors
    /// As there.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::ReadWriteLock::new(&client.inner, path).map(Self::from)
    }

    /// The lock for readers.
    pub fn read(&self) -> ReadLock {
        self.inner.read().clone().into()
    }

    /// The lock for writers.
    pub fn write(&self) -> WriteLock {
        self.inner.write().clone().into()
    }

    /// The same lock object, with these options on both sides.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument): a maximum hold time of zero.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// The full path of the lock, namespace included.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}

reentrant_lock!(ReadLock);
reentrant_lock!(WriteLock);
