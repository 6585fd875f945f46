//! Options of a job.

use std::time::Duration;

use super::clock::Clock;
use crate::leader::LeaderOptions;
#[cfg(feature = "testing")]
use crate::testing::ManualClock;

/// Options for a [`ScheduledJob`](super::ScheduledJob). Give all processes the same.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::LeaderOptions;
/// use zk_recipes::job::{JobOptions, MissedRuns, UnfinishedRun};
///
/// let options = JobOptions::new()
///     .missed_runs(MissedRuns::RunAll(24))
///     .unfinished_run(UnfinishedRun::Repeat(2))
///     .at_least_for(Duration::from_secs(30))
///     .leader(LeaderOptions::new().id("reports-7").grace(Duration::from_secs(60)));
/// ```
#[derive(Clone, Default)]
#[must_use = "options do nothing until a job is started with them"]
pub struct JobOptions {
    pub(super) missed: MissedRuns,
    pub(super) unfinished: UnfinishedRun,
    pub(super) at_least_for: Duration,
    /// `None` if it depends on the schedule.
    clock_tolerance: Option<Duration>,
    pub(super) leader: LeaderOptions,
    pub(super) clock: Clock,
}

debug_by!(JobOptions, |it|
    missed_runs: it.missed, unfinished_run: it.unfinished, at_least_for: it.at_least_for,
    clock_tolerance: it.clock_tolerance, leader: it.leader
);

/// What to do about runs that became due while no leader waited for them: between two leaders, while all processes were
/// down, or while an earlier run took too long.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedRuns {
    /// They are not made up for. The next run is the next one that becomes due. A run for which the leader has waited is
    /// not missed, however late it wakes.
    Skip,
    /// The last one of them runs at once, for all of them.
    #[default]
    RunOnce,
    /// All of them run, one after the other, the earliest first; but no more than this many, the latest ones. At most
    /// 10,000.
    RunAll(u32),
}

/// The bounds of the tolerance for clocks, unless one is given.
const LEAST_TOLERANCE: Duration = Duration::from_millis(100);
const MOST_TOLERANCE: Duration = Duration::from_secs(1);

/// The most for [`MissedRuns::RunAll`]: a leader keeps their times, and finds them without a break.
pub(super) const MOST_MISSED: u32 = 10_000;

/// What to do about a run that was begun and whose end is not recorded, because its leader died, lost its connection, or
/// did not end it within the [grace period](LeaderOptions::grace).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnfinishedRun {
    /// It is left as it is: each run is begun at most once.
    #[default]
    Skip,
    /// The next leader begins it again, before any other run: at least once. At most this many times, so that a run
    /// that brings its process down does not do so for ever.
    Repeat(u32),
}

impl JobOptions {
    /// Creates the default options: [`MissedRuns::RunOnce`], [`UnfinishedRun::Skip`], no minimum distance between
    /// runs, a [tolerance](Self::clock_tolerance) for clocks that depends on the schedule, and the default
    /// [`LeaderOptions`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what to do about runs that became due while no leader waited for them.
    pub fn missed_runs(mut self, missed: MissedRuns) -> Self {
        self.missed = missed;
        self
    }

    /// Sets what to do about a run that was begun and not finished.
    pub fn unfinished_run(mut self, unfinished: UnfinishedRun) -> Self {
        self.unfinished = unfinished;
        self
    }

    /// Sets for how long at least no run begins after a run has begun, in any process. Choose it longer than the
    /// clocks of the processes may differ, and shorter than the time between two runs. A run that is due earlier waits;
    /// runs that are made up for or repeated keep that distance as well.
    ///
    /// Between processes it is measured by the clock of the servers, so it does not depend on the clocks of the
    /// processes. It costs one request whenever the leader changes. After a run whose end is not recorded, it counts
    /// from when the servers recorded its beginning, since the time of the work itself is lost with its leader: the work
    /// may have begun later by as long as the leader waited for the servers' answer, at most for as long as it led.
    ///
    /// Corresponds to `lockAtLeastFor` of ShedLock.
    pub fn at_least_for(mut self, at_least_for: Duration) -> Self {
        self.at_least_for = at_least_for;
        self
    }

    /// Sets by how much the clock of a leader may differ from the clock of the servers. A leader whose clock differs by
    /// more does not run the job: it [says so](super::JobState::WrongClock) and resigns, so that another process leads.
    ///
    /// By default, it is a second or a tenth of the time between the next two runs, whichever is less; but not less than
    /// 100 ms, since clocks that are set over a network differ by some milliseconds. With a
    /// `testing::ManualClock`, any difference is tolerated by default.
    ///
    /// Only a difference that is certain counts: the servers show their time at each write of the record, which they may
    /// do at any moment between the request and its reply. If the clock of the servers is wrong, no process runs the
    /// job. [`Duration::MAX`] turns this off, and saves the write at each change of the leader that shows the time.
    pub fn clock_tolerance(mut self, tolerance: Duration) -> Self {
        self.clock_tolerance = Some(tolerance);
        self
    }

    /// Returns the tolerance for a job that is due this often.
    pub(super) fn tolerance(&self, period: Option<Duration>) -> Duration {
        match self.clock_tolerance {
            Some(tolerance) => tolerance,
            None if !self.clock.is_of_system() => Duration::MAX,
            None => {
                period.map_or(MOST_TOLERANCE, |period| period / 10).clamp(LEAST_TOLERANCE, MOST_TOLERANCE)
            }
        }
    }

    /// Sets the options with which the process stands for election: its id, how long a run may take to end when the
    /// process is to stop, and when it may run the job.
    pub fn leader(mut self, options: LeaderOptions) -> Self {
        self.leader = options;
        self
    }

    /// Sets the clock by which the job is due, for tests. The clock of the system by default. The clock may differ from
    /// that of the servers, unless there is a [tolerance](Self::clock_tolerance).
    #[cfg(feature = "testing")]
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Clock::Manual(clock.clone());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tolerance_is_a_tenth_of_the_period_within_bounds() {
        let tolerance = |millis| JobOptions::new().tolerance(Some(Duration::from_millis(millis))).as_millis();
        let periods = [1, 1000, 5000, 10_000, 86_400_000];
        assert_eq!(periods.map(tolerance), [100, 100, 500, 1000, 1000]);
        assert_eq!(JobOptions::new().tolerance(None), MOST_TOLERANCE);
        let given = JobOptions::new().clock_tolerance(Duration::ZERO);
        assert_eq!(given.tolerance(None), Duration::ZERO);
    }

    #[cfg(feature = "testing")]
    #[test]
    fn a_manual_clock_shows_any_time() {
        let options = JobOptions::new().clock(&ManualClock::new(std::time::SystemTime::UNIX_EPOCH));
        assert_eq!(options.tolerance(None), Duration::MAX);
        assert_eq!(options.clock_tolerance(Duration::ZERO).tolerance(None), Duration::ZERO);
    }
}
