//! The settings of a server in memory.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::database::Database;
use super::running::Shared;
use super::server::MemoryServer;
use super::sessions;
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first_session = sessions::first_id(0, now.as_millis() as i64, fastrand::u16(..));
        let database = Database::new(self.settings.limits()?, first_session);
        let MemorySettings { reap_interval, longest_request, .. } = self.settings;
        MemoryServer::start_with(Arc::new(Shared::new(database, reap_interval, longest_request)))
    }
}
