//! When a job is due.

use std::fmt;
use std::time::{Duration, SystemTime};

#[cfg(feature = "cron")]
use crate::cut::cut;
use crate::error::{Error, Result};

/// The times at which a job is due. All are whole milliseconds, since they are recorded as such.
#[derive(Clone, Debug)]
pub(super) enum Schedule {
    /// At each multiple of this many milliseconds since 1970, which is the same for all processes.
    Every(u64),
    #[cfg(feature = "cron")]
    Cron(Box<croner::Cron>),
}

impl Schedule {
    /// # Errors
    /// [`Error::InvalidArgument`]: `period` is not a positive number of whole milliseconds.
    pub(super) fn every(period: Duration) -> Result<Self> {
        match u64::try_from(period.as_millis()) {
            Ok(millis) if millis > 0 && period.subsec_nanos().is_multiple_of(1_000_000) => {
                Ok(Self::Every(millis))
            }
            _ => Err(Error::InvalidArgument {
                argument: "period",
                reason: format!("{period:?} is not a positive number of whole milliseconds"),
            }),
        }
    }

    /// # Errors
    /// [`Error::InvalidArgument`]: `expression` is not a cron expression, or is never due.
    #[cfg(feature = "cron")]
    pub(super) fn cron(expression: &str) -> Result<Self> {
        let shown = cut(expression);
        let invalid = |reason: String| Error::InvalidArgument { argument: "expression", reason };
        let parser = croner::parser::CronParser::builder().seconds(croner::parser::Seconds::Optional).build();
        let cron = parser.parse(expression).map_err(|error| invalid(format!("{shown:?}: {error}")))?;
        let schedule = Self::Cron(Box::new(cron));
        match schedule.after(SystemTime::now()) {
            Some(_) => Ok(schedule),
            None => Err(invalid(format!("{shown:?} is never due"))),
        }
    }

    /// Returns the last time of the schedule that is not after `time`.
    pub(super) fn at_or_before(&self, time: SystemTime) -> Option<SystemTime> {
        match self {
            Self::Every(period) => Some(from_millis(millis(time) / period * period)),
            #[cfg(feature = "cron")]
            Self::Cron(cron) => of_utc(&cron.find_previous_occurrence(&utc(time)?, true).ok()?),
        }
    }

    /// Returns the time between the next two times of the schedule. `None` if there are no two.
    pub(super) fn period(&self, now: SystemTime) -> Option<Duration> {
        let next = self.after(now)?;
        self.after(next)?.duration_since(next).ok()
    }

    /// Returns the first time of the schedule that is after `time`. `None` if there is none.
    pub(super) fn after(&self, time: SystemTime) -> Option<SystemTime> {
        match self {
            Self::Every(period) => Some(from_millis((millis(time) / period + 1).saturating_mul(*period))),
            #[cfg(feature = "cron")]
            Self::Cron(cron) => of_utc(&cron.find_next_occurrence(&utc(time)?, false).ok()?),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(period) => write!(f, "every {:?}", Duration::from_millis(*period)),
            #[cfg(feature = "cron")]
            Self::Cron(cron) => {
                // On one line, since it is recorded.
                let fields: Vec<&str> = cron.as_str().split_whitespace().collect();
                write!(f, "cron {}", fields.join(" "))
            }
        }
    }
}

/// Returns the whole milliseconds since 1970; zero for times before that.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the latest time that the system can represent if it cannot represent this one.
pub(super) fn from_millis(millis: u64) -> SystemTime {
    let epoch = SystemTime::UNIX_EPOCH;
    // The year 9999.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    epoch + Duration::from_millis(millis).min(LAST)
}

/// Without fractions of a second, which cron does not know.
#[cfg(feature = "cron")]
fn utc(time: SystemTime) -> Option<chrono::DateTime<chrono::Utc>> {
    chrono::DateTime::from_timestamp(i64::try_from(millis(time) / 1000).ok()?, 0)
}

#[cfg(feature = "cron")]
fn of_utc(time: &chrono::DateTime<chrono::Utc>) -> Option<SystemTime> {
    Some(from_millis(u64::try_from(time.timestamp_millis()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SystemTime {
        from_millis(millis)
    }

    #[test]
    fn a_period_is_due_at_its_multiples() {
        let schedule = Schedule::every(Duration::from_millis(1500)).unwrap();
        assert_eq!(schedule.to_string(), "every 1.5s");
        for (time, before, after) in [(0, 0, 1500), (1499, 0, 1500), (1500, 1500, 3000), (4000, 3000, 4500)] {
            assert_eq!(schedule.at_or_before(at(time)), Some(at(before)), "{time}");
            assert_eq!(schedule.after(at(time)), Some(at(after)), "{time}");
        }
        let just_before = at(3000) - Duration::from_nanos(1);
        assert_eq!(schedule.at_or_before(just_before), Some(at(1500)));
    }

    #[test]
    fn a_period_is_a_positive_number_of_milliseconds() {
        for period in [Duration::ZERO, Duration::from_nanos(1_000_001), Duration::from_micros(1500)] {
            assert!(matches!(
                Schedule::every(period),
                Err(Error::InvalidArgument { argument: "period", .. })
            ));
        }
        assert!(Schedule::every(Duration::MAX).is_err());
    }

    #[cfg(feature = "cron")]
    #[test]
    fn cron_is_in_utc() {
        let daily = Schedule::cron("30  2 * * *").unwrap();
        assert_eq!(daily.to_string(), "cron 30 2 * * *");
        const DAY: u64 = 86_400_000;
        const HALF_PAST_TWO: u64 = 9_000_000;
        let due = 20_000 * DAY + HALF_PAST_TWO;
        assert_eq!(daily.at_or_before(at(due)), Some(at(due)));
        assert_eq!(daily.at_or_before(at(due + 1)), Some(at(due)));
        assert_eq!(daily.at_or_before(at(due - 1)), Some(at(due - DAY)));
        assert_eq!(daily.after(at(due)), Some(at(due + DAY)));
        assert_eq!(daily.after(at(due - 1)), Some(at(due)));

        let with_seconds = Schedule::cron("*/5 * * * * *").unwrap();
        assert_eq!(with_seconds.after(at(due + 5_001)), Some(at(due + 10_000)));
        for invalid in ["", "every day", "61 * * * *", "0 0 30 2 *"] {
            let refused = Schedule::cron(invalid);
            assert!(
                matches!(refused, Err(Error::InvalidArgument { argument: "expression", .. })),
                "{invalid}"
            );
        }
    }
}
