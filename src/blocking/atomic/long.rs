//! A number that processes change together, for threads.

use crate::atomic::AtomicOptions;
use crate::blocking::client::Client;
use crate::blocking::wait::wait;
use crate::error::Result;

/// A number that all processes can change. The blocking twin of
/// [`DistributedAtomicLong`](crate::atomic::DistributedAtomicLong): increments of several threads are written together.
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::atomic::DistributedAtomicLong;
///
/// let orders = DistributedAtomicLong::new(&client, "/counters/orders")?;
/// println!("order {}", orders.increment()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it does nothing by itself"]
pub struct DistributedAtomicLong {
    pub(super) inner: crate::atomic::DistributedAtomicLong,
}

twin!(DistributedAtomicLong of crate::atomic);

impl DistributedAtomicLong {
    /// Creates a handle. Does not block. See [`DistributedAtomicLong::new`](crate::atomic::DistributedAtomicLong::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::atomic::DistributedAtomicLong::new(&client.inner, path).map(Self::from)
    }

    /// Returns a handle with these options. See [`DistributedAtomicLong::with_options`](crate::atomic::DistributedAtomicLong::with_options).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn with_options(&self, options: AtomicOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// Returns the number. The blocking version of [`DistributedAtomicLong::get`](crate::atomic::DistributedAtomicLong::get).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn get(&self) -> Result<i64> {
        wait(self.inner.get())
    }

    /// Adds, and returns the number before. The blocking version of [`DistributedAtomicLong::fetch_add`](crate::atomic::DistributedAtomicLong::fetch_add).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn fetch_add(&self, delta: i64) -> Result<i64> {
        wait(self.inner.fetch_add(delta))
    }

    /// Adds, and returns the number after. The blocking version of [`DistributedAtomicLong::add`](crate::atomic::DistributedAtomicLong::add).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn add(&self, delta: i64) -> Result<i64> {
        wait(self.inner.add(delta))
    }

    /// Adds one, and returns the number after. The blocking version of [`DistributedAtomicLong::increment`](crate::atomic::DistributedAtomicLong::increment).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn increment(&self) -> Result<i64> {
        wait(self.inner.increment())
    }

    /// Subtracts one, and returns the number after. The blocking version of [`DistributedAtomicLong::decrement`](crate::atomic::DistributedAtomicLong::decrement).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn decrement(&self) -> Result<i64> {
        wait(self.inner.decrement())
    }

    /// Sets the number, and returns the one before. The blocking version of [`DistributedAtomicLong::swap`](crate::atomic::DistributedAtomicLong::swap).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn swap(&self, new: i64) -> Result<i64> {
        wait(self.inner.swap(new))
    }

    /// Sets the number if it is `current`. The blocking version of [`DistributedAtomicLong::compare_exchange`](crate::atomic::DistributedAtomicLong::compare_exchange).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn compare_exchange(&self, current: i64, new: i64) -> Result<Result<i64, i64>> {
        wait(self.inner.compare_exchange(current, new))
    }

    /// Sets the number to what `new` makes of it. The blocking version of [`DistributedAtomicLong::fetch_update`](crate::atomic::DistributedAtomicLong::fetch_update).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn fetch_update(&self, new: impl FnMut(i64) -> Option<i64>) -> Result<Result<i64, i64>> {
        wait(self.inner.fetch_update(new))
    }

    /// Creates the node if it does not exist. The blocking version of [`DistributedAtomicLong::initialize`](crate::atomic::DistributedAtomicLong::initialize).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn initialize(&self, number: i64) -> Result<bool> {
        wait(self.inner.initialize(number))
    }

    /// Sets the number, whatever the node holds. The blocking version of [`DistributedAtomicLong::force_set`](crate::atomic::DistributedAtomicLong::force_set).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn force_set(&self, number: i64) -> Result<()> {
        wait(self.inner.force_set(number))
    }

    /// Returns the full path of the node, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
