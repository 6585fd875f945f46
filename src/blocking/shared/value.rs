//! Bytes that processes share, for threads.

use std::time::Duration;

use crate::blocking::client::Client;
use crate::blocking::wait::wait;
use crate::error::Result;
use crate::shared::{CompareAndSet, SharedState, Versioned};
use crate::watch::Watch;

/// Bytes that all processes can read, change and watch. The blocking twin of
/// [`SharedValue`](crate::shared::SharedValue).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::shared::SharedValue;
///
/// let motd = SharedValue::new(&client, "/config/motd", "hello")?;
/// motd.update(|old| [old, b"!"].concat())?;
/// println!("{}", String::from_utf8_lossy(&motd.get()?));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedValue {
    inner: crate::shared::SharedValue,
}

twin!(SharedValue of crate::shared);

impl SharedValue {
    /// Creates a shared value. Does not block. See [`SharedValue::new`](crate::shared::SharedValue::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str, seed: impl Into<Vec<u8>>) -> Result<Self> {
        crate::shared::SharedValue::new(&client.inner, path, seed).map(Self::from)
    }

    /// Returns a handle whose [`update`](Self::update) tries for this long. See
    /// [`SharedValue::with_timeout`](crate::shared::SharedValue::with_timeout).
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { inner: self.inner.with_timeout(timeout) }
    }

    /// Returns the value. The blocking version of [`SharedValue::get`](crate::shared::SharedValue::get).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn get(&self) -> Result<Vec<u8>> {
        wait(self.inner.get())
    }

    /// Returns it with its version. The blocking version of [`SharedValue::get_versioned`](crate::shared::SharedValue::get_versioned).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn get_versioned(&self) -> Result<Versioned<Vec<u8>>> {
        wait(self.inner.get_versioned())
    }

    /// Sets it. The blocking version of [`SharedValue::set`](crate::shared::SharedValue::set).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn set(&self, value: impl AsRef<[u8]>) -> Result<()> {
        wait(self.inner.set(value))
    }

    /// Sets it if nothing was written since it was `seen`. The blocking version of [`SharedValue::compare_and_set`](crate::shared::SharedValue::compare_and_set).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn compare_and_set(
        &self,
        seen: &Versioned<Vec<u8>>,
        new: impl AsRef<[u8]>,
    ) -> Result<CompareAndSet<Vec<u8>>> {
        wait(self.inner.compare_and_set(seen, new))
    }

    /// Replaces it by what `new` makes of it. The blocking version of [`SharedValue::update`](crate::shared::SharedValue::update).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn update(&self, new: impl FnMut(&[u8]) -> Vec<u8>) -> Result<Versioned<Vec<u8>>> {
        wait(self.inner.update(new))
    }

    /// Follows it as it changes. See [`SharedValue::watch_state`](crate::shared::SharedValue::watch_state).
    pub fn watch_state(&self) -> Watch<SharedState<Vec<u8>>> {
        self.inner.watch_state()
    }

    /// Returns the full path of the node, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
