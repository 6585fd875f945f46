//! A proxy in front of a server, with which a test simulates network failures.

mod connection;
mod door;
mod frames;
mod interception;
mod link;
mod request;
mod traffic;

use std::future::Future;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::connection::Connection;
use self::door::Door;
use self::frames::Before;
use self::interception::Interception;

pub use self::interception::{Fate, Intercepted};
pub use self::request::Request;
pub use self::traffic::Traffic;

/// A TCP proxy in front of one ZooKeeper server, on a port of 127.0.0.1, with which a test simulates network
/// failures.
///
/// For any number of connections, the proxy
///
/// - forwards, delays or withholds [traffic](Traffic), in one direction or both,
/// - [cuts](Self::cut) and [refuses](Self::refuse_connections) connections,
/// - [loses](Fate) single requests and replies,
/// - records the requests.
///
/// It also forwards other protocols (TLS, four-letter words), but does not parse them: they are neither recorded
/// nor intercepted.
///
/// Dropping the proxy closes its connections and refuses new ones.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use zk_recipes::Client;
/// use zk_recipes::testing::{Fate, FaultProxy, MemoryServer, Request, Traffic};
///
/// let server = MemoryServer::start()?;
/// let proxy = FaultProxy::start(server.connect_string()).await?;
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
    stop: CancellationToken,
}

debug_by!(FaultProxy, |it|
    connect_string: it.connect_string(), server: it.shared.server, connections: it.connections().len()
);

/// A connection through a [`FaultProxy`]. See [`FaultProxy::connections`].
///
/// If the connection has ended, the methods have no effect.
pub struct ProxiedConnection(Arc<Connection>);

debug_by!(ProxiedConnection, |it| traffic: it.0.traffic());

/// The state that the tasks of the proxy share.
struct Shared {
    server: String,
    /// What connections begin with.
    first: Before,
    door: Door,
    state: Mutex<State>,
}

struct State {
    /// The traffic of connections to come.
    traffic: Traffic,
    /// The current connections, oldest first.
    connections: Vec<Arc<Connection>>,
    /// The interceptions that wait for their request, oldest first.
    interceptions: Vec<Arc<Interception>>,
    /// Of all clients since they were last taken, without pings.
    requests: Vec<Request>,
    pings: usize,
    /// Without those to pings.
    replies: usize,
}

impl FaultProxy {
    /// Starts a proxy in front of a server, given as host and port, such as the
    /// [connect string](super::TestingServer::connect_string) of one for tests. The server is not contacted until a client
    /// connects; you can stop and restart it behind the proxy.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    pub async fn start(address: impl Into<String>) -> io::Result<Self> {
        Self::start_with(address.into(), Before::Handshake)
    }

    /// Starts a proxy that does not parse what it forwards.
    pub(super) fn start_opaque(address: String) -> io::Result<Self> {
        Self::start_with(address, Before::Unknown)
    }

    fn start_with(server: String, first: Before) -> io::Result<Self> {
        let state = State {
            traffic: Traffic::pass(),
            connections: Vec::new(),
            interceptions: Vec::new(),
            requests: Vec::new(),
            pings: 0,
            replies: 0,
        };
        let shared = Arc::new(Shared { server, first, door: Door::open()?, state: Mutex::new(state) });
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(shared.clone())));
        Ok(Self { shared, stop })
    }

    /// Forwards between a client and a server that are at the other ends of two streams, such as those of
    /// [`tokio::io::duplex`], until both have closed them. It is one of the proxy's connections. While the proxy refuses
    /// connections, the streams are closed at once.
    ///
    /// They are served by the task that awaits the returned future, and closed when the proxy is dropped.
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    /// use zk_recipes::testing::{FaultProxy, MemoryServer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = MemoryServer::start()?;
    /// let proxy = FaultProxy::start(server.connect_string()).await?;
    /// let ((mut client, to_client), (to_server, stream)) = (duplex(4096), duplex(4096));
    /// tokio::spawn(server.serve(stream));
    /// tokio::spawn(proxy.serve(to_client, to_server));
    ///
    /// client.write_all(b"ruok").await?;
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer).await?;
    /// assert_eq!(answer, "imok");
    /// # Ok(())
    /// # }
    /// ```
    pub fn serve<C, S>(&self, client: C, server: S) -> impl Future<Output = ()> + use<C, S>
    where
        C: AsyncRead + AsyncWrite,
        S: AsyncRead + AsyncWrite,
    {
        let (shared, stop) = (self.shared.clone(), self.stop.clone());
        async move {
            if shared.door.is_open() {
                let forwarding = forward(shared.clone(), shared.admit(), client, async { Ok(server) });
                stop.run_until_cancelled(forwarding).await;
            }
        }
    }

    /// Returns the connect string for clients, in place of the server's: "127.0.0.1:" and the port.
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    pub(super) fn port(&self) -> u16 {
        self.shared.door.port()
    }

    /// Sets the traffic of the current connections and of those to come. It applies to bytes in transit as well.
    pub fn set_traffic(&self, traffic: Traffic) {
        let mut state = self.shared.state.lock();
        state.traffic = traffic;
        state.connections.iter().for_each(|connection| connection.set_traffic(traffic));
    }

    /// Returns the current connections, oldest first: those that have neither been cut nor closed on both sides.
    pub fn connections(&self) -> Vec<ProxiedConnection> {
        let state = self.shared.state.lock();
        let present = state.connections.iter().filter(|connection| !connection.cut.is_cancelled());
        present.cloned().map(ProxiedConnection).collect()
    }

    /// Closes the current connections on both sides, whatever the traffic. Bytes in transit are lost.
    pub fn cut(&self) {
        for connection in self.connections() {
            connection.cut();
        }
    }

    /// Sets whether new connections are refused, as by a stopped server. Current connections stay.
    ///
    /// # Errors
    ///
    /// If connections are to be accepted again, but the system does not provide the port.
    pub fn refuse_connections(&self, refuse: bool) -> io::Result<()> {
        if refuse {
            self.shared.door.close();
            return Ok(());
        }
        self.shared.door.reopen()
    }

    /// Intercepts one request: the next one of a kind, on any connection. If you add several interceptions of the
    /// same kind, each waits for a request of its own.
    ///
    /// Requests sent before a lost request still reach the server, and replies sent before a lost reply still reach
    /// the client. If the connection ends in another way before the interception has happened, the next request of
    /// the kind is intercepted.
    pub fn intercept(&self, request: Request, fate: Fate) -> Intercepted {
        self.add(Intercepted::new(Some(request), 0, fate))
    }

    /// Intercepts the request that comes after `requests` others of any kind, counted from now on and without
    /// pings: 0 for the next one.
    pub fn intercept_after(&self, requests: usize, fate: Fate) -> Intercepted {
        self.add(Intercepted::new(None, requests, fate))
    }

    fn add(&self, intercepted: Intercepted) -> Intercepted {
        self.shared.state.lock().interceptions.push(intercepted.interception.clone());
        intercepted
    }

    /// Returns the requests of all clients since the last call, in the order of their arrival and without pings,
    /// whether or not they have reached the server.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.state.lock().requests)
    }

    /// Returns the number of requests since the last [`take_requests`](Self::take_requests).
    pub fn requests_seen(&self) -> usize {
        self.shared.state.lock().requests.len()
    }

    /// Returns the number of pings that clients have sent so far, including the `sync` of `/` that this library
    /// sends in their place.
    pub fn pings_seen(&self) -> usize {
        self.shared.state.lock().pings
    }

    /// Returns the number of replies that the server has sent so far, without those to pings, whether or not they
    /// have reached the client.
    pub fn replies_seen(&self) -> usize {
        self.shared.state.lock().replies
    }
}

impl ProxiedConnection {
    /// Sets the traffic of this connection, until [`FaultProxy::set_traffic`] sets it for all.
    pub fn set_traffic(&self, traffic: Traffic) {
        self.0.set_traffic(traffic);
    }

    /// Closes the connection on both sides, like [`FaultProxy::cut`].
    pub fn cut(&self) {
        self.0.cut.cancel();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.door.close();
        self.stop.cancel();
    }
}

async fn accept(shared: Arc<Shared>) {
    // The forwarding tasks end with this task.
    let mut forwarding = JoinSet::new();
    loop {
        tokio::select! {
            client = shared.door.next() => {
                set_nodelay(&client);
                forwarding.spawn(forward(shared.clone(), shared.admit(), client, connect(shared.clone())));
            }
            Some(_) = forwarding.join_next() => {}
        }
    }
}

/// Frames are small and must not wait for each other.
fn set_nodelay(stream: &TcpStream) {
    // The reader notices a failure.
    let _ = stream.set_nodelay(true);
}

async fn connect(shared: Arc<Shared>) -> io::Result<TcpStream> {
    let server = TcpStream::connect(&shared.server).await?;
    set_nodelay(&server);
    Ok(server)
}

async fn forward<S: AsyncRead + AsyncWrite>(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    client: impl AsyncRead + AsyncWrite,
    server: impl Future<Output = io::Result<S>>,
) {
    let intercepted = connection.run(client, server, &shared).await;
    let mut state = shared.state.lock();
    state.connections.retain(|other| !Arc::ptr_eq(other, &connection));
    if let Some(intercepted) = intercepted {
        intercepted.happened.cancel();
    }
    for interception in connection.take_intercepted() {
        // The connection has ended before it happened, so it waits for another request.
        if !interception.happened.is_cancelled() {
            state.interceptions.insert(0, interception);
        }
    }
}

impl Shared {
    fn admit(&self) -> Arc<Connection> {
        let mut state = self.state.lock();
        let connection = Arc::new(Connection::new(state.traffic));
        state.connections.push(connection.clone());
        connection
    }
}
