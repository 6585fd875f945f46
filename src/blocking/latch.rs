//! A candidate that leads for as long as it is let, for threads.

use std::borrow::Cow;
use std::time::Duration;

use super::candidate::candidate;
use super::client::Client;
use super::leadership::Leadership;
use super::twin::twin;
use super::wait::{wait, wait_within};
use super::watch::Watch;
use crate::error::Result;
use crate::leader::{CloseMode, LeaderOptions, LeaderState};
use crate::lock::Participant;

/// A candidate for the leadership among all processes that use the same path. See [`LeaderLatch`](crate::LeaderLatch).
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
#[derive(Clone, Debug)]
#[must_use = "if unused, the candidate leaves the election at once"]
pub struct LeaderLatch {
    inner: crate::LeaderLatch,
}

impl LeaderLatch {
    /// As [`LeaderLatch::start`](crate::LeaderLatch::start). It does not block.
    ///
    /// # Errors
    /// As there.
    pub fn start(client: &Client, path: &str, options: LeaderOptions) -> Result<Self> {
        crate::LeaderLatch::start(&client.inner, path, options).map(Self::from)
    }

    /// As [`LeaderLatch::await_leadership`](crate::LeaderLatch::await_leadership), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn await_leadership(&self) -> Result<Leadership> {
        wait(self.inner.await_leadership()).map(Leadership::from)
    }

    /// The same for a bounded time; `None` if it does not lead by then. It stays a candidate.
    ///
    /// # Errors
    /// As [`await_leadership`](Self::await_leadership).
    pub fn await_leadership_within(&self, within: Duration) -> Result<Option<Leadership>> {
        Ok(wait_within(within, self.inner.await_leadership())?.map(Leadership::from))
    }

    /// As [`LeaderLatch::close`](crate::LeaderLatch::close), and blocks the thread. At the end of a program, close
    /// the client instead.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime): then it is not closed.
    pub fn close(&self, mode: CloseMode) -> Result<()> {
        wait(self.inner.close(mode))
    }
}

candidate!(LeaderLatch);
