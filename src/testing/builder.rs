//! The builders of servers and clusters: the same settings for both.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::cluster::{self, TestingCluster};
use super::server::{Ready, TestingServer};
use super::settings::Settings;

/// A server that finds its port taken is laid out anew on another one that often.
const PORT_ATTEMPTS: usize = 10;

/// Settings for a [`TestingServer`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder starts nothing before `start`"]
pub struct TestingServerBuilder {
    settings: Settings,
}

/// Settings for a [`TestingCluster`], the same for each of its servers.
#[derive(Clone, Debug)]
#[must_use = "a builder starts nothing before `start`"]
pub struct TestingClusterBuilder {
    size: usize,
    settings: Settings,
    is_isolatable: bool,
}

macro_rules! setters {
    () => {
        /// The server's unit of time, in whole milliseconds; 100 ms by default.
        ///
        /// Session timeouts are rounded up to it, and unless
        /// [`session_timeout_bounds`](Self::session_timeout_bounds) says otherwise no session can be shorter than two
        /// ticks.
        pub fn tick_time(mut self, tick: Duration) -> Self {
            self.settings.tick_time = tick;
            self
        }

        /// The shortest and the longest session timeout that the server grants, in whole milliseconds; a client that
        /// asks for another gets the nearest. Two ticks and a minute (or 20 ticks, if that is more) by default.
        pub fn session_timeout_bounds(mut self, shortest: Duration, longest: Duration) -> Self {
            self.settings.session_timeout_bounds = Some((shortest, longest));
            self
        }

        /// A line `key=value` of zoo.cfg. Replaces the line of this module, if there is one, except for keys that have a
        /// method of their own here and those of ports and folders, which are refused at the start.
        pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self.settings.properties.push((key.into(), value.into()));
            self
        }

        /// A system property of the server's JVM (`-Dkey=value`), such as `znode.container.checkIntervalMs`: after how
        /// many milliseconds the server looks again for empty containers to remove (a minute by default).
        pub fn system_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self.settings.system_properties.push((key.into(), value.into()));
            self
        }

        /// The class path of the server, as `java -cp` takes it (`/folder/*` is all jars of a folder), instead of the one
        /// that is [found](super#which-zookeeper). For tests against other versions.
        pub fn class_path(mut self, class_path: impl Into<OsString>) -> Self {
            self.settings.class_path = Some(class_path.into());
            self
        }
    };
}

impl TestingServerBuilder {
    setters!();

    /// Starts the server and waits until it serves clients, some tenths of a second.
    ///
    /// # Errors
    ///
    /// - `InvalidInput` for settings that make no sense, before anything is started,
    /// - `NotFound` if there is no ZooKeeper or no Java; the message tells where they were looked for,
    /// - if the server ended at once; the message has the end of its log,
    /// - `TimedOut` if it does not serve after a minute; likewise.
    pub async fn start(self) -> io::Result<TestingServer> {
        let mut attempt = 1;
        loop {
            let mut server = TestingServer::prepare(&self.settings, None)?;
            server.launch().await?;
            match server.wait_until(Ready::Serving).await {
                Err(error) if is_retryable(&error, attempt) => attempt += 1,
                result => return result.map(|()| server),
            }
        }
    }
}

impl TestingClusterBuilder {
    pub(super) fn new(size: usize) -> Self {
        Self { size, settings: Settings::default(), is_isolatable: false }
    }

    setters!();

    /// Puts [proxies](super::FaultProxy) between the servers, so that one can be
    /// [cut off](TestingCluster::isolate) from the others.
    pub fn isolatable(mut self) -> Self {
        self.is_isolatable = true;
        self
    }

    /// Starts all servers at once and waits until each of them serves clients, about a second.
    ///
    /// # Errors
    ///
    /// As [`TestingServerBuilder::start`]. A size of zero is `InvalidInput`.
    pub async fn start(self) -> io::Result<TestingCluster> {
        let mut attempt = 1;
        loop {
            match cluster::start(&self.settings, self.size, self.is_isolatable).await {
                Err(error) if is_retryable(&error, attempt) => attempt += 1,
                result => return result,
            }
        }
    }
}

fn is_retryable(error: &io::Error, attempt: usize) -> bool {
    error.kind() == io::ErrorKind::AddrInUse && attempt < PORT_ATTEMPTS
}
