//! The read/write lock, and its two sides.

use super::inter_process_lock::inter_process_lock;
use super::methods::reentrant_methods;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::Client;
use crate::error::Result;
use crate::lock::acquiring::acquirable::Acquirable;
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::holding::guard::LockGuard;
use crate::lock::holding::owners::Owners;
use crate::queue::{Kind, READ_WRITE};

/// A lock that many readers or one writer hold, among all processes that use the same path.
///
/// Fair: first come, first served. A reader waits for the nearest writer before it, a writer for the contender
/// directly before it. No one overtakes, so neither side starves. The place of a caller that gives up may go to another
/// caller of the same client, on the same side. Compatible with Curator's `InterProcessReadWriteLock` on the same path,
/// in both directions.
///
/// Re-entrant on both sides, per [`Owner`]. A writer may also read: acquire the read lock, then release the write
/// lock, and the owner has become a reader without a gap in which another writer could get in, not even one that
/// is already queued. A reader cannot become a writer: that fails immediately with
/// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock).
///
/// # Requests
///
/// Those of an [`InterProcessMutex`](crate::InterProcessMutex#requests): one round trip if the lock is available
/// immediately, and one delete for a release. Acquiring the read lock as a writer is one transaction. Curator needs two
/// round trips, and wakes all waiting readers for each writer.
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
/// Corresponds to Curator's `InterProcessReadWriteLock`; see also the shared locks of "ZooKeeper Recipes and
/// Solutions".
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadWriteLock {
    read: ReadLock,
    write: WriteLock,
}

debug_by!(ReadWriteLock, |it| path: it.path());

impl ReadWriteLock {
    /// Creates a lock at `path`, below the client's namespace. Makes no request. The first acquire creates the
    /// path and its parents as containers, which the server removes after they have been empty for a while.
    ///
    /// The path must not be used for anything else, nor by another kind of recipe.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Reentrant::new(client, path, &READ_WRITE, Owners::new, None).map(Self::of)
    }

    /// Returns the lock object that this function shares among all callers for the path.
    pub(super) fn shared(client: &Client, path: &str) -> Result<Self> {
        Reentrant::new(client, path, &READ_WRITE, Owners::shared, None).map(Self::of)
    }

    fn of(write: Reentrant) -> Self {
        Self { read: ReadLock { lock: write.side(Kind::Shared) }, write: WriteLock { lock: write } }
    }

    /// Returns the lock for readers.
    pub fn read(&self) -> &ReadLock {
        &self.read
    }

    /// Returns the lock for writers.
    pub fn write(&self) -> &WriteLock {
        &self.write
    }

    /// Returns a handle to the same lock object that acquires both sides with these options. To set the options of
    /// one side, see [`ReadLock::with_options`] and [`WriteLock::with_options`].
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): a time is zero, the node data is not allowed (see
    ///   [`LockOptions::node_data`]), or an option is set that only an
    ///   [`InterProcessMutex`](crate::InterProcessMutex) has: `linger`, `cohort`, `cohort_time`.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { read: self.read.with_options(options.clone())?, write: self.write.with_options(options)? })
    }

    /// Returns a handle to the same lock object that acquires both sides for this owner instead of the current task.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self { read: self.read.owned_by(owner), write: self.write.owned_by(owner) }
    }

    /// Returns the full path of the lock, including the namespace.
    pub fn path(&self) -> &str {
        self.write.path()
    }
}

/// The read side of a [`ReadWriteLock`](crate::ReadWriteLock): many owners hold it at once.
///
/// This is a handle that can be cloned; clones are the same lock object.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct ReadLock {
    lock: Reentrant,
}

debug_by!(ReadLock, |it| path: it.path());
reentrant_methods!(ReadLock);

impl ReadLock {
    /// Returns a handle to the same lock object that acquires with these options. See
    /// [`InterProcessMutex::with_options`](crate::InterProcessMutex::with_options).
    ///
    /// # Errors
    /// Same as [`ReadWriteLock::with_options`](crate::ReadWriteLock::with_options).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { lock: self.lock.with_options(options)? })
    }

    /// Acquires the lock, waiting until no writer holds it or is ahead in the queue.
    ///
    /// An owner that holds the [`WriteLock`](crate::WriteLock) gets this one immediately. When it then releases the
    /// write lock, it continues as a reader, without a gap for another writer.
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancel safety
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.lock.acquire().await
    }
}

inter_process_lock!(ReadLock, |it| it.lock.client());

/// The write side of a [`ReadWriteLock`](crate::ReadWriteLock): one owner holds it alone.
///
/// This is a handle that can be cloned; clones are the same lock object.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct WriteLock {
    lock: Reentrant,
}

debug_by!(WriteLock, |it| path: it.path());
reentrant_methods!(WriteLock);

impl WriteLock {
    /// Returns a handle to the same lock object that acquires with these options. See
    /// [`InterProcessMutex::with_options`](crate::InterProcessMutex::with_options).
    ///
    /// # Errors
    /// Same as [`ReadWriteLock::with_options`](crate::ReadWriteLock::with_options).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { lock: self.lock.with_options(options)? })
    }

    /// Acquires the lock, waiting until it is available.
    ///
    /// An owner that holds the [`ReadLock`](crate::ReadLock) cannot acquire this one: release the read lock first.
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire);
    /// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) also if the owner holds the read lock.
    ///
    /// # Cancel safety
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.lock.acquire().await
    }
}

inter_process_lock!(WriteLock, |it| it.lock.client());
