//! The builders of servers and clusters, which share their settings.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::cluster::{self, TestingCluster};
use super::four_letter;
use super::server::TestingServer;
use super::settings::Settings;

/// How often a server that finds its port taken is set up again with another one.
const PORT_ATTEMPTS: usize = 10;

/// Configures and starts a [`TestingServer`].
#[derive(Clone, Default)]
#[must_use = "a builder starts nothing before `start`"]
pub struct TestingServerBuilder {
    settings: Settings,
}

debug_by!(TestingServerBuilder, |it| settings: it.settings);

/// Configures and starts a [`TestingCluster`]. All of its servers have the same settings.
#[derive(Clone)]
#[must_use = "a builder starts nothing before `start`"]
pub struct TestingClusterBuilder {
    size: usize,
    settings: Settings,
    is_isolatable: bool,
}

debug_by!(TestingClusterBuilder, |it| size: it.size, is_isolatable: it.is_isolatable, settings: it.settings);

macro_rules! setters {
    () => {
        /// Sets the server's unit of time, in whole milliseconds. 100 ms by default.
        ///
        /// Session timeouts are rounded up to a multiple of it. No session timeout can be shorter than two ticks,
        /// unless [`session_timeout_bounds`](Self::session_timeout_bounds) says otherwise.
        pub fn tick_time(mut self, tick: Duration) -> Self {
            self.settings.tick_time = tick;
            self
        }

        /// Sets the shortest and the longest session timeout that the server grants, in whole milliseconds; a
        /// client that asks for another gets the nearest. By default two ticks, and a minute (or 20 ticks, if that
        /// is more).
        pub fn session_timeout_bounds(mut self, shortest: Duration, longest: Duration) -> Self {
            self.settings.session_timeout_bounds = Some((shortest, longest));
            self
        }

        /// Adds a line `key=value` to zoo.cfg. It replaces the line that this module writes for that key, if any.
        /// Keys that have a method of their own here, and those of ports and folders, are rejected at the start.
        pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self.settings.properties.push((key.into(), value.into()));
            self
        }

        /// Sets a system property of the server's JVM (`-Dkey=value`). An example is
        /// `znode.container.checkIntervalMs`: after how many milliseconds the server looks again for empty
        /// containers to remove (a minute by default).
        pub fn system_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self.settings.system_properties.push((key.into(), value.into()));
            self
        }

        /// Sets the class path of the server, in the form of `java -cp` (`/folder/*` stands for all jars of a
        /// folder), instead of the one that is [found](super#which-zookeeper). Use it to test against other
        /// versions.
        pub fn class_path(mut self, class_path: impl Into<OsString>) -> Self {
            self.settings.class_path = Some(class_path.into());
            self
        }
    };
}

impl TestingServerBuilder {
    setters!();

    /// Starts the server and waits until it serves clients, which takes some tenths of a second.
    ///
    /// # Errors
    ///
    /// - `InvalidInput` for invalid settings, before anything is started,
    /// - `NotFound` if there is no ZooKeeper or no Java; the message lists where they were looked for,
    /// - if the server ended immediately; the message contains the end of its log,
    /// - `TimedOut` if it does not serve within a minute; likewise with the end of its log.
    pub async fn start(self) -> io::Result<TestingServer> {
        let mut attempt = 1;
        loop {
            let mut server = TestingServer::prepare(&self.settings, 1, &[], Vec::new())?;
            server.launch().await?;
            match server.wait_until(four_letter::is_serving).await {
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

    /// Starts all servers at once and waits until each of them serves clients, which takes about a second.
    ///
    /// # Errors
    ///
    /// Same as [`TestingServerBuilder::start`]. A size of zero is `InvalidInput`.
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
