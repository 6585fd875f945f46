//! The settings of an ensemble in memory.

use std::io;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::MemoryEnsemble;
use super::state::Behaviour;
use crate::testing::memory::settings::MemorySettings;
use crate::testing::settings::invalid;

/// The date at which an ensemble starts unless it is told another: 2026-01-01.
const START: Duration = Duration::from_secs(1_767_225_600);

/// Configures and starts a [`MemoryEnsemble`].
#[derive(Clone)]
#[must_use = "a builder starts nothing before `start`"]
pub struct MemoryEnsembleBuilder {
    settings: MemorySettings,
    servers: usize,
    seed: u64,
    latency: Range<Duration>,
    election_time: Range<Duration>,
    sync_limit: u32,
    wall_clock: SystemTime,
}

debug_by!(MemoryEnsembleBuilder, |it|
    servers: it.servers, seed: it.seed, latency: it.latency, election_time: it.election_time,
    sync_limit: it.sync_limit, tick_time: it.settings.common.tick_time
);

impl Default for MemoryEnsembleBuilder {
    fn default() -> Self {
        Self {
            settings: MemorySettings::default(),
            servers: 3,
            seed: 0,
            latency: Duration::from_micros(50)..Duration::from_micros(300),
            election_time: Duration::from_millis(200)..Duration::from_secs(1),
            sync_limit: 5,
            wall_clock: UNIX_EPOCH + START,
        }
    }
}

impl MemoryEnsembleBuilder {
    /// Sets the number of servers: 1, 3, 5 and so on. 3 by default.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Sets the seed of all random choices: of latencies, election times and session ids. 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how long a message takes from one server to another. 50 to 300 microseconds by default.
    ///
    /// Messages between two servers stay in order. Since tokio's clock has a resolution of one millisecond, a client
    /// receives a reply at the millisecond after it was due.
    pub fn latency(mut self, latency: Range<Duration>) -> Self {
        self.latency = latency;
        self
    }

    /// Sets how long a server without a leader takes until it votes. 200 ms to 1 s by default.
    pub fn election_time(mut self, time: Range<Duration>) -> Self {
        self.election_time = time;
        self
    }

    /// Sets after how many ticks without a sign of life a follower leaves its leader, and a leader without a quorum
    /// steps down. 5 by default.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.sync_limit = ticks;
        self
    }

    /// Sets the date that the servers' clocks show when they are started. 2026-01-01 by default.
    pub fn wall_clock(mut self, start: SystemTime) -> Self {
        self.wall_clock = start;
        self
    }

    /// Sets the servers' unit of time, in whole milliseconds. 100 ms by default. See
    /// [`MemoryServerBuilder::tick_time`](crate::testing::MemoryServerBuilder::tick_time).
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.common.tick_time = tick;
        self
    }

    /// Sets the shortest and the longest session timeout that the servers grant, in whole milliseconds. By default
    /// two ticks, and a minute (or 20 ticks, if that is more).
    pub fn session_timeout_bounds(mut self, shortest: Duration, longest: Duration) -> Self {
        self.settings.common.session_timeout_bounds = Some((shortest, longest));
        self
    }

    /// Sets whether nodes can have a time to live. False by default, as on real servers without
    /// `extendedTypesEnabled`.
    pub fn ttl_nodes(mut self, enabled: bool) -> Self {
        self.settings.has_ttl_nodes = enabled;
        self
    }

    /// Sets whether a transaction can return the stats of the plain and ephemeral nodes that it creates. True by
    /// default; servers before 3.8.2 return only the paths.
    pub fn stats_in_transactions(mut self, enabled: bool) -> Self {
        self.settings.has_stats_in_multi = enabled;
        self
    }

    /// Sets how often the leader looks for containers to remove, and for nodes whose time to live is over. A minute
    /// by default.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.settings.reap_interval = interval;
        self
    }

    /// Sets the size in bytes of the longest request. The connection of a client that sends a longer one is closed.
    /// 1,048,575 by default.
    pub fn max_request_size(mut self, bytes: usize) -> Self {
        self.settings.longest_request = bytes;
        self
    }

    /// Sets whether each connection gets a new session, even if it is made for another one. False by default. See
    /// [`MemoryServerBuilder::forget_sessions`](crate::testing::MemoryServerBuilder::forget_sessions).
    pub fn forget_sessions(mut self, enabled: bool) -> Self {
        self.settings.forgets_sessions = enabled;
        self
    }

    /// Starts the ensemble, with a leader. Must be called in a tokio runtime, whose clock the servers go by; a task of
    /// it moves their messages.
    ///
    /// # Errors
    ///
    /// - `InvalidInput` for invalid settings,
    /// - outside of a runtime.
    pub fn start(self) -> io::Result<MemoryEnsemble> {
        let limits = self.settings.limits()?;
        if self.servers.is_multiple_of(2) || self.servers > 99 {
            return Err(invalid(format!("an ensemble has 1, 3, 5 ... 99 servers, not {}", self.servers)));
        }
        for (name, range) in [("latency", &self.latency), ("election_time", &self.election_time)] {
            if range.is_empty() {
                return Err(invalid(format!("the range of {name}, {range:?}, is empty")));
            }
        }
        if self.sync_limit == 0 {
            return Err(invalid("sync_limit must be greater than zero".into()));
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let start = self.wall_clock.duration_since(UNIX_EPOCH).unwrap_or_default();
        let behaviour = Behaviour {
            limits,
            latency: self.latency,
            election_time: self.election_time,
            sync_limit: limits.tick * self.sync_limit,
            reap_interval: self.settings.reap_interval,
            longest_message: self.settings.longest_request,
            wall_clock: i64::try_from(start.as_millis()).unwrap_or(i64::MAX),
        };
        Ok(MemoryEnsemble::start_with(&runtime, self.servers, self.seed, behaviour))
    }
}
