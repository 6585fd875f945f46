//! The settings that all servers in memory have.

use std::io;
use std::time::Duration;

use super::database::Limits;
use crate::testing::settings::{Settings, invalid};

/// As in ZooKeeper.
const REAP_INTERVAL: Duration = Duration::from_secs(60);
/// ZooKeeper's `jute.maxbuffer`, one byte less than a megabyte.
const LONGEST_REQUEST: usize = 0xf_ffff;

#[derive(Clone, Debug)]
pub(super) struct MemorySettings {
    pub(super) common: Settings,
    pub(super) has_ttl_nodes: bool,
    pub(super) has_stats_in_multi: bool,
    pub(super) reap_interval: Duration,
    pub(super) longest_request: usize,
    pub(super) forgets_sessions: bool,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            common: Settings::default(),
            has_ttl_nodes: false,
            has_stats_in_multi: true,
            reap_interval: REAP_INTERVAL,
            longest_request: LONGEST_REQUEST,
            forgets_sessions: false,
        }
    }
}

impl MemorySettings {
    /// Returns what a server grants to clients, if the settings are valid.
    pub(super) fn limits(&self) -> io::Result<Limits> {
        self.common.check()?;
        if self.reap_interval.is_zero() {
            return Err(invalid("container_check_interval must be greater than zero".into()));
        }
        let (shortest_timeout, longest_timeout) = self.common.session_timeouts();
        Ok(Limits {
            shortest_timeout,
            longest_timeout,
            tick: self.common.tick_time,
            has_ttl_nodes: self.has_ttl_nodes,
            has_stats_in_multi: self.has_stats_in_multi,
            forgets_sessions: self.forgets_sessions,
        })
    }
}
