//! Pauses before retries of failures that time may fix, such as missing permission.

use std::time::Duration;

use crate::client::{Failures, RetryPolicy};
use crate::error::Error;

const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Pauses, longer with each consecutive failure, whatever the error.
pub(super) async fn pause_after(error: Error, failures: &mut Failures) {
    let policy = RetryPolicy::bounded_exponential_backoff(MIN_PAUSE, MAX_PAUSE, u32::MAX);
    // This policy never gives up.
    let _ = failures.pause_or(error, &policy).await;
}
