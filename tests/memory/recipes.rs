//! The recipes of this library, and the clients of others, on a server in memory.

use std::time::Duration;

use tokio::process::Command;
use zk_recipes::testing::{FaultProxy, MemoryServer, Traffic, kill_session};
use zk_recipes::{
    Client, InterProcessMutex, LeaderLatch, LeaderOptions, ReadWriteLock, Semaphore, blocking, operate,
};

use crate::installed::{Generation, Peers};
use crate::support::{BOUND, within};

const PATH: &str = "/locks/a";

async fn clients<const N: usize>(server: &MemoryServer) -> [Client; N] {
    let connect = || async { Client::connect(&server.connect_string()).await.unwrap() };
    futures_util::future::join_all((0..N).map(|_| connect())).await.try_into().unwrap()
}

#[tokio::test]
async fn a_mutex_is_handed_over_asked_for_and_lost() {
    let server = MemoryServer::start().unwrap();
    let [one, other] = clients(&server).await;
    let [ours, theirs] = [&one, &other].map(|client| InterProcessMutex::new(client, PATH).unwrap());

    let guard = ours.acquire().await.unwrap();
    assert!(theirs.try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { theirs.acquire().await });
    assert_eq!(operate::ask(&other, PATH).await.unwrap().len(), 1);
    within(guard.revoke_requested()).await.unwrap();
    guard.release().await.unwrap();
    let guard = within(waiting).await.unwrap().unwrap();

    kill_session(&other).await.unwrap();
    within(guard.lost()).await;
    let _guard = within(ours.acquire()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_at_a_time_is_in_a_section() {
    let server = MemoryServer::start().unwrap();
    let counter = std::sync::Arc::new(std::sync::Mutex::new((0, 0)));
    let mut tasks = tokio::task::JoinSet::new();
    for client in clients::<3>(&server).await {
        let counter = counter.clone();
        let mutex = InterProcessMutex::new(&client, PATH).unwrap();
        tasks.spawn(async move {
            let _client = client;
            for _ in 0..20 {
                let guard = mutex.acquire().await.unwrap();
                assert_eq!(std::mem::replace(&mut counter.lock().unwrap().0, 1), 0);
                tokio::task::yield_now().await;
                {
                    let mut counts = counter.lock().unwrap();
                    *counts = (0, counts.1 + 1);
                }
                guard.release().await.unwrap();
            }
        });
    }
    within(tasks.join_all()).await;
    assert_eq!(counter.lock().unwrap().1, 60);
}

#[tokio::test]
async fn semaphores_and_read_write_locks_share_and_exclude() {
    let server = MemoryServer::start().unwrap();
    let [one, other] = clients(&server).await;
    let [ours, theirs] = [&one, &other].map(|client| Semaphore::new(client, "/semaphore", 2).unwrap());
    let both = ours.many(2).unwrap().acquire().await.unwrap();
    assert!(theirs.try_acquire().await.unwrap().is_none());
    kill_session(&one).await.unwrap();
    within(both.lost()).await;
    let _guard = within(theirs.many(2).unwrap().acquire()).await.unwrap();

    let [ours, theirs] = [&one, &other].map(|client| ReadWriteLock::new(client, "/rw").unwrap());
    let reading = within(ours.read().acquire()).await.unwrap();
    let also_reading = theirs.read().try_acquire().await.unwrap().expect("two readers");
    also_reading.release().await.unwrap();
    assert!(theirs.write().try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();
    let _guard = within(theirs.write().acquire()).await.unwrap();
}

#[tokio::test]
async fn another_candidate_leads_when_the_session_of_the_leader_ends() {
    let server = MemoryServer::start().unwrap();
    let [one, other] = clients(&server).await;
    let latch = |client, id| LeaderLatch::start(client, "/leader", LeaderOptions::new().id(id)).unwrap();
    let first = latch(&one, "first");
    within(first.await_leadership()).await.unwrap();
    let second = latch(&other, "second");
    assert_eq!(second.leader().await.unwrap().unwrap().id(), "first");
    kill_session(&one).await.unwrap();
    within(second.await_leadership()).await.unwrap();
}

#[tokio::test]
async fn a_lock_outlives_a_restart_and_is_lost_behind_a_black_hole() {
    let mut server = MemoryServer::start().unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = Client::builder().session_timeout(Duration::from_secs(5));
    let client = client.connect(&proxy.connect_string()).await.unwrap();
    let mutex = InterProcessMutex::new(&client, PATH).unwrap();
    let guard = mutex.acquire().await.unwrap();
    server.restart().await.unwrap();
    let [other] = clients(&server).await;
    assert!(InterProcessMutex::new(&other, PATH).unwrap().try_acquire().await.unwrap().is_none());
    assert_eq!(guard.loss(), None);
    proxy.set_traffic(Traffic::black_hole());
    within(guard.lost()).await;
    proxy.set_traffic(Traffic::pass());
    drop(guard);
    let _guard = within(mutex.acquire()).await.unwrap();
}

/// The server does not share the clock of the test, nor its thread.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_stop_it() {
    let server = MemoryServer::start().unwrap();
    let [client] = clients(&server).await;
    let mutex = InterProcessMutex::new(&client, PATH).unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
}

#[test]
fn threads_without_a_runtime_can_use_it() {
    let server = MemoryServer::start().unwrap();
    let client = blocking::Client::connect(&server.connect_string()).unwrap();
    let mutex = blocking::InterProcessMutex::new(&client, PATH).unwrap();
    let guard = mutex.acquire().unwrap();
    assert_eq!(futures_executor::block_on(server.watch_count()).ok().map(|count| count > 9), Some(false));
    guard.release().unwrap();
}

/// kazoo's lock, its sequence numbers, its watches and its transactions.
const KAZOO: &str = r#"
import sys
from kazoo.client import KazooClient
one, other = [KazooClient(hosts=sys.argv[1]) for _ in range(2)]
one.start(); other.start()
changes = []
@other.ChildrenWatch("/kazoo", allow_session_lost=False) if other.ensure_path("/kazoo") else None
def changed(children): changes.append(sorted(children))
with one.Lock("/kazoo/lock", "one"):
    assert not other.Lock("/kazoo/lock", "other").acquire(blocking=False)
    assert one.Lock("/kazoo/lock").contenders() == ["one"]
transaction = one.transaction()
transaction.create("/kazoo/a", b"1"); transaction.check("/kazoo", 5); transaction.delete("/kazoo/a")
print([type(result).__name__ for result in transaction.commit()])
one.create("/kazoo/n-", b"", sequence=True, ephemeral=True)
one.stop()
other.sync("/kazoo")
print(other.get_children("/kazoo"), "watched" if changes else "not watched")
other.stop()
"#;

#[tokio::test]
async fn kazoo_can_use_it() {
    let Some(peers) = Peers::if_installed(Generation::Current) else { return };
    let server = MemoryServer::start().unwrap();
    let output = Command::new(peers.python).args(["-c", KAZOO, &server.connect_string()]).output();
    let output = tokio::time::timeout(BOUND, output).await.expect("in time").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = "['RolledBackError', 'BadVersionError', 'RuntimeInconsistency']\n['lock'] watched\n";
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
}
