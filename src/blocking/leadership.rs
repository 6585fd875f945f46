//! A term of leadership, for threads.

use std::time::Duration;

use futures_util::FutureExt;

use super::transaction::Transaction;
use super::wait::{wait, wait_within};
use crate::error::Result;

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

validity_twin!(Leadership);

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
        wait(self.inner.resign_requested().map(Ok))
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
        Ok(wait_within(within, self.inner.resign_requested().map(Ok))?.is_some())
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
