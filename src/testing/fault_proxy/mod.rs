//! A proxy before a server, by which a test lets the network fail.

mod connection;
mod door;
mod frames;
mod interception;
mod link;
mod log;
mod request;
mod traffic;

use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncRead;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::connection::Connection;
use self::door::Door;
use self::frames::Frames;
use self::interception::{Interceptions, Which};
use self::log::Log;
use super::server::TestingServer;

pub use self::interception::{Fate, Intercepted};
pub use self::request::Request;
pub use self::traffic::Traffic;

/// A TCP proxy before one ZooKeeper server, on a port of 127.0.0.1, by which a test lets the network fail.
///
/// It forwards the [traffic](Traffic) of any number of connections, or delays or withholds it, in both directions or
/// one; it [cuts](Self::cut) and [refuses](Self::refuse_connections) connections; it [loses](Fate) single requests and
/// replies, and notes what is requested. What is not ZooKeeper's protocol (TLS, four-letter words) is forwarded as well,
/// but not understood: it is neither noted nor intercepted.
///
/// Dropping the proxy closes its connections and refuses new ones.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use zk_recipes::Client;
/// use zk_recipes::testing::{Fate, FaultProxy, Request, TestingServer, Traffic};
///
/// let server = TestingServer::start().await?;
/// let proxy = FaultProxy::start(&server).await?;
/// let client = Client::connect(&proxy.connect_string()).await?;
///
/// proxy.set_traffic(Traffic::black_hole()); // as if a cable were pulled
/// proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(20)));
///
/// let lost = proxy.intercept(Request::Create, Fate::LoseReply);
/// // … the client creates a node …
/// lost.happened().await; // the node is there, but its client does not know
/// # Ok(())
/// # }
/// ```
#[must_use = "if unused, the proxy is stopped at once"]
pub struct FaultProxy {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

/// A connection through a [`FaultProxy`], see [`FaultProxy::connections`].
///
/// It may have ended meanwhile; nothing has an effect then.
pub struct ProxiedConnection(Arc<Connection>);

/// What the tasks of the proxy know.
struct Shared {
    server: String,
    protocol: Protocol,
    door: Door,
    connections: Mutex<Connections>,
    interceptions: Interceptions,
    log: Log,
}

/// What is spoken on the connections.
enum Protocol {
    OfClients,
    Other,
}

impl Protocol {
    fn frames<R: AsyncRead + Unpin>(&self, source: R) -> Frames<R> {
        match self {
            Self::OfClients => Frames::new(source),
            Self::Other => Frames::opaque(source),
        }
    }
}

struct Connections {
    /// Of those to come.
    traffic: Traffic,
    /// The oldest first.
    present: Vec<Arc<Connection>>,
}

impl FaultProxy {
    /// Starts a proxy before a server. The server may be stopped and restarted behind it.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    pub async fn start(server: &TestingServer) -> io::Result<Self> {
        Self::start_before(server.connect_string()).await
    }

    /// Starts a proxy before any server, given as host and port: "127.0.0.1:2181". It is not contacted until a client
    /// connects.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    pub async fn start_before(address: impl Into<String>) -> io::Result<Self> {
        Self::start_with(address.into(), Protocol::OfClients)
    }

    /// One that does not understand what it forwards.
    pub(super) fn start_opaque(address: String) -> io::Result<Self> {
        Self::start_with(address, Protocol::Other)
    }

    fn start_with(server: String, protocol: Protocol) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            server,
            protocol,
            door: Door::open()?,
            connections: Mutex::new(Connections { traffic: Traffic::pass(), present: Vec::new() }),
            interceptions: Interceptions::default(),
            log: Log::default(),
        });
        let stopped = CancellationToken::new();
        tokio::spawn(stopped.clone().run_until_cancelled_owned(accept(shared.clone())));
        Ok(Self { shared, _stop: stopped.drop_guard() })
    }

    /// What a client connects to instead of the server: "127.0.0.1:" and the port.
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    pub(super) fn port(&self) -> u16 {
        self.shared.door.port()
    }

    /// How traffic fares from now on, on the present connections and on those to come. It applies to what is on its way
    /// as well.
    pub fn set_traffic(&self, traffic: Traffic) {
        let mut connections = self.shared.connections.lock();
        connections.traffic = traffic;
        for connection in &connections.present {
            connection.set_traffic(traffic);
        }
    }

    /// The present connections, the oldest first: those which neither have been cut nor closed on both sides.
    pub fn connections(&self) -> Vec<ProxiedConnection> {
        let connections = self.shared.connections.lock();
        let present = connections.present.iter().filter(|connection| !connection.cut.is_cancelled());
        present.cloned().map(ProxiedConnection).collect()
    }

    /// Closes the present connections on both sides, whatever the traffic. What was on its way is lost.
    pub fn cut(&self) {
        for connection in self.connections() {
            connection.cut();
        }
    }

    /// Whether new connections are refused, as by a stopped server. The present ones stay.
    ///
    /// # Errors
    ///
    /// If they are to be accepted again, but the system does not give the port.
    pub fn refuse_connections(&self, refuse: bool) -> io::Result<()> {
        if refuse {
            self.shared.door.close();
            return Ok(());
        }
        self.shared.door.reopen()
    }

    /// Intercepts one request: the next one of a kind, on whichever connection it comes. Of several interceptions of the
    /// same kind each waits for a request of its own.
    ///
    /// Requests sent before a lost one still get to the server, and replies given before a lost one to the client. If the
    /// connection ends in another way before it has happened, the next request of the kind is intercepted.
    pub fn intercept(&self, request: Request, fate: Fate) -> Intercepted {
        self.shared.interceptions.add(Which::Next(request), fate)
    }

    /// The same for the request before which this many others come from now on, of whatever kind, pings left out: 0 for
    /// the next one.
    pub fn intercept_after(&self, requests: usize, fate: Fate) -> Intercepted {
        self.shared.interceptions.add(Which::After(requests.into()), fate)
    }

    /// The requests of all clients since the last call, as they came in, without pings; whether or not they have got
    /// to the server.
    pub fn take_requests(&self) -> Vec<Request> {
        self.shared.log.take_requests()
    }

    /// The number of requests since the last [`take_requests`](Self::take_requests).
    pub fn requests_seen(&self) -> usize {
        self.shared.log.requests()
    }

    /// The number of pings that clients have sent so far, and of the looks at `/` that this library sends in their place.
    pub fn pings_seen(&self) -> usize {
        self.shared.log.pings()
    }

    /// The number of replies that the server has given so far, without those to pings; whether or not they have got to
    /// the client.
    pub fn replies_seen(&self) -> usize {
        self.shared.log.replies()
    }
}

impl ProxiedConnection {
    /// How its traffic fares from now on, until [`FaultProxy::set_traffic`] says otherwise for all.
    pub fn set_traffic(&self, traffic: Traffic) {
        self.0.set_traffic(traffic);
    }

    /// Closes it on both sides, as [`FaultProxy::cut`].
    pub fn cut(&self) {
        self.0.cut.cancel();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.door.close();
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy")
            .field("connect_string", &self.connect_string())
            .field("server", &self.shared.server)
            .field("connections", &self.connections().len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ProxiedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxiedConnection").field("traffic", &self.0.traffic()).finish_non_exhaustive()
    }
}

async fn accept(shared: Arc<Shared>) {
    // Ends with this task.
    let mut forwarding = JoinSet::new();
    loop {
        tokio::select! {
            client = shared.door.next() => {
                let connection = shared.admit();
                forwarding.spawn(forward(shared.clone(), connection, client));
            }
            Some(_) = forwarding.join_next() => {}
        }
    }
}

async fn forward(shared: Arc<Shared>, connection: Arc<Connection>, client: TcpStream) {
    let intercepted = connection.run(client, &shared).await;
    shared.forget(&connection);
    if let Some(intercepted) = intercepted {
        intercepted.happened.cancel();
    }
    for interception in connection.take_intercepted() {
        shared.interceptions.give_back(interception);
    }
}

impl Shared {
    fn admit(&self) -> Arc<Connection> {
        let mut connections = self.connections.lock();
        let connection = Arc::new(Connection::new(connections.traffic));
        connections.present.push(connection.clone());
        connection
    }

    fn forget(&self, ended: &Arc<Connection>) {
        self.connections.lock().present.retain(|connection| !Arc::ptr_eq(connection, ended));
    }
}
