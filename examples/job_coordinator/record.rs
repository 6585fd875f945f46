//! The record: what happened, one line per event, in the order in which it happened.
//!
//! All processes append to one file, each event by one write. The operating system puts the writes of a file
//! opened for appending one after the other, so the order of the lines is the order of the events: a worker
//! writes "start" after the lock was granted to it, and "finish" before it releases. No clock is needed, and
//! none could prove as much. Neither could a pipe per worker: nothing orders the lines of two pipes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::Result;

/// One attempt at a job, under one grant of the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) worker: String,
    pub(crate) job: String,
    /// The fencing token of the grant.
    pub(crate) token: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A worker holds the lock and begins a job. `behind` others were before it when it entered the queue.
    Start { attempt: Attempt, behind: usize },
    /// The job is done, and marked so; the worker is about to release the lock.
    Finish(Attempt),
    /// The worker was killed, and is dead. Written by the coordinator.
    Killed(Attempt),
    /// A worker holds the lock, finds no job left, and goes home.
    Home { worker: String, token: i64 },
}

impl Event {
    /// Who was granted the lock with what token, if this event tells of a grant.
    pub(crate) fn grant(&self) -> Option<(&str, i64)> {
        match self {
            Self::Start { attempt, .. } => Some((&attempt.worker, attempt.token)),
            Self::Home { worker, token } => Some((worker, *token)),
            Self::Finish(_) | Self::Killed(_) => None,
        }
    }

    fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let attempt = |worker: &str, job: &str, token: &str| {
            token.parse().map(|token| Attempt { worker: worker.into(), job: job.into(), token })
        };
        Ok(match words[..] {
            ["start", worker, job, "token", token, "behind", behind] => {
                Self::Start { attempt: attempt(worker, job, token)?, behind: behind.parse()? }
            }
            ["finish", worker, job, "token", token] => Self::Finish(attempt(worker, job, token)?),
            ["killed", worker, job, "token", token] => Self::Killed(attempt(worker, job, token)?),
            ["home", worker, "token", token] => Self::Home { worker: worker.into(), token: token.parse()? },
            _ => return Err(format!("the record has a line that nobody writes: {line:?}").into()),
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { attempt, behind } => write!(f, "start {attempt} behind {behind}"),
            Self::Finish(attempt) => write!(f, "finish {attempt}"),
            Self::Killed(attempt) => write!(f, "killed {attempt}"),
            Self::Home { worker, token } => write!(f, "home {worker} token {token}"),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} token {}", self.worker, self.job, self.token)
    }
}

/// Appends to the record.
#[derive(Debug)]
pub(crate) struct Recorder(File);

impl Recorder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self(OpenOptions::new().append(true).open(path)?))
    }

    pub(crate) fn append(&mut self, event: &Event) -> Result<()> {
        Ok(self.0.write_all(format!("{event}\n").as_bytes())?)
    }
}

/// The record of one run, read while it grows. The file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
    file: File,
    /// The beginning of a line whose end is not there yet.
    rest: String,
}

impl Record {
    pub(crate) fn create(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("{name}.record"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Self { path, file, rest: String::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The events since the last call.
    pub(crate) fn news(&mut self) -> Result<Vec<Event>> {
        self.file.read_to_string(&mut self.rest)?;
        let whole_lines = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.rest.drain(..whole_lines).collect();
        lines.lines().map(Event::parse).collect()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // At worst it stays among the temporary files.
        let _ = std::fs::remove_file(&self.path);
    }
}
