//! The limit on how often in a row a contender may lose what it needs, though it reaches the servers.

use std::time::Duration;

use crate::client::{Failures, RetryPolicy};
use crate::error::{Error, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const MOST: u32 = 10;

/// The consecutive losses of one contender's node, after each of which it re-enters at the end of the queue; or of the
/// connection by which a waiter for permits takes them.
///
/// They are not failures to reach the servers, so the client's retry policy does not apply: a waiter whose node an
/// operator deletes goes on waiting, even under a policy without retries.
#[derive(Debug, Default)]
pub(crate) struct Losses(Failures);

impl Losses {
    /// Waits before the next attempt to stay in the queue at that path.
    ///
    /// # Errors
    /// [`Error::PlaceLost`] after too many losses.
    pub(crate) async fn pause(&mut self, path: &str) -> Result<()> {
        self.pause_after(Error::PlaceLost { path: path.to_owned() }).await
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// `error` after too many losses.
    pub(super) async fn pause_after(&mut self, error: Error) -> Result<()> {
        let policy = RetryPolicy::bounded_exponential_backoff(FIRST_PAUSE, LONGEST_PAUSE, MOST);
        self.0.pause_or(error, &policy).await
    }

    /// Resets the count: the contender has waited in the queue.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_contender_that_never_gets_to_wait_gives_up_in_the_end() {
        let lost = || Error::PlaceLost { path: "/a".into() };
        let mut losses = Losses::default();
        for _ in 0..2 {
            for _ in 0..MOST {
                assert_eq!(losses.pause("/a").await, Ok(()));
            }
            assert_eq!(losses.pause("/a").await, Err(lost()));
            losses.reset();
        }
        assert!(lost().to_string().starts_with("cannot stay in the queue of /a: "));
    }
}
