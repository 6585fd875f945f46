//! A term of leadership, for threads.

use std::time::{Duration, Instant};

use super::transaction::Transaction;
use super::wait::{wait, wait_within};
use crate::error::{LossReason, Result};
use crate::lock::LockState;
use crate::watch::Watch;

/// One term of a leader: from its election until another candidate can be elected. The blocking twin of
/// [`Leadership`](crate::Leadership).
///
/// A thread cannot be stopped when the term ends. Check between steps of the work with
/// [`is_resigning`](Self::is_resigning) and [`is_valid`](Self::is_valid), and wait with
/// [`resign_requested_within`](Self::resign_requested_within) instead of sleeping.
#[derive(Clone)]
pub struct Leadership {
    inner: crate::Leadership,
}

twin!(Leadership);

impl Leadership {
    /// Returns a number that grows with every term. See
    /// [`Leadership::fencing_token`](crate::Leadership::fencing_token).
    pub fn fencing_token(&self) -> i64 {
        self.inner.fencing_token()
    }

    /// Returns the full path of the leader's node, including the namespace.
    pub fn node_path(&self) -> &str {
        self.inner.node_path()
    }

    /// Returns whether this term continues. Does not block. See
    /// [`Leadership::is_valid`](crate::Leadership::is_valid).
    pub fn is_valid(&self) -> bool {
        self.inner.is_valid()
    }

    /// Returns the time until which the term certainly continues. Does not block. See
    /// [`Leadership::valid_until`](crate::Leadership::valid_until).
    pub fn valid_until(&self) -> Instant {
        self.inner.valid_until().into_std()
    }

    /// Returns why the term has ended, or `None` if it has not. A term that has ended does not resume. Does not
    /// block.
    pub fn loss(&self) -> Option<LossReason> {
        self.inner.loss()
    }

    /// Blocks the thread until the term ends. The blocking version of
    /// [`Leadership::lost`](crate::Leadership::lost).
    ///
    /// # Errors
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn lost(&self) -> Result<LossReason> {
        wait(async { Ok(self.inner.lost().await) })
    }

    /// Blocks the thread until the term ends, for at most `within`. Returns `None` if it has not ended within that
    /// time.
    ///
    /// # Errors
    /// Same as [`lost`](Self::lost).
    pub fn lost_within(&self, within: Duration) -> Result<Option<LossReason>> {
        wait_within(within, async { Ok(self.inner.lost().await) })
    }

    /// Follows how certain it is that the term continues. See
    /// [`Leadership::watch_state`](crate::Leadership::watch_state).
    pub fn watch_state(&self) -> Watch<LockState> {
        self.inner.watch_state()
    }

    /// Runs `work` if the term continues, and returns its result if the term still continues after it. The work is
    /// not stopped: a resignation waits for it.
    ///
    /// # Errors
    /// - [`Error::LockLost`](crate::Error::LockLost): the term ended before `work` had ended, or was to end before
    ///   `work` began.
    /// - [`Error::Closed`](crate::Error::Closed): the client was closed before `work` had ended.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.inner.run_blocking(work)
    }

    /// Starts a transaction of writes to ZooKeeper that are applied only while this term continues, whatever this
    /// process believes.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self.inner.transaction())
    }

    /// Returns whether the leader is to resign, or the term has ended. Does not block.
    pub fn is_resigning(&self) -> bool {
        self.inner.is_resigning()
    }

    /// Blocks the thread until the leader is to resign, or the term has ended. The blocking version of
    /// [`Leadership::resign_requested`](crate::Leadership::resign_requested).
    ///
    /// # Errors
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn resign_requested(&self) -> Result<()> {
        wait(async {
            self.inner.resign_requested().await;
            Ok(())
        })
    }

    /// Blocks the thread until the leader is to resign or the term has ended, for at most `within`. Returns
    /// whether that is the case.
    ///
    /// Use this for the pause between two steps of work. Its async counterpart is
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
    /// Same as [`resign_requested`](Self::resign_requested).
    pub fn resign_requested_within(&self, within: Duration) -> Result<bool> {
        let requested = wait_within(within, async {
            self.inner.resign_requested().await;
            Ok(())
        })?;
        Ok(requested.is_some())
    }

    /// Gives the leadership up, blocking the thread until the work under it has ended and the node is gone. Do not
    /// call this inside that work. The blocking version of [`Leadership::resign`](crate::Leadership::resign).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn resign(&self) -> Result<()> {
        wait(self.inner.resign())
    }
}
