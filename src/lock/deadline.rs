//! Points in time.

use std::time::Duration;

use tokio::time::Instant;

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
