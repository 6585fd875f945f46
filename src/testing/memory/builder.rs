//! The settings of a server in memory.

use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::ensemble::{Clock, Core, MemoryEnsembleBuilder};
use super::server::MemoryServer;
use super::settings::{MemorySettings, setters};

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
    setters!();

    /// Starts the server. Clients can connect as soon as this returns, which takes less than a millisecond.
    ///
    /// # Errors
    ///
    /// - `InvalidInput` for invalid settings,
    /// - if the system provides no port or no thread.
    pub fn start(self) -> io::Result<MemoryServer> {
        let ensemble = MemoryEnsembleBuilder::with_settings(self.settings);
        let state = ensemble.servers(1).seed(fastrand::u64(..)).wall_clock(SystemTime::now()).state()?;
        MemoryServer::start_with(Arc::new(Core::new(state, Clock::Real(Instant::now()))))
    }
}
