//! When to try again what waiting may mend, such as a missing right.

use std::time::Duration;

use crate::client::{Failures, RetryPolicy};
use crate::error::Error;

const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Waits, longer with each failure in a row, whatever it was.
pub(super) async fn pause_after(error: Error, failures: &mut Failures) {
    let policy = RetryPolicy::bounded_exponential_backoff(MIN_PAUSE, MAX_PAUSE, u32::MAX);
    // It never gives up.
    let _ = failures.pause_or(error, &policy).await;
}
