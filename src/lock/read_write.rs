//! The read/write lock.

use std::time::Duration;

use super::methods::reentrant_lock;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::Client;
use crate::error::Result;
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::acquiring::ticket::Ticket;
use crate::lock::holding::guard::LockGuard;
use crate::lock::operating::participant::Participant;
use crate::queue::{Kind, READ_WRITE};

/// A lock that many readers or one writer hold, among all processes that use the same path.
///
/// Fair: first come, first served. A reader waits for the nearest writer before it, a writer for the contender
/// right before it; nobody overtakes, so that neither side starves. Compatible with Curator's
/// `InterProcessReadWriteLock` on the same path, in both directions.
///
/// Re-entrant on both sides, per [`Owner`]. An owner that writes may also read: acquire the read lock, then
/// release the write lock, and it has become a reader without a moment for other writers in between, those
/// that queue already included. An owner that reads cannot become a writer: that is
/// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock), at once.
///
/// On the wire, an acquire is a create and a list sent back to back, so one round trip if nobody is to be waited
/// for; a release is a delete; a re-entrant acquire is nothing; to read as a writer is one transaction. Curator
/// needs two round trips, and wakes all waiting readers for each writer.
///
/// ```no_run
/// use zk_recipes::{Client, ReadWriteLock};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let catalogue = ReadWriteLock::new(&client, "/locks/catalogue")?;
///
/// let writing = catalogue.write().acquire().await?;
/// // Change it, and then keep others from changing it again while we read.
/// let reading = catalogue.read().acquire().await?;
/// writing.release().await?;
/// reading.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Sources: Curator's `InterProcessReadWriteLock`; the shared locks of "ZooKeeper Recipes and Solutions".
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadWriteLock {
    read: ReadLock,
    write: WriteLock,
}

/// The side of a [`ReadWriteLock`] that many hold at once.
///
/// A handle that can be cloned; clones are the same lock object.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadLock {
    lock: Reentrant,
}

/// The side of a [`ReadWriteLock`] that one holds alone.
///
/// A handle that can be cloned; clones are the same lock object.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct WriteLock {
    lock: Reentrant,
}

impl ReadWriteLock {
    /// A lock at `path`, below the client's namespace. Nothing is sent. The path and its parents are made by
    /// the first acquire, as containers: the server removes them when they have been empty for a while.
    ///
    /// The path must be used for nothing else, and by no other kind of recipe.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath).
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Reentrant::new(client, path, &READ_WRITE, Kind::Exclusive).map(Self::of)
    }

    /// The same lock object as all that this gives for the path.
    pub(super) fn shared(client: &Client, path: &str) -> Result<Self> {
        Reentrant::shared(client, path, &READ_WRITE, Kind::Exclusive).map(Self::of)
    }

    fn of(write: Reentrant) -> Self {
        Self { read: ReadLock { lock: write.side(Kind::Shared) }, write: WriteLock { lock: write } }
    }

    /// The lock for readers.
    pub fn read(&self) -> &ReadLock {
        &self.read
    }

    /// The lock for writers.
    pub fn write(&self) -> &WriteLock {
        &self.write
    }

    /// The same lock object, with these options on both sides. See
    /// [`ReadLock::with_options`] and [`WriteLock::with_options`] for those of one side.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument): a maximum hold time of zero.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { read: self.read.with_options(options.clone())?, write: self.write.with_options(options)? })
    }

    /// The full path of the lock, namespace included.
    pub fn path(&self) -> &str {
        self.write.path()
    }
}

reentrant_lock!(ReadLock);
reentrant_lock!(WriteLock);
