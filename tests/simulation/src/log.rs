//! What a run tells: counts, violations, and the time line of who did what.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use crate::system;

#[derive(Debug, Default)]
struct Log {
    counts: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
    /// `None` if no one wants it.
    lines: Option<Vec<Line>>,
    /// Of all counts, in their order and with their times.
    fingerprint: u64,
}

/// A line of the time line.
#[derive(Clone, Debug)]
pub struct Line {
    pub at: Duration,
    pub text: String,
}

thread_local! {
    static LOG: RefCell<Log> = RefCell::default();
}

/// What is left of a log.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) violations: Vec<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) fingerprint: u64,
}

pub(crate) fn begin(with_lines: bool) {
    LOG.set(Log { lines: with_lines.then(Vec::new), ..Log::default() });
}

pub(crate) fn end() -> Written {
    let Log { counts, violations, lines, fingerprint } = LOG.take();
    Written { counts, violations, lines: lines.unwrap_or_default(), fingerprint }
}

/// Counts something that has happened.
pub fn count(what: &'static str, number: u64) {
    let at = system::elapsed().as_nanos() as u64;
    LOG.with_borrow_mut(|log| {
        *log.counts.entry(what).or_default() += number;
        log.fingerprint = (log.fingerprint.rotate_left(5) ^ at ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    });
}

/// Writes a line, if anyone wants to read it. The text must not be made from what differs between two runs.
pub fn note<T: Display>(text: impl FnOnce() -> T) {
    if LOG.with_borrow(|log| log.lines.is_some()) {
        let line = Line { at: system::elapsed(), text: text().to_string() };
        LOG.with_borrow_mut(|log| {
            if let Some(lines) = &mut log.lines {
                lines.push(line);
            }
        });
    }
}

/// Tells that a promise was broken.
pub fn violation(text: impl Display) {
    let at = system::elapsed();
    note(|| format!("VIOLATION: {text}"));
    LOG.with_borrow_mut(|log| log.violations.push(format!("{:.6} s: {text}", at.as_secs_f64())));
}

/// Returns how many promises were broken so far.
pub fn violations() -> usize {
    LOG.with_borrow(|log| log.violations.len())
}
