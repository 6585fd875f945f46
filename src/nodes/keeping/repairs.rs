//! How soon is undone what others do to a kept node. No I/O, no clock.

use std::time::Duration;

/// After so long without a repair, the next one is made at once.
const CALM: Duration = Duration::from_secs(20);
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Returns the pause before a repair, `since` after the last one, before which there was the pause `last`. The first
/// repair is made at once; someone who goes on deleting or writing gets ever longer pauses, not a fight.
pub(super) fn pause(last: Duration, since: Option<Duration>) -> Duration {
    match since {
        Some(since) if since < CALM => (last * 2).clamp(MIN_PAUSE, MAX_PAUSE),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_are_prompt_at_first_and_slow_in_a_fight() {
        assert_eq!(pause(Duration::ZERO, None), Duration::ZERO);
        let mut last = Duration::ZERO;
        let pauses: Vec<_> = (0..10)
            .map(|_| {
                last = pause(last, Some(Duration::ZERO));
                last
            })
            .collect();
        assert_eq!(pauses[..3], [MIN_PAUSE, MIN_PAUSE * 2, MIN_PAUSE * 4]);
        assert_eq!(pauses[9], MAX_PAUSE);
        assert_eq!(pause(MAX_PAUSE, Some(CALM)), Duration::ZERO);
    }
}
