//! A candidate that leads until it gives the leadership up or loses it, for threads.

use std::time::Duration;

use super::client::Client;
use super::leadership::Leadership;
use super::wait::{wait, wait_within};
use crate::error::Result;
use crate::leader::{CloseMode, LeaderOptions};

/// A candidate for the leadership among all processes that use the same path. The blocking twin of
/// [`LeaderLatch`](crate::LeaderLatch).
///
/// ```no_run
/// use zk_recipes::blocking::{Client, LeaderLatch};
/// use zk_recipes::LeaderOptions;
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// # fn work() {}
/// let latch = LeaderLatch::start(&client, "/leaders/reports", LeaderOptions::new().id("node-7"))?;
/// let leadership = latch.await_leadership()?;
/// let _ = leadership.run(work);
/// client.close()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "if unused, the candidate leaves the election at once"]
pub struct LeaderLatch {
    inner: crate::LeaderLatch,
}

candidate_twin!(LeaderLatch);

impl LeaderLatch {
    /// Starts a candidate at `path`. Does not block. See [`LeaderLatch::start`](crate::LeaderLatch::start).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn start(client: &Client, path: &str, options: LeaderOptions) -> Result<Self> {
        crate::LeaderLatch::start(&client.inner, path, options).map(Self::from)
    }

    /// Blocks the thread until this candidate leads, and returns the leadership. The blocking version of
    /// [`LeaderLatch::await_leadership`](crate::LeaderLatch::await_leadership).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn await_leadership(&self) -> Result<Leadership> {
        wait(self.inner.await_leadership()).map(Leadership::from)
    }

    /// Blocks the thread until this candidate leads, for at most `within`. Returns `None` if it does not lead by
    /// then; it stays a candidate.
    ///
    /// # Errors
    /// Same as [`await_leadership`](Self::await_leadership).
    pub fn await_leadership_within(&self, within: Duration) -> Result<Option<Leadership>> {
        Ok(wait_within(within, self.inner.await_leadership())?.map(Leadership::from))
    }

    /// Leaves the election for good, blocking the thread. At the end of a program, close the client instead. The
    /// blocking version of [`LeaderLatch::close`](crate::LeaderLatch::close).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    ///   The latch is then not closed.
    pub fn close(&self, mode: CloseMode) -> Result<()> {
        wait(self.inner.close(mode))
    }
}
