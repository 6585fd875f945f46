//! What the integration tests share.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

pub mod alone;
pub mod counter;
pub mod kinds;
pub mod memory;
pub mod pool;
#[allow(unused_imports)]
pub mod prelude;
pub mod room;
pub mod runtime;
pub mod server;
pub mod watches;

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use uuid::Uuid;
use zk_recipes::testing::{FaultProxy, MemoryServer};
use zk_recipes::{
    Acl, AuthId, Client, ClientBuilder, Error, InterProcessLock, InterProcessMutex, LockGuard, Permission,
};
use zookeeper_client as zk;

#[allow(unused_imports)]
pub use self::pool::{PooledServer, empty_server, lasting_server};
#[allow(unused_imports)]
pub use self::server::Server;
#[allow(unused_imports)]
pub use self::watches::{
    all_watches, watches, watches_of, watches_on, watches_on_children, watches_with_holders,
};

/// What must happen, happens within this time even on a busy machine.
pub const BOUND: Duration = Duration::from_secs(60);

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// How often to repeat what goes wrong by bad luck only: a tenth of `times`, or all of them if `ZK_RECIPES_THOROUGH` is set.
pub fn repeats(times: usize) -> usize {
    if is_thorough() { times } else { times.div_ceil(10) }
}

pub fn is_thorough() -> bool {
    std::env::var_os("ZK_RECIPES_THOROUGH").is_some_and(|value| !value.is_empty())
}

/// Polls once, without ever being woken.
pub fn poll_once<F: Future + Unpin + ?Sized>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A future that was polled once, and is pending.
pub fn begun<F: Future<Output: Debug>>(future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    let polled = poll_once(&mut future);
    assert!(polled.is_pending(), "{polled:?}");
    future
}

/// The servers that `with-zookeeper` started, or else one in memory that all tests share.
pub fn servers() -> String {
    static IN_MEMORY: LazyLock<MemoryServer> = LazyLock::new(|| MemoryServer::start().unwrap());
    std::env::var("ZK_CONNECT").unwrap_or_else(|_| IN_MEMORY.connect_string())
}

/// A client that lives on threads of its own, or on the runtime of the test if `ZK_RECIPES_CLIENTS_ON_RUNTIME` is set.
pub fn builder() -> ClientBuilder {
    let is_borrowed =
        std::env::var_os("ZK_RECIPES_CLIENTS_ON_RUNTIME").is_some_and(|value| !value.is_empty());
    if is_borrowed { Client::builder().runtime(tokio::runtime::Handle::current()) } else { Client::builder() }
}

/// A root of its own for one test, on the shared servers.
pub struct Sandbox {
    pub root: String,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { root: format!("zk-recipes-tests/{}", Uuid::new_v4()) }
    }

    pub fn builder(&self) -> ClientBuilder {
        Client::builder().session_timeout(SESSION).namespace(&self.root)
    }

    /// The full path of the lock of [`mutex`].
    pub fn lock_path(&self) -> String {
        format!("/{}/locks/a", self.root)
    }

    pub async fn client(&self) -> Client {
        self.builder().connect(&servers()).await.unwrap()
    }

    /// A client whose contenders nobody else may read.
    pub async fn private_client(&self, who: &str) -> Client {
        private(self.builder(), who).connect(&servers()).await.unwrap()
    }

    /// Sees to it that every queue below the root becomes empty.
    pub async fn assert_nothing_left(&self) {
        let zookeeper = bystander_of(&servers()).await;
        let root = format!("/{}", self.root);
        no_ephemerals_below(&zookeeper, &root).await;
    }
}

/// What only Alice may do, whose password is "secret": the server keeps base64(sha1("alice:secret")).
pub fn only_alice(permission: Permission) -> Acl {
    Acl::new(permission, AuthId::new("digest", "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E="))
}

/// For a client whose contenders nobody else may read.
pub fn private(builder: ClientBuilder, who: &str) -> ClientBuilder {
    let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let builder = builder.auth("digest", format!("{who}:secret"));
    builder.acl_for_path(move |path| path.contains("/_c_").then(|| own.to_vec()))
}

/// All nodes below a path, parents first.
pub async fn nodes_below(zookeeper: &zk::Client, path: &str) -> Vec<(String, zk::Stat)> {
    try_nodes_below(zookeeper, path).await.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The same where somebody may have forbidden it.
pub async fn try_nodes_below(
    zookeeper: &zk::Client,
    path: &str,
) -> Result<Vec<(String, zk::Stat)>, zk::Error> {
    let mut nodes = Vec::new();
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop() {
        match zookeeper.get_children(&path).await {
            Ok((children, stat)) => {
                paths.extend(children.iter().map(|name| format!("{path}/{name}")));
                nodes.push((path, stat));
            }
            Err(zk::Error::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(nodes)
}

/// Those by which locks are held or waited for, in no order, and their sessions.
pub async fn ephemerals_below(zookeeper: &zk::Client, path: &str) -> Vec<(String, i64)> {
    let nodes = nodes_below(zookeeper, path).await.into_iter();
    nodes.map(|(path, stat)| (path, stat.ephemeral_owner)).filter(|(_, session)| *session > 0).collect()
}

/// Waits until nothing below a path is held or waited for.
pub async fn no_ephemerals_below(zookeeper: &zk::Client, path: &str) {
    let left = async || ephemerals_below(zookeeper, path).await;
    eventually(&format!("nothing below {path}"), async || left().await.is_empty().then_some(())).await;
}

/// So long that a machine may pause for seconds, and nothing is sent or lost for that reason.
pub const SESSION: Duration = secs(30);

/// A client of a server of one's own.
pub async fn connect(server: &Server) -> Client {
    builder().session_timeout(SESSION).connect(&server.connect_string()).await.unwrap()
}

/// The same for a client that lives on the runtime of the test.
pub async fn connect_here(server: &Server) -> Client {
    let builder = Client::builder().runtime(tokio::runtime::Handle::current());
    builder.session_timeout(SESSION).connect(&server.connect_string()).await.unwrap()
}

/// One that sends no ping while a test counts.
pub async fn quiet(servers: &str) -> Client {
    Client::builder().session_timeout(secs(600)).connect(servers).await.unwrap()
}

/// Options for a node with which everyone may do everything.
pub fn anyone(mode: zk::CreateMode) -> zk::CreateOptions<'static> {
    mode.with_acls(zk::Acls::anyone_all())
}

/// Several of them.
pub async fn connect_many<const N: usize>(server: &Server) -> [Client; N] {
    futures_util::future::join_all((0..N).map(|_| connect(server))).await.try_into().unwrap()
}

/// Somebody who looks at a server and is none of the clients.
pub async fn bystander(server: &Server) -> zk::Client {
    bystander_of(&server.connect_string()).await
}

pub async fn bystander_of(servers: &str) -> zk::Client {
    zk::Client::connector().with_session_timeout(SESSION).connect(servers).await.unwrap()
}

/// Whether a server tells when the nodes that a transaction creates were created; old ones do not.
pub async fn dates_transactions(zookeeper: &zk::Client) -> bool {
    let mut writer = zookeeper.new_multi_writer();
    let ephemeral = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
    writer.add_create("/probe", b"", &ephemeral).unwrap();
    let created = writer.commit().await.unwrap().remove(0);
    zookeeper.delete("/probe", None).await.unwrap();
    matches!(created, zk::MultiWriteResult::Create { stat, .. } if !stat.is_invalid())
}

/// A client whose requests go through a proxy.
pub async fn connect_through(proxy: &FaultProxy) -> Client {
    // The proxy mostly lives on the thread of the test, on which a drop would wait in vain.
    let builder = Client::builder().session_timeout(SESSION).drop_timeout(Duration::ZERO);
    builder.connect(&proxy.connect_string()).await.unwrap()
}

/// A proxy before a server, and a client behind it.
pub async fn connect_by_proxy(server: &Server) -> (FaultProxy, Client) {
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    (proxy, client)
}

/// A client that is connected, however long that takes and however impatient it is.
pub async fn connected(builder: ClientBuilder, servers: &str) -> Client {
    let client = builder.connect_lazily(servers).unwrap();
    within(client.watch_connection().wait_for(|state| state.is_connected())).await.unwrap();
    client
}

/// The one lock that most tests are about.
pub fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, "/locks/a").unwrap()
}

pub fn mutex_at(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap()
}

/// The session of a client.
pub async fn session_id(client: &Client) -> i64 {
    client.zookeeper().await.unwrap().session_id().0
}

/// The children of the lock path, as a bystander sees them.
pub async fn children(zookeeper: &zk::Client, path: &str) -> Vec<String> {
    match zookeeper.list_children(path).await {
        Err(zk::Error::NoNode) => Vec::new(),
        listed => listed.unwrap(),
    }
}

/// What a try for a short time answers. A slow server may not let it into the queue in that time: it is
/// tried again.
pub async fn answered<T>(mut attempt: impl AsyncFnMut() -> Result<T, Error>) -> T {
    // By no timer of tokio's, since callers may be on no runtime.
    let start = std::time::Instant::now();
    loop {
        match attempt().await {
            Err(Error::NotConnected { .. }) if start.elapsed() < BOUND => {}
            outcome => return outcome.unwrap(),
        }
    }
}

/// Asks until the answer is `Some`, for a bounded time.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, asking).await.unwrap_or_else(|_| panic!("not within {BOUND:?}: {what}"))
}

/// The same for what need not be waited for to be known.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || std::future::ready(is_so().then_some(()))).await;
}

/// Loses all connections, and lets nobody connect until the proxy is mended.
pub fn cut_off(proxy: &FaultProxy) {
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
}

pub fn mend(proxy: &FaultProxy) {
    proxy.refuse_connections(false).unwrap();
}

/// Waits until there are this many children.
pub async fn queue_of(zookeeper: &zk::Client, path: &str, length: usize) -> Vec<String> {
    eventually(&format!("{length} in {path}"), || async {
        let children = children(zookeeper, path).await;
        (children.len() == length).then_some(children)
    })
    .await
}

/// Waits until there is neither a child in `path` nor a watch on the server.
pub async fn assert_nothing_left(server: &Server, zookeeper: &zk::Client, path: &str) {
    queue_of(zookeeper, path, 0).await;
    watches_of(server, 0).await;
}

/// Waits for something with a bound.
pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, what).await.expect("it does not come")
}

/// Acquires in a task of its own, which hands out the guard.
pub fn acquire_in_task(mutex: &InterProcessMutex) -> tokio::task::JoinHandle<zk_recipes::Result<LockGuard>> {
    let mutex = mutex.clone();
    tokio::spawn(async move { mutex.acquire().await })
}

/// Acquires and releases a lock so often.
pub async fn visit(lock: &dyn InterProcessLock, times: usize) {
    for _ in 0..times {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

/// Each call is refused at once, since its owner would wait for itself.
pub async fn assert_would_deadlock(lock: &dyn InterProcessLock, path: &str) {
    let refused = Error::WouldDeadlock { path: path.to_owned(), cycle: Vec::new() };
    assert_eq!(within(lock.acquire()).await.unwrap_err(), refused);
    assert_eq!(within(lock.try_acquire()).await.unwrap_err(), refused);
    // The last is longer than any test, so that nothing is refused because it was not waited for.
    for time in [Duration::ZERO, Duration::from_nanos(1), secs(600)] {
        assert_eq!(within(lock.try_acquire_for(time)).await.unwrap_err(), refused, "{time:?}");
    }
}

/// Does something that blocks.
pub async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    within(tokio::task::spawn_blocking(work)).await.unwrap()
}

/// The number at the end of a node's name.
pub fn sequence(node: &str) -> i32 {
    node[node.len() - 10..].parse().unwrap()
}

/// Polls a future until it is done or was pending this often; then drops it.
pub async fn poll_times<F: Future<Output: Debug>>(future: F, times: usize) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), times);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        left -= 1;
        if left == 0 { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// Notes that it was dropped, as work is that does not go on.
pub struct Dropped(pub Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
