//! How long to go on, and how long to pause, when other clients write first.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::{Error, Result};

/// The longest pause after the second conflict; it doubles with each.
const PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// The conflicts of one call, within one time limit.
#[derive(Debug)]
pub(crate) struct Contention<'a> {
    operation: &'static str,
    path: &'a str,
    since: Instant,
    limit: Duration,
    conflicts: u32,
}

impl<'a> Contention<'a> {
    /// Begins now.
    pub(crate) fn new(operation: &'static str, path: &'a str, limit: Duration) -> Self {
        Self { operation, path, since: Instant::now(), limit, conflicts: 0 }
    }

    /// What the call does.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns when this began, and the limit.
    pub(crate) fn time(&self) -> (Instant, Duration) {
        (self.since, self.limit)
    }

    /// Returns how much time is left.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.since.elapsed())
    }

    /// Returns how many conflicts there were.
    pub(crate) fn conflicts(&self) -> u32 {
        self.conflicts
    }

    /// Checks whether there is time for another try.
    ///
    /// # Errors
    /// [`Error::Contended`] if the time is over.
    pub(crate) fn check(&self) -> Result<()> {
        if self.left().is_zero() { Err(self.over()) } else { Ok(()) }
    }

    /// Returns the error of a call whose time is over.
    pub(crate) fn over(&self) -> Error {
        let (operation, path) = (self.operation, self.path.to_owned());
        Error::Contended { operation, path, waited: self.since.elapsed() }
    }

    /// Counts a conflict, for which there was a pause already.
    pub(crate) fn count(&mut self) {
        self.conflicts = self.conflicts.saturating_add(1);
    }

    /// Pauses after a conflict: not after the first, and longer after each.
    ///
    /// # Errors
    /// [`Error::Contended`] if the time is over.
    pub(crate) async fn conflict(&mut self) -> Result<()> {
        self.check()?;
        let conflicts = self.conflicts;
        self.count();
        pause(conflicts, self.left()).await;
        Ok(())
    }
}

/// Pauses for a random time, which is longer after more conflicts, and at most this long.
pub(crate) async fn pause(conflicts: u32, longest: Duration) {
    let pause = longest_pause(conflicts).mul_f64(fastrand::f64()).min(longest);
    if !pause.is_zero() {
        sleep(pause).await;
    }
}

/// The longest pause after this many conflicts before.
fn longest_pause(conflicts: u32) -> Duration {
    match conflicts.checked_sub(1) {
        None => Duration::ZERO,
        Some(doubled) => PAUSE.saturating_mul(2_u32.saturating_pow(doubled)).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let pauses: Vec<_> = (0..4).map(|conflicts| longest_pause(conflicts).as_micros()).collect();
        assert_eq!(pauses, [0, 500, 1000, 2000]);
        assert_eq!(longest_pause(u32::MAX), LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_end_at_the_limit() {
        let limit = Duration::from_secs(1);
        let mut contention = Contention::new("update the value at", "/a", limit);
        let error = loop {
            if let Err(error) = contention.conflict().await {
                break error;
            }
        };
        let Error::Contended { waited, .. } = error else { panic!("{error}") };
        assert!(waited >= limit && waited < limit + LONGEST_PAUSE, "{waited:?}");
        assert!(contention.conflicts > 10);
    }
}
