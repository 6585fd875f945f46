//! The common interface of all locks.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::acquiring::acquirable::Acquirable;
use super::acquiring::reentrant::Reentrant;
use super::holding::guard::LockGuard;
use super::multi::MultiLock;
use super::operating::participant::Participant;
use super::options::LockOptions;
use super::owner::Owner;
use super::semaphore::Semaphore;
use crate::client::Client;
use crate::error::Result;

/// Does something with a lock by what it is made of.
macro_rules! of_any {
    ($self:ident, $lock:ident => $do:expr) => {
        match $self.made_of().0 {
            Made::Reentrant($lock) => $do,
            Made::Semaphore($lock) => $do,
            Made::Multi($lock) => $do,
        }
    };
}

/// Makes a lock an [`InterProcessLock`], by what it is made of.
macro_rules! inter_process_lock {
    ($name:ident, |$it:ident| $made:expr) => {
        impl Sealed for $name {
            fn made_of(&self) -> MadeOf<'_> {
                let $it = self;
                MadeOf($made)
            }
        }

        impl InterProcessLock for $name {
            fn owned_by(&self, owner: &Owner) -> Arc<dyn InterProcessLock> {
                Arc::new(self.owned_by(owner))
            }

            fn with_options(&self, options: LockOptions) -> Result<Arc<dyn InterProcessLock>> {
                Ok(Arc::new(self.with_options(options)?))
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
    async fn acquire(&self) -> Result<LockGuard> {
        of_any!(self, lock => lock.acquire().await)
    }

    /// Acquires the lock if it is available immediately; returns `None` otherwise.
    async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        of_any!(self, lock => lock.try_acquire().await)
    }

    /// Acquires the lock, waiting at most `within`. Returns `None` if that time elapsed in the queue.
    async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        of_any!(self, lock => lock.try_acquire_for(within).await)
    }

    /// Returns a handle to the same lock object that acquires for this owner instead of the current task.
    fn owned_by(&self, owner: &Owner) -> Arc<dyn InterProcessLock>;

    /// Returns a handle to the same lock object that acquires with these options.
    fn with_options(&self, options: LockOptions) -> Result<Arc<dyn InterProcessLock>>;

    /// Returns the holders and all waiters in queue order, the holders first.
    async fn participants(&self) -> Result<Vec<Participant>> {
        of_any!(self, lock => lock.participants().await)
    }

    /// Returns the holder of the lock, in any process; of several, the first. `None` if the lock is free or its
    /// path [does not exist](Self::path_exists).
    async fn holder(&self) -> Result<Option<Participant>> {
        of_any!(self, lock => lock.holder().await)
    }

    /// Returns whether the lock is held, in any process. A lock whose path [does not exist](Self::path_exists) is
    /// not held.
    async fn is_locked(&self) -> Result<bool> {
        of_any!(self, lock => lock.is_locked().await)
    }

    /// Returns whether the path exists, which tells a free lock from a mistyped path. The path of a free lock may
    /// not exist.
    async fn path_exists(&self) -> Result<bool> {
        of_any!(self, lock => lock.path_exists().await)
    }

    /// Returns whether the lock is held through this object.
    fn is_acquired_in_this_process(&self) -> bool {
        of_any!(self, lock => lock.is_acquired_in_this_process())
    }

    /// Returns whether this owner holds the lock through this object.
    fn is_owned_by(&self, owner: &Owner) -> bool {
        of_any!(self, lock => lock.is_owned_by(owner))
    }

    /// Returns the full path of the lock, including the namespace; of a multi-lock, the paths of its members in
    /// order.
    fn paths(&self) -> Vec<&str> {
        match self.made_of().0 {
            Made::Reentrant(lock) => vec![lock.path()],
            Made::Semaphore(lock) => vec![lock.path()],
            Made::Multi(lock) => lock.paths(),
        }
    }
}

/// Keeps other crates from implementing [`InterProcessLock`], so that it can grow.
pub trait Sealed {
    fn made_of(&self) -> MadeOf<'_>;
}

/// What a lock is made of, by which it does what it has in common with the others.
#[derive(Debug)]
pub struct MadeOf<'a>(pub(super) Made<'a>);

#[derive(Debug)]
pub(super) enum Made<'a> {
    /// A mutex, or one side of a read/write lock.
    Reentrant(&'a Reentrant),
    Semaphore(&'a Semaphore),
    Multi(&'a MultiLock),
}

impl dyn InterProcessLock + '_ {
    /// The client of the lock; of a multi-lock, that of its first lock.
    pub(super) fn client(&self) -> &Client {
        match self.made_of().0 {
            Made::Reentrant(lock) => lock.client(),
            Made::Semaphore(lock) => lock.client(),
            Made::Multi(lock) => lock.members()[0].client(),
        }
    }

    /// The paths as they are to every client, whatever its chroot.
    pub(super) fn absolute_paths(&self) -> Vec<String> {
        match self.made_of().0 {
            Made::Reentrant(lock) => vec![lock.client().absolute_path(lock.path())],
            Made::Semaphore(lock) => vec![lock.client().absolute_path(lock.path())],
            Made::Multi(lock) => lock.members().iter().flat_map(|lock| lock.absolute_paths()).collect(),
        }
    }
}
