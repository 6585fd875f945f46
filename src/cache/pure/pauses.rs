//! When a watch is set again that may have been displaced.

use std::time::Duration;

/// The first pause after one that was none.
const MIN: Duration = Duration::from_millis(50);
const MAX: Duration = Duration::from_secs(5);
/// A watch that lasts so much longer than the pause before it has come to rest.
const REST: u32 = 4;

/// The pauses before a watch is set again. There is none before the first time; then they grow, as long as the watch is
/// displaced again soon, so that there is time to read in between.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cache) struct Pauses {
    last: Option<Duration>,
}

impl Pauses {
    /// Returns the next pause, of a watch that was displaced so long after it was set.
    pub(in crate::cache) fn next(&mut self, lasted: Duration) -> Duration {
        let next = match self.last {
            Some(last) if lasted < (last * REST).max(MAX) => (last * 2).clamp(MIN, MAX),
            _ => Duration::ZERO,
        };
        self.last = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_watch_lasts() {
        let mut pauses = Pauses::default();
        let mut next = |lasted| pauses.next(Duration::from_millis(lasted)).as_millis();
        assert_eq!([(); 9].map(|()| next(10)), [0, 50, 100, 200, 400, 800, 1600, 3200, 5000]);
        assert_eq!(next(10_000), 5000);
        assert_eq!(next(20_000), 0, "it has come to rest");
        assert_eq!(next(4999), 50);
    }
}
