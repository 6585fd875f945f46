//! The server of a test: one in memory, or a real one where there is one.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use zk_recipes::testing::{MemoryServer, TestingServer};

/// Whether tests are to use real servers: those under `with-zookeeper` are.
pub fn are_real() -> bool {
    std::env::var_os("ZK_CONNECT").is_some()
}

/// A server for one test alone.
#[derive(Debug)]
pub enum Server {
    InMemory(MemoryServer),
    Real(TestingServer),
}

/// What tests want of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerBuilder {
    class_path: Option<OsString>,
    session_timeout_bounds: Option<(Duration, Duration)>,
    container_check_interval: Option<Duration>,
    ttl_nodes: bool,
}

impl ServerBuilder {
    pub fn session_timeout_bounds(self, shortest: Duration, longest: Duration) -> Self {
        Self { session_timeout_bounds: Some((shortest, longest)), ..self }
    }

    pub fn container_check_interval(self, interval: Duration) -> Self {
        Self { container_check_interval: Some(interval), ..self }
    }

    pub fn ttl_nodes(self) -> Self {
        Self { ttl_nodes: true, ..self }
    }

    /// A real one, of another version.
    pub fn class_path(self, class_path: impl Into<OsString>) -> Self {
        Self { class_path: Some(class_path.into()), ..self }
    }

    pub async fn start(self) -> io::Result<Server> {
        if are_real() || self.class_path.is_some() {
            self.start_real().await.map(Server::Real)
        } else {
            self.start_in_memory()
        }
    }

    fn start_in_memory(self) -> io::Result<Server> {
        let mut builder = MemoryServer::builder().ttl_nodes(self.ttl_nodes);
        if let Some((shortest, longest)) = self.session_timeout_bounds {
            builder = builder.session_timeout_bounds(shortest, longest);
        }
        if let Some(interval) = self.container_check_interval {
            builder = builder.container_check_interval(interval);
        }
        builder.start().map(Server::InMemory)
    }

    async fn start_real(self) -> io::Result<TestingServer> {
        let mut builder = TestingServer::builder();
        if let Some(class_path) = self.class_path {
            builder = builder.class_path(class_path);
        }
        if let Some((shortest, longest)) = self.session_timeout_bounds {
            builder = builder.session_timeout_bounds(shortest, longest);
        }
        if let Some(interval) = self.container_check_interval {
            // As one in memory, it removes all that it finds at once.
            builder = builder
                .system_property("znode.container.checkIntervalMs", interval.as_millis().to_string())
                .system_property("znode.container.maxPerMinute", "1000000");
        }
        if self.ttl_nodes {
            builder = builder.system_property("zookeeper.extendedTypesEnabled", "true");
        }
        builder.start().await
    }
}

impl From<TestingServer> for Server {
    fn from(server: TestingServer) -> Self {
        Self::Real(server)
    }
}

macro_rules! either {
    ($self:ident, $server:ident => $does:expr) => {
        match $self {
            Self::InMemory($server) => $does,
            Self::Real($server) => $does,
        }
    };
}

impl Server {
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The real server, for what only that has.
    pub fn real(&self) -> &TestingServer {
        match self {
            Self::Real(server) => server,
            Self::InMemory(_) => panic!("this test needs a real ZooKeeper: see CONTRIBUTING.md"),
        }
    }

    pub fn connect_string(&self) -> String {
        either!(self, server => server.connect_string())
    }

    pub fn port(&self) -> u16 {
        either!(self, server => server.port())
    }

    pub fn is_running(&self) -> bool {
        either!(self, server => server.is_running())
    }

    pub async fn stop(&mut self) -> io::Result<()> {
        either!(self, server => server.stop().await)
    }

    pub async fn kill(&mut self) -> io::Result<()> {
        either!(self, server => server.kill().await)
    }

    pub async fn restart(&mut self) -> io::Result<()> {
        either!(self, server => server.restart().await)
    }

    pub fn pause(&self) -> io::Result<()> {
        either!(self, server => server.pause())
    }

    pub fn resume(&self) -> io::Result<()> {
        either!(self, server => server.resume())
    }

    pub async fn kill_session(&self, session: i64) -> io::Result<()> {
        either!(self, server => server.kill_session(session).await)
    }

    pub async fn four_letter_word(&self, word: &str) -> io::Result<String> {
        either!(self, server => server.four_letter_word(word).await)
    }

    pub async fn packets_received(&self) -> io::Result<u64> {
        either!(self, server => server.packets_received().await)
    }

    pub async fn session_packets(&self, session: i64) -> io::Result<u64> {
        either!(self, server => server.session_packets(session).await)
    }

    pub async fn watch_count(&self) -> io::Result<u64> {
        either!(self, server => server.watch_count().await)
    }
}
