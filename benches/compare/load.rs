//! What a participant does, and the lines by which it is told and answers.
//!
//! | line | meaning |
//! |---|---|
//! | `open <servers> <path> <load>` | connects and gets ready to do this at this path, where there is a node |
//! | `run <round>` | does it once; the answer has the [`Outcome`] |
//! | `close` | undoes the `open` |
//!
//! A participant says `ready` and its version, if it knows it, at its start, answers each line with `ok [outcome]` or `error <text>`, and ends with its
//! standard input.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Result;

/// How many connections a latency is measured on in turns: that of one may be better than that of another throughout.
pub(crate) const CONNECTIONS: usize = 4;
/// What one sample of [`Operation::Reenter`] or [`Operation::Linger`] is the mean of.
pub(crate) const REPETITIONS: u32 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// One contender does one thing again and again; a round is on one connection.
    Timed { operation: Operation, iterations: usize },
    /// Several acquire and release as fast as they can, `tasks` in each session. An acquire is given up after `patience`;
    /// zero waits for as long as it takes.
    Contend { sessions: usize, tasks: usize, locks: Locks, time: Duration, patience: Duration },
    /// Many wait; how long does it take from one holder to the next? Neighbours in the queue are of different sessions,
    /// and who has released queues again after half of `hold`.
    HandOver { sessions: usize, waiters: usize, hand_overs: usize, hold: Duration },
    /// Candidates, each of a session of its own, lead for a while and resign; how long does it take to the next one?
    Succession { candidates: usize, successions: usize, term: Duration },
    /// Many of one session wait for a lock that another one keeps.
    Park { waiters: usize },
    /// Several increment one number as fast as they can, `tasks` in each session.
    Count { sessions: usize, tasks: usize, time: Duration },
}

/// What each of several tasks acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locks {
    /// The same lock as all others.
    Shared,
    /// A lock of its own.
    Own,
    /// Each time a lock whose path does not exist.
    Fresh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Acquires a mutex; the release is not timed.
    Acquire,
    /// The same with a new lock object for the nodes `<path>/0`, `<path>/1`, ..., which exist and have not been used.
    AcquireNew,
    /// The same where the nodes do not exist, as with a lock for each order or user.
    AcquireFresh,
    /// Acquires and releases a mutex.
    Cycle,
    /// Acquires a semaphore mutex.
    Semaphore,
    /// Acquires and releases a semaphore mutex.
    SemaphoreCycle,
    /// Acquires three mutexes, `<path>/a`, `<path>/b` and `<path>/c`, as one.
    Multi,
    /// Releases them; the acquire is not timed.
    MultiRelease,
    /// Acquires and releases a mutex that it holds.
    Reenter,
    /// Acquires and releases a mutex that lingers.
    Linger,
}

impl Operation {
    const ALL: [Self; 10] = [
        Self::Acquire,
        Self::AcquireNew,
        Self::AcquireFresh,
        Self::Cycle,
        Self::Semaphore,
        Self::SemaphoreCycle,
        Self::Multi,
        Self::MultiRelease,
        Self::Reenter,
        Self::Linger,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::AcquireNew => "acquire-new",
            Self::AcquireFresh => "acquire-fresh",
            Self::Cycle => "cycle",
            Self::Semaphore => "semaphore",
            Self::SemaphoreCycle => "semaphore-cycle",
            Self::Multi => "multi",
            Self::MultiRelease => "multi-release",
            Self::Reenter => "reenter",
            Self::Linger => "linger",
        }
    }
}

/// What came of one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Locks that were acquired and released; increments.
    pub(crate) cycles: u64,
    /// How long the cycles that were counted as grants took together.
    pub(crate) elapsed: Duration,
    /// In nanoseconds.
    pub(crate) latencies: Vec<u64>,
    /// Of each contender within `elapsed`.
    pub(crate) grants: Vec<u64>,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timed { operation, iterations } => {
                write!(f, "timed {} {iterations} {CONNECTIONS}", operation.name())
            }
            Self::Contend { sessions, tasks, locks, time, patience } => {
                let (locks, time, patience) = (*locks as u8, time.as_millis(), patience.as_millis());
                write!(f, "contend {sessions} {tasks} {locks} {time} {patience}")
            }
            Self::HandOver { sessions, waiters, hand_overs, hold } => {
                write!(f, "hand-over {sessions} {waiters} {hand_overs} {}", hold.as_millis())
            }
            Self::Succession { candidates, successions, term } => {
                write!(f, "succession {candidates} {successions} {}", term.as_millis())
            }
            Self::Park { waiters } => write!(f, "park {waiters}"),
            Self::Count { sessions, tasks, time } => {
                write!(f, "count {sessions} {tasks} {}", time.as_millis())
            }
        }
    }
}

impl FromStr for Load {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        Ok(match words[..] {
            ["timed", name, iterations, _connections] => {
                let operation = Operation::ALL.into_iter().find(|operation| operation.name() == name);
                let operation = operation.ok_or_else(|| format!("no operation is called {name:?}"))?;
                Self::Timed { operation, iterations: iterations.parse()? }
            }
            ["contend", sessions, tasks, locks, millis, patience] => Self::Contend {
                sessions: sessions.parse()?,
                tasks: tasks.parse()?,
                locks: match locks {
                    "0" => Locks::Shared,
                    "1" => Locks::Own,
                    "2" => Locks::Fresh,
                    _ => return Err(format!("no locks are called {locks:?}").into()),
                },
                time: Duration::from_millis(millis.parse()?),
                patience: Duration::from_millis(patience.parse()?),
            },
            ["hand-over", sessions, waiters, hand_overs, millis] => Self::HandOver {
                sessions: sessions.parse()?,
                waiters: waiters.parse()?,
                hand_overs: hand_overs.parse()?,
                hold: Duration::from_millis(millis.parse()?),
            },
            ["succession", candidates, successions, millis] => Self::Succession {
                candidates: candidates.parse()?,
                successions: successions.parse()?,
                term: Duration::from_millis(millis.parse()?),
            },
            ["park", waiters] => Self::Park { waiters: waiters.parse()? },
            ["count", sessions, tasks, millis] => Self::Count {
                sessions: sessions.parse()?,
                tasks: tasks.parse()?,
                time: Duration::from_millis(millis.parse()?),
            },
            _ => return Err(format!("not a load: {text:?}").into()),
        })
    }
}

/// `<cycles> <nanoseconds> <latencies> <grants>`, the lists with commas.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let (latencies, grants) = (list(&self.latencies), list(&self.grants));
        write!(f, "{} {} {latencies} {grants}", self.cycles, self.elapsed.as_nanos())
    }
}

impl FromStr for Outcome {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Result<Self> {
        let list = |text: &str| {
            text.split(',')
                .filter(|number| !number.is_empty())
                .map(str::parse)
                .collect::<Result<Vec<u64>, _>>()
        };
        let [cycles, nanoseconds, latencies, grants] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("not an outcome: {text:?}").into());
        };
        Ok(Self {
            cycles: cycles.parse()?,
            elapsed: Duration::from_nanos(nanoseconds.parse()?),
            latencies: list(latencies)?,
            grants: list(grants)?,
        })
    }
}
