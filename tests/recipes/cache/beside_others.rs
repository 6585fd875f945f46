//! Other types of the same client that watch the nodes of a cache.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_recipes::barriers::{Barrier, DoubleBarrier};
use zk_recipes::cache::{Cache, CacheOptions, CacheState};
use zk_recipes::nodes::Group;
use zk_recipes::testing::{FaultProxy, Traffic};
use zk_recipes::{
    Acl, AuthId, Client, InterProcessMutex, LeaderLatch, LeaderObserver, LeaderOptions, Observation,
    Permission, Semaphore,
};

use super::{create, create_many};
use crate::support::{
    Server, bystander, connect, connect_through, empty_server, eventually, watches_of, watches_on_children,
    within,
};

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
    let server = empty_server().await;
    let (other, client) = (connect(&server).await, connect(&server).await);
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
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
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
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
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
    let server = empty_server().await;
    let client = connect(&server).await;
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
    let server = empty_server().await;
    let (other, client) = (connect(&server).await, connect(&server).await);
    let others = InterProcessMutex::new(&other, "/locks/a").unwrap();
    let held = others.acquire().await.unwrap();
    let mutex = InterProcessMutex::new(&other, "/locks/a").unwrap();
    let second = tokio::spawn(async move { mutex.acquire().await });
    watches_of(&server, 1).await;
    let ticket = InterProcessMutex::new(&client, "/locks/a").unwrap().enqueue().await.unwrap();
    let mut position = ticket.watch_position();
    let waiting = tokio::spawn(async move { ticket.acquired().await });
    eventually("it follows", async || (watches_on_children(&server).await > 0).then_some(())).await;
    assert_eq!(*position.borrow_and_update(), 2);
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
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
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
    state.borrow_and_update();
    waiting.abort();
    let _ = waiting.await;
    // On 3.9 it need not.
    let _ = timeout(Duration::from_secs(2), state.wait_for(|state| !state.is_current())).await;
    within(cache.wait_current()).await.unwrap();
    let _member = Group::new(&other, "/group").unwrap().join("one", "x").await.unwrap();
    let seen = timeout(SOON, members.wait_for(|members| members.get("one").is_some())).await;
    assert!(seen.is_ok(), "the member is not shown");
}

/// A client with a cache of that node, to which what the server sends takes a while.
async fn far_away(server: &Server, path: &str) -> (FaultProxy, Client, Cache) {
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let cache = current(&client, path).await;
    proxy.set_traffic(Traffic::pass().delay_to_client(Duration::from_millis(300)));
    (proxy, client, cache)
}

/// `Barrier::wait_within`: "false if it is known to have been closed the whole time" (src/barriers/barrier.rs).
#[tokio::test]
async fn a_barrier_that_is_set_lets_nobody_pass_beside_a_cache() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/barrier", b"").await;
    let (_proxy, client, _cache) = far_away(&server, "/barrier").await;
    zookeeper.delete("/barrier", None).await.unwrap();
    create(&zookeeper, "/barrier", b"").await;
    // It is set from here on.
    let barrier = Barrier::new(&client, "/barrier").unwrap();
    let open = barrier.wait_within(Duration::from_secs(3)).await.unwrap();
    assert!(!open, "it is told that the way is open");
}

/// The same on a connection without delay.
#[tokio::test]
async fn a_barrier_that_one_has_set_lets_nobody_pass_beside_a_cache() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let barrier = Barrier::new(&client, "/barrier").unwrap();
    barrier.set().await.unwrap();
    let _cache = current(&client, "/barrier").await;
    for round in 0..200 {
        barrier.remove().await.unwrap();
        barrier.set().await.unwrap();
        // A busy server may not answer in that time.
        let open = barrier.wait_within(Duration::from_millis(20)).await.unwrap_or(false);
        assert!(!open, "round {round}: it is told that the way is open");
    }
}

/// `DoubleBarrier::enter` waits for all members.
#[tokio::test]
async fn a_double_barrier_lets_no_one_in_alone_beside_a_cache() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/double", b"").await;
    let (_proxy, client, _cache) = far_away(&server, "/double/ready").await;
    // A round of others, which is over.
    let others = [connect(&server).await, connect(&server).await];
    let play = |client: Client| async move {
        let barrier = DoubleBarrier::new(&client, "/double", 2).unwrap();
        let entered = barrier.enter().await.unwrap();
        entered.leave().await.unwrap();
    };
    let [one, two] = others;
    within(async { tokio::join!(play(one), play(two)) }).await;
    let barrier = DoubleBarrier::new(&client, "/double", 2).unwrap();
    let entered = timeout(Duration::from_secs(5), barrier.enter()).await;
    assert!(entered.is_err(), "one member of two is let in: {entered:?}");
}

/// `Group::watch_members` shows who is a member.
#[tokio::test]
async fn a_member_is_shown_beside_a_cache_of_its_node() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/group", b"").await;
    create(&zookeeper, "/group/one", b"x").await;
    let (_proxy, client, _cache) = far_away(&server, "/group/one").await;
    zookeeper.delete("/group/one", None).await.unwrap();
    create(&zookeeper, "/group/one", b"x").await;
    let mut members = Group::new(&client, "/group").unwrap().watch_members();
    within(members.wait_for(|members| members.is_current())).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    let is_shown = members.borrow_and_update().get("one").is_some();
    assert!(is_shown, "a member that is there is not shown");
}

/// Waits that begin and end all the time.
fn churn(client: &Client, path: &str, waiters: usize, within: Duration) -> Vec<tokio::task::JoinHandle<()>> {
    let waiter = |number: usize| {
        let barrier = Barrier::new(client, path).unwrap();
        tokio::spawn(async move {
            sleep(within * u32::try_from(number).unwrap() / 100).await;
            loop {
                let _ = barrier.wait_within(within).await;
            }
        })
    };
    (0..waiters).map(waiter).collect()
}

/// `Cache::wait_loaded`, `wait_current`: "It lags behind the servers by the time of an event and a read"; "Other types of
/// this library watch that node through the cache's watch, as long as it is set" (src/cache/cache.rs). trees.rs: "There
/// are only as many of these as were there before the persistent watch."
#[tokio::test]
async fn a_cache_loads_beside_waits_that_are_given_up() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/barrier", b"").await;
    create_many(&zookeeper, (0..2000).map(|number| format!("/barrier/n{number:05}")), b"x").await;
    let client = connect(&server).await;
    let waiters = churn(&client, "/barrier", 100, Duration::from_millis(200));
    sleep(Duration::from_secs(1)).await;
    let cache = Cache::new(&client, "/barrier", CacheOptions::tree()).unwrap();
    let loaded = timeout(Duration::from_secs(60), cache.wait_loaded()).await;
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(loaded.is_ok(), "it does not load within 60 s");
}

/// A cache that was there first, after a reconnect.
#[tokio::test]
async fn a_cache_becomes_current_after_a_reconnect_beside_waits_that_are_given_up() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/barrier", b"").await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let cache = current(&client, "/barrier").await;
    let waiters = churn(&client, "/barrier", 100, Duration::from_millis(200));
    sleep(Duration::from_secs(2)).await;
    assert!(cache.state().is_current(), "all watch through the cache");
    proxy.cut();
    within(cache.watch_state().wait_for(|state| !state.is_current())).await.unwrap();
    within(cache.watch_state().wait_for(CacheState::is_current)).await.unwrap();
    for number in 0..10 {
        let path = format!("/barrier/n{number}");
        create(&zookeeper, &path, b"").await;
        let shown = timeout(Duration::from_secs(30), cache.wait_until(|all| all.get(&path).is_some())).await;
        assert!(shown.is_ok(), "{path} is not shown within 30 s");
    }
    within(cache.watch_state().wait_for(CacheState::is_current)).await.unwrap();
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}
