//! The ZooKeeper session as a long-lived thing.

mod acl;
mod builder;
mod extensions;
mod hosts;
mod janitor;
mod node;
mod parents;
mod path;
mod pulse;
mod retry;
mod session;
mod state;
mod supervisor;
mod validity;
mod write;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::future::FutureExt as _;
use tokio_util::sync::{CancellationToken, DropGuard};
use zookeeper_client::{self as zk, Acl};

use self::acl::AclProvider;
pub use self::builder::ClientBuilder;
use self::extensions::Extensions;
use self::janitor::Janitor;
pub(crate) use self::node::{CreateOutcome, EphemeralNode, NodeForm, OwnWatch};
pub(crate) use self::retry::Failures;
pub use self::retry::RetryPolicy;
pub(crate) use self::session::{Session, Watcher};
pub use self::state::ConnectionState;
use self::supervisor::{Link, Source, Status};
pub(crate) use self::validity::{Dependant, Health};
pub(crate) use self::write::Write;
use crate::error::{Error, Result};

/// A connection to ZooKeeper that outlives its sessions: when one expires, another is made.
///
/// A cheap handle on a shared client; clone it freely. When the last handle and everything made from it is
/// dropped, the session ends. [`close`](Self::close) ends it at once. A client lives on the tokio runtime
/// that it was made on, which needs its timers enabled; when that is shut down, the client is closed.
///
/// It stands for Curator's `CuratorFramework`.
///
/// ```no_run
/// use zk_recipes::{Client, InterProcessMutex};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/orders")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    core: Arc<Core>,
}

#[derive(Debug)]
struct Core {
    config: Config,
    identity: Arc<OnceLock<Vec<u8>>>,
    link: Arc<Link>,
    janitor: Janitor,
    runtime: Handle,
    extensions: Extensions,
    closed: CancellationToken,
    /// Cancelled when the session was let go of.
    ended: CancellationToken,
    _close_on_drop: DropGuard,
}

#[derive(Debug)]
struct Config {
    /// The connect string; `None` if the session is adopted.
    connect_string: Option<String>,
    /// Empty, or `/namespace`.
    namespace: String,
    acls: AclProvider,
    retry: RetryPolicy,
    connection_timeout: Duration,
    /// How much of the session timeout is not counted on; `None` for the usual part.
    validity_margin: Option<Duration>,
}

impl Client {
    /// Connects with default settings. See [`ClientBuilder::connect`].
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    /// No client is left behind.
    pub async fn connect(connect_string: &str) -> Result<Self> {
        Self::builder().connect(connect_string).await
    }

    /// The settings of a client, to be changed before it connects.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// Makes a client at once, and its session in the background. See [`ClientBuilder::connect_lazily`].
    ///
    /// # Errors
    /// As [`ClientBuilder::connect_lazily`].
    pub fn connect_lazily(connect_string: &str) -> Result<Self> {
        Self::builder().connect_lazily(connect_string)
    }

    /// Makes a client on a session that the caller owns. See [`ClientBuilder::from_zookeeper`].
    ///
    /// # Errors
    /// As [`ClientBuilder::from_zookeeper`].
    pub fn from_zookeeper(zookeeper: zk::Client) -> Result<Self> {
        Self::builder().from_zookeeper(zookeeper)
    }

    fn start(config: Config, identity: Option<Vec<u8>>, source: Source) -> Result<Self> {
        let Ok(runtime) = Handle::try_current() else {
            let reason = "a client needs a running tokio runtime; make it within one".into();
            return Err(Error::InvalidArgument { argument: "runtime", reason });
        };
        let link = Arc::new(Link::new());
        let closed = CancellationToken::new();
        let ended = CancellationToken::new();
        let identity = Arc::new(identity.map(OnceLock::from).unwrap_or_default());
        tokio::spawn(supervisor::supervise(
            source,
            config.validity_margin,
            identity.clone(),
            link.clone(),
            closed.clone(),
            ended.clone(),
        ));
        let _close_on_drop = closed.clone().drop_guard();
        let core = Core {
            config,
            identity,
            link,
            janitor: Janitor::start(),
            runtime,
            extensions: Extensions::default(),
            closed,
            ended,
            _close_on_drop,
        };
        Ok(Self { core: Arc::new(core) })
    }

    /// The state of the connection, now and from now on: always the latest, never a queue of old ones.
    ///
    /// ```no_run
    /// # async fn example(client: zk_recipes::Client) {
    /// let mut state = client.connection_state();
    /// while state.changed().await.is_ok() {
    ///     println!("{:?}", *state.borrow_and_update());
    /// }
    /// # }
    /// ```
    pub fn connection_state(&self) -> watch::Receiver<ConnectionState> {
        self.core.link.state()
    }

    /// The present session, for requests of one's own: chroot of the connect string included, namespace not.
    ///
    /// The session cannot end while a clone of it is kept: drop it before [`close`](Self::close).
    ///
    /// # Errors
    /// [`Error::NotConnected`] when there is no connected session within the connection timeout;
    /// [`Error::AuthFailed`], [`Error::SessionOver`] and [`Error::Closed`] when there will be none.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn zookeeper(&self) -> Result<zk::Client> {
        let session = self.unless_closed(self.session()).await?;
        let zookeeper = session.zookeeper().map_err(|_| Error::Closed)?;
        Ok((*zookeeper).clone())
    }

    /// The data of this client's nodes. See [`ClientBuilder::identity`].
    pub fn identity(&self) -> &[u8] {
        self.core.identity.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Ends the session, so that all its locks are free, and wakes every waiter with [`Error::Closed`].
    ///
    /// Returns when the server has confirmed it, at the latest after the connection timeout; at once when
    /// there is no connection. An adopted session goes on: what guards still hold of it is released when they
    /// are dropped.
    ///
    /// # Cancel safety
    /// The client is closed by the first poll, whatever becomes of the rest.
    pub async fn close(&self) {
        self.core.closed.cancel();
        // A server that does not answer will end the session by itself.
        let _ = tokio::time::timeout(self.core.config.connection_timeout, self.core.ended.cancelled()).await;
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.core.closed.is_cancelled()
    }

    /// Waits until there is no connection.
    pub(crate) async fn disconnected(&self) {
        // Its sender lives as long as the client.
        let _ = self.connection_state().wait_for(|state| !state.is_connected()).await;
    }

    /// Cancelled when the client is closed, or dropped.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.core.closed.clone()
    }

    /// Runs an operation that ends with [`Error::Closed`] as soon as the client is closed.
    pub(crate) fn unless_closed<T>(
        &self,
        operation: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Result<T>> {
        // Without an async block, which would take up the operation's room twice.
        operation.with_cancellation_token(&self.core.closed).map(|done| done.unwrap_or(Err(Error::Closed)))
    }

    /// A session that is connected and takes writes, waited for at most for the connection timeout.
    pub(crate) async fn session(&self) -> Result<Arc<Session>> {
        let Config { connect_string, connection_timeout, .. } = &self.core.config;
        let hosts = || connect_string.clone().unwrap_or_else(|| "the adopted session".into());
        let mut status = self.core.link.status();
        // Whether in time or too late, what counts is how it stands afterwards.
        let _ = tokio::time::timeout(*connection_timeout, status.wait_for(Status::is_settled)).await;
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let failure = match &*status.borrow() {
            Status::Live { session, writable: true } => return Ok(session.clone()),
            Status::Live { .. } => None,
            Status::Connecting { failure } => failure.clone(),
            Status::Unauthenticated => return Err(Error::AuthFailed { hosts: hosts() }),
            Status::Over { source } => return Err(Error::SessionOver { source: source.clone() }),
        };
        Err(Error::NotConnected { hosts: hosts(), waited: *connection_timeout, source: failure })
    }

    /// Does a request on whatever session there is, again under the retry policy if it fails to get through.
    /// It may be done twice.
    pub(crate) async fn request<T, F>(
        &self,
        operation: &'static str,
        path: &str,
        attempt: impl Fn(Arc<Session>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, zk::Error>>,
    {
        let mut failures = Failures::default();
        loop {
            let outcome = match self.session().await {
                Ok(session) => attempt(session).await.map_err(|source| Error::ZooKeeper {
                    operation,
                    path: path.to_owned(),
                    source,
                }),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(value) => return Ok(value),
                Err(error) if error.ends_session() => {}
                Err(error) => failures.pause_after(error, self.retry_policy()).await?,
            }
        }
    }

    /// Makes `path` and all its ancestors as containers.
    ///
    /// # Errors
    /// Which one could not be made, and why.
    pub(crate) async fn make_parents(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<(), (String, zk::Error)> {
        parents::make(self, session, path).await
    }

    /// Runs a task on the client's runtime, wherever the caller is.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.core.runtime.spawn(task);
    }

    /// Where the client's sessions come from; `None` if its session is adopted.
    #[cfg(feature = "testing")]
    pub(crate) fn connect_string(&self) -> Option<&str> {
        self.core.config.connect_string.as_deref()
    }

    /// A path with the namespace before it.
    ///
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn full_path(&self, path: &str) -> Result<Arc<str>> {
        path::validate(path)?;
        Ok(format!("{}{path}", self.core.config.namespace).into())
    }

    pub(crate) fn acl_of(&self, path: &str) -> Cow<'_, [Acl]> {
        self.core.config.acls.of(path)
    }

    pub(crate) fn retry_policy(&self) -> &RetryPolicy {
        &self.core.config.retry
    }

    /// What an upper layer keeps for this client; one value of each type.
    pub(crate) fn extension<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.core.extensions.get()
    }

    fn janitor(&self) -> &Janitor {
        &self.core.janitor
    }
}
