//! The common interface of all locks.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::holding::guard::LockGuard;
use super::operating::participant::Participant;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::Client;
use crate::error::Result;

/// The common interface of all locks, for code that accepts any of them.
///
/// The methods behave like those of the same name on the lock itself; see
/// [`InterProcessMutex`](crate::InterProcessMutex) for their errors and cancel safety. Only the locks of this crate
/// implement it. Corresponds to Curator's `InterProcessLock`.
///
/// ```no_run
/// use std::sync::Arc;
/// use zk_recipes::{InterProcessLock, InterProcessMutex};
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let lock: Arc<dyn InterProcessLock> = Arc::new(InterProcessMutex::new(&client, "/locks/orders")?);
/// let guard = lock.acquire().await?;
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait InterProcessLock: Sealed + Debug + Send + Sync {
    /// Acquires the lock, waiting until it is available.
    async fn acquire(&self) -> Result<LockGuard>;

    /// Acquires the lock if it is available immediately; returns `None` otherwise.
    async fn try_acquire(&self) -> Result<Option<LockGuard>>;

    /// Acquires the lock, waiting at most `within`. Returns `None` if that time elapsed in the queue.
    async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>>;

    /// Returns a handle to the same lock object that acquires for this owner instead of the current task.
    fn owned_by(&self, owner: &Owner) -> Arc<dyn InterProcessLock>;

    /// Returns a handle to the same lock object that acquires with these options.
    fn with_options(&self, options: LockOptions) -> Result<Arc<dyn InterProcessLock>>;

    /// Returns the holders and all waiters in queue order, the holders first.
    async fn participants(&self) -> Result<Vec<Participant>>;

    /// Returns the holder of the lock, in any process; of several, the first. `None` if the lock is free or its
    /// path [does not exist](Self::path_exists).
    async fn holder(&self) -> Result<Option<Participant>>;

    /// Returns whether the lock is held, in any process. A lock whose path [does not exist](Self::path_exists) is
    /// not held.
    async fn is_locked(&self) -> Result<bool>;

    /// Returns whether the path exists, which tells a free lock from a mistyped path. The path of a free lock may
    /// not exist.
    async fn path_exists(&self) -> Result<bool>;

    /// Returns whether the lock is held through this object.
    fn is_acquired_in_this_process(&self) -> bool;

    /// Returns whether this owner holds the lock through this object.
    fn is_owned_by(&self, owner: &Owner) -> bool;

    /// Returns the full path of the lock, including the namespace; of a multi-lock, the paths of its members in
    /// order.
    fn paths(&self) -> Vec<&str>;
}

/// Keeps other crates from implementing [`InterProcessLock`], so that it can grow.
pub trait Sealed {
    /// The client of the lock; of a multi-lock, that of its first lock.
    fn client(&self) -> &Client;

    /// The paths as they are to every client, whatever its chroot.
    fn absolute_paths(&self) -> Vec<String>;
}
