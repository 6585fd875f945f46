//! The one lock that many tests are about, and its queue.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;
use zk_recipes::testing::MemoryEnsemble;
use zk_recipes::{
    Client, ClientBuilder, ConnectionState, Error, InterProcessMutex, LockGuard, Owner, Result,
};
use zk_recipes_simulation::world::World;

use super::{A_MOMENT, within};
pub(crate) use super::{SESSION, session_id};

pub(crate) const PATH: &str = "/locks/a";
/// Longer than it takes to queue again, and shorter than any session.
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// A client of a machine.
pub(crate) async fn connect(world: &World, machine: usize) -> Client {
    connect_with(world, machine, |builder| builder).await
}

pub(crate) async fn connect_with(
    world: &World,
    machine: usize,
    with: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Client {
    let machine = &world.machines()[machine];
    machine.connect(with(machine.builder().session_timeout(SESSION)), &world.address_of(0)).await
}

/// A client of each machine.
pub(crate) async fn connect_all(world: &World) -> [Client; 3] {
    [connect(world, 0).await, connect(world, 1).await, connect(world, 2).await]
}

pub(crate) async fn state_is(client: &Client, wanted: ConnectionState) {
    within(client.watch_connection().wait_for(|state| *state == wanted)).await.unwrap();
}

pub(crate) fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, PATH).unwrap()
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

/// Acquires and releases it.
pub(crate) async fn visit(mutex: &InterProcessMutex) {
    within(mutex.owned_by(&Owner::new()).acquire()).await.unwrap().release().await.unwrap();
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
    let mut left = servers.nodes_below("/locks");
    left.retain(|(_, node)| node.ephemeral_owner != 0);
    assert_eq!((left, watched(servers).await), (Vec::new(), Vec::new()));
}

pub(crate) fn is_lost(error: &Error) -> bool {
    matches!(error, Error::LockLost { path, .. } if path.starts_with(PATH))
}
