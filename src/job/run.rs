//! What the work of a job is told.

use std::time::SystemTime;

use super::plan::Due;
use crate::leader::Leadership;

/// One run of a job, for its work. Keep it as long as the work needs it: it changes nothing when it is dropped.
#[derive(Clone)]
pub struct JobRun {
    due: Due,
    leadership: Leadership,
}

debug_by!(JobRun, |it| number: it.number(), node_path: it.leadership.node_path(), attempt: it.attempt());

impl JobRun {
    pub(super) fn new(due: Due, leadership: Leadership) -> Self {
        Self { due, leadership }
    }

    /// Returns the number of the run, from 1. A [repeated](super::UnfinishedRun::Repeat) run keeps its number.
    pub fn number(&self) -> u64 {
        self.due.number
    }

    /// Returns when the run was due. It is the same in every attempt, so it suits as a key for what the work writes.
    pub fn scheduled_at(&self) -> SystemTime {
        self.due.scheduled_at
    }

    /// Returns how often the run was begun, this time included: 1 unless it is
    /// [repeated](super::UnfinishedRun::Repeat).
    pub fn attempt(&self) -> u32 {
        self.due.attempt
    }

    /// Returns a number that grows with every leader; it is the same for all runs of one leader. See
    /// [`Leadership::fencing_token`].
    pub fn fencing_token(&self) -> i64 {
        self.leadership.fencing_token()
    }

    /// Returns the leadership under which the run was begun. The work is dropped, where it awaits, when that is lost.
    /// If the process is to stop, it has the [grace period](crate::LeaderOptions::grace) to end: see
    /// [`Leadership::resign_requested`]. [`Leadership::transaction`] writes to ZooKeeper only while the run may go on.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }
}
