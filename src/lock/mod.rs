//! What users hold, and how they come by it.

mod books;
mod guard;
mod hold;
mod mutex;
mod owner;
mod participant;
mod reentrant;
mod ticket;

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

pub use self::guard::LockGuard;
pub use self::mutex::InterProcessMutex;
pub use self::owner::Owner;
pub use self::participant::Participant;
pub use self::ticket::Ticket;
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

    /// Acquires the lock if nobody holds it or waits for it.
    async fn try_acquire(&self) -> Result<Option<LockGuard>>;

    /// Acquires the lock if that can be done within this time.
    async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>>;

    /// Whether somebody holds the lock through this object.
    fn is_acquired_in_this_process(&self) -> bool;

    /// The full path of the lock, namespace included.
    fn path(&self) -> &str;
}
