//! Barriers, for threads. See [`barriers`](crate::barriers).

use std::time::Duration;

use futures_util::FutureExt;

use super::client::Client;
use super::wait::wait;
use crate::error::{LossReason, Result};

/// A barrier at which threads and processes wait while it is set. The blocking twin of
/// [`barriers::Barrier`](crate::barriers::Barrier).
///
/// ```no_run
/// use zk_recipes::blocking::Client;
/// use zk_recipes::blocking::barriers::Barrier;
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let migration = Barrier::new(&client, "/barriers/migration")?;
/// migration.wait()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a barrier does nothing until it is used"]
pub struct Barrier {
    inner: crate::barriers::Barrier,
}

twin!(Barrier of crate::barriers);

/// A barrier that lets a number of members in and out together. The blocking twin of
/// [`barriers::DoubleBarrier`](crate::barriers::DoubleBarrier).
///
/// ```no_run
/// use zk_recipes::blocking::Client;
/// use zk_recipes::blocking::barriers::DoubleBarrier;
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// # fn import() {}
/// let entered = DoubleBarrier::new(&client, "/barriers/import/2026-08-01", 3)?.enter()?;
/// import();
/// entered.leave()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a barrier does nothing until it is entered"]
pub struct DoubleBarrier {
    inner: crate::barriers::DoubleBarrier,
}

twin!(DoubleBarrier of crate::barriers);

/// A member that has entered a [`DoubleBarrier`]. The blocking twin of [`barriers::Entered`](crate::barriers::Entered).
#[must_use = "if unused, the barrier is left at once"]
pub struct Entered {
    inner: crate::barriers::Entered,
}

twin!(Entered of crate::barriers);

impl Barrier {
    /// Creates a handle on the barrier at `path`. Does not block. See [`Barrier::new`](crate::barriers::Barrier::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::barriers::Barrier::new(&client.inner, path).map(Self::from)
    }

    /// Sets the barrier. The blocking version of [`Barrier::set`](crate::barriers::Barrier::set).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn set(&self) -> Result<()> {
        wait(self.inner.set())
    }

    /// Removes the barrier. The blocking version of [`Barrier::remove`](crate::barriers::Barrier::remove).
    ///
    /// # Errors
    /// Same as [`set`](Self::set).
    pub fn remove(&self) -> Result<()> {
        wait(self.inner.remove())
    }

    /// Returns whether the barrier is set. The blocking version of [`Barrier::is_set`](crate::barriers::Barrier::is_set).
    ///
    /// # Errors
    /// Same as [`set`](Self::set).
    pub fn is_set(&self) -> Result<bool> {
        wait(self.inner.is_set())
    }

    /// Blocks the thread while the barrier is set. The blocking version of [`Barrier::wait`](crate::barriers::Barrier::wait).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn wait(&self) -> Result<()> {
        wait(self.inner.wait())
    }

    /// Blocks the thread while the barrier is set, for up to `within`. The blocking version of
    /// [`Barrier::wait_within`](crate::barriers::Barrier::wait_within).
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub fn wait_within(&self, within: Duration) -> Result<bool> {
        wait(self.inner.wait_within(within))
    }

    /// Returns the full path of the barrier, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}

impl DoubleBarrier {
    /// Creates a handle on the barrier at `path`. Does not block. See
    /// [`DoubleBarrier::new`](crate::barriers::DoubleBarrier::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self> {
        crate::barriers::DoubleBarrier::new(&client.inner, path, members).map(Self::from)
    }

    /// Enters the barrier, blocking the thread until the others have come. The blocking version of
    /// [`DoubleBarrier::enter`](crate::barriers::DoubleBarrier::enter).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn enter(&self) -> Result<Entered> {
        wait(self.inner.enter()).map(Entered::from)
    }

    /// Enters the barrier, and gives up after `within`. The blocking version of
    /// [`DoubleBarrier::enter_within`](crate::barriers::DoubleBarrier::enter_within).
    ///
    /// # Errors
    /// Same as [`enter`](Self::enter).
    pub fn enter_within(&self, within: Duration) -> Result<Option<Entered>> {
        Ok(wait(self.inner.enter_within(within))?.map(Entered::from))
    }

    /// Returns the number of members that it is for.
    pub fn members(&self) -> usize {
        self.inner.members()
    }

    /// Returns the full path of the barrier, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}

impl Entered {
    /// Blocks the thread until this member is lost. The blocking version of
    /// [`Entered::lost`](crate::barriers::Entered::lost).
    ///
    /// # Errors
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn lost(&self) -> Result<LossReason> {
        wait(self.inner.lost().map(Ok))
    }

    /// Returns how this member was lost; `None` while it is in the barrier. Does not block.
    pub fn loss(&self) -> Option<LossReason> {
        self.inner.loss()
    }

    /// Returns the full path of the node of this member, namespace included.
    pub fn node_path(&self) -> &str {
        self.inner.node_path()
    }

    /// Leaves the barrier, blocking the thread until all members of this round have left. The blocking version of
    /// [`Entered::leave`](crate::barriers::Entered::leave).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
    ///   member leaves in the background.
    pub fn leave(self) -> Result<()> {
        wait(self.inner.leave())
    }

    /// Leaves the barrier, and waits for the others for at most `within`. The blocking version of
    /// [`Entered::leave_within`](crate::barriers::Entered::leave_within).
    ///
    /// # Errors
    /// Same as [`leave`](Self::leave).
    pub fn leave_within(self, within: Duration) -> Result<bool> {
        wait(self.inner.leave_within(within))
    }
}
