//! Numbers that a process draws in blocks, for threads.

use super::long::DistributedAtomicLong;
use crate::blocking::wait::wait;
use crate::error::Result;

/// Hands out numbers that no other process gets. The blocking twin of
/// [`CachedAtomicLong`](crate::atomic::CachedAtomicLong).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::atomic::{CachedAtomicLong, DistributedAtomicLong};
///
/// let ids = CachedAtomicLong::new(&DistributedAtomicLong::new(&client, "/ids/orders")?, 1000)?;
/// println!("order {}", ids.next()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it does nothing by itself"]
pub struct CachedAtomicLong {
    inner: crate::atomic::CachedAtomicLong,
}

twin!(CachedAtomicLong of crate::atomic);

impl CachedAtomicLong {
    /// Creates a source of numbers. Does not block. See [`CachedAtomicLong::new`](crate::atomic::CachedAtomicLong::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(number: &DistributedAtomicLong, block_size: u32) -> Result<Self> {
        crate::atomic::CachedAtomicLong::new(&number.inner, block_size).map(Self::from)
    }

    /// Returns the next number. The blocking version of [`CachedAtomicLong::next`](crate::atomic::CachedAtomicLong::next).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn next(&self) -> Result<i64> {
        wait(self.inner.next())
    }

    /// Returns the full path of the node, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
