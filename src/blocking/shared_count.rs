//! A number that processes share, for threads.

use super::client::Client;
use super::twin::twin;
use super::wait::wait;
use crate::error::Result;

/// A number that all processes read and may change. See [`SharedCount`](crate::SharedCount).
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

twin!(SharedCount);

impl SharedCount {
    /// As [`SharedCount::new`](crate::SharedCount::new).
    ///
    /// # Errors
    /// As there.
    pub fn new(client: &Client, path: &str, seed: i32) -> Result<Self> {
        crate::SharedCount::new(&client.inner, path, seed).map(Self::from)
    }

    /// As [`SharedCount::get`](crate::SharedCount::get), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn get(&self) -> Result<i32> {
        wait(self.inner.get())
    }

    /// As [`SharedCount::set`](crate::SharedCount::set), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn set(&self, count: i32) -> Result<()> {
        wait(self.inner.set(count))
    }

    /// The full path of the node, namespace included.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
