//! Points in time, and steps that end at them.

use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::task::unconstrained;
use tokio::time::Instant;

use crate::client::sleep_until;

/// The instant at which a duration that begins now ends; decades away if the clock cannot represent it.
pub(crate) fn from_now(time: Duration) -> Instant {
    const DECADES: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + DECADES)
}

/// The instant that is later by this much, if the clock can represent it.
pub(crate) fn later(instant: Instant, by: Duration) -> Instant {
    instant.checked_add(by).unwrap_or(instant)
}

/// Runs a step up to a deadline, on any runtime or on none. Returns `None` if the step was not done by then.
pub(crate) async fn until<T>(deadline: Instant, step: impl Future<Output = T> + Unpin) -> Option<T> {
    // Boxed, so that waiters without a deadline do not carry its size. Unconstrained, so that a step that uses up the
    // budget of its task every time does not put the deadline off.
    let deadline = Box::pin(unconstrained(sleep_until(deadline)));
    match select(step, deadline).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}
