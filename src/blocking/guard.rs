//! What a thread holds.

use std::time::{Duration, Instant};

use super::transaction::Transaction;
use super::twin::twin;
use super::wait::{wait, wait_within};
use super::watch::Watch;
use crate::error::{LossReason, Result};
use crate::lock::LockState;

/// A held lock, or a permit of a semaphore. It is released when its last guard is dropped or [released](Self::release), on
/// whatever thread. See [`LockGuard`](crate::LockGuard).
///
/// A thread cannot be stopped when the lock is lost: have it look between its steps, by [`is_valid`](Self::is_valid), and
/// protect what it writes by the [fencing token](Self::fencing_token) or a [transaction](Self::transaction).
#[derive(Debug)]
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    pub(super) inner: crate::LockGuard,
}

twin!(LockGuard);

pub(super) fn guards(inner: Vec<crate::LockGuard>) -> Vec<LockGuard> {
    inner.into_iter().map(LockGuard::from).collect()
}

impl LockGuard {
    /// As [`LockGuard::fencing_token`](crate::LockGuard::fencing_token).
    pub fn fencing_token(&self) -> i64 {
        self.inner.fencing_token()
    }

    /// The full path of the node by which the lock is held, namespace included. Of a multi-lock, that of its first member.
    pub fn node_path(&self) -> &str {
        self.inner.node_path()
    }

    /// As [`LockGuard::members`](crate::LockGuard::members): the async guards of the members of a multi-lock.
    pub fn members(&self) -> &[crate::LockGuard] {
        self.inner.members()
    }

    /// How many guards there are on this hold. More than one after the thread has entered again.
    pub fn hold_count(&self) -> usize {
        self.inner.hold_count()
    }

    /// As [`LockGuard::is_valid`](crate::LockGuard::is_valid). It does not block.
    pub fn is_valid(&self) -> bool {
        self.inner.is_valid()
    }

    /// As [`LockGuard::valid_until`](crate::LockGuard::valid_until). It does not block.
    pub fn valid_until(&self) -> Instant {
        self.inner.valid_until().into_std()
    }

    /// How the lock was lost, if it was; then it is lost for good. It does not block.
    pub fn loss(&self) -> Option<LossReason> {
        self.inner.loss()
    }

    /// As [`LockGuard::lost`](crate::LockGuard::lost), and blocks the thread until the lock is lost.
    ///
    /// # Errors
    /// [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn lost(&self) -> Result<LossReason> {
        wait(async { Ok(self.inner.lost().await) })
    }

    /// The same for a bounded time; `None` if it was not lost in that.
    ///
    /// # Errors
    /// As [`lost`](Self::lost).
    pub fn lost_within(&self, within: Duration) -> Result<Option<LossReason>> {
        wait_within(within, async { Ok(self.inner.lost().await) })
    }

    /// The state of the lock, now and from now on. See [`LockGuard::watch_state`](crate::LockGuard::watch_state).
    pub fn watch_state(&self) -> Watch<LockState> {
        self.inner.watch_state().into()
    }

    /// Does work if the lock is held before it, and returns what comes of it if the lock is held after it, too. It is not
    /// stopped by a loss.
    ///
    /// # Errors
    /// [`Error::LockLost`](crate::Error::LockLost) and [`Error::Closed`](crate::Error::Closed): the lock was lost before
    /// the work had ended.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.inner.run_blocking(work)
    }

    /// Writes to ZooKeeper that are only done while the lock is held, whatever this process believes.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self.inner.transaction())
    }

    /// As [`LockGuard::remaining_hold`](crate::LockGuard::remaining_hold). It does not block.
    pub fn remaining_hold(&self) -> Option<Duration> {
        self.inner.remaining_hold()
    }

    /// As [`LockGuard::extend`](crate::LockGuard::extend). It does not block.
    ///
    /// # Errors
    /// As there.
    pub fn extend(&self, max_hold: Duration) -> Result<()> {
        self.inner.extend(max_hold)
    }

    /// As [`LockGuard::revoke_requested`](crate::LockGuard::revoke_requested), and blocks the thread until somebody asks
    /// for the lock.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn revoke_requested(&self) -> Result<()> {
        wait(self.inner.revoke_requested())
    }

    /// The same for a bounded time. Returns whether somebody asks for the lock.
    ///
    /// # Errors
    /// As [`revoke_requested`](Self::revoke_requested).
    pub fn revoke_requested_within(&self, within: Duration) -> Result<bool> {
        Ok(wait_within(within, self.inner.revoke_requested())?.is_some())
    }

    /// As [`LockGuard::release`](crate::LockGuard::release), and blocks the thread for the round trip.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime): then the background releases it.
    pub fn release(self) -> Result<()> {
        wait(self.inner.release())
    }
}
