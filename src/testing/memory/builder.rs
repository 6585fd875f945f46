//! The settings of a server in memory.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::database::Database;
use super::running::Shared;
use super::server::MemoryServer;
use super::settings::MemorySettings;

/// Configures and starts a [`MemoryServer`].
#[derive(Clone, Default)]
#[must_use = "a builder starts nothing before `start`"]
pub struct MemoryServerBuilder {
    settings: MemorySettings,
}

debug_by!(MemoryServerBuilder, |it|
    has_ttl_nodes: it.settings.has_ttl_nodes, forgets_sessions: it.settings.forgets_sessions,
    reap_interval: it.settings.reap_interval, longest_request: it.settings.longest_request,
    settings: it.settings.common
);

impl MemoryServerBuilder {
    /// Sets the server's unit of time, in whole milliseconds. 100 ms by default.
    ///
    /// A session ends at the first tick after its timeout. No session timeout can be shorter than two ticks, unless
    /// [`session_timeout_bounds`](Self::session_timeout_bounds) says otherwise.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.common.tick_time = tick;
        self
    }

    /// Sets the shortest and the longest session timeout that the server grants, in whole milliseconds; a client
    /// that asks for another gets the nearest. By default two ticks, and a minute (or 20 ticks, if that is more).
    pub fn session_timeout_bounds(mut self, shortest: Duration, longest: Duration) -> Self {
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
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
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
    /// passes on. The earlier session stays, with its ephemeral nodes, until its timeout: nobody can resume it or end
    /// it, except [`MemoryServer::kill_session`].
    pub fn forget_sessions(mut self, enabled: bool) -> Self {
        self.settings.forgets_sessions = enabled;
        self
    }

    /// Starts the server. Clients can connect as soon as this returns, which takes less than a millisecond.
    ///
    /// # Errors
    ///
    /// - `InvalidInput` for invalid settings,
    /// - if the system provides no port or no thread.
    pub fn start(self) -> io::Result<MemoryServer> {
        let database = Database::new(self.settings.limits()?, first_session());
        let MemorySettings { reap_interval, longest_request, .. } = self.settings;
        MemoryServer::start_with(Arc::new(Shared::new(database, reap_interval, longest_request)))
    }
}

/// Returns an id as that of a real server: the time below the number of the server, which is 0. So no client takes
/// the session of another server for its own.
fn first_session() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let low_bits = now.as_millis() as u64 & 0xff_ffff_ffff;
    (low_bits << 16 | u64::from(fastrand::u16(..))).cast_signed()
}
