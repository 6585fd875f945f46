//! What must end before a client is closed: the work of its leaders.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Tracks the work that must end before the session does, and how long that may take.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    asked: CancellationToken,
    stays: TaskTracker,
    /// The longest grace period that was requested.
    grace: Mutex<Duration>,
}

impl Leaving {
    /// Cancelled when all work is asked to end.
    pub(super) fn asked(&self) -> &CancellationToken {
        &self.asked
    }

    /// Keeps the client open, for at most `grace` after it was asked to close. Returns `None` if that has already
    /// happened.
    pub(super) fn stay(&self, grace: Duration) -> Option<TaskTrackerToken> {
        // Taken before the check: a task that closes the client either sees this token or is seen here.
        let token = self.stays.token();
        let mut longest = self.grace.lock();
        *longest = grace.max(*longest);
        (!self.asked.is_cancelled()).then_some(token)
    }

    /// Asks all work to end. Returns whether there is none.
    pub(super) fn ask(&self) -> bool {
        self.asked.cancel();
        self.stays.close();
        self.stays.is_empty()
    }

    /// Waits until all work has ended, for at most the longest grace period and `more`.
    pub(super) async fn wait(&self, more: Duration) {
        let grace = *self.grace.lock();
        if timeout(grace.saturating_add(more), self.stays.wait()).await.is_err() {
            tracing::warn!(?grace, "closing the client while the work of a leader goes on");
        }
    }
}
