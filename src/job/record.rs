//! What is recorded about a job, and its format.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::schedule::{Schedule, from_millis, millis};

const FORMAT: &str = "zk-recipes job 1";

/// A record that is further ahead than this is not waited for. Longer than an answer of the servers takes, for which the
/// difference of a clock is not known.
const FUTURE: Duration = Duration::from_secs(60);

/// What is recorded about a job. From [`ScheduledJob::record`](super::ScheduledJob::record) and
/// [`JobState`](super::JobState); the [module](super#the-record) has the format.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// The schedule of the process that wrote the record, such as `every 60s` or `cron 30 2 * * *`.
    pub schedule: String,
    /// When the job was started for the first time. It is due after that.
    pub since: SystemTime,
    /// When the job is due next, as of the last run; in a [`JobState`](super::JobState), at the moment. `None` if it is
    /// never due again.
    pub next_run: Option<SystemTime>,
    /// How many runs were begun, not finished, and not repeated. The last run counts when the next one begins.
    pub unfinished: u64,
    /// The [fencing token](crate::Leadership::fencing_token) of the leader that wrote the record.
    pub leader: i64,
    /// The run that was begun last. `None` before the first one.
    pub last_run: Option<RunRecord>,
}

debug_by!(JobRecord, |it|
    schedule: it.schedule, unfinished: it.unfinished, leader: it.leader, last_run: it.last_run
);

/// What is recorded about a run.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// The number of the run, from 1. A repeated run keeps its number.
    pub number: u64,
    /// When it was due.
    pub scheduled_at: SystemTime,
    /// How often it was begun.
    pub attempt: u32,
    /// The fencing token of the leader that has begun it.
    pub fencing_token: i64,
    /// What became of it.
    pub outcome: RunOutcome,
    /// When it was begun last, by the clock of the servers; not earlier than it was. `None` in the state of a job until
    /// the run is over.
    pub begun_at: Option<SystemTime>,
    /// How long it took, if it has ended.
    pub took: Option<Duration>,
}

debug_by!(RunRecord, |it|
    number: it.number, attempt: it.attempt, outcome: it.outcome, fencing_token: it.fencing_token,
    took: it.took
);

/// What became of a run.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunOutcome {
    /// It was begun, and its end is not recorded: it is running, or its leader died or lost the leadership.
    Unfinished,
    /// Its work has returned `Ok`.
    Done,
    /// Its work has returned an error, or has panicked.
    Failed,
}

impl RunOutcome {
    const ALL: [Self; 3] = [Self::Unfinished, Self::Done, Self::Failed];

    fn name(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

impl JobRecord {
    /// The record of a job that starts now.
    pub(super) fn new(schedule: &Schedule, now: SystemTime) -> Self {
        Self {
            schedule: schedule.to_string(),
            since: from_millis(millis(now)),
            next_run: schedule.after(now),
            unfinished: 0,
            leader: 0,
            last_run: None,
        }
    }

    /// Returns the record without what a leader whose clock was far ahead has put into the future; `None` if it has not.
    /// `now` is the time of the servers. Otherwise, no one would run the job until then.
    pub(super) fn mended(&self, schedule: &Schedule, now: SystemTime, tolerance: Duration) -> Option<Self> {
        let limit = now.checked_add(tolerance)?.checked_add(FUTURE)?;
        let mut record = self.clone();
        if record.since > limit {
            record.since = now;
        }
        if let Some(last) = record.last_run.as_mut().filter(|last| last.scheduled_at > limit) {
            last.scheduled_at = schedule.at_or_before(now).unwrap_or(now);
        }
        record.next_run = schedule.after(now);
        let is_done_until = |record: &Self| record.last_run.as_ref().map(|last| last.scheduled_at);
        (record.since != self.since || is_done_until(&record) != is_done_until(self)).then_some(record)
    }

    /// Returns the record in this data of a node, which was written at this time. `None` if it is something else.
    pub(super) fn parse(data: &[u8], written: SystemTime) -> Option<Self> {
        let (format, text) = std::str::from_utf8(data).ok()?.split_once('\n')?;
        if format != FORMAT {
            return None;
        }
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let time = |name| value(name).map(|text| text.parse().map(from_millis)).transpose().ok();
        let last_run = match value("run") {
            None => None,
            Some(number) => Some(RunRecord {
                // There are more than enough behind it.
                number: number.parse().ok().filter(|number| *number < u64::MAX / 2)?,
                scheduled_at: time("scheduled")??,
                attempt: value("attempt")?.parse().ok()?,
                fencing_token: value("token")?.parse().ok()?,
                outcome: value("outcome")
                    .and_then(|name| RunOutcome::ALL.into_iter().find(|outcome| outcome.name() == name))?,
                begun_at: Some(time("begun")?.unwrap_or(written)),
                took: value("took").map(str::parse).transpose().ok()?.map(Duration::from_millis),
            }),
        };
        Some(Self {
            schedule: value("schedule")?.to_owned(),
            since: time("since")??,
            next_run: time("next")?,
            unfinished: value("unfinished")?.parse().ok()?,
            leader: value("leader")?.parse().ok()?,
            last_run,
        })
    }
}

/// The data of the node.
impl fmt::Display for JobRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FORMAT}\nschedule {}\nsince {}", self.schedule, millis(self.since))?;
        if let Some(next) = self.next_run {
            writeln!(f, "next {}", millis(next))?;
        }
        writeln!(f, "unfinished {}\nleader {}", self.unfinished, self.leader)?;
        let Some(run) = &self.last_run else { return Ok(()) };
        writeln!(f, "run {}\nscheduled {}", run.number, millis(run.scheduled_at))?;
        writeln!(f, "attempt {}\ntoken {}\noutcome {}", run.attempt, run.fencing_token, run.outcome.name())?;
        if let Some(begun) = run.begun_at {
            writeln!(f, "begun {}", millis(begun))?;
        }
        if let Some(took) = run.took {
            writeln!(f, "took {}", took.as_millis())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> JobRecord {
        let schedule = Schedule::every(Duration::from_secs(60)).unwrap();
        let mut record = JobRecord::new(&schedule, from_millis(59_000));
        record.last_run = Some(RunRecord {
            number: 17,
            scheduled_at: from_millis(60_000),
            attempt: 2,
            fencing_token: 8_589_934_598,
            outcome: RunOutcome::Done,
            begun_at: Some(from_millis(60_012)),
            took: Some(Duration::from_millis(1234)),
        });
        record
    }

    #[test]
    fn what_is_written_is_read() {
        let written = from_millis(61_000);
        let parse = |record: &JobRecord| JobRecord::parse(record.to_string().as_bytes(), written).unwrap();
        let mut record = record();
        assert_eq!(parse(&record), record);
        record.next_run = None;
        assert_eq!(parse(&record), record);

        let run = record.last_run.as_mut().unwrap();
        (run.outcome, run.begun_at, run.took) = (RunOutcome::Unfinished, None, None);
        let read = parse(&record).last_run.unwrap();
        assert_eq!((read.outcome, read.begun_at), (RunOutcome::Unfinished, Some(written)));
        record.last_run = None;
        assert_eq!(parse(&record), record);
    }

    #[test]
    fn what_is_in_the_future_is_mended() {
        let schedule = Schedule::every(Duration::from_secs(60)).unwrap();
        let (second, year) = (Duration::from_secs(1), 365 * 86_400_000);
        let mended = |record: &JobRecord, now| record.mended(&schedule, from_millis(now), second);
        let mut record = record();
        for now in [60_000, 61_000, year] {
            assert_eq!(mended(&record, now), None);
        }
        // As a clock that is ahead within the tolerance, and a late reply, may have it.
        record.last_run.as_mut().unwrap().scheduled_at = from_millis(121_000);
        assert_eq!(mended(&record, 60_000), None);

        record.last_run.as_mut().unwrap().scheduled_at = from_millis(year);
        let after = mended(&record, 150_000).unwrap();
        let last = after.last_run.clone().unwrap();
        assert_eq!((last.number, last.scheduled_at), (17, from_millis(120_000)));
        assert_eq!((after.since, after.next_run), (record.since, Some(from_millis(180_000))));
        assert_eq!(record.mended(&schedule, from_millis(150_000), Duration::MAX), None);
        assert_eq!(mended(&after, 150_000), None);

        (record.since, record.last_run) = (from_millis(year), None);
        let after = mended(&record, 150_000).unwrap();
        assert_eq!((after.since, after.next_run), (from_millis(150_000), Some(from_millis(180_000))));
    }

    #[test]
    fn what_a_later_version_adds_is_ignored() {
        let text = format!("{}colour green\n", record());
        assert_eq!(JobRecord::parse(text.as_bytes(), from_millis(0)), Some(record()));
    }

    #[test]
    fn anything_else_is_no_record() {
        let text = record().to_string();
        let lines: Vec<&str> = text.lines().collect();
        let optional = ["next", "begun", "took"];
        for (index, line) in lines.iter().enumerate() {
            let without: Vec<&str> = lines.iter().filter(|other| *other != line).copied().collect();
            let (name, _) = line.split_once(' ').unwrap();
            if name != "run" && !optional.contains(&name) {
                assert_eq!(JobRecord::parse(without.join("\n").as_bytes(), from_millis(0)), None, "{name}");
            }
            if name != "schedule" {
                let mut spoilt = lines.clone();
                let line = format!("{name} x");
                spoilt[index] = &line;
                assert_eq!(JobRecord::parse(spoilt.join("\n").as_bytes(), from_millis(0)), None, "{name}");
            }
        }
        let last = text.replace("run 17\n", &format!("run {}\n", u64::MAX));
        for foreign in [last.as_bytes(), b"", b"4711", b"\xff\xfe\n", b"zk-recipes job 2\n"] {
            assert_eq!(JobRecord::parse(foreign, from_millis(0)), None);
        }
    }
}
