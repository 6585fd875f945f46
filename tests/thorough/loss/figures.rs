//! Distances from a loss to the next grant.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// In seconds; below zero where two held at once.
#[derive(Default)]
pub(crate) struct Distances(Vec<f64>);

impl Distances {
    pub(crate) fn push(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// In how many rounds two held at once.
    pub(crate) fn overlaps(&self) -> usize {
        self.0.iter().filter(|distance| **distance <= 0.0).count()
    }
}

impl fmt::Display for Distances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let [smallest, median] = [sorted[0], sorted[sorted.len() / 2]].map(|seconds| seconds * 1e3);
        let overlaps = self.overlaps();
        write!(f, "smallest {smallest:.0} ms, median {median:.0} ms, {overlaps} overlaps")
    }
}

/// How long the first instant is before the second one; negative if it is after it.
pub(crate) fn seconds_between(first: Instant, second: Instant) -> f64 {
    match second.checked_duration_since(first) {
        Some(ahead) => ahead.as_secs_f64(),
        None => -(first - second).as_secs_f64(),
    }
}

/// The same time on the clock that all processes share.
pub(crate) fn wall(instant: Instant) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs_f64() + seconds_between(Instant::now(), instant)
}
