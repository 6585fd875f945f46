//! What a leader has, for threads.

use std::time::{Duration, Instant};

use super::transaction::Transaction;
use super::twin::twin;
use super::wait::{wait, wait_within};
use super::watch::Watch;
use crate::error::{LossReason, Result};
use crate::lock::LockState;

/// One term of a leader: from its election to the moment at which another can be elected. See
/// [`Leadership`](crate::Leadership).
///
/// A thread cannot be stopped when the term ends: have it look between its steps, by
/// [`is_resigning`](Self::is_resigning) and [`is_valid`](Self::is_valid), or wait by
/// [`resign_requested_within`](Self::resign_requested_within) rather than sleep.
#[derive(Clone, Debug)]
pub struct Leadership {
    inner: crate::Leadership,
}

twin!(Leadership);

impl Leadership {
    /// As [`Leadership::fencing_token`](crate::Leadership::fencing_token).
    pub fn fencing_token(&self) -> i64 {
        self.inner.fencing_token()
    }

    /// The full path of the leader's node, namespace included.
    pub fn node_path(&self) -> &str {
        self.inner.node_path()
    }

    /// As [`Leadership::is_valid`](crate::Leadership::is_valid). It does not block.
    pub fn is_valid(&self) -> bool {
        self.inner.is_valid()
    }

    /// As [`Leadership::valid_until`](crate::Leadership::valid_until). It does not block.
    pub fn valid_until(&self) -> Instant {
        self.inner.valid_until().into_std()
    }

    /// How it has ended, if it has; then for good. It does not block.
    pub fn loss(&self) -> Option<LossReason> {
        self.inner.loss()
    }

    /// As [`Leadership::lost`](crate::Leadership::lost), and blocks the thread until it has ended.
    ///
    /// # Errors
    /// [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn lost(&self) -> Result<LossReason> {
        wait(async { Ok(self.inner.lost().await) })
    }

    /// The same for a bounded time; `None` if it has not ended in that.
    ///
    /// # Errors
    /// As [`lost`](Self::lost).
    pub fn lost_within(&self, within: Duration) -> Result<Option<LossReason>> {
        wait_within(within, async { Ok(self.inner.lost().await) })
    }

    /// How sure it is that it goes on, now and from now on. See
    /// [`Leadership::watch_state`](crate::Leadership::watch_state).
    pub fn watch_state(&self) -> Watch<LockState> {
        self.inner.watch_state().into()
    }

    /// Does work if the term goes on, and returns what comes of it if the term goes on after it, too. It is not stopped: a
    /// resignation waits for it.
    ///
    /// # Errors
    /// [`Error::LockLost`](crate::Error::LockLost) and [`Error::Closed`](crate::Error::Closed): the term has ended before
    /// the work had, or was to end before it began.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.inner.run_blocking(work)
    }

    /// Writes to ZooKeeper that are only done while this term goes on, whatever this process believes.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self.inner.transaction())
    }

    /// Whether it is to be given up, or has ended. It does not block.
    pub fn is_resigning(&self) -> bool {
        self.inner.is_resigning()
    }

    /// As [`Leadership::resign_requested`](crate::Leadership::resign_requested), and blocks the thread until it is to be
    /// given up, or has ended.
    ///
    /// # Errors
    /// [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn resign_requested(&self) -> Result<()> {
        wait(async {
            self.inner.resign_requested().await;
            Ok(())
        })
    }

    /// The same for a bounded time. Returns whether it is to be given up, or has ended.
    ///
    /// Use it for the pause between two steps of work, where async code has
    /// [`Leadership::until_resigning`](crate::Leadership::until_resigning).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(leadership: zk_recipes::blocking::Leadership) -> zk_recipes::Result<()> {
    /// # fn step(_token: i64) {}
    /// while !leadership.resign_requested_within(Duration::from_secs(60))? {
    ///     step(leadership.fencing_token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`resign_requested`](Self::resign_requested).
    pub fn resign_requested_within(&self, within: Duration) -> Result<bool> {
        let requested = wait_within(within, async {
            self.inner.resign_requested().await;
            Ok(())
        })?;
        Ok(requested.is_some())
    }

    /// As [`Leadership::resign`](crate::Leadership::resign), and blocks the thread until the work under it has ended and the
    /// node is gone. Do not call it within that work.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn resign(&self) -> Result<()> {
        wait(self.inner.resign())
    }
}
