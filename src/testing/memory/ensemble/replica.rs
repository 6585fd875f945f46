//! One server of an ensemble.

use std::time::Duration;

use crate::testing::memory::database::Database;

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) database: Database,
    pub(super) is_running: bool,
    pub(super) is_paused: bool,
    /// How much later it hears of commits.
    pub(super) lag: Duration,
    /// By how much its wall clock is ahead.
    pub(super) ahead: Duration,
}

impl Replica {
    pub(super) fn new(database: Database) -> Self {
        Self { database, is_running: true, is_paused: false, lag: Duration::ZERO, ahead: Duration::ZERO }
    }

    pub(super) fn is_active(&self) -> bool {
        self.is_running && !self.is_paused
    }
}
