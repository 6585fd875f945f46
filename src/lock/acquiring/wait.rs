//! How long an acquire waits.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Result;
use crate::lock::deadline::{from_now, later, until};
use crate::queue::Caller;

/// How much longer than its deadline an acquire may take, to ask for the last locks, and to confirm that its nodes are gone
/// from the queues.
const GRACE: Duration = Duration::from_millis(100);

/// How long to wait for a lock that is not available immediately.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    No,
    Until { deadline: Instant, within: Duration },
    Forever,
}

impl Wait {
    /// Returns a caller of a queue that waits like this.
    pub(crate) fn caller(self) -> Caller {
        Caller::new(!matches!(self, Self::No), matches!(self, Self::Until { .. }))
    }

    /// Waits for this long from now; not at all if it is zero.
    pub(crate) fn at_most(within: Duration) -> Self {
        if within.is_zero() { Self::No } else { Self::Until { deadline: from_now(within), within } }
    }

    /// Runs a step up to the deadline, if there is one. Returns `None` if the step was not done by then.
    //
    // Takes steps that are pinned already: a future that is moved into another one counts twice in its size.
    pub(crate) async fn bound<T>(self, step: impl Future<Output = T> + Unpin) -> Option<T> {
        match self {
            Self::No | Self::Forever => Some(step.await),
            Self::Until { deadline, .. } => until(deadline, step).await,
        }
    }

    /// Runs a last step up to a grace period after the deadline, if there is one. It is polled once even after that, so
    /// that its requests are sent.
    pub(crate) async fn finish<T>(self, last: impl Future<Output = T> + Unpin) -> Option<T> {
        match self {
            Self::No | Self::Forever => Some(last.await),
            Self::Until { deadline, .. } => until(later(deadline, GRACE), last).await,
        }
    }
}

/// Returns what came of an acquire that [waits for ever](Wait::Forever): it does not end without the lock.
pub(crate) fn unending<T>(acquired: Result<Option<T>>) -> Result<T> {
    acquired.map(|guard| guard.expect("a wait without a deadline ends with the lock"))
}

/// Returns the time that is left until a deadline; after it, what is left of one grace period. `None` if that is over, too.
pub(crate) fn remaining(deadline: Instant) -> Option<Duration> {
    let now = Instant::now();
    let end = if now < deadline { deadline } else { later(deadline, GRACE) };
    Some(end.saturating_duration_since(now)).filter(|remaining| !remaining.is_zero())
}
