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

/// Makes a lock an [`InterProcessLock`] by its own methods of the same names.
macro_rules! inter_process_lock {
    ($name:ident, |$it:ident| $client:expr) => {
        $crate::lock::inter_process_lock::inter_process_lock!(
            $name,
            |$it| $client,
            vec![$it.path()],
            vec![$client.absolute_path($it.path())]
        );
    };
    ($name:ident, |$it:ident| $client:expr, $paths:expr, $absolute_paths:expr) => {
        impl $crate::lock::inter_process_lock::Sealed for $name {
            fn first_client(&self) -> &$crate::Client {
                let $it = self;
                $client
            }

            fn absolute_paths(&self) -> Vec<String> {
                let $it = self;
                $absolute_paths
            }
        }

        #[async_trait::async_trait]
        impl $crate::InterProcessLock for $name {
            async fn acquire(&self) -> $crate::Result<$crate::LockGuard> {
                self.acquire().await
            }

            async fn try_acquire(&self) -> $crate::Result<Option<$crate::LockGuard>> {
                self.try_acquire().await
            }

            async fn try_acquire_for(
                &self,
                within: std::time::Duration,
            ) -> $crate::Result<Option<$crate::LockGuard>> {
                self.try_acquire_for(within).await
            }

            fn owned_by(&self, owner: &$crate::Owner) -> std::sync::Arc<dyn $crate::InterProcessLock> {
                std::sync::Arc::new(self.owned_by(owner))
            }

            fn with_options(
                &self,
                options: $crate::LockOptions,
            ) -> $crate::Result<std::sync::Arc<dyn $crate::InterProcessLock>> {
                Ok(std::sync::Arc::new(self.with_options(options)?))
            }

            async fn participants(&self) -> $crate::Result<Vec<$crate::Participant>> {
                self.participants().await
            }

            async fn holder(&self) -> $crate::Result<Option<$crate::Participant>> {
                self.holder().await
            }

            async fn is_locked(&self) -> $crate::Result<bool> {
                self.is_locked().await
            }

            async fn path_exists(&self) -> $crate::Result<bool> {
                self.path_exists().await
            }

            fn is_acquired_in_this_process(&self) -> bool {
                self.is_acquired_in_this_process()
            }

            fn is_owned_by(&self, owner: &$crate::Owner) -> bool {
                self.is_owned_by(owner)
            }

            fn paths(&self) -> Vec<&str> {
                let $it = self;
                $paths
            }
        }
    };
}

pub(super) use inter_process_lock;

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
    fn first_client(&self) -> &Client;

    /// The paths as they are to every client, whatever its chroot.
    fn absolute_paths(&self) -> Vec<String>;
}
