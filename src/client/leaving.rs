//! What comes to its end before a client is closed: the work of its leaders.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Who is to end before the session does, and how long that may take.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    asked: CancellationToken,
    stays: TaskTracker,
    /// The longest of all that was asked for.
    grace: Mutex<Duration>,
}

impl Leaving {
    /// Cancelled when everybody is asked to end.
    pub(super) fn asked(&self) -> &CancellationToken {
        &self.asked
    }

    /// Keeps the client open, for this long at most after it was asked to close; `None` if that was before.
    pub(super) fn stay(&self, grace: Duration) -> Option<TaskTrackerToken> {
        // Before the look: a task that closes the client either sees this or is seen here.
        let token = self.stays.token();
        let mut longest = self.grace.lock();
        *longest = grace.max(*longest);
        (!self.asked.is_cancelled()).then_some(token)
    }

    /// Asks everybody to end. Returns whether nobody stays.
    pub(super) fn ask(&self) -> bool {
        self.asked.cancel();
        self.stays.close();
        self.stays.is_empty()
    }

    /// Waits until nobody stays, at most for the longest grace and this much more.
    pub(super) async fn wait(&self, more: Duration) {
        let grace = *self.grace.lock();
        if timeout(grace.saturating_add(more), self.stays.wait()).await.is_err() {
            tracing::warn!(?grace, "closing the client while the work of a leader goes on");
        }
    }
}
