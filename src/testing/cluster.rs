//! Several ZooKeeper servers that form one ensemble.

use std::io;
use std::time::Duration;

use tokio::time::{self, Instant};

use super::builder::TestingClusterBuilder;
use super::config::Member;
use super::fault_proxy::Traffic;
use super::four_letter;
use super::links::Links;
use super::ports::Port;
use super::server::TestingServer;
use super::settings::{Settings, invalid};

const LEADER_PATIENCE: Duration = Duration::from_secs(30);
const ANSWER_PATIENCE: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// ZooKeeper's ids are one byte.
const LARGEST: usize = 255;

/// A real ZooKeeper ensemble on 127.0.0.1, for tests.
///
/// Each server has its own ports and data, and keeps them over restarts. Dropping the cluster stops all servers and
/// removes their data, as dropping a [`TestingServer`] does.
///
/// Methods that take the `index` of a server (from 0, as in [`servers`](Self::servers)) panic if there is no such
/// server.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// use zk_recipes::testing::TestingCluster;
///
/// let mut cluster = TestingCluster::start(3).await?;
/// let leader = cluster.leader().await?;
/// cluster.kill(leader).await?;
/// assert_ne!(cluster.leader().await?, leader);
/// cluster.restart(leader).await?; // as a follower
/// # Ok(())
/// # }
/// ```
#[must_use = "if unused, the servers are stopped at once"]
pub struct TestingCluster {
    servers: Vec<TestingServer>,
    /// The proxies between the servers, if the servers can be isolated.
    links: Option<Links>,
}

debug_by!(TestingCluster, |it| connect_string: it.connect_string());

pub(super) async fn start(
    settings: &Settings,
    size: usize,
    is_isolatable: bool,
) -> io::Result<TestingCluster> {
    if !(1..=LARGEST).contains(&size) {
        return Err(invalid(format!("a cluster has 1 to {LARGEST} servers, not {size}")));
    }
    settings.check()?;
    let mut members = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..size {
        let [quorum, election] = [Port::reserve()?, Port::reserve()?];
        members.push(Member { quorum_port: quorum.number(), election_port: election.number() });
        ports.push(vec![quorum, election]);
    }
    let links = if is_isolatable { Some(Links::between(&members)?) } else { None };
    let mut servers = Vec::new();
    for (index, ports) in ports.into_iter().enumerate() {
        let members = links.as_ref().map_or_else(|| members.clone(), |links| links.seen_by(index, &members));
        servers.push(TestingServer::prepare(settings, index + 1, &members, ports)?);
    }
    for server in &mut servers {
        server.launch().await?;
    }
    for server in &servers {
        server.wait_until(four_letter::is_serving).await?;
    }
    Ok(TestingCluster { servers, links })
}

impl TestingCluster {
    /// Starts `size` servers with the default settings. See [`TestingClusterBuilder`].
    ///
    /// # Errors
    ///
    /// Same as [`TestingClusterBuilder::start`].
    pub async fn start(size: usize) -> io::Result<Self> {
        Self::builder(size).start().await
    }

    /// Returns a builder for `size` servers.
    pub fn builder(size: usize) -> TestingClusterBuilder {
        TestingClusterBuilder::new(size)
    }

    /// Returns the connect string for clients: host and port of each server, separated by commas.
    pub fn connect_string(&self) -> String {
        self.servers.iter().map(TestingServer::connect_string).collect::<Vec<_>>().join(",")
    }

    /// Returns all servers, running or not.
    pub fn servers(&self) -> &[TestingServer] {
        &self.servers
    }

    /// Returns the index of the leader. Waits until there is exactly one, and a majority of all servers has joined
    /// it.
    ///
    /// This takes about a second after a leader was killed. After a leader was paused it takes longer, since the
    /// others give it up only when they have not heard from it for two seconds.
    ///
    /// # Errors
    ///
    /// `TimedOut` if there is no leader within 30 seconds, for example because the majority is stopped or paused.
    pub async fn leader(&self) -> io::Result<usize> {
        let started = Instant::now();
        loop {
            let (mut leaders, mut joined) = (Vec::new(), 0);
            for (index, server) in
                self.servers.iter().enumerate().filter(|(_, server)| server.is_responsive())
            {
                let answer = four_letter::ask(server.port(), "srvr", ANSWER_PATIENCE).await;
                let answer = answer.unwrap_or_default();
                joined += usize::from(four_letter::is_serving(&answer));
                // The second is the mode of a cluster of one.
                if let Some("leader" | "standalone") = four_letter::mode(&answer) {
                    leaders.push(index);
                }
            }
            if let [leader] = leaders[..]
                && self.is_majority(joined)
            {
                return Ok(leader);
            }
            if started.elapsed() > LEADER_PATIENCE {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "no leader within {LEADER_PATIENCE:?}: of {} servers {} are running and not paused, {joined} serve, \
                        and {} of them lead",
                        self.servers.len(),
                        self.responsive(),
                        leaders.len(),
                    ),
                ));
            }
            time::sleep(POLL_INTERVAL).await;
        }
    }

    /// [Stops](TestingServer::stop) one server gracefully.
    ///
    /// # Errors
    ///
    /// Same as [`TestingServer::stop`].
    pub async fn stop(&mut self, index: usize) -> io::Result<()> {
        self.servers[index].stop().await
    }

    /// [Kills](TestingServer::kill) one server.
    ///
    /// # Errors
    ///
    /// Same as [`TestingServer::kill`].
    pub async fn kill(&mut self, index: usize) -> io::Result<()> {
        self.servers[index].kill().await
    }

    /// Starts one server again on the same ports and data. Stops it first if it is running.
    ///
    /// Waits until the server serves clients. If no majority of all servers is running, so that it cannot serve,
    /// waits only until it answers four-letter words. So you can start a stopped cluster server by server.
    ///
    /// # Errors
    ///
    /// Same as [`TestingServer::restart`].
    pub async fn restart(&mut self, index: usize) -> io::Result<()> {
        self.servers[index].restart_until(|_| true).await?;
        if self.is_majority(self.responsive()) {
            self.servers[index].wait_until(four_letter::is_serving).await?;
        }
        Ok(())
    }

    /// [Pauses](TestingServer::pause) one server.
    ///
    /// # Errors
    ///
    /// Same as [`TestingServer::pause`].
    pub fn pause(&self, index: usize) -> io::Result<()> {
        self.servers[index].pause()
    }

    /// [Resumes](TestingServer::resume) one server.
    ///
    /// # Errors
    ///
    /// Same as [`TestingServer::resume`].
    pub fn resume(&self, index: usize) -> io::Result<()> {
        self.servers[index].resume()
    }

    /// Cuts one server off from all others, in both directions and without closing connections. Clients still reach
    /// it. A follower continues to serve reads until it gives the leader up, after two seconds. A leader continues
    /// for about as long; the others may then take a minute to agree on the next one.
    ///
    /// # Panics
    ///
    /// If the cluster is not [isolatable](TestingClusterBuilder::isolatable).
    pub fn isolate(&self, index: usize) {
        self.set_traffic(index, Traffic::black_hole());
    }

    /// Reconnects an [isolated](Self::isolate) server to the others.
    ///
    /// # Panics
    ///
    /// If the cluster is not [isolatable](TestingClusterBuilder::isolatable).
    pub fn rejoin(&self, index: usize) {
        self.set_traffic(index, Traffic::pass());
    }

    fn set_traffic(&self, index: usize, traffic: Traffic) {
        let links = self.links.as_ref().expect("the cluster was not built to be isolatable");
        assert!(index < self.servers.len(), "there is no server {index}");
        links.set_traffic(index, traffic);
    }

    fn responsive(&self) -> usize {
        self.servers.iter().filter(|server| server.is_responsive()).count()
    }

    fn is_majority(&self, count: usize) -> bool {
        count > self.servers.len() / 2
    }
}
