//! The common interface of all locks.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use super::holding::guard::LockGuard;
use super::operating::participant::Participant;
use crate::error::Result;

/// The common interface of all locks, for code that accepts any of them.
///
/// The methods behave like those of the same name on the lock itself; see [`InterProcessMutex`](crate::InterProcessMutex) for their errors
/// and cancel safety. Corresponds to Curator's `InterProcessLock`.
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
pub trait InterProcessLock: Debug + Send + Sync {
    /// Acquires the lock, waiting until it is available.
    async fn acquire(&self) -> Result<LockGuard>;

    /// Acquires the lock if it is available immediately; returns `None` otherwise.
    async fn try_acquire(&self) -> Result<Option<LockGuard>>;

    /// Acquires the lock, waiting at most `within`. Returns `None` if that time elapsed in the queue.
    async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>>;

    /// Returns whether the lock is held, in any process. A lock whose path [does not exist](Self::path_exists) is
    /// not held.
    async fn is_locked(&self) -> Result<bool>;

    /// Returns the holder of the lock, in any process; of several, the first. `None` if the lock is free or its
    /// path [does not exist](Self::path_exists).
    async fn holder(&self) -> Result<Option<Participant>>;

    /// Returns whether the path exists, which tells a free lock from a mistyped path. The path of a free lock may
    /// not exist.
    async fn path_exists(&self) -> Result<bool>;

    /// Returns whether the lock is held through this object.
    fn is_acquired_in_this_process(&self) -> bool;

    /// Returns the full path of the lock, including the namespace.
    fn path(&self) -> &str;
}

/// Implements `InterProcessLock` for a lock by its methods of the same names.
macro_rules! inter_process_lock {
    ($lock:ident) => {
        #[async_trait::async_trait]
        impl crate::lock::InterProcessLock for $lock {
            async fn acquire(&self) -> crate::Result<crate::LockGuard> {
                self.acquire().await
            }

            async fn try_acquire(&self) -> crate::Result<Option<crate::LockGuard>> {
                self.try_acquire().await
            }

            async fn try_acquire_for(
                &self,
                within: std::time::Duration,
            ) -> crate::Result<Option<crate::LockGuard>> {
                self.try_acquire_for(within).await
            }

            async fn is_locked(&self) -> crate::Result<bool> {
                self.is_locked().await
            }

            async fn holder(&self) -> crate::Result<Option<crate::Participant>> {
                self.holder().await
            }

            async fn path_exists(&self) -> crate::Result<bool> {
                self.path_exists().await
            }

            fn is_acquired_in_this_process(&self) -> bool {
                self.is_acquired_in_this_process()
            }

            fn path(&self) -> &str {
                self.path()
            }
        }
    };
}

pub(crate) use inter_process_lock;
