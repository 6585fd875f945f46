//! What users hold, and how they come by it.

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

/// What all locks have in common, for code that does not care which one it is given.
///
/// Curator's `InterProcessLock`. The methods do what those of the same name do on the lock itself; see
/// [`InterProcessMutex`] for their errors and cancel safety.
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
    /// Acquires the lock, waiting for as long as it takes.
    async fn acquire(&self) -> Result<LockGuard>;

    /// Acquires the lock if no other contender is to be waited for.
    async fn try_acquire(&self) -> Result<Option<LockGuard>>;

    /// Acquires the lock if that can be done within this time.
    async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>>;

    /// Whether anybody holds the lock, in whatever process. Nobody does if its path [does not exist](Self::path_exists).
    async fn is_locked(&self) -> Result<bool>;

    /// Who holds the lock, in whatever process; of several, the first. `None` also if its path
    /// [does not exist](Self::path_exists).
    async fn holder(&self) -> Result<Option<Participant>>;

    /// Whether its path exists, to tell a lock that is free from a path that is mistyped. A free lock may have none.
    async fn path_exists(&self) -> Result<bool>;

    /// Whether somebody holds the lock through this object.
    fn is_acquired_in_this_process(&self) -> bool;

    /// The full path of the lock, namespace included.
    fn path(&self) -> &str;
}
