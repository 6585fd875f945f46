//! The locks, and the guards by which they are held.

mod acquiring;
mod deadline;
mod holding;
mod locks;
mod methods;
mod multi;
mod mutex;
mod node_name;
mod operating;
mod options;
mod owner;
mod read_write;
mod semaphore;
mod semaphore_mutex;

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

pub(crate) use self::acquiring::attempt::{Contending, Entry, granted};
pub(crate) use self::acquiring::reentrant::Reentrant;
pub use self::acquiring::ticket::Ticket;
pub use self::holding::guard::LockGuard;
pub use self::holding::state::{LockState, SuspectPolicy};
pub use self::holding::transaction::Transaction;
pub use self::locks::Locks;
pub use self::multi::MultiLock;
pub use self::mutex::InterProcessMutex;
pub(crate) use self::operating::participant;
pub use self::operating::participant::Participant;
pub use self::operating::revoke::{Revoker, force_release, force_release_participant};
pub(crate) use self::operating::revoke::{election_of_latch, request_to_latch};
pub use self::options::LockOptions;
pub use self::owner::Owner;
pub use self::read_write::{ReadLock, ReadWriteLock, WriteLock};
pub use self::semaphore::Semaphore;
pub use self::semaphore_mutex::SemaphoreMutex;
use crate::error::Result;

/// The common interface of all locks, for code that accepts any of them.
///
/// The methods behave like those of the same name on the lock itself; see [`InterProcessMutex`] for their errors
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
