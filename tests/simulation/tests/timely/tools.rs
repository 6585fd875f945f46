//! What many histories do.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::prelude::*;

/// Longer than some requests and events take.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(20);

/// The session timeout of most clients.
pub(crate) const SESSION: Duration = Duration::from_secs(10);

/// What must happen, happens within this time.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// Longer than it takes to queue again, and shorter than any session.
pub(crate) const SOON: Duration = secs(2);

/// The lock of most histories.
pub(crate) const PATH: &str = "/locks/a";

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(BOUND, what).await.expect("it does not come")
}

/// It has taken so long, and a moment at most.
pub(crate) fn takes(from: Instant, time: Duration) {
    let took = from.elapsed();
    assert!(took >= time && took < time + A_MOMENT, "{took:?}, not {time:?}");
}

/// It takes so long, and a moment at most.
pub(crate) async fn took<T>(time: Duration, what: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let done = what.await;
    takes(start, time);
    done
}

/// Polls once, without ever being woken.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

// --- Clients ---

/// A client of each machine.
pub(crate) async fn connect_all(stage: &Stage) -> [Client; 3] {
    [stage.connect(0, session).await, stage.connect(1, session).await, stage.connect(2, session).await]
}

/// A session that goes on when the clients that adopt it are closed.
pub(crate) async fn own_session(address: &str) -> zk::Client {
    zk::Client::connector().with_session_timeout(SESSION).connect(address).await.unwrap()
}

pub(crate) async fn session_id(client: &Client) -> i64 {
    client.zookeeper().await.unwrap().session_id().0
}

pub(crate) async fn state_is(client: &Client, wanted: ConnectionState) {
    within(client.watch_connection().wait_for(|state| *state == wanted)).await.unwrap();
}

pub(crate) async fn connected(client: &Client) {
    within(client.watch_connection().wait_for(|state| state.is_connected())).await.unwrap();
}

pub(crate) async fn disconnected(client: &Client) {
    within(client.watch_connection().wait_for(|state| !state.is_connected())).await.unwrap();
}

// --- Locks ---

pub(crate) fn mutex(client: &Client) -> InterProcessMutex {
    mutex_at(client, PATH)
}

pub(crate) fn mutex_at(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap()
}

pub(crate) fn lock_at(client: &Client, path: &str) -> Lock {
    Arc::new(mutex_at(client, path))
}

/// Acquires in a task of its own.
pub(crate) fn acquiring(lock: &(impl InterProcessLock + Clone + 'static)) -> JoinHandle<Result<LockGuard>> {
    let lock = lock.clone();
    spawn_local(async move { lock.acquire().await })
}

/// Acquires in a task of its own, for an owner of its own, and lets it stand in line.
pub(crate) async fn waiter(mutex: &InterProcessMutex) -> JoinHandle<Result<LockGuard>> {
    let mutex = mutex.owned_by(&Owner::new());
    let waiter = tokio::spawn(async move { mutex.acquire().await });
    sleep(A_MOMENT).await;
    waiter
}

pub(crate) async fn granted(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
    within(waiter).await.unwrap().unwrap()
}

/// Acquires and releases a lock.
pub(crate) async fn once(lock: &dyn InterProcessLock) {
    within(lock.acquire()).await.unwrap().release().await.unwrap();
}

/// Acquires and releases a mutex, for an owner of its own.
pub(crate) async fn visit(mutex: &InterProcessMutex) {
    once(&mutex.owned_by(&Owner::new())).await;
}

pub(crate) fn is_lost(error: &Error) -> bool {
    matches!(error, Error::LockLost { path, .. } if path.starts_with(PATH))
}

// --- Nodes and watches ---

/// A client that may read what others may not.
pub(crate) async fn owning_client(stage: &Stage) -> Client {
    stage.connect(1, |builder| usual(builder).auth("digest", "owner:secret")).await
}

/// Does something to a node that only its owner may read meanwhile. The servers drop the watches of others without a word.
pub(crate) async fn unseen(owner: &Client, path: &str, done: impl Future) {
    let zookeeper = owner.zookeeper().await.unwrap();
    let private = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    zookeeper.set_acl(path, &private, None).await.unwrap();
    done.await;
    // Unless it is gone.
    let _ = zookeeper.set_acl(path, &zk::Acls::anyone_all(), None).await;
}

/// How many stand in a queue.
pub(crate) fn queue(stage: &Stage, path: &str) -> usize {
    stage.servers().children(path).unwrap_or_default().len()
}

/// Waits until this is so.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            sleep(ms(1)).await;
        }
    })
    .await;
}

/// Waits until there are so many nodes.
pub(crate) async fn queue_of(servers: &MemoryEnsemble, path: &str, length: usize) -> Vec<String> {
    let children = || servers.children(path).unwrap_or_default();
    until(|| children().len() == length).await;
    children()
}

/// The nodes by which locks are held or waited for, and the like.
pub(crate) fn ephemerals(servers: &MemoryEnsemble, path: &str) -> Vec<String> {
    let mut nodes = servers.nodes_below(path);
    nodes.retain(|(_, node)| node.ephemeral_owner != 0);
    nodes.into_iter().map(|(path, _)| path).collect()
}

/// The nodes in a queue, first come first.
pub(crate) fn nodes(servers: &MemoryEnsemble, path: &str) -> Vec<String> {
    let names = servers.children(path).unwrap_or_default();
    let mut nodes: Vec<_> = names.iter().map(|name| format!("{path}/{name}")).collect();
    nodes.sort_by_key(|node| node.get(node.len() - 10..)?.parse::<i32>().ok());
    nodes
}

/// The number at the end of the name of a node.
pub(crate) fn number(node: &str) -> i32 {
    node[node.len() - 10..].parse().unwrap()
}

/// The nodes of contenders that are watched, one for each client that does.
pub(crate) async fn watched(servers: &MemoryEnsemble) -> Vec<String> {
    let (mut near, far) = duplex(1 << 20);
    spawn_local(servers.serve(0, far));
    near.write_all(b"wchp").await.unwrap();
    let mut printed = String::new();
    near.read_to_string(&mut printed).await.unwrap();
    let mut watched = Vec::new();
    let mut path = "";
    for line in printed.lines() {
        match line.strip_prefix('\t') {
            None => path = line,
            // Others are the paths of locks, which their objects may watch.
            Some(_) if path.contains("/_c_") => watched.push(path.to_owned()),
            Some(_) => {}
        }
    }
    watched
}

/// Neither a node nor a watch is left, in any queue.
pub(crate) async fn nothing_is_left(servers: &MemoryEnsemble) {
    sleep(A_MOMENT).await;
    assert_eq!((ephemerals(servers, "/locks"), watched(servers).await), (Vec::new(), Vec::new()));
}
