//! The lock that has no owner.

use super::inter_process_lock::inter_process_lock;
use super::methods::lock_methods;
use super::options::LockOptions;
use super::owner::Owner;
use super::semaphore::Semaphore;
use crate::client::Client;
use crate::error::Result;
use crate::lock::acquiring::acquirable::Acquirable;
use crate::lock::holding::guard::LockGuard;

/// A non-re-entrant lock that one holder at a time holds, among all processes that use the same path. An owner
/// that acquires it twice waits for itself.
///
/// It is a [`Semaphore`] with one permit. Fair: first come, first served. The place of a caller that gives up may go to
/// another caller of the same client. Compatible with Curator's `InterProcessSemaphoreMutex` on the same path, in both
/// directions. Where you do not need that, [`InterProcessMutex`](crate::InterProcessMutex) with an
/// [owner](crate::Owner) for each acquire does the same with half of the requests.
///
/// A semaphore and another kind of lock on one path, of different clients, are noticed only in part, because a semaphore
/// keeps its nodes one level below its path. An acquire fails with `KindConflict` if its client uses the path for the first
/// time and the other lock is held. A client that has used the path before does not look again, and two that come at the
/// same moment do not see each other: then both are granted.
///
/// # Requests
///
/// An acquire takes one round trip if the lock is available immediately and this client was the last one that acquired
/// it, otherwise two; a release is one delete. Curator needs five round trips and one.
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
/// Corresponds to Curator's `InterProcessSemaphoreMutex`.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct SemaphoreMutex {
    semaphore: Semaphore,
}

debug_by!(SemaphoreMutex, |it| path: it.path());
lock_methods!(SemaphoreMutex, semaphore);

impl SemaphoreMutex {
    /// Creates a lock at `path`, below the client's namespace. Makes no request. The first acquire creates the
    /// path and its parents as containers, which the server removes after they have been empty for a while.
    ///
    /// The path must not be used for anything else, nor by another kind of recipe.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): this client has a [`Semaphore`] at this path
    ///   with another number of permits.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { semaphore: Semaphore::new(client, path, 1)? })
    }

    /// Returns the lock object that this function shares among all callers for the path.
    pub(super) fn shared(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { semaphore: Semaphore::shared(client, path, 1)? })
    }

    /// Returns a handle to the same lock that acquires with these options.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): a time is zero, the node data is not allowed (see
    ///   [`LockOptions::node_data`]), or an option is set that only an
    ///   [`InterProcessMutex`](crate::InterProcessMutex) has: `linger`, `cohort`, `cohort_time`.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { semaphore: self.semaphore.with_options(options)? })
    }

    /// Returns a handle to the same lock object that acquires for this owner instead of the current task. The lock
    /// is not re-entrant: the owner shows in [`is_owned_by`](Self::is_owned_by), and counts with
    /// [`LockOptions::detect_deadlocks`].
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self { semaphore: self.semaphore.owned_by(owner) }
    }

    /// Acquires the lock, waiting until it is available.
    ///
    /// # Errors
    /// Same as [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    /// If cancelled, the place in the queue is given up, and neither a node nor a watch is left behind.
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.semaphore.acquire().await
    }
}

inter_process_lock!(SemaphoreMutex, |it| it.semaphore.client());
