//! Locks by key, for threads.

use std::fmt::Display;

use super::client::Client;
use super::mutex::InterProcessMutex;
use super::read_write::ReadWriteLock;
use super::semaphore::Semaphore;
use super::semaphore_mutex::SemaphoreMutex;
use crate::error::Result;

/// Locks by key: one for each order, user or file. Nothing here blocks. The blocking twin of
/// [`Locks`](crate::Locks).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, Locks};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let locks = Locks::new(&client, "/locks/orders")?;
/// let guard = locks.mutex("2024/4711")?.acquire()?;
/// guard.release()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "locks do nothing until they are acquired"]
pub struct Locks {
    inner: crate::Locks,
}

twin!(Locks);

impl Locks {
    /// Creates locks below the path `base`. See [`Locks::new`](crate::Locks::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, base: &str) -> Result<Self> {
        crate::Locks::new(&client.inner, base).map(Self::from)
    }

    /// Returns the [`InterProcessMutex`] of a key. See [`Locks::mutex`](crate::Locks::mutex).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn mutex(&self, key: impl Display) -> Result<InterProcessMutex> {
        self.inner.mutex(key).map(InterProcessMutex::from)
    }

    /// Returns the [`ReadWriteLock`] of a key. See [`Locks::read_write`](crate::Locks::read_write).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn read_write(&self, key: impl Display) -> Result<ReadWriteLock> {
        self.inner.read_write(key).map(ReadWriteLock::from)
    }

    /// Returns the [`SemaphoreMutex`] of a key. See [`Locks::semaphore_mutex`](crate::Locks::semaphore_mutex).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn semaphore_mutex(&self, key: impl Display) -> Result<SemaphoreMutex> {
        self.inner.semaphore_mutex(key).map(SemaphoreMutex::from)
    }

    /// Returns the [`Semaphore`] of a key. See [`Locks::semaphore`](crate::Locks::semaphore).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn semaphore(&self, key: impl Display, permits: u32) -> Result<Semaphore> {
        self.inner.semaphore(key, permits).map(Semaphore::from)
    }

    /// Returns the path of the locks of a key. See [`Locks::path_of`](crate::Locks::path_of).
    pub fn path_of(&self, key: impl Display) -> String {
        self.inner.path_of(key)
    }
}
