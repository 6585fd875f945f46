//! The lock that has no owner, for threads.

use super::client::Client;
use crate::error::Result;

/// A non-re-entrant lock that one holder at a time holds, among all processes that use the same path. A thread
/// that acquires it twice waits for itself. The blocking twin of [`SemaphoreMutex`](crate::SemaphoreMutex).
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct SemaphoreMutex {
    inner: crate::SemaphoreMutex,
}

lock_twin!(SemaphoreMutex, "the lock");

impl SemaphoreMutex {
    /// Creates a lock at `path`. Does not block. See [`SemaphoreMutex::new`](crate::SemaphoreMutex::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::SemaphoreMutex::new(&client.inner, path).map(Self::from)
    }

    /// Returns the full path of the lock, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
