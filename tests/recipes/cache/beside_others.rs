//! Other types of the same client that watch the nodes of a cache.

use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::barriers::Barrier;
use zk_recipes::cache::{Cache, CacheOptions};
use zk_recipes::nodes::Group;
use zk_recipes::{
    Acl, AuthId, Client, InterProcessMutex, LeaderLatch, LeaderObserver, LeaderOptions, Observation,
    Permission, Semaphore,
};

use super::create;
use crate::recipes::stage::{server_and_bystander, server_and_client, server_and_clients};
use crate::support::{connect, eventually, watches_of, watches_on_children, within};

/// What is to be told is told within this time, on a server that is idle otherwise.
const SOON: Duration = Duration::from_secs(20);

async fn current(client: &Client, path: &str) -> Cache {
    let cache = Cache::new(client, path, CacheOptions::tree()).unwrap();
    within(cache.wait_current()).await.unwrap();
    cache
}

/// Semaphore: whoever waits is woken when a lease is released ("one watch ... no polling"; src/lock/semaphore.rs).
/// A cache of the leases, started by the same client while it waits, must not take the watch away.
#[tokio::test]
async fn a_waiter_for_a_lease_is_woken_beside_a_later_cache_of_the_leases() {
    let (server, [other, client]) = server_and_clients().await;
    let held = Semaphore::new(&other, "/semaphore", 1).unwrap().acquire().await.unwrap();
    let semaphore = Semaphore::new(&client, "/semaphore", 1).unwrap();
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    eventually("it watches the leases", async || (watches_on_children(&server).await > 0).then_some(()))
        .await;
    let cache = current(&client, "/semaphore/leases").await;
    held.release().await.unwrap();
    let woken = timeout(SOON, waiting).await;
    drop(cache);
    drop(woken.expect("it is never woken").unwrap().unwrap());
}

/// `LeaderObserver::watch_leader` follows the election.
#[tokio::test]
async fn an_observer_sees_the_first_leader_beside_a_later_cache_of_the_election() {
    let (server, zookeeper) = server_and_bystander().await;
    create(&zookeeper, "/election", b"").await;
    let (other, client) = (connect(&server).await, connect(&server).await);
    let mut leader = LeaderObserver::new(&client, "/election").unwrap().watch_leader();
    within(leader.wait_for(|leader| *leader == Observation::Nobody)).await.unwrap();
    eventually("it watches", async || (server.watch_count().await.ok()? > 0).then_some(())).await;
    let cache = current(&client, "/election").await;
    let latch = LeaderLatch::start(&other, "/election", LeaderOptions::default()).unwrap();
    within(latch.await_leadership()).await.unwrap();
    let seen = timeout(SOON, leader.wait_for(|leader| matches!(leader, Observation::Leader(_)))).await;
    let in_cache = cache.current().len();
    assert!(seen.is_ok(), "the observer is not told of the leader; the cache has {in_cache} nodes");
}

/// `Group::watch_members` shows each member that joins.
#[tokio::test]
async fn a_group_shows_who_joins_beside_a_later_cache_of_the_group() {
    let (server, zookeeper) = server_and_bystander().await;
    create(&zookeeper, "/group", b"").await;
    let (other, client) = (connect(&server).await, connect(&server).await);
    let mut members = Group::new(&client, "/group").unwrap().watch_members();
    within(members.wait_for(|members| members.is_current())).await.unwrap();
    let _cache = current(&client, "/group").await;
    let _member = Group::new(&other, "/group").unwrap().join("one", "x").await.unwrap();
    let seen = timeout(SOON, members.wait_for(|members| members.get("one").is_some())).await;
    assert!(seen.is_ok(), "the member is not shown");
}

/// A mutex whose predecessor's node may not be read: the waiter watches the queue instead.
#[tokio::test]
async fn a_waiter_behind_an_unreadable_node_is_woken_beside_a_later_cache_of_the_lock() {
    let (server, client) = server_and_client().await;
    let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let builder = Client::builder().auth("digest", "other:secret");
    let builder = builder.acl_for_path(move |path| path.contains("/_c_").then(|| own.to_vec()));
    let other = builder.connect(&server.connect_string()).await.unwrap();
    let held = InterProcessMutex::new(&other, "/locks/a").unwrap().acquire().await.unwrap();
    let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    eventually("it watches the queue", async || (watches_on_children(&server).await > 0).then_some(())).await;
    let cache = current(&client, "/locks/a").await;
    held.release().await.unwrap();
    let woken = timeout(SOON, waiting).await;
    drop(cache);
    drop(woken.expect("it is never woken").unwrap().unwrap());
}

/// `Ticket::watch_position` follows the position.
#[tokio::test]
async fn a_position_is_followed_beside_a_later_cache_of_the_lock() {
    let (server, [other, client]) = server_and_clients().await;
    let others = InterProcessMutex::new(&other, "/locks/a").unwrap();
    let held = others.acquire().await.unwrap();
    let mutex = InterProcessMutex::new(&other, "/locks/a").unwrap();
    let second = tokio::spawn(async move { mutex.acquire().await });
    watches_of(&server, 1).await;
    let ticket = InterProcessMutex::new(&client, "/locks/a").unwrap().enqueue().await.unwrap();
    let mut position = ticket.watch_position();
    let waiting = tokio::spawn(async move { ticket.acquired().await });
    eventually("it follows", async || (watches_on_children(&server).await > 0).then_some(())).await;
    assert_eq!(position.get(), 2);
    let _cache = current(&client, "/locks/a").await;
    second.abort();
    let _ = second.await;
    let seen = timeout(SOON, position.wait_for(|position| *position == 1)).await.is_ok();
    held.release().await.unwrap();
    let _ = within(waiting).await.unwrap().unwrap();
    assert!(seen, "the position is not followed");
}

/// The other way round: the cache is first; then another type's one-shot watch on the same node has it set its watch again.
#[tokio::test]
async fn a_group_shows_who_joins_beside_an_earlier_cache_that_sets_its_watch_again() {
    let (server, zookeeper) = server_and_bystander().await;
    create(&zookeeper, "/group", b"").await;
    let (other, client) = (connect(&server).await, connect(&server).await);
    // Somebody waits for the node before there is a cache, and gives up after it has been set.
    let barrier = Barrier::new(&client, "/group").unwrap();
    let waiting = tokio::spawn(async move { barrier.wait().await });
    eventually("it watches", async || (server.watch_count().await.ok()? > 0).then_some(())).await;
    let cache = current(&client, "/group").await;
    let mut members = Group::new(&client, "/group").unwrap().watch_members();
    within(members.wait_for(|members| members.is_current())).await.unwrap();
    let mut state = cache.watch_state();
    assert!(state.changed().await.is_some());
    waiting.abort();
    let _ = waiting.await;
    // On 3.9 it need not.
    let _ = timeout(Duration::from_secs(2), state.wait_for(|state| !state.is_current())).await;
    within(cache.wait_current()).await.unwrap();
    let _member = Group::new(&other, "/group").unwrap().join("one", "x").await.unwrap();
    let seen = timeout(SOON, members.wait_for(|members| members.get("one").is_some())).await;
    assert!(seen.is_ok(), "the member is not shown");
}
