//! Whether the clock of a leader agrees with that of the servers. Free of I/O and clocks.

use std::fmt;
use std::time::{Duration, SystemTime};

/// The times of the servers are whole milliseconds.
const MILLISECOND: Duration = Duration::from_millis(1);

/// By how much the clock of a process differs from that of the servers, if that is more than is
/// [tolerated](super::JobOptions::clock_tolerance).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockDifference {
    /// By how much it differs at least. How long the servers took to answer is not counted.
    pub by: Duration,
    /// Whether the clock of the process is ahead of that of the servers; otherwise, it is behind.
    pub is_ahead: bool,
    /// How much is tolerated.
    pub tolerance: Duration,
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, is_ahead, tolerance } = self;
        let direction = if *is_ahead { "ahead of" } else { "behind" };
        write!(
            f,
            "the clock of this process is at least {by:?} {direction} that of the servers, and at most {tolerance:?} is \
             tolerated: set the clocks right, or raise `JobOptions::clock_tolerance`"
        )
    }
}

impl std::error::Error for ClockDifference {}

/// The time of the servers, as the reply to a write has shown it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    /// By the clock of the process, before the write was sent.
    pub(super) sent: SystemTime,
    /// By the clock of the servers, when the write was done.
    pub(super) servers: SystemTime,
    /// By the clock of the process, after the reply was received.
    pub(super) received: SystemTime,
}

impl Sighting {
    /// Returns the difference of the two clocks, if it is certainly more than is tolerated.
    pub(super) fn difference(&self, tolerance: Duration) -> Option<ClockDifference> {
        let ahead = self.sent.duration_since(self.servers + MILLISECOND);
        let behind = self.servers.duration_since(self.received);
        let (by, is_ahead) = match (ahead, behind) {
            (Ok(by), _) => (by, true),
            (_, Ok(by)) => (by, false),
            _ => return None,
        };
        (by > tolerance).then_some(ClockDifference { by, is_ahead, tolerance })
    }

    /// Whether the clock of the process, which shows `now` this long after the reply, seems to have been set meanwhile.
    pub(super) fn is_outdated(&self, now: SystemTime, since: Duration, tolerance: Duration) -> bool {
        let took = self.received.duration_since(self.sent).unwrap_or_default();
        let sent = now.checked_sub(took).unwrap_or(now);
        Self { sent, servers: self.servers + since, received: now }.difference(tolerance).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::from_millis as at;
    use super::*;

    fn sighting(sent: u64, servers: u64, received: u64) -> Sighting {
        Sighting { sent: at(sent), servers: at(servers), received: at(received) }
    }

    #[test]
    fn a_difference_counts_as_far_as_it_is_certain() {
        let tolerance = Duration::from_millis(100);
        for (sent, servers, received, expected) in [
            (1000, 1005, 1010, None),
            // The reply may have taken that long.
            (1000, 9000, 9000, None),
            (1000, 1000, 9000, None),
            (1100, 1000, 1110, None),
            (1101, 1000, 1110, None),
            // The servers do not tell parts of a millisecond.
            (1102, 1000, 1110, Some((101, true))),
            (1000, 1110, 1010, None),
            (1000, 1111, 1010, Some((101, false))),
        ] {
            let found = sighting(sent, servers, received).difference(tolerance);
            let found = found.map(|it| (it.by.as_millis(), it.is_ahead));
            assert_eq!(found, expected, "{sent} {servers} {received}");
        }
        assert_eq!(sighting(1000, u64::MAX, 1010).difference(Duration::MAX), None);
    }

    #[test]
    fn a_clock_that_is_set_shows_without_a_request() {
        let (tolerance, hour) = (Duration::from_millis(100), Duration::from_secs(3600));
        let is_outdated = |now, since| sighting(1000, 1010, 1020).is_outdated(at(now), since, tolerance);
        assert!(!is_outdated(1020, Duration::ZERO));
        assert!(!is_outdated(3_601_020, hour));
        assert!(!is_outdated(3_601_120, hour));
        assert!(is_outdated(3_601_140, hour), "it was set forward");
        assert!(!is_outdated(3_600_920, hour));
        assert!(is_outdated(3_600_900, hour), "it was set back");
    }

    #[test]
    fn a_difference_says_what_to_do() {
        let difference = sighting(9000, 1000, 9010).difference(Duration::from_secs(1)).unwrap();
        let text = difference.to_string();
        assert!(
            text.starts_with("the clock of this process is at least 7.999s ahead of that of the servers"),
            "{text}"
        );
        assert!(!text.contains("  "), "{text}");
    }
}
