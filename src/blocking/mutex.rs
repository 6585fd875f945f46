//! The mutual exclusion lock, for threads.

use super::client::Client;
use super::ticket::Ticket;
use super::wait::wait;
use crate::error::Result;

/// A lock that one thread at a time holds, among all processes that use the same path. The blocking twin of
/// [`InterProcessMutex`](crate::InterProcessMutex).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, InterProcessMutex};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let mutex = InterProcessMutex::new(&client, "/locks/orders")?;
/// let guard = mutex.acquire()?;
/// // The thread that holds it may enter again.
/// drop(mutex.acquire()?);
/// guard.release()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct InterProcessMutex {
    inner: crate::InterProcessMutex,
}

lock_twin!(InterProcessMutex, "the lock");

impl InterProcessMutex {
    /// Creates a lock at `path`. Does not block. See [`InterProcessMutex::new`](crate::InterProcessMutex::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::InterProcessMutex::new(&client.inner, path).map(Self::from)
    }

    /// Enters the queue, blocking the thread until that is done, and returns a [`Ticket`]. The blocking version of
    /// [`InterProcessMutex::enqueue`](crate::InterProcessMutex::enqueue).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub fn enqueue(&self) -> Result<Ticket> {
        wait(self.inner.enqueue()).map(Ticket::from)
    }

    /// Returns the full path of the lock, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
