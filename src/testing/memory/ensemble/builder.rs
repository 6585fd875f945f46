//! The settings of an ensemble in memory.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::state::{Behaviour, State};
use super::{Clock, Core, MemoryEnsemble};
use crate::testing::memory::settings::{MemorySettings, setters};
use crate::testing::memory::version::MemoryVersion;
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
    behaviour: Behaviour,
}

debug_by!(MemoryEnsembleBuilder, |it|
    servers: it.servers, seed: it.seed, latency: it.behaviour.latency, election_time: it.behaviour.election_time,
    sync_limit: it.behaviour.sync_limit, tick_time: it.settings.common.tick_time
);

impl Default for MemoryEnsembleBuilder {
    fn default() -> Self {
        Self {
            settings: MemorySettings::default(),
            servers: 3,
            seed: 0,
            behaviour: Behaviour {
                latency: Duration::from_micros(50)..Duration::from_micros(300),
                election_time: Duration::from_millis(200)..Duration::from_secs(1),
                sync_limit: 5,
                wall_clock: START,
            },
        }
    }
}

impl MemoryEnsembleBuilder {
    pub(in super::super) fn with_settings(settings: MemorySettings) -> Self {
        Self { settings, ..Self::default() }
    }

    setters!();

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
        self.behaviour.latency = latency;
        self
    }

    /// Sets how long a server without a leader takes until it votes. 200 ms to 1 s by default.
    pub fn election_time(mut self, time: Range<Duration>) -> Self {
        self.behaviour.election_time = time;
        self
    }

    /// Sets after how many ticks without a sign of life a follower leaves its leader, and a leader without a quorum
    /// steps down. 5 by default.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.behaviour.sync_limit = ticks;
        self
    }

    /// Sets the date that the servers' clocks show when they are started. 2026-01-01 by default.
    pub fn wall_clock(mut self, start: SystemTime) -> Self {
        self.behaviour.wall_clock = start.duration_since(UNIX_EPOCH).unwrap_or_default();
        self
    }

    /// Sets which version of ZooKeeper the servers are, where versions differ. 3.9 by default.
    pub fn version(mut self, version: MemoryVersion) -> Self {
        self.settings.version = version;
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
        let state = self.state()?;
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let core = Arc::new(Core::new(state, Clock::Simulated(Instant::now())));
        let end = CancellationToken::new();
        runtime.spawn(core.clone().drive(end.clone()));
        Ok(MemoryEnsemble { core, _end: Arc::new(end.drop_guard()) })
    }

    /// Sets the servers up.
    pub(in super::super) fn state(self) -> io::Result<State> {
        self.settings.check()?;
        if self.servers.is_multiple_of(2) || self.servers > 99 {
            return Err(invalid(format!("an ensemble has 1, 3, 5 ... 99 servers, not {}", self.servers)));
        }
        let Behaviour { latency, election_time, sync_limit, .. } = &self.behaviour;
        for (name, range) in [("latency", latency), ("election_time", election_time)] {
            if range.is_empty() {
                return Err(invalid(format!("the range of {name}, {range:?}, is empty")));
            }
        }
        if *sync_limit == 0 {
            return Err(invalid("sync_limit must be greater than zero".into()));
        }
        Ok(State::new(self.servers, self.seed, self.settings, self.behaviour))
    }
}
