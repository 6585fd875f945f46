//! The settings that all servers in memory have.

use std::io;
use std::time::Duration;

use super::request::Connect;
use super::version::MemoryVersion;
use crate::testing::settings::{Settings, invalid};

/// As in ZooKeeper.
const REAP_INTERVAL: Duration = Duration::from_secs(60);
/// ZooKeeper's `jute.maxbuffer`, one byte less than a megabyte.
const LONGEST_REQUEST: usize = 0xf_ffff;

#[derive(Clone, Debug)]
pub(super) struct MemorySettings {
    pub(super) common: Settings,
    pub(super) has_ttl_nodes: bool,
    pub(super) version: MemoryVersion,
    /// How often containers and times to live are looked at.
    pub(super) reap_interval: Duration,
    pub(super) longest_request: usize,
    /// Whether no connection continues a session.
    pub(super) forgets_sessions: bool,
}

/// The methods that all builders of servers in memory have.
macro_rules! setters {
    () => {
        /// Sets the server's unit of time, in whole milliseconds. 100 ms by default.
        ///
        /// A session ends at the first tick after its timeout. No session timeout can be shorter than two ticks, unless
        /// [`session_timeout_bounds`](Self::session_timeout_bounds) says otherwise.
        pub fn tick_time(mut self, tick: std::time::Duration) -> Self {
            self.settings.common.tick_time = tick;
            self
        }

        /// Sets the shortest and the longest session timeout that the server grants, in whole milliseconds; a client
        /// that asks for another gets the nearest. By default two ticks, and a minute (or 20 ticks, if that is more).
        pub fn session_timeout_bounds(
            mut self,
            shortest: std::time::Duration,
            longest: std::time::Duration,
        ) -> Self {
            self.settings.common.session_timeout_bounds = Some((shortest, longest));
            self
        }

        /// Sets whether nodes can have a time to live. They cannot by default, as on a real server without
        /// `extendedTypesEnabled`, which refuses them as unimplemented.
        pub fn ttl_nodes(mut self, enabled: bool) -> Self {
            self.settings.has_ttl_nodes = enabled;
            self
        }

        /// Sets how often the server looks for containers to remove, and for nodes whose time to live is over. A minute
        /// by default, as on a real server (`znode.container.checkIntervalMs`).
        pub fn container_check_interval(mut self, interval: std::time::Duration) -> Self {
            self.settings.reap_interval = interval;
            self
        }

        /// Sets the size in bytes of the longest request. The connection of a client that sends a longer one is closed.
        /// 1,048,575 by default, as on a real server (`jute.maxbuffer`).
        pub fn max_request_size(mut self, bytes: usize) -> Self {
            self.settings.longest_request = bytes;
            self
        }

        /// Sets whether each connection gets a new session, even if it is made for another one. False by default.
        ///
        /// ZooKeeper never does this, but ClickHouse Keeper does, and so does a proxy that changes the session id in what it
        /// passes on. The earlier session stays, with its ephemeral nodes, until its timeout: no client can resume it or end it.
        pub fn forget_sessions(mut self, enabled: bool) -> Self {
            self.settings.forgets_sessions = enabled;
            self
        }
    };
}
pub(super) use setters;

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            common: Settings::default(),
            has_ttl_nodes: false,
            version: MemoryVersion::default(),
            reap_interval: REAP_INTERVAL,
            longest_request: LONGEST_REQUEST,
            forgets_sessions: false,
        }
    }
}

impl MemorySettings {
    pub(super) fn check(&self) -> io::Result<()> {
        self.common.check()?;
        if self.reap_interval.is_zero() {
            return Err(invalid("container_check_interval must be greater than zero".into()));
        }
        Ok(())
    }

    /// Returns the timeout that a client is granted.
    pub(super) fn timeout(&self, connect: &Connect<'_>) -> Duration {
        let timeout = Duration::from_millis(connect.timeout.max(0).unsigned_abs().into());
        let (shortest, longest) = self.common.session_timeouts();
        timeout.clamp(shortest, longest)
    }
}
