//! Which run is next. Free of I/O and clocks.

use std::collections::VecDeque;
use std::iter::successors;
use std::time::{Duration, SystemTime};

use super::options::{MissedRuns, UnfinishedRun};
use super::record::{JobRecord, RunOutcome};
use super::schedule::Schedule;

/// What a leader does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Run(Due),
    /// Waits until this time; forever if there is none.
    Wait(Option<SystemTime>),
}

/// A run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) number: u64,
    pub(super) scheduled_at: SystemTime,
    /// How often it was begun, this time included.
    pub(super) attempt: u32,
}

/// The missed times that are made up for, the earliest first. It is kept between the steps of a leader, so that each time
/// is looked for once.
#[derive(Debug, Default)]
pub(super) struct Backlog(VecDeque<SystemTime>);

impl Backlog {
    /// Returns the first of the times after `done_until`, up to now; of the latest ones only, if there are more than `most`.
    fn first(
        &mut self,
        schedule: &Schedule,
        most: usize,
        done_until: SystemTime,
        now: SystemTime,
    ) -> Option<SystemTime> {
        let Self(times) = self;
        while times.front().is_some_and(|time| *time <= done_until) {
            times.pop_front();
        }
        // The clock was set back.
        while times.back().is_some_and(|time| *time > now) {
            times.pop_back();
        }
        let known = times.back().copied().unwrap_or(done_until);
        let up_to = |time| schedule.at_or_before(time).filter(|latest| *latest > known);
        let latest_first = successors(up_to(now), |time| up_to(*time - Duration::from_nanos(1)));
        let news: Vec<SystemTime> = latest_first.take(most).collect();
        times.extend(news.into_iter().rev());
        times.drain(..times.len().saturating_sub(most));
        times.front().copied()
    }
}

/// Returns what to do next. `waited_for` is the time that the leader has just waited for.
pub(super) fn next_step(
    schedule: &Schedule,
    missed: MissedRuns,
    unfinished: UnfinishedRun,
    record: &JobRecord,
    waited_for: Option<SystemTime>,
    backlog: &mut Backlog,
    now: SystemTime,
) -> Step {
    let last = record.last_run.as_ref();
    if let (Some(last), UnfinishedRun::Repeat(times)) = (last, unfinished)
        && last.outcome == RunOutcome::Unfinished
        && last.attempt <= times
    {
        let attempt = last.attempt.saturating_add(1);
        return Step::Run(Due { number: last.number, scheduled_at: last.scheduled_at, attempt });
    }
    let done_until = last.map_or(record.since, |last| last.scheduled_at);
    let latest = || schedule.at_or_before(now).filter(|latest| *latest > done_until);
    let scheduled_at = match missed {
        // However late the leader wakes, and whatever has become due meanwhile.
        MissedRuns::Skip => waited_for.filter(|time| *time > done_until && *time <= now),
        MissedRuns::RunOnce => latest(),
        MissedRuns::RunAll(most) => backlog.first(schedule, most as usize, done_until, now),
    };
    match scheduled_at {
        Some(scheduled_at) => {
            Step::Run(Due { number: last.map_or(1, |last| last.number + 1), scheduled_at, attempt: 1 })
        }
        None => Step::Wait(schedule.after(now.max(done_until))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::RunRecord;
    use super::super::schedule::from_millis as at;
    use super::*;

    const SKIP: UnfinishedRun = UnfinishedRun::Skip;

    fn schedule() -> Schedule {
        Schedule::every(Duration::from_millis(100)).unwrap()
    }

    fn record(last: Option<(u64, u64, u32, RunOutcome)>) -> JobRecord {
        let mut record = JobRecord::new(&schedule(), at(50));
        record.last_run = last.map(|(number, time, attempt, outcome)| RunRecord {
            number,
            scheduled_at: at(time),
            attempt,
            fencing_token: 1,
            outcome,
            begun_at: None,
            took: None,
        });
        record
    }

    fn run(number: u64, time: u64, attempt: u32) -> Step {
        Step::Run(Due { number, scheduled_at: at(time), attempt })
    }

    fn wait(time: u64) -> Step {
        Step::Wait(Some(at(time)))
    }

    #[test]
    fn a_new_job_begins_with_the_next_time() {
        for missed in [MissedRuns::Skip, MissedRuns::RunOnce, MissedRuns::RunAll(9)] {
            let step = |waited, now| {
                next_step(&schedule(), missed, SKIP, &record(None), waited, &mut Backlog::default(), now)
            };
            assert_eq!(step(None, at(60)), wait(100));
            assert_eq!(step(Some(at(100)), at(101)), run(1, 100, 1));
        }
    }

    #[test]
    fn missed_runs_are_made_up_for_as_told() {
        let record = record(Some((7, 300, 1, RunOutcome::Done)));
        let step = |missed, waited, now| {
            next_step(&schedule(), missed, SKIP, &record, waited, &mut Backlog::default(), at(now))
        };
        let cases = [
            // Nothing is due.
            (MissedRuns::Skip, None, 399, wait(400)),
            (MissedRuns::RunOnce, None, 399, wait(400)),
            (MissedRuns::RunAll(9), None, 399, wait(400)),
            // Became due while no one waited for it.
            (MissedRuns::Skip, None, 400, wait(500)),
            (MissedRuns::RunOnce, None, 400, run(8, 400, 1)),
            (MissedRuns::RunAll(9), None, 400, run(8, 400, 1)),
            // Several did.
            (MissedRuns::Skip, None, 950, wait(1000)),
            (MissedRuns::RunOnce, None, 950, run(8, 900, 1)),
            (MissedRuns::RunAll(9), None, 950, run(8, 400, 1)),
            (MissedRuns::RunAll(3), None, 950, run(8, 700, 1)),
            (MissedRuns::RunAll(1), None, 950, run(8, 900, 1)),
            // The leader has waited, and wakes late.
            (MissedRuns::Skip, Some(at(400)), 499, run(8, 400, 1)),
            (MissedRuns::Skip, Some(at(400)), 950, run(8, 400, 1)),
            // It has waited for a run that was then made, and for one that is not due, as the clock was set back.
            (MissedRuns::Skip, Some(at(300)), 950, wait(1000)),
            (MissedRuns::Skip, Some(at(500)), 450, wait(500)),
            // The clock of the one before was ahead.
            (MissedRuns::Skip, None, 100, wait(400)),
            (MissedRuns::RunOnce, None, 100, wait(400)),
            (MissedRuns::RunAll(9), None, 299, wait(400)),
        ];
        for (missed, waited, now, expected) in cases {
            assert_eq!(step(missed, waited, now), expected, "{missed:?} at {now}");
        }
    }

    /// What is kept from one step to the next changes nothing.
    #[test]
    fn a_backlog_follows_the_record_and_the_clock() {
        let mut backlog = Backlog::default();
        // The last run, the present time, and what is next of at most three.
        for (last, now, expected) in [
            (300, 950, run(8, 700, 1)),
            (700, 950, run(8, 800, 1)),
            // Another one is due: three again.
            (700, 1000, run(8, 800, 1)),
            // And some more, as after a long run.
            (800, 1250, run(8, 1000, 1)),
            // The clock is set back, and forward.
            (1000, 1100, run(8, 1100, 1)),
            (1000, 1050, wait(1100)),
            (1000, 9_999, run(8, 9_700, 1)),
            (9_900, 9_999, wait(10_000)),
        ] {
            let record = record(Some((7, last, 1, RunOutcome::Done)));
            let all = MissedRuns::RunAll(3);
            let step = next_step(&schedule(), all, SKIP, &record, None, &mut backlog, at(now));
            assert_eq!(step, expected, "{last} at {now}");
        }
    }

    #[test]
    fn an_unfinished_run_is_repeated_as_often_as_told() {
        let step = |policy, attempt| {
            let record = record(Some((7, 300, attempt, RunOutcome::Unfinished)));
            let backlog = &mut Backlog::default();
            next_step(&schedule(), MissedRuns::RunOnce, policy, &record, None, backlog, at(350))
        };
        assert_eq!(step(SKIP, 1), wait(400));
        assert_eq!(step(UnfinishedRun::Repeat(2), 1), run(7, 300, 2));
        assert_eq!(step(UnfinishedRun::Repeat(2), 2), run(7, 300, 3));
        assert_eq!(step(UnfinishedRun::Repeat(2), 3), wait(400));
        for ended in [RunOutcome::Done, RunOutcome::Failed] {
            let record = record(Some((7, 300, 1, ended)));
            let repeat = UnfinishedRun::Repeat(2);
            let backlog = &mut Backlog::default();
            let step = next_step(&schedule(), MissedRuns::RunOnce, repeat, &record, None, backlog, at(350));
            assert_eq!(step, wait(400));
        }
    }
}
