//! A number that processes share, for threads.

use std::time::Duration;

use crate::blocking::client::Client;
use crate::blocking::wait::wait;
use crate::error::Result;
use crate::shared::{CompareAndSet, SharedState, Versioned};
use crate::watch::Watch;

/// A number that all processes can read, change and watch. The blocking twin of
/// [`SharedCount`](crate::shared::SharedCount).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::shared::SharedCount;
///
/// let limit = SharedCount::new(&client, "/licences/limit", 10)?;
/// println!("{} licences", limit.get()?);
/// limit.set(12)
/// # }
/// ```
#[derive(Clone)]
pub struct SharedCount {
    inner: crate::shared::SharedCount,
}

twin!(SharedCount of crate::shared);

impl SharedCount {
    /// Creates a shared count. Does not block. See [`SharedCount::new`](crate::shared::SharedCount::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str, seed: i32) -> Result<Self> {
        crate::shared::SharedCount::new(&client.inner, path, seed).map(Self::from)
    }

    /// Returns a handle whose [`update`](Self::update) tries for this long. See
    /// [`SharedCount::with_timeout`](crate::shared::SharedCount::with_timeout).
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { inner: self.inner.with_timeout(timeout) }
    }

    /// Returns the number. The blocking version of [`SharedCount::get`](crate::shared::SharedCount::get).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn get(&self) -> Result<i32> {
        wait(self.inner.get())
    }

    /// Returns it with its version. The blocking version of [`SharedCount::get_versioned`](crate::shared::SharedCount::get_versioned).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn get_versioned(&self) -> Result<Versioned<i32>> {
        wait(self.inner.get_versioned())
    }

    /// Sets it. The blocking version of [`SharedCount::set`](crate::shared::SharedCount::set).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn set(&self, count: i32) -> Result<()> {
        wait(self.inner.set(count))
    }

    /// Sets it if nothing was written since it was `seen`. The blocking version of [`SharedCount::compare_and_set`](crate::shared::SharedCount::compare_and_set).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn compare_and_set(&self, seen: &Versioned<i32>, new: i32) -> Result<CompareAndSet<i32>> {
        wait(self.inner.compare_and_set(seen, new))
    }

    /// Replaces it by what `new` makes of it. The blocking version of [`SharedCount::update`](crate::shared::SharedCount::update).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn update(&self, new: impl FnMut(i32) -> i32) -> Result<Versioned<i32>> {
        wait(self.inner.update(new))
    }

    /// Follows it as it changes. See [`SharedCount::watch_state`](crate::shared::SharedCount::watch_state).
    pub fn watch_state(&self) -> Watch<SharedState<i32>> {
        self.inner.watch_state()
    }

    /// Returns the full path of the node, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
