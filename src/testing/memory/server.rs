//! A server in memory, as its users see it.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::builder::MemoryServerBuilder;
use super::ensemble::Core;
use super::running::Running;
use crate::testing::four_letter;
use crate::testing::ports::Port;

/// A ZooKeeper in memory, in this process, **for tests only**: it needs no Java and is ready in less than a
/// millisecond.
///
/// It is one server that speaks ZooKeeper's protocol on a port of 127.0.0.1, so any client of any library can connect.
/// It has sessions, all kinds of nodes, watches, transactions and ACLs, and behaves like ZooKeeper 3.9. It keeps
/// nothing on disk, replicates nothing and knows neither TLS, SASL, quotas nor reconfiguration. See
/// [Which server](crate::testing#which-server) for when to use a real one.
///
/// It runs on a thread of its own. So it serves clients of any runtime, and of none, also while the thread of a test
/// is blocked. Dropping it closes its connections and ends the thread.
///
/// Its methods have the names and effects of those of [`TestingServer`](crate::testing::TestingServer). Its `async`
/// methods complete immediately, on any executor.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::testing::MemoryServer;
/// use zk_recipes::{Client, InterProcessMutex};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // What is tested: a service that bills each order once.
/// async fn bill(client: &Client) -> Result<&'static str, zk_recipes::Error> {
///     let mutex = InterProcessMutex::new(client, "/locks/billing")?;
///     match mutex.try_acquire_for(Duration::from_millis(50)).await? {
///         Some(_guard) => Ok("billed"),
///         None => Ok("another instance is at it"),
///     }
/// }
///
/// let server = MemoryServer::start()?;
/// let [ours, theirs] = [
///     Client::connect(&server.connect_string()).await?,
///     Client::connect(&server.connect_string()).await?,
/// ];
/// assert_eq!(bill(&ours).await?, "billed");
///
/// let guard = InterProcessMutex::new(&theirs, "/locks/billing")?.acquire().await?;
/// assert_eq!(bill(&ours).await?, "another instance is at it");
///
/// // Their session ends, as if they had been silent for too long.
/// zk_recipes::testing::kill_session(&theirs).await?;
/// assert_eq!(bill(&ours).await?, "billed");
/// println!("{:?}", guard.lost().await);
/// # Ok(())
/// # }
/// ```
#[must_use = "if unused, the server is stopped at once"]
pub struct MemoryServer {
    // Dropped before the port is given back.
    running: Option<Running>,
    core: Arc<Core>,
    port: Port,
}

debug_by!(MemoryServer, |it| port: it.port(), is_running: it.is_running(), paused: it.is_paused());

impl MemoryServer {
    /// Starts a server with the default settings. See [`MemoryServerBuilder`].
    ///
    /// # Errors
    ///
    /// Same as [`MemoryServerBuilder::start`].
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Returns a builder for a server.
    pub fn builder() -> MemoryServerBuilder {
        MemoryServerBuilder::default()
    }

    pub(super) fn start_with(core: Arc<Core>) -> io::Result<Self> {
        let mut server = Self { running: None, core, port: Port::reserve()? };
        server.launch()?;
        Ok(server)
    }

    fn launch(&mut self) -> io::Result<()> {
        self.running = Some(Running::start(self.core.clone(), &self.port)?);
        Ok(())
    }

    /// Returns the connect string for clients: "127.0.0.1:" and the port. It stays the same over restarts.
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Returns the TCP port for clients, on 127.0.0.1. It stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns whether the server is running; also true while it is [paused](Self::pause).
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Stops the server: connections are closed, and new ones refused. Port, nodes and sessions are kept for
    /// [`restart`](Self::restart), and no session ends meanwhile. Does nothing if the server is not running.
    ///
    /// # Errors
    ///
    /// None; a real server may fail to stop.
    pub async fn stop(&mut self) -> io::Result<()> {
        self.running = None;
        Ok(())
    }

    /// Same as [`stop`](Self::stop): there is nothing that a kill could lose.
    ///
    /// # Errors
    ///
    /// Same as [`stop`](Self::stop).
    pub async fn kill(&mut self) -> io::Result<()> {
        self.stop().await
    }

    /// Starts the server again on the same port, with its nodes. Each session has its whole timeout again. Stops the
    /// server first if it is running.
    ///
    /// # Errors
    ///
    /// If the system does not provide the port or a thread.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.stop().await?;
        self.launch()
    }

    /// Makes the server silent: connections stay open, and the system accepts new ones, but nothing is answered. To
    /// clients, the server is a black hole. When this returns, no request is served until [`resume`](Self::resume);
    /// an earlier answer may still be in transit.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the server is not running.
    pub fn pause(&self) -> io::Result<()> {
        self.check_running()?;
        self.core.set_paused(0, true);
        Ok(())
    }

    /// Resumes the server after a [pause](Self::pause). Sessions whose timeout has passed may end before their
    /// clients are heard, as on a real server.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the server is not running.
    pub fn resume(&self) -> io::Result<()> {
        self.check_running()?;
        self.core.set_paused(0, false);
        Ok(())
    }

    /// Serves a client at the other end of a stream, such as one of [`tokio::io::duplex`], until either side closes it.
    /// So the client needs no port. If the server is not running, the stream is closed at once.
    ///
    /// The stream is served by the task that awaits the returned future, which can outlive this value.
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// use zk_recipes::testing::MemoryServer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = MemoryServer::start()?;
    /// let (mut client, stream) = tokio::io::duplex(4096);
    /// tokio::spawn(server.serve(stream));
    ///
    /// client.write_all(b"ruok").await?;
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer).await?;
    /// assert_eq!(answer, "imok");
    /// # Ok(())
    /// # }
    /// ```
    pub fn serve<S>(&self, stream: S) -> impl Future<Output = ()> + use<S>
    where
        S: AsyncRead + AsyncWrite,
    {
        self.core.serve(0, stream)
    }

    /// Closes all connections. Clients can connect again immediately, and resume their sessions.
    pub fn drop_connections(&self) {
        self.core.with(|state| state.replicas[0].database.cut_all());
    }

    fn is_paused(&self) -> bool {
        self.core.with(|state| state.replicas[0].is_paused)
    }

    fn error(&self, kind: io::ErrorKind, what: &str) -> io::Error {
        io::Error::new(kind, format!("the server in memory on {} {what}", self.connect_string()))
    }

    fn check_running(&self) -> io::Result<()> {
        if self.is_running() {
            return Ok(());
        }
        Err(self.error(io::ErrorKind::NotConnected, "is not running; `restart` starts it"))
    }

    /// Checks that a question would be answered. The errors are those of a real server's connection.
    fn check_answering(&self) -> io::Result<()> {
        if !self.is_running() {
            return Err(self.error(io::ErrorKind::ConnectionRefused, "is not running"));
        }
        if self.is_paused() {
            return Err(self.error(io::ErrorKind::TimedOut, "is paused"));
        }
        Ok(())
    }

    /// Ends a session of a client of any library, as if it had expired. Its ephemeral nodes are gone when this
    /// returns; the client learns of it when it connects again. [`testing::kill_session`](crate::testing::kill_session())
    /// does the same for a [`Client`](crate::Client).
    ///
    /// # Errors
    ///
    /// `NotFound` if the server does not know the session; `ConnectionRefused` if the server is not running;
    /// `TimedOut`, at once, if it is paused.
    pub async fn kill_session(&self, session_id: i64) -> io::Result<()> {
        self.check_answering()?;
        let is_known = self.core.with(|state| {
            state.replicas[0].database.sessions.contains(session_id) && state.end_session(session_id)
        });
        if is_known {
            return Ok(());
        }
        let what = format!("{} knows no session {session_id:#x}", self.connect_string());
        Err(io::Error::new(io::ErrorKind::NotFound, what))
    }

    /// Returns the answer to one of ZooKeeper's four-letter words: `ruok`, `srvr`, `stat`, `mntr`, `cons`, `dump`,
    /// `wchs`, `wchc`, `wchp` or `isro`. The answers have the format of a real server's, and fewer fields. Clients can also send the words to
    /// the port.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` if the server does not know the word; `ConnectionRefused` if it is not running; `TimedOut`, at
    /// once, if it is paused.
    pub async fn four_letter_word(&self, word: &str) -> io::Result<String> {
        self.check_answering()?;
        self.core.with(|state| state.replicas[0].database.answer(word)).ok_or_else(|| {
            let what = format!("the server in memory does not know the word {word:?}");
            io::Error::new(io::ErrorKind::UnexpectedEof, what)
        })
    }

    /// Returns how many packets the server has received from all its clients. Pings count, and each four-letter word
    /// counts as one packet.
    ///
    /// # Errors
    ///
    /// Same as [`four_letter_word`](Self::four_letter_word).
    pub async fn packets_received(&self) -> io::Result<u64> {
        four_letter::packets_received(&self.four_letter_word("srvr").await?)
    }

    /// Returns how many packets the server has received on the current connection of a session, pings and the packet
    /// that connects included.
    ///
    /// # Errors
    ///
    /// Same as [`four_letter_word`](Self::four_letter_word), and `NotFound` if the session has no connection.
    pub async fn session_packets(&self, session_id: i64) -> io::Result<u64> {
        four_letter::session_packets(&self.four_letter_word("cons").await?, session_id)
    }

    /// Returns how many watches the clients have set. The watches of one session on one path count at most twice:
    /// once for the node, for its existence or its data, and once for its children.
    ///
    /// # Errors
    ///
    /// Same as [`four_letter_word`](Self::four_letter_word).
    pub async fn watch_count(&self) -> io::Result<u64> {
        four_letter::watch_count(&self.four_letter_word("mntr").await?)
    }
}
