//! The handle on a client.

use std::any::TypeId;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Either;
use tokio::time::timeout;
use tokio_util::context::TokioContext;
use tokio_util::future::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use zookeeper_client::{self as zk, Acl};

use super::builder::ClientBuilder;
use super::core::Core;
use super::home::Home;
use super::janitor::Janitor;
use super::path;
use super::presence::Presence;
use super::retry::RetryPolicy;
use super::state::ConnectionState;
use crate::error::{Error, Result};
use crate::meters::Labels;
use crate::waker::guarded;
use crate::watch::{Watch, Watched};

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
#[derive(Clone)]
#[must_use = "if unused, the client is closed at once"]
pub struct Client {
    pub(super) core: Arc<Core>,
    /// `None` for background work, which does not keep the client open.
    presence: Option<Arc<Presence>>,
}

debug_by!(Client, |it|
    servers: it.core.origin.servers(), namespace: it.core.namespace,
    connection: it.health().connection
);

impl Client {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let presence = Some(Arc::new(Presence { core: core.clone() }));
        Self { core, presence }
    }

    /// Connects with default settings. See [`ClientBuilder::connect`].
    ///
    /// # Errors
    /// Same as [`ClientBuilder::connect`].
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
    /// Same as [`ClientBuilder::connect_lazily`].
    pub fn connect_lazily(connect_string: &str) -> Result<Self> {
        Self::builder().connect_lazily(connect_string)
    }

    /// Creates a client on a session that the caller owns. See [`ClientBuilder::from_zookeeper`].
    ///
    /// # Errors
    /// Same as [`ClientBuilder::from_zookeeper`].
    pub fn from_zookeeper(zookeeper: zk::Client) -> Result<Self> {
        Self::builder().from_zookeeper(zookeeper)
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(crate) fn detached(&self) -> Self {
        Self::of(self.core.clone())
    }

    /// Returns a handle that does not keep the client open.
    pub(super) fn of(core: Arc<Core>) -> Self {
        Self { core, presence: None }
    }

    /// Returns what keeps the client open; `None` if this handle is [detached](Self::detached).
    pub(crate) fn presence(&self) -> Option<Arc<Presence>> {
        self.presence.clone()
    }

    /// Follows the state of the connection.
    ///
    /// ```no_run
    /// # async fn example(client: zk_recipes::Client) {
    /// let mut states = client.watch_connection();
    /// while let Some(state) = states.changed().await {
    ///     println!("{state:?}");
    /// }
    /// # }
    /// ```
    pub fn watch_connection(&self) -> Watch<ConnectionState> {
        self.core.link.state().watch()
    }

    /// Waits until a connection accepts writes, for up to the [connection
    /// timeout](ClientBuilder::connection_timeout). Use it with clients from
    /// [`connect_lazily`](Self::connect_lazily); all other calls wait by themselves.
    ///
    /// ```no_run
    /// # async fn example() -> zk_recipes::Result<()> {
    /// let client = zk_recipes::Client::connect_lazily("zk1:2181,zk2:2181,zk3:2181")?;
    /// client.wait_connected().await?;
    /// assert!(client.watch_connection().get().is_connected());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`zookeeper`](Self::zookeeper).
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
    /// Call this again each time: what this client does before the call is sent before what you send on the handle, and
    /// a handle is good for one connection. After that connection is lost, its requests fail
    /// with [`ConnectionLoss`](zk::Error::ConnectionLoss), even when this client has reconnected, and you must not
    /// await a watch that was set through it: `zookeeper-client` panics. For one-shot watches that outlast a
    /// connection, create a `zookeeper-client` of your own and share its session with this library by
    /// [`from_zookeeper`](Self::from_zookeeper). Its handle is then the one that you gave, and survives reconnects; its
    /// persistent watches do not, so set those again. After a reconnect, `sync` before you read through it: the new
    /// server may lag behind.
    ///
    /// The session cannot end while you keep the connection: drop it before [`close`](Self::close). Unlike calls of this
    /// library, requests through it must be awaited with wakers that do not panic: one that does ends the connection, and
    /// two may abort the process.
    ///
    /// # Memory safety
    /// Two safe calls of the handle can corrupt memory, by defects of the crates below this one:
    ///
    /// - Do not drop `state_watcher().changed()` before it completes, as `select!` or a timeout does: while the state changes,
    ///   the drop may write to the stack of another thread. Await it to its end in a task, or use
    ///   [`watch_connection`](Self::watch_connection).
    /// - Do not drop a watch that has not fired and set another one on the same path while its node changes. Set such
    ///   watches by a [`Cache`](crate::cache::Cache).
    ///
    /// # Errors
    /// [`Error::NotConnected`] if there is no connected session under the [retry policy](RetryPolicy);
    /// [`Error::AuthFailed`], [`Error::SessionOver`] and [`Error::Closed`] if there will be none.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn zookeeper(&self) -> Result<zk::Client> {
        let connected = async {
            loop {
                // It may have lost its connection right after the wait.
                if let Ok(zookeeper) = self.session_under_policy().await?.zookeeper() {
                    return Ok(zookeeper);
                }
            }
        };
        self.unless_closed(connected).await
    }

    /// Returns the data of this client's nodes. See [`ClientBuilder::identity`]. Until the client connects for the
    /// first time, the default identity lacks the local address.
    pub fn identity(&self) -> &[u8] {
        self.core.identity.get().unwrap_or(&self.core.identity_without_address)
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
        guarded(self.core.closed.cancelled()).await;
        let patience = self.core.settings.connection_timeout;
        // A server that does not answer ends the session by itself.
        let _ = self.at_home(async { timeout(patience, self.core.let_go()).await }).await;
    }

    /// Returns whether [`close`](Self::close) was called, or the client has ended otherwise.
    pub fn is_closed(&self) -> bool {
        self.core.leaving.is_cancelled() || self.has_ended()
    }

    /// Whether the client is closed and the work of its leaders has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.core.closed.is_cancelled()
    }

    /// Cancelled when leaders must end their work because the client is being closed.
    pub(crate) fn leaving(&self) -> &CancellationToken {
        &self.core.leaving
    }

    /// Keeps the session open for as long as the token lives, but for at most `grace` after the client is asked to
    /// close. Returns `None` if that has already happened.
    pub(crate) fn stay(&self, grace: Duration) -> Option<TaskTrackerToken> {
        // Taken before the check: a task that closes the client either sees this token or is seen here.
        let token = self.core.stays.token();
        let mut longest = self.core.grace.lock();
        *longest = grace.max(*longest);
        (!self.core.leaving.is_cancelled()).then_some(token)
    }

    /// Cancelled when the client has [ended](Self::has_ended) or is dropped.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.core.closed.clone()
    }

    /// Runs an operation with the timers of the client's own thread, since the caller may have none. A runtime that
    /// was given to the builder may be shut down, and then its timers must not be used; so in that case the
    /// caller's timers are used.
    pub(crate) fn at_home<F: Future>(&self, operation: F) -> impl Future<Output = F::Output> + use<F> {
        let home = &self.core.home;
        guarded(match home.is_ours() {
            true => Either::Left(TokioContext::new(operation, home.runtime().clone())),
            false => Either::Right(operation),
        })
    }

    /// Waits for an operation for up to this time. Boxed, and with the timers of the client: the caller may have none.
    pub(crate) fn within<T>(
        &self,
        time: Duration,
        operation: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        self.at_home(Box::pin(async move { timeout(time, operation).await.ok() }))
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

    /// Runs a task on the client's runtime, whatever the caller's runtime is.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.core.home.spawn(task));
    }

    /// Follows something in the background for as long as someone watches it, and until the client ends. `observe` shows
    /// what it sees, and `last` makes the last value of the one before.
    pub(crate) fn follow<T, F>(
        &self,
        first: T,
        observe: impl FnOnce(Watched<T>) -> F,
        last: impl FnOnce(T) -> T + Send + 'static,
    ) -> Watch<T>
    where
        T: Clone + PartialEq + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let watched = Watched::new(first);
        let watch = watched.watch();
        let (observing, closing) = (observe(watched.clone()), self.closing());
        self.spawn(async move {
            tokio::select! {
                () = observing => {}
                () = watched.unwatched() => {}
                () = closing.cancelled() => {}
            }
            watched.show(last(watched.get()));
        });
        watch
    }

    /// Returns the runtime of the client.
    pub(crate) fn home(&self) -> &Home {
        &self.core.home
    }

    /// Runs a task for each of the runtimes of these clients, so that the work goes on until the last of them ends.
    pub(crate) fn spawn_on_each<'a, T>(clients: impl IntoIterator<Item = &'a Self>, task: impl Fn() -> T)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let mut runtimes = Vec::new();
        for client in clients {
            let runtime = client.core.home.runtime().id();
            if !runtimes.contains(&runtime) {
                runtimes.push(runtime);
                client.spawn(task());
            }
        }
    }

    /// Returns a full path with the chroot in front.
    pub(crate) fn absolute_path(&self, full_path: &str) -> String {
        format!("{}{full_path}", self.core.origin.chroot().trim_end_matches('/'))
    }

    /// Returns the path with the namespace in front.
    ///
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn full_path(&self, path: &str) -> Result<Arc<str>> {
        path::validate(path)?;
        Ok(format!("{}{path}", self.core.namespace).into())
    }

    /// The same for a path that is only read or watched, which may be `/`: that of the namespace, or of the servers.
    ///
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn full_path_or_root(&self, path: &str) -> Result<Arc<str>> {
        match path {
            "/" => Ok(self.in_namespace(path).into()),
            path => self.full_path(path),
        }
    }

    pub(crate) fn acl_of(&self, path: &str) -> Cow<'_, [Acl]> {
        self.core.settings.acls.of(path)
    }

    /// Returns what has the meters of each path.
    pub(crate) fn labels(&self) -> &Labels {
        &self.core.settings.labels
    }

    /// Returns a path that was [validated](Self::full_path_or_root), or is below one, with the namespace in front.
    pub(crate) fn in_namespace(&self, path: &str) -> String {
        match &*self.core.namespace {
            "" => path.to_owned(),
            namespace if path == "/" => namespace.to_owned(),
            namespace => format!("{namespace}{path}"),
        }
    }

    /// Returns a full path without the namespace; `None` if it is outside of it.
    pub(crate) fn path_in_namespace<'a>(&self, full_path: &'a str) -> Option<&'a str> {
        let path = full_path.strip_prefix(&*self.core.namespace)?;
        Some(if path.is_empty() { "/" } else { path })
    }

    /// Returns how long one attempt waits for a connection.
    pub(crate) fn connection_timeout(&self) -> Duration {
        self.core.settings.connection_timeout
    }

    pub(crate) fn retry_policy(&self) -> &RetryPolicy {
        &self.core.settings.retry
    }

    /// Whether both are handles of one client.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// Whether both are seen to be clients of the same servers: if they are one client, their connect strings have a
    /// server in common, or they have adopted one session.
    pub(crate) fn has_servers_of(&self, other: &Self) -> bool {
        self.is_same(other) || self.core.origin.has_servers_of(&other.core.origin)
    }

    /// Returns the state that an upper layer keeps for this client, one value of each type.
    pub(crate) fn extension<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.core.extensions.lock();
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(values);
        value.downcast().unwrap_or_else(|_| unreachable!("the key is the type of the value"))
    }

    /// Completes in the background, for a limited time, what a caller has begun, and drops the result.
    pub(crate) fn finish(&self, work: impl Future<Output: Send> + Send + 'static) {
        self.janitor().finish(work);
    }

    pub(super) fn janitor(&self) -> &Janitor {
        &self.core.janitor
    }

    /// Returns the addresses of the servers that accept unencrypted connections; `None` if the session is adopted.
    #[cfg(feature = "testing")]
    pub(crate) fn plain_servers(&self) -> Option<Vec<String>> {
        self.core.origin.plain_servers()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn one_extension_of_each_type() {
        let client = Client::connect_lazily("127.0.0.1:1").unwrap();
        *client.extension::<Mutex<u32>>().lock() = 7;
        assert_eq!(*client.extension::<Mutex<u32>>().lock(), 7);
        assert_eq!(*client.extension::<Mutex<i32>>().lock(), 0);
    }
}
