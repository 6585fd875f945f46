//! The lock that knows no owner.

use std::time::Duration;

use super::methods::inter_process_lock;
use super::options::LockOptions;
use super::semaphore::Semaphore;
use crate::client::Client;
use crate::error::Result;
use crate::lock::holding::guard::LockGuard;
use crate::lock::operating::participant::Participant;

/// A lock that one at a time holds, among all processes that use the same path, and that is not re-entrant:
/// an owner that acquires it twice waits for itself.
///
/// It is a [`Semaphore`] with one permit. Fair: first come, first served. Compatible with Curator's
/// `InterProcessSemaphoreMutex` on the same path, in both directions. Where that is not needed,
/// [`InterProcessMutex`](crate::InterProcessMutex) with an [owner](crate::Owner) for each acquire does the same
/// for half the requests.
///
/// On the wire, an acquire is two round trips if nobody is to be waited for, and a release a delete. Curator
/// needs five and one.
///
/// ```no_run
/// use zk_recipes::{Client, SemaphoreMutex};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let mutex = SemaphoreMutex::new(&client, "/locks/printer")?;
/// let guard = mutex.acquire().await?;
/// // Any task may release it.
/// tokio::spawn(guard.release());
/// # Ok(())
/// # }
/// ```
///
/// Source: Curator's `InterProcessSemaphoreMutex`.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct SemaphoreMutex {
    semaphore: Semaphore,
}

impl SemaphoreMutex {
    /// A lock at `path`, below the client's namespace. Nothing is sent. The path and its parents are made by
    /// the first acquire, as containers: the server removes them when they have been empty for a while.
    ///
    /// The path must be used for nothing else, and by no other kind of recipe.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath); [`Error::InvalidArgument`](crate::Error::InvalidArgument):
    /// this client has a [`Semaphore`] with another number of permits there.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { semaphore: Semaphore::new(client, path, 1)? })
    }

    /// The same lock object as all that this gives for the path.
    pub(super) fn shared(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { semaphore: Semaphore::shared(client, path, 1)? })
    }

    /// The same lock, whose acquires have these options.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument): a maximum hold time of zero.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { semaphore: self.semaphore.with_options(options)? })
    }

    /// Acquires the lock, waiting for as long as it takes.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    /// The place in the queue is lost, and nothing stays behind: no node and no watch.
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.semaphore.acquire().await
    }

    /// Acquires the lock if nobody is to be waited for; `None` otherwise.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.semaphore.try_acquire().await
    }

    /// Acquires the lock if that can be done within this time; `None` otherwise. As
    /// [`Semaphore::try_acquire_for`].
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_for`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        self.semaphore.try_acquire_for(within).await
    }

    /// The holder of the lock, and then everybody who waits for it, in order. As [`Semaphore::participants`].
    ///
    /// # Errors
    /// As [`Semaphore::participants`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.semaphore.participants().await
    }

    /// Whether anybody holds the lock, in whatever process. Nobody does if its path does not exist, which is no error: see
    /// [`path_exists`](Self::path_exists).
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn is_locked(&self) -> Result<bool> {
        self.semaphore.is_locked().await
    }

    /// Who holds the lock, in whatever process. `None` also if its path [does not exist](Self::path_exists).
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn holder(&self) -> Result<Option<Participant>> {
        self.semaphore.holder().await
    }

    /// Whether the path exists, to tell a lock that is free from a path that is mistyped. As [`Semaphore::path_exists`].
    ///
    /// # Errors
    /// As [`Semaphore::path_exists`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn path_exists(&self) -> Result<bool> {
        self.semaphore.path_exists().await
    }

    /// Whether somebody holds the lock through this object. No request is made: a lock that was lost counts
    /// until its guard is gone.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.semaphore.is_acquired_in_this_process()
    }

    /// The full path of the lock, namespace included.
    pub fn path(&self) -> &str {
        self.semaphore.path()
    }
}

inter_process_lock!(SemaphoreMutex);
