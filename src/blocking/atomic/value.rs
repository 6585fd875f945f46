//! Bytes that processes change together, for threads.

use crate::atomic::{AtomicOptions, CompareExchange};
use crate::blocking::client::Client;
use crate::blocking::wait::wait;
use crate::error::Result;

/// Bytes that all processes can change. The blocking twin of
/// [`DistributedAtomicValue`](crate::atomic::DistributedAtomicValue).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::atomic::DistributedAtomicValue;
///
/// let owner = DistributedAtomicValue::new(&client, "/shards/7/owner")?;
/// let is_ours = owner.compare_exchange(None, "host-a")?.is_ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it does nothing by itself"]
pub struct DistributedAtomicValue {
    inner: crate::atomic::DistributedAtomicValue,
}

twin!(DistributedAtomicValue of crate::atomic);

impl DistributedAtomicValue {
    /// Creates a handle. Does not block. See [`DistributedAtomicValue::new`](crate::atomic::DistributedAtomicValue::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::atomic::DistributedAtomicValue::new(&client.inner, path).map(Self::from)
    }

    /// Returns a handle with these options. See [`DistributedAtomicValue::with_options`](crate::atomic::DistributedAtomicValue::with_options).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn with_options(&self, options: AtomicOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// Returns the value. The blocking version of [`DistributedAtomicValue::get`](crate::atomic::DistributedAtomicValue::get).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn get(&self) -> Result<Option<Vec<u8>>> {
        wait(self.inner.get())
    }

    /// Sets the value if it is `current`. The blocking version of [`DistributedAtomicValue::compare_exchange`](crate::atomic::DistributedAtomicValue::compare_exchange).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn compare_exchange(&self, current: Option<&[u8]>, new: impl AsRef<[u8]>) -> Result<CompareExchange> {
        wait(self.inner.compare_exchange(current, new))
    }

    /// Sets the value, and returns the one before. The blocking version of [`DistributedAtomicValue::swap`](crate::atomic::DistributedAtomicValue::swap).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn swap(&self, new: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        wait(self.inner.swap(new))
    }

    /// Sets the value to what `new` makes of it. The blocking version of [`DistributedAtomicValue::fetch_update`](crate::atomic::DistributedAtomicValue::fetch_update).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn fetch_update(&self, new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<CompareExchange> {
        wait(self.inner.fetch_update(new))
    }

    /// Creates the node if it does not exist. The blocking version of [`DistributedAtomicValue::initialize`](crate::atomic::DistributedAtomicValue::initialize).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn initialize(&self, value: impl AsRef<[u8]>) -> Result<bool> {
        wait(self.inner.initialize(value))
    }

    /// Sets the value, whatever the node holds. The blocking version of [`DistributedAtomicValue::force_set`](crate::atomic::DistributedAtomicValue::force_set).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn force_set(&self, value: impl AsRef<[u8]>) -> Result<()> {
        wait(self.inner.force_set(value))
    }

    /// Returns the full path of the node, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
