//! How long it takes from one holder to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::timed::nanoseconds;
use crate::Result;
use crate::load::Outcome;

/// What the holders tell each other.
pub(crate) struct Baton {
    wanted: usize,
    passes: Mutex<Passes>,
    enough: Notify,
}

#[derive(Default)]
struct Passes {
    released: Option<Instant>,
    latencies: Vec<u64>,
}

impl Baton {
    pub(crate) fn new(wanted: usize) -> Self {
        Self { wanted, passes: Mutex::default(), enough: Notify::new() }
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn release(&self) {
        self.passes().released = Some(Instant::now());
    }

    pub(crate) fn take(&self, acquired: Instant) {
        let mut passes = self.passes();
        if let Some(released) = passes.released.take() {
            passes.latencies.push(nanoseconds(acquired - released));
        }
        if passes.latencies.len() >= self.wanted {
            self.enough.notify_one();
        }
    }

    /// Waits until it was passed often enough by those who run with it, who do not end by themselves.
    pub(crate) async fn enough(&self, runners: &mut JoinSet<Result<()>>) -> Result<()> {
        tokio::select! {
            () = self.enough.notified() => Ok(()),
            Some(failed) = runners.join_next() => failed?,
        }
    }

    pub(crate) fn outcome(&self, elapsed: Duration) -> Outcome {
        let latencies = std::mem::take(&mut self.passes().latencies);
        Outcome { cycles: latencies.len() as u64, elapsed, latencies, grants: Vec::new() }
    }
}
