//! A number that processes share, for threads.

use super::client::Client;
use super::wait::wait;
use crate::error::Result;

/// A number that all processes can read and change. The blocking twin of [`SharedCount`](crate::SharedCount).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::SharedCount;
///
/// let limit = SharedCount::new(&client, "/licences/limit", 10)?;
/// println!("{} licences", limit.get()?);
/// limit.set(12)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedCount {
    inner: crate::SharedCount,
}

impl SharedCount {
    /// Creates a shared count. Does not block. See [`SharedCount::new`](crate::SharedCount::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str, seed: i32) -> Result<Self> {
        crate::SharedCount::new(&client.inner, path, seed).map(Self::from)
    }

    /// Returns the number. The blocking version of [`SharedCount::get`](crate::SharedCount::get).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn get(&self) -> Result<i32> {
        wait(self.inner.get())
    }

    /// Sets the number. The blocking version of [`SharedCount::set`](crate::SharedCount::set).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn set(&self, count: i32) -> Result<()> {
        wait(self.inner.set(count))
    }

    /// Returns the full path of the node, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }

    /// Returns the async twin.
    pub fn as_async(&self) -> &crate::SharedCount {
        &self.inner
    }
}

impl From<crate::SharedCount> for SharedCount {
    fn from(inner: crate::SharedCount) -> Self {
        Self { inner }
    }
}

impl From<SharedCount> for crate::SharedCount {
    fn from(twin: SharedCount) -> Self {
        twin.inner
    }
}
