//! What is to happen later.

use std::collections::BTreeMap;
use std::time::Duration;

use super::state::Task;

/// Tasks by the time at which they are due; those of one time in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    tasks: BTreeMap<(Duration, u64), Task>,
    added: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Duration, task: Task) {
        self.added += 1;
        self.tasks.insert((at, self.added), task);
    }

    /// Returns when the next task is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.tasks.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next task, if it is due, and the time at which it is.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<(Duration, Task)> {
        if self.next()? > now {
            return None;
        }
        self.tasks.pop_first().map(|((at, _), task)| (at, task))
    }
}
