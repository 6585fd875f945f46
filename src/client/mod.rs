//! The client: a ZooKeeper session that is replaced when it expires.

mod acl;
mod adopted;
mod builder;
mod causes;
mod clock;
mod compression;
mod connection;
mod dialer;
mod extensions;
mod home;
mod hosts;
mod janitor;
mod keep_alive;
mod leaving;
mod link;
mod node;
mod node_data;
mod parents;
mod path;
mod presence;
mod process;
mod pulse;
mod reactor;
mod retry;
mod see_through;
mod serving;
mod session;
mod signs;
mod size;
mod state;
mod supervisor;
mod sweeper;
mod validity;
mod write;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, join, select};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::context::TokioContext;
use tokio_util::future::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use zookeeper_client::{self as zk, Acl};

use self::acl::AclProvider;
pub use self::builder::ClientBuilder;
pub(crate) use self::compression::{compressed, decompressed};
use self::extensions::Extensions;
pub(crate) use self::home::{Home, sleep_until};
use self::hosts::Hosts;
use self::janitor::Janitor;
pub use self::keep_alive::KeepAlive;
use self::leaving::Leaving;
use self::link::{Link, Status};
pub(crate) use self::node::{CreateOutcome, EphemeralNode, NodeForm, OwnWatch};
pub(crate) use self::node_data::{REVOKE_REQUEST, is_revoke_request, validate as validate_node_data};
pub(crate) use self::path::validate as validate_path;
pub(crate) use self::presence::Presence;
pub(crate) use self::process::Process;
pub(crate) use self::retry::Failures;
pub use self::retry::RetryPolicy;
pub(crate) use self::session::{Session, Watcher};
pub(crate) use self::size::of_write;
pub use self::state::ConnectionState;
use self::supervisor::Source;
use self::validity::Terms;
pub(crate) use self::validity::{Dependant, Health};
pub(crate) use self::write::Write;
use crate::error::{Error, Result};

/// A client of a ZooKeeper ensemble. It outlives its sessions: when one expires, the client creates another.
///
/// The client is a cheap handle on shared state; clone it freely. [`close`](Self::close) ends its session. So does
/// dropping the last handle together with everything made from it: locks, guards, candidates. That drop blocks
/// until the servers have ended the session, for up to the [drop timeout](ClientBuilder::drop_timeout), so that a
/// program that just ends leaves no lock behind. `std::process::exit` and signals drop nothing: return from `main`
/// instead.
///
/// A client runs on two threads that all clients of a process share, so its session stays alive while the caller
/// blocks. You can use it from any runtime, or from none. [`ClientBuilder::runtime`] runs it elsewhere.
///
/// It corresponds to Curator's `CuratorFramework`.
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
#[must_use = "if unused, the client is closed at once"]
pub struct Client {
    core: Arc<Core>,
    /// `None` for background work, which does not keep the client open.
    presence: Option<Arc<Presence>>,
}

#[derive(Debug)]
struct Core {
    config: Config,
    /// The configured identity, or the default one once the local address is known.
    identity: Arc<OnceLock<Vec<u8>>>,
    /// The default identity without the local address.
    identity_without_address: Vec<u8>,
    link: Arc<Link>,
    janitor: Janitor,
    home: Home,
    extensions: Extensions,
    leaving: Arc<Leaving>,
    closed: CancellationToken,
    /// Cancelled when the session has been let go.
    ended: CancellationToken,
}

#[derive(Debug)]
struct Config {
    origin: Origin,
    /// Empty, or `/namespace`.
    namespace: String,
    acls: AclProvider,
    retry: RetryPolicy,
    connection_timeout: Duration,
    drop_timeout: Duration,
    terms: Terms,
    compresses: bool,
}

/// Where the sessions of a client come from.
#[derive(Debug)]
enum Origin {
    Own {
        connect_string: String,
        /// The parsed connect string.
        hosts: Arc<Hosts>,
    },
    Adopted {
        chroot: String,
    },
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

    /// Returns a builder with the default settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// Returns a client immediately, and connects it in the background. See [`ClientBuilder::connect_lazily`].
    ///
    /// # Errors
    /// As [`ClientBuilder::connect_lazily`].
    pub fn connect_lazily(connect_string: &str) -> Result<Self> {
        Self::builder().connect_lazily(connect_string)
    }

    /// Creates a client on a session that the caller owns. See [`ClientBuilder::from_zookeeper`].
    ///
    /// # Errors
    /// As [`ClientBuilder::from_zookeeper`].
    pub fn from_zookeeper(zookeeper: zk::Client) -> Result<Self> {
        Self::builder().from_zookeeper(zookeeper)
    }

    fn start(config: Config, home: Home, identity: Option<Vec<u8>>, source: Source) -> Self {
        let _at_home = home.runtime().enter();
        let link = Arc::new(Link::new(home.clone()));
        let closed = CancellationToken::new();
        let ended = CancellationToken::new();
        let identity = Arc::new(identity.map(OnceLock::from).unwrap_or_default());
        let supervising = supervisor::supervise(
            source,
            config.terms,
            identity.clone(),
            link.clone(),
            closed.clone(),
            ended.clone(),
        );
        match &config.origin {
            Origin::Own { hosts, .. } => {
                let (hosts, patience, link) = (hosts.clone(), config.connection_timeout, link.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = supervising => {}
                        never = causes::find(&hosts, patience, &link) => match never {}
                    }
                });
            }
            Origin::Adopted { .. } => drop(tokio::spawn(supervising)),
        }
        let janitor = Janitor::start();
        drop(_at_home);
        let core = Arc::new(Core {
            config,
            identity,
            identity_without_address: Process::here(None).to_data(),
            link,
            janitor,
            home,
            extensions: Extensions::default(),
            leaving: Arc::default(),
            closed,
            ended,
        });
        let presence = Some(Arc::new(Presence::new(core.clone())));
        Self { core, presence }
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(crate) fn detached(&self) -> Self {
        Self { core: self.core.clone(), presence: None }
    }

    /// Returns what keeps the client open; `None` if this handle is [detached](Self::detached).
    pub(crate) fn presence(&self) -> Option<Arc<Presence>> {
        self.presence.clone()
    }

    /// Returns a receiver of the state of the connection. It always has the latest state, never a queue of old
    /// ones. The first [`changed`](watch::Receiver::changed) returns immediately, for the current state.
    ///
    /// ```no_run
    /// # async fn example(client: zk_recipes::Client) {
    /// let mut state = client.watch_connection();
    /// while state.changed().await.is_ok() {
    ///     println!("{:?}", *state.borrow_and_update());
    /// }
    /// # }
    /// ```
    pub fn watch_connection(&self) -> watch::Receiver<ConnectionState> {
        let mut state = self.core.link.state();
        state.mark_changed();
        state
    }

    /// Waits until a connection accepts writes, for up to the [connection
    /// timeout](ClientBuilder::connection_timeout). Use it with clients from
    /// [`connect_lazily`](Self::connect_lazily); all other calls wait by themselves.
    ///
    /// ```no_run
    /// # async fn example() -> zk_recipes::Result<()> {
    /// let client = zk_recipes::Client::connect_lazily("zk1:2181,zk2:2181,zk3:2181")?;
    /// client.wait_connected().await?;
    /// assert!(client.watch_connection().borrow().is_connected());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`zookeeper`](Self::zookeeper).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_connected(&self) -> Result<()> {
        self.unless_closed(self.session()).await.map(|_| ())
    }

    /// Returns the current connection of the session, for requests of your own. Its paths include the chroot of the
    /// connect string, but not the namespace. Reads through it see everything that this client has been told, and
    /// so everything written under a lock before that lock was granted to this client.
    ///
    /// Call this again each time: a handle is good for one connection. After that connection is lost, its requests
    /// fail with [`ConnectionLoss`](zk::Error::ConnectionLoss), even when this client has reconnected, and you must
    /// not await a watch that was set through it: `zookeeper-client` panics. For one-shot watches that outlast a
    /// connection, create a `zookeeper-client` of your own and share its session with this library by
    /// [`from_zookeeper`](Self::from_zookeeper). Its handle is then the one that you gave, and survives reconnects;
    /// its persistent watches do not, so set those again. After a reconnect, `sync` before you read through it: the new server may lag behind.
    ///
    /// The session cannot end while you keep the connection: drop it before [`close`](Self::close).
    ///
    /// # Errors
    /// [`Error::NotConnected`] if there is no connected session under the [retry policy](RetryPolicy);
    /// [`Error::AuthFailed`], [`Error::SessionOver`] and [`Error::Closed`] if there will be none.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn zookeeper(&self) -> Result<zk::Client> {
        let session = self.unless_closed(self.session_under_policy()).await?;
        // The session may have ended right after the wait.
        session.zookeeper().map_err(|_| self.not_connected(self.core.config.connection_timeout))
    }

    /// Returns the data of this client's nodes. See [`ClientBuilder::identity`]. Until the client connects for the
    /// first time, the default identity lacks the local address.
    pub fn identity(&self) -> &[u8] {
        self.core.identity.get().unwrap_or(&self.core.identity_without_address)
    }

    /// Whether the client compresses the data of its nodes.
    fn compresses(&self) -> bool {
        self.core.config.compresses
    }

    /// Ends the session, which releases all its locks, and wakes every waiter with [`Error::Closed`].
    ///
    /// Leaders come first. If candidates of this client lead, their work is asked to end, as by
    /// [`Leadership::resign`](crate::Leadership::resign), and the session stays open until it has ended. That can
    /// take their [grace](crate::LeaderOptions::grace), and for work that does not await, the connection timeout in
    /// addition; then the session ends nevertheless. So do not await this call within such work.
    ///
    /// Returns when the server has confirmed the end, and at the latest after the connection timeout; immediately
    /// if there is no connection. An adopted session stays open: what guards still hold on it is released when they
    /// are dropped.
    ///
    /// # Cancel safety
    /// The client is closed from the first poll on, even if the future is dropped.
    pub async fn close(&self) {
        self.core.begin_to_close();
        self.core.closed.cancelled().await;
        let patience = self.core.config.connection_timeout;
        // A server that does not answer ends the session by itself.
        let _ = self.at_home(async { timeout(patience, self.core.ended.cancelled()).await }).await;
    }

    /// Returns whether [`close`](Self::close) was called, or the client has ended otherwise.
    pub fn is_closed(&self) -> bool {
        self.core.leaving.asked().is_cancelled() || self.has_ended()
    }

    /// Whether the client is closed and the work of its leaders has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.core.closed.is_cancelled()
    }

    /// Cancelled when leaders must end their work because the client is being closed.
    pub(crate) fn leaving(&self) -> &CancellationToken {
        self.core.leaving.asked()
    }

    /// Keeps the session open for as long as the token lives, but for at most `grace` after the client is asked to
    /// close. Returns `None` if that has already happened.
    pub(crate) fn stay(&self, grace: Duration) -> Option<TaskTrackerToken> {
        self.core.leaving.stay(grace)
    }

    /// Waits until there is no connection.
    pub(crate) async fn disconnected(&self) {
        // The sender lives as long as the client.
        let _ = self.watch_connection().wait_for(|state| !state.is_connected()).await;
    }

    /// Cancelled when the client has [ended](Self::has_ended) or is dropped.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.core.closed.clone()
    }

    /// Runs an operation with the timers of the client's own thread, since the caller may have none. A runtime that
    /// was given to the builder may be shut down, and then its timers must not be used; so in that case the
    /// caller's timers are used.
    pub(crate) fn at_home<F: Future>(&self, operation: F) -> Either<TokioContext<F>, F> {
        let home = &self.core.home;
        match home.is_ours() {
            true => Either::Left(TokioContext::new(operation, home.runtime().clone())),
            false => Either::Right(operation),
        }
    }

    /// Runs an operation, but ends it with [`Error::Closed`] as soon as the client is closed.
    pub(crate) fn unless_closed<T>(
        &self,
        operation: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Result<T>> {
        // Not an async block: it would store the operation twice.
        let unless_closed = operation.with_cancellation_token(&self.core.closed);
        self.at_home(unless_closed).map(|done| done.unwrap_or(Err(Error::Closed)))
    }

    /// Returns a connected session that accepts writes, waiting for up to the connection timeout.
    pub(crate) async fn session(&self) -> Result<Arc<Session>> {
        let connection_timeout = self.core.config.connection_timeout;
        let mut status = self.core.link.status();
        let settled = async {
            // The sender lives as long as the client.
            let settled = status.wait_for(Status::is_settled).await;
            settled.map_or(Status::Over { source: zk::Error::ClientClosed }, |status| status.clone())
        };
        let settled = timeout(connection_timeout, settled).await;
        if self.has_ended() {
            return Err(Error::Closed);
        }
        match settled {
            // If its connection has ended since, the next request reports that.
            Ok(Status::Live { session, .. }) => Ok(session),
            Ok(Status::Unauthenticated) => Err(Error::AuthFailed { hosts: self.hosts() }),
            Ok(Status::Over { source }) => Err(Error::SessionOver { source }),
            Ok(Status::Connecting { .. }) | Err(_) => Err(self.not_connected(connection_timeout)),
        }
    }

    /// Returns a connected session that accepts writes, waiting under the retry policy.
    pub(crate) async fn session_under_policy(&self) -> Result<Arc<Session>> {
        let mut failures = Failures::default();
        loop {
            match self.session().await {
                Ok(session) => return Ok(session),
                Err(error) => failures.pause_after(error, self.retry_policy()).await?,
            }
        }
    }

    /// Waits until requests can be made, for up to the connection timeout.
    pub(crate) async fn ready(&self, session: &Session) {
        // A request that is sent too early fails and reports why.
        let _ = timeout(self.core.config.connection_timeout, session.ready()).await;
    }

    /// Makes one attempt, in the sense of the retry policy, at a request on this session. Returns `None` if the
    /// session had no connection for the connection timeout; the request may have been sent, and carried out,
    /// nevertheless.
    ///
    /// # Cancel safety
    /// That of the request.
    pub(crate) fn attempt<T>(
        &self,
        session: &Session,
        asked: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        // Boxed: there can be many waiters, and each would keep the room of the future for as long as it waits.
        let asked = Box::pin(asked);
        async move {
            self.ready(session).await;
            let without_connection = pin!(session.without_connection(self.core.config.connection_timeout));
            // Not `tokio::select!`, which polls nothing when the task has used up its budget: the first poll sends
            // the request, and callers rely on that.
            match select(asked, without_connection).await {
                Either::Left((answer, _)) => Some(answer),
                Either::Right(((), _)) => None,
            }
        }
    }

    /// Makes one attempt at a single request.
    ///
    /// # Errors
    /// The error of the request, or `ConnectionLoss` if there was no connection.
    pub(crate) async fn attempt_one<T>(
        &self,
        session: &Session,
        request: impl Future<Output = Result<T, zk::Error>>,
    ) -> Result<T, zk::Error> {
        self.attempt(session, request).await.unwrap_or(Err(zk::Error::ConnectionLoss))
    }

    /// Waits until no session is available [under the retry policy](Self::session_under_policy), and returns the
    /// reason.
    pub(crate) async fn outage(&self) -> Error {
        let mut status = self.core.link.status();
        loop {
            // If the sender is gone, the next call reports that.
            let _ = status.wait_for(|status| !status.is_settled()).await;
            if let Err(error) = self.session_under_policy().await {
                return error;
            }
        }
    }

    /// Returns the error for having had no connected session for `waited`, with the causes known so far.
    pub(crate) fn not_connected(&self, waited: Duration) -> Error {
        let source = match &*self.core.link.status().borrow() {
            Status::Connecting { failure } => failure.clone(),
            _ => None,
        };
        let causes = self.core.link.causes.borrow().clone();
        Error::NotConnected { hosts: self.hosts(), waited, causes, source }
    }

    /// Returns the servers, for messages.
    fn hosts(&self) -> String {
        match &self.core.config.origin {
            Origin::Own { connect_string, .. } => connect_string.clone(),
            Origin::Adopted { .. } => "the adopted session".into(),
        }
    }

    fn chroot(&self) -> &str {
        match &self.core.config.origin {
            Origin::Own { hosts, .. } => &hosts.chroot,
            Origin::Adopted { chroot } => chroot,
        }
    }

    /// Makes a request on the current session, and retries it under the retry policy if the connection fails. The
    /// request may be carried out twice.
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
                Ok(session) => {
                    let attempted = self.attempt_one(&session, attempt(session.clone())).await;
                    attempted.map_err(|source| Error::ZooKeeper { operation, path: path.to_owned(), source })
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(value) => return Ok(value),
                Err(error) if error.ends_session() => {}
                Err(error) => failures.pause_after(error, self.retry_policy()).await?,
            }
        }
    }

    /// Whether a node exists at this full path. Sees everything that was done before the call.
    pub(crate) async fn exists(&self, path: &str) -> Result<bool> {
        let looking = self.request("look for", path, |session| async move {
            let (synced, stat) = join(session.sync(path), session.stat(path)).await;
            Ok(synced.and(stat)?.is_some())
        });
        self.unless_closed(looking).await
    }

    /// Creates `path` and all its ancestors as containers.
    ///
    /// # Errors
    /// The path that could not be created, and why.
    pub(crate) async fn make_parents(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<(), (String, zk::Error)> {
        parents::make(self, session, path).await
    }

    /// Publishes something to watchers, which may have to be deferred. See [`Home::tell`].
    pub(crate) fn tell(&self, show: impl FnOnce() + Send + 'static) {
        self.core.home.tell(show);
    }

    /// Publishes something to watchers, and waits until it is published.
    pub(crate) async fn told(&self, show: impl FnOnce() + Send + 'static) {
        self.core.home.told(show).await;
    }

    /// Runs a task on the client's runtime, whatever the caller's runtime is.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.core.home.runtime().spawn(task);
    }

    /// Returns the addresses of the servers that accept unencrypted connections; `None` if the session is adopted.
    #[cfg(feature = "testing")]
    pub(crate) fn plain_servers(&self) -> Option<Vec<String>> {
        match &self.core.config.origin {
            Origin::Own { hosts, .. } => {
                let plain = hosts.servers.iter().filter(|server| !server.is_encrypted);
                Some(plain.map(ToString::to_string).collect())
            }
            Origin::Adopted { .. } => None,
        }
    }

    /// Returns the path with the namespace in front.
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

    /// Whether both are handles of one client.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// Returns the state that an upper layer keeps for this client, one value of each type.
    pub(crate) fn extension<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.core.extensions.get()
    }

    /// Completes in the background, for a limited time, what a caller has begun, and drops the result.
    pub(crate) fn finish(&self, work: impl Future<Output: Send> + Send + 'static) {
        self.janitor().finish(work);
    }

    fn janitor(&self) -> &Janitor {
        &self.core.janitor
    }
}

impl Core {
    /// Closes the client when the work of its leaders has ended.
    fn begin_to_close(&self) {
        if self.leaving.ask() {
            self.closed.cancel();
            return;
        }
        let (leaving, closed) = (self.leaving.clone(), self.closed.clone());
        let patience = self.config.connection_timeout;
        self.home.runtime().spawn(async move {
            leaving.wait(patience).await;
            closed.cancel();
        });
    }
}
