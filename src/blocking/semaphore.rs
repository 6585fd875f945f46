//! The counting semaphore, for threads.

use super::client::Client;
use super::shared::SharedCount;
use super::wait::wait;
use crate::error::Result;

/// A number of permits, shared by all processes that use the same path. The blocking twin of
/// [`Semaphore`](crate::Semaphore).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, Semaphore};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let licences = Semaphore::new(&client, "/semaphores/licences", 10)?;
/// let three = licences.many(3)?.acquire()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    inner: crate::Semaphore,
}

lock_twin!(Semaphore, "a permit");

impl Semaphore {
    /// Creates a semaphore with a fixed number of permits. Does not block. See
    /// [`Semaphore::new`](crate::Semaphore::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self> {
        crate::Semaphore::new(&client.inner, path, permits).map(Self::from)
    }

    /// Creates a semaphore whose number of permits is the value of a [`SharedCount`]. Does not block. See
    /// [`Semaphore::with_shared_count`](crate::Semaphore::with_shared_count).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn with_shared_count(client: &Client, path: &str, count: &SharedCount) -> Result<Self> {
        crate::Semaphore::with_shared_count(&client.inner, path, count.as_async()).map(Self::from)
    }

    /// Returns a handle to the same semaphore that acquires this many permits at once, all or none. See
    /// [`Semaphore::many`](crate::Semaphore::many).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn many(&self, permits: u32) -> Result<Self> {
        self.inner.many(permits).map(Self::from)
    }

    /// Returns the number of permits that are free now. The blocking version of
    /// [`Semaphore::available_permits`](crate::Semaphore::available_permits).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn available_permits(&self) -> Result<u32> {
        wait(self.inner.available_permits())
    }

    /// Returns the full path of the semaphore, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}
