//! The clock for sessions. It does not stop while the machine is suspended, on systems that have such a clock.
//!
//! The servers' clocks continue during a suspension. The clock of `std` and tokio stands still on Linux and macOS:
//! with it, a lock would seem valid when the machine wakes up.

use std::ops::Add;
use std::time::Duration;

use tokio::time::Instant;

/// A point in time on that clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

/// A smaller difference is not a suspension: the two clocks are read one after the other.
const SUSPENSION: Duration = Duration::from_millis(10);

/// Returns one moment on both clocks, always the same.
#[cfg(not(test))]
fn base() -> (Instant, Moment) {
    static BASE: std::sync::LazyLock<(Instant, Moment)> = std::sync::LazyLock::new(both);
    *BASE
}

/// In tests, each thread has clocks of its own.
#[cfg(test)]
fn base() -> (Instant, Moment) {
    thread_local!(static BASE: (Instant, Moment) = both());
    BASE.with(|base| *base)
}

/// Reads both clocks.
fn both() -> (Instant, Moment) {
    // The thread may be delayed between the two reads. If that happens again and again, the moment is too late,
    // which is the safe side.
    let mut before = Instant::now();
    for _ in 0..10 {
        let (moment, after) = (Moment::now(), Instant::now());
        if after - before < SUSPENSION / 10 {
            return (before, moment);
        }
        before = after;
    }
    (before, Moment::now())
}

impl Moment {
    /// Returns the current time.
    pub(crate) fn now() -> Self {
        Self(reading())
    }

    /// Returns the time since `earlier`; zero if that is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Converts to the clock of tokio's timers, as far as possible now: they stand still during future suspensions.
    pub(crate) fn instant(self) -> Instant {
        let (instant, moment) = base();
        let (instant_now, now) = both();
        let run = instant_now.saturating_duration_since(instant);
        let suspended = Some(now.since(moment).saturating_sub(run)).filter(|time| *time >= SUSPENSION);
        let moment = moment + suspended.unwrap_or_default();
        if self >= moment { instant + self.since(moment) } else { instant - moment.since(self) }
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

#[cfg(all(not(test), any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn reading() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    // Unlike `CLOCK_UPTIME_RAW`, which `std` uses, this clock continues.
    #[cfg(target_vendor = "apple")]
    const CLOCK: ClockId = ClockId::Monotonic;
    let reading = clock_gettime(CLOCK);
    // Neither is negative, and the nanoseconds are less than a second.
    Duration::new(reading.tv_sec.try_into().unwrap_or(0), reading.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(all(not(test), not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))))]
fn reading() -> Duration {
    by_tokio()
}

/// Returns the time since the first call, and a day: in tests, the clocks of other threads may be behind that of the first.
#[cfg(any(test, not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))))]
fn by_tokio() -> Duration {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let start = *START;
    (Instant::now() + DAY).saturating_duration_since(start)
}

#[cfg(test)]
thread_local! {
    static SUSPENDED: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

/// In unit tests the clock follows tokio's, which can be paused, except for suspensions.
#[cfg(test)]
fn reading() -> Duration {
    by_tokio() + SUSPENDED.get()
}

/// Simulates a suspension of the machine, for this thread.
#[cfg(test)]
pub(crate) fn suspend(time: Duration) {
    SUSPENDED.set(SUSPENDED.get() + time);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn a_moment_is_an_instant_that_comes_earlier_by_the_time_of_a_suspension() {
        let start = Instant::now();
        let moment = Moment::now() + 2 * HOUR;
        assert_eq!(moment.instant(), start + 2 * HOUR);
        tokio::time::advance(HOUR / 2).await;
        assert_eq!(moment.instant(), start + 2 * HOUR);
        suspend(HOUR);
        assert_eq!(moment.instant(), start + HOUR);
        assert!(Moment::now() < moment);
        suspend(HOUR);
        assert_eq!(moment.instant(), start);
        assert!(Moment::now() > moment);
    }
}
