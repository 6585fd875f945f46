//! The record: what happened, one line per event, in the order in which it happened.
//!
//! All processes append to one file, each event by one write, and the operating system puts those one after the
//! other. It knows nothing of ZooKeeper: whatever goes wrong there, shows here. The time is that of the monotonic
//! clock, which is the same for all processes of a machine.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// The job at one tick, done by somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) number: u64,
    pub(crate) worker: String,
    /// The fencing token of its leadership.
    pub(crate) token: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) at: Duration,
    pub(crate) event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A worker leads.
    Elected { worker: String, token: i64 },
    /// It knows that it leads no more.
    Ended { worker: String, token: i64 },
    /// It believes that it is to do this tick, and has done nothing for it yet.
    Begins(Tick),
    /// The tick is done, and ZooKeeper has said so.
    Done(Tick),
    /// Written by the parent process.
    Told { what: What, worker: String },
    /// The worker stands for election, with this token. Written by the parent process.
    Stands { worker: String, token: i64 },
}

/// What happens to a leader. Written before it can have an effect, or after it has: what counts for a check comes
/// behind the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Before it is asked to.
    Resigns,
    /// After.
    Killed,
    /// After.
    Paused,
    /// Before.
    Continued,
    /// After.
    Cut,
    /// Before.
    Mended,
    /// The end of the record, and of nobody.
    End,
}

const WHATS: [(What, &str); 7] = [
    (What::Resigns, "resigns"),
    (What::Killed, "killed"),
    (What::Paused, "paused"),
    (What::Continued, "continued"),
    (What::Cut, "cut-off"),
    (What::Mended, "mended"),
    (What::End, "end"),
];

impl What {
    pub(crate) fn name(self) -> &'static str {
        WHATS.iter().find(|(what, _)| *what == self).map_or("", |(_, name)| name)
    }

    fn parse(name: &str) -> Option<Self> {
        WHATS.iter().find(|(_, other)| *other == name).map(|(what, _)| *what)
    }
}

impl Event {
    /// What is done, or begun, under which token.
    pub(crate) fn tick(&self) -> Option<&Tick> {
        match self {
            Self::Begins(tick) | Self::Done(tick) => Some(tick),
            _ => None,
        }
    }

    pub(crate) fn done(&self) -> Option<&Tick> {
        self.tick().filter(|_| matches!(self, Self::Done(_)))
    }
}

impl Line {
    fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let nobody = || format!("the record has a line that nobody writes: {line:?}");
        let [at, word, worker, rest @ ..] = &words[..] else { return Err(nobody().into()) };
        let worker = (*worker).to_owned();
        let event = match (*word, rest) {
            ("elected", [token]) => Event::Elected { worker, token: token.parse()? },
            ("ended", [token]) => Event::Ended { worker, token: token.parse()? },
            ("stands", [token]) => Event::Stands { worker, token: token.parse()? },
            ("begins" | "done", [token, number]) => {
                let tick = Tick { number: number.parse()?, worker, token: token.parse()? };
                if *word == "done" { Event::Done(tick) } else { Event::Begins(tick) }
            }
            (what, []) => Event::Told { what: What::parse(what).ok_or_else(nobody)?, worker },
            _ => return Err(nobody().into()),
        };
        Ok(Self { at: Duration::from_micros(at.parse()?), event })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_micros();
        match &self.event {
            Event::Elected { worker, token } => write!(f, "{at} elected {worker} {token}"),
            Event::Ended { worker, token } => write!(f, "{at} ended {worker} {token}"),
            Event::Stands { worker, token } => write!(f, "{at} stands {worker} {token}"),
            Event::Begins(Tick { number, worker, token }) => {
                write!(f, "{at} begins {worker} {token} {number}")
            }
            Event::Done(Tick { number, worker, token }) => write!(f, "{at} done {worker} {token} {number}"),
            Event::Told { what, worker } => write!(f, "{at} {} {worker}", what.name()),
        }
    }
}

/// The clock of the record.
pub(crate) fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

/// Appends to the record.
#[derive(Debug)]
pub(crate) struct Recorder(File);

impl Recorder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self(OpenOptions::new().append(true).open(path)?))
    }

    pub(crate) fn append(&self, event: Event) -> Result<()> {
        let line = Line { at: now(), event };
        Ok((&self.0).write_all(format!("{line}\n").as_bytes())?)
    }
}

/// The record of one run, read while it grows.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
    file: File,
    /// The beginning of a line whose end is not there yet.
    rest: String,
}

impl Record {
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { path, file, rest: String::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The lines since the last call.
    pub(crate) fn news(&mut self) -> Result<Vec<Line>> {
        self.file.read_to_string(&mut self.rest)?;
        let whole_lines = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.rest.drain(..whole_lines).collect();
        lines.lines().map(Line::parse).collect()
    }
}
