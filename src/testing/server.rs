//! One ZooKeeper server.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::{self, Instant};

use super::builder::TestingServerBuilder;
use super::config::{self, Member};
use super::four_letter;
use super::jars;
use super::kill_session;
use super::logging;
use super::ports::Port;
use super::process::Process;
use super::settings::Settings;

const START_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How many lines of the log an error quotes.
const LOG_TAIL: usize = 30;

/// A real ZooKeeper server on 127.0.0.1, for tests.
///
/// It has a port and a temporary data folder of its own. Dropping it kills the server, waits for its end (some
/// milliseconds, at most two seconds) and removes the data; this needs no runtime. If the process that started the
/// server ends in any other way, even by SIGKILL, the server also ends and its data is removed.
///
/// See the [module](super) for an example.
#[must_use = "if unused, the server is stopped at once"]
pub struct TestingServer {
    // In the order of dropping: nothing may write into the directory when it is removed.
    process: Option<Process>,
    paused: AtomicBool,
    java: PathBuf,
    arguments: Vec<OsString>,
    port: Port,
    _member_ports: Vec<Port>,
    directory: TempDir,
}

debug_by!(TestingServer, |it| port: it.port(), pid: it.pid(), paused: it.paused, data_dir: it.data_dir());

impl TestingServer {
    /// Starts a server with the default settings. See [`TestingServerBuilder`].
    ///
    /// # Errors
    ///
    /// Same as [`TestingServerBuilder::start`].
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// Returns a builder for a server.
    pub fn builder() -> TestingServerBuilder {
        TestingServerBuilder::default()
    }

    /// Sets up a server without starting it. `members` of its cluster are none if it is alone; `id` is its number among
    /// them, from 1. The ports are reserved for as long as it lives.
    pub(super) fn prepare(
        settings: &Settings,
        id: usize,
        members: &[Member],
        ports: Vec<Port>,
    ) -> io::Result<Self> {
        settings.check()?;
        let java = jars::java(jars::environment)?;
        let class_path = match &settings.class_path {
            Some(class_path) => class_path.clone(),
            None => jars::class_path(jars::environment)?,
        };
        let port = Port::reserve()?;
        let directory = tempfile::Builder::new().prefix("zookeeper-").tempdir()?;
        let data = data_dir(&directory);
        fs::create_dir(&data)?;
        if !members.is_empty() {
            fs::write(data.join("myid"), id.to_string())?;
        }
        let zoo_cfg = directory.path().join("zoo.cfg");
        fs::write(&zoo_cfg, config::zoo_cfg(settings, &data, port.number(), members)?)?;
        let logging = logging::quiet(directory.path())?;
        Ok(Self {
            process: None,
            paused: AtomicBool::new(false),
            java,
            arguments: config::arguments(settings, &class_path, logging, &zoo_cfg),
            port,
            _member_ports: ports,
            directory,
        })
    }

    /// Starts the process, without waiting until it serves.
    pub(super) async fn launch(&mut self) -> io::Result<()> {
        let process = Process::spawn(self.directory.path(), &self.log(), &self.java, &self.arguments).await?;
        tracing::debug!(port = self.port(), pid = process.pid(), "started a ZooKeeper server");
        self.paused.store(false, Ordering::Relaxed);
        self.process = Some(process);
        Ok(())
    }

    /// Waits until the launched server gives such an answer to `srvr`. The error for a server that found its port taken is
    /// `AddrInUse`.
    pub(super) async fn wait_until(&self, is_ready: fn(&str) -> bool) -> io::Result<()> {
        let started = Instant::now();
        // A server that has only just opened its port may lose a command. Retry soon, but give a slow machine time.
        let mut patience = Duration::from_millis(100);
        loop {
            let status = self.process.as_ref().map(Process::exit_status);
            let Some(None) = status else {
                let status =
                    status.flatten().map_or_else(|| "not running".into(), |status| status.to_string());
                return Err(self.start_failure(io::ErrorKind::Other, &format!("ended ({status})")));
            };
            match four_letter::ask(self.port(), "srvr", patience).await {
                Ok(answer) if is_ready(&answer) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    patience = (patience * 2).min(ANSWER_PATIENCE)
                }
                _ => {}
            }
            if started.elapsed() > START_PATIENCE {
                let what = format!("did not get ready within {START_PATIENCE:?}");
                return Err(self.start_failure(io::ErrorKind::TimedOut, &what));
            }
            time::sleep(POLL_INTERVAL).await;
        }
    }

    fn start_failure(&self, kind: io::ErrorKind, what: &str) -> io::Error {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let kind = if says_that_port_is_taken(&log) { io::ErrorKind::AddrInUse } else { kind };
        // Stack frames would push the reason out of the quoted lines.
        let lines: Vec<_> =
            log.lines().filter(|line| !line.starts_with("\tat ") && !line.is_empty()).collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n  ");
        self.error(kind, &format!("{what}; the end of its log:\n  {tail}"))
    }

    fn error(&self, kind: io::ErrorKind, what: &str) -> io::Error {
        io::Error::new(kind, format!("the ZooKeeper server on {} {what}", self.connect_string()))
    }

    /// Returns the connect string for clients: "127.0.0.1:" and the port. It stays the same over restarts.
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Returns the TCP port for clients, on 127.0.0.1. It stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the folder with the server's snapshots and transaction logs. It is removed when the server is
    /// dropped.
    pub fn data_dir(&self) -> PathBuf {
        data_dir(&self.directory)
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }

    /// Returns the process id of the server's JVM; `None` while it is not running.
    pub fn pid(&self) -> Option<u32> {
        self.running().ok().map(Process::pid)
    }

    /// Returns whether the server's process exists; also true while it is [paused](Self::pause).
    pub fn is_running(&self) -> bool {
        self.running().is_ok()
    }

    pub(super) fn is_responsive(&self) -> bool {
        self.is_running() && !self.paused.load(Ordering::Relaxed)
    }

    fn running(&self) -> io::Result<&Process> {
        let running = self.process.as_ref().filter(|process| process.is_running());
        running.ok_or_else(|| self.error(io::ErrorKind::NotConnected, "is not running; `restart` starts it"))
    }

    /// Stops the server gracefully (SIGTERM) and waits for its end, which takes about a third of a second. Port and
    /// data are kept for [`restart`](Self::restart). Does nothing if the server is not running. A paused server is
    /// resumed so that it can end.
    ///
    /// # Errors
    ///
    /// `TimedOut` if the server had not ended after ten seconds; it was killed then. Also if the system refuses the
    /// signal.
    pub async fn stop(&mut self) -> io::Result<()> {
        let Ok(process) = self.running() else { return Ok(()) };
        process.signal(Signal::TERM)?;
        process.signal(Signal::CONT)?;
        if time::timeout(STOP_PATIENCE, process.ended()).await.is_err() {
            self.kill().await?;
            let what = format!("ignored SIGTERM for {STOP_PATIENCE:?}");
            return Err(self.error(io::ErrorKind::TimedOut, &what));
        }
        self.process = None;
        Ok(())
    }

    /// Kills the server (SIGKILL) and waits for its end, which takes some milliseconds. Port and data are kept for
    /// [`restart`](Self::restart). Does nothing if the server is not running.
    ///
    /// # Errors
    ///
    /// If the system refuses the signal.
    pub async fn kill(&mut self) -> io::Result<()> {
        let Some(process) = &self.process else { return Ok(()) };
        if process.is_running() {
            process.signal(Signal::KILL)?;
            process.ended().await;
        }
        self.process = None;
        Ok(())
    }

    /// Starts the server again on the same port and data, and waits until it serves clients. [Stops](Self::stop) it
    /// first if it is running.
    ///
    /// # Errors
    ///
    /// Same as [`stop`](Self::stop) and [`TestingServerBuilder::start`].
    pub async fn restart(&mut self) -> io::Result<()> {
        self.restart_until(four_letter::is_serving).await
    }

    pub(super) async fn restart_until(&mut self, is_ready: fn(&str) -> bool) -> io::Result<()> {
        self.stop().await?;
        self.launch().await?;
        self.wait_until(is_ready).await
    }

    /// Freezes the server (SIGSTOP): connections stay open, and the system accepts new ones, but nothing is
    /// answered. To clients, the server is a black hole.
    ///
    /// Blocks until all threads have stopped, which takes some milliseconds. Later requests are not answered until
    /// [`resume`](Self::resume); an earlier answer may still be in transit. Only Linux reports when the threads
    /// have stopped. On other systems the server may answer for a moment longer.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the server is not running; `TimedOut` if it did not stop within five seconds, in which
    /// case it continues to run.
    pub fn pause(&self) -> io::Result<()> {
        self.running()?.freeze()?;
        self.paused.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Resumes the server after a [pause](Self::pause) (SIGCONT).
    ///
    /// # Errors
    ///
    /// `NotConnected` if the server is not running.
    pub fn resume(&self) -> io::Result<()> {
        self.running()?.signal(Signal::CONT)?;
        self.paused.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Sends one of ZooKeeper's [four-letter
    /// words](https://zookeeper.apache.org/doc/current/zookeeperAdmin.html#sc_4lw) (`srvr`, `mntr`, `cons`, `wchp`,
    /// `dump`, …), all of which are enabled, and returns the answer unchanged.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `word` is not four lower-case letters; `TimedOut` without an answer within five seconds (a
    /// paused server); `UnexpectedEof` if the server does not know the word; and the errors of the connection
    /// (`ConnectionRefused` for a stopped server).
    pub async fn four_letter_word(&self, word: &str) -> io::Result<String> {
        four_letter::ask(self.port(), word, ANSWER_PATIENCE).await
    }

    /// Returns how many packets the server has received from all its clients since it was started.
    ///
    /// Pings count, and each four-letter word counts as one packet: two successive calls differ by one if there was
    /// no other traffic. [`session_packets`](Self::session_packets) counts one client only.
    ///
    /// # Errors
    ///
    /// Same as [`four_letter_word`](Self::four_letter_word), and `InvalidData` while a cluster has no quorum.
    pub async fn packets_received(&self) -> io::Result<u64> {
        four_letter::packets_received(&self.four_letter_word("srvr").await?)
    }

    /// Returns how many packets the server has received on the current connection of a session, pings included.
    ///
    /// The packet that connects counts as well, and `zookeeper-client` sends a ping right after it. Other clients
    /// and four-letter words do not count. A reconnect resets the count.
    ///
    /// # Errors
    ///
    /// Same as [`four_letter_word`](Self::four_letter_word), and `NotFound` if the session has no connection to this
    /// server.
    pub async fn session_packets(&self, session_id: i64) -> io::Result<u64> {
        four_letter::session_packets(&self.four_letter_word("cons").await?, session_id)
    }

    /// Ends a session of a client of any library. Otherwise it is like
    /// [`testing::kill_session`](super::kill_session()), which ends the session of a [`Client`](crate::Client).
    ///
    /// # Errors
    ///
    /// `NotFound` if the server does not know the session; `TimedOut` without an answer; and the errors of the
    /// connection.
    pub async fn kill_session(&self, session_id: i64) -> io::Result<()> {
        kill_session::kill(&[self.connect_string()], session_id).await
    }

    /// Returns how many watches the clients of this server have set (`zk_watch_count` of `mntr`; `wchs` leaves out
    /// watches on children).
    ///
    /// The watches of one session on one path count at most twice: once for the node, for its existence or its
    /// data, and once for its children. A persistent watch counts once or twice, depending on its mode and on
    /// ZooKeeper's version.
    ///
    /// # Errors
    ///
    /// Same as [`four_letter_word`](Self::four_letter_word), and `InvalidData` while a cluster has no quorum.
    pub async fn watch_count(&self) -> io::Result<u64> {
        four_letter::watch_count(&self.four_letter_word("mntr").await?)
    }
}

fn data_dir(directory: &TempDir) -> PathBuf {
    Path::join(directory.path(), "data")
}

/// Whether a server's log says that its port is taken, in whichever exception: the JDK has one, and Netty another.
fn says_that_port_is_taken(log: &str) -> bool {
    log.contains("Address already in use")
}

#[cfg(test)]
mod tests {
    use super::says_that_port_is_taken;

    #[test]
    fn a_taken_port_is_known_by_the_exceptions_of_the_jdk_and_of_netty() {
        assert!(says_that_port_is_taken("java.net.BindException: Address already in use"));
        let netty = "io.netty.channel.unix.Errors$NativeIoException: bind(..) failed with error(-98): Address already in use";
        assert!(says_that_port_is_taken(netty));
        assert!(!says_that_port_is_taken("java.io.IOException: No space left on device"));
    }
}
