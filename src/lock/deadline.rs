//! Points in time.

use std::time::Duration;

use tokio::time::Instant;

/// The end of a time that begins now. Beyond what the clock can tell, a point that nobody will see.
pub(crate) fn from_now(time: Duration) -> Instant {
    const DECADES: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + DECADES)
}
