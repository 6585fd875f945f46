//! The mutual exclusion lock, for threads.

use super::client::Client;
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

reentrant_twin!(InterProcessMutex);

impl InterProcessMutex {
    /// Creates a lock at `path`. Does not block. See [`InterProcessMutex::new`](crate::InterProcessMutex::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::InterProcessMutex::new(&client.inner, path).map(Self::from)
    }
}
