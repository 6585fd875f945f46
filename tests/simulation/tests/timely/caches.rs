//! Caches over time: beside waits of the same client that begin and end all the time, and while nodes change all the time.

use zk_recipes::barriers::{Barrier, DoubleBarrier};
use zk_recipes::cache::{Cache, CacheOptions, CacheState};
use zk_recipes::nodes::Group;
use zk_recipes::shared::SharedCount;

use super::prelude::*;

/// Long enough for any load here.
const SOON: Duration = secs(1);

fn create(stage: &Stage, path: &str, data: &[u8]) {
    stage.servers().create(path, data, false);
    assert!(stage.servers().node(path).is_some(), "{path}");
}

async fn current(client: &Client, path: &str) -> Cache {
    let cache = Cache::start(client, path, CacheOptions::tree()).unwrap();
    within(cache.wait_current()).await.unwrap();
    cache
}

/// A client with a cache of that node, to which what the server sends takes a while.
async fn far_away(stage: &Stage, path: &str) -> (Proxy, Client, Cache) {
    let (proxy, client) = stage.far(usual).await;
    let cache = current(&client, path).await;
    proxy.set_traffic(Traffic::pass().delay_to_client(ms(300)));
    (proxy, client, cache)
}

/// `Barrier::wait_within`: "false if it is known to have been closed the whole time" (src/barriers/barrier.rs).
#[history]
async fn a_barrier_that_is_set_lets_nobody_pass_beside_a_cache(stage: Stage) {
    create(&stage, "/barrier", b"");
    let (proxy, client, _cache) = far_away(&stage, "/barrier").await;
    stage.servers().delete("/barrier");
    create(&stage, "/barrier", b"");
    // It is set from here on.
    let barrier = Barrier::new(&client, "/barrier").unwrap();
    let open = barrier.wait_within(secs(3)).await.unwrap();
    assert!(!open, "it is told that the way is open");
    proxy.set_traffic(Traffic::pass());
}

/// `DoubleBarrier::enter` waits for all members.
#[history]
async fn a_double_barrier_lets_no_one_in_alone_beside_a_cache(stage: Stage) {
    create(&stage, "/double", b"");
    let (proxy, client, cache) = far_away(&stage, "/double/ready").await;
    // A round of others, which is over.
    let others = [stage.client(1).await, stage.client(2).await];
    join_all(others.each_ref().map(async |client| {
        let barrier = DoubleBarrier::new(client, "/double", 2).unwrap();
        within(within(barrier.enter()).await.unwrap().leave()).await.unwrap();
    }))
    .await;
    let barrier = DoubleBarrier::new(&client, "/double", 2).unwrap();
    let entered = timeout(secs(5), barrier.enter()).await;
    assert!(entered.is_err(), "one member of two is let in: {entered:?}");
    proxy.set_traffic(Traffic::pass());
    drop((cache, entered));
    sleep(secs(1)).await;
}

/// `Group::watch_members` shows who is a member.
#[history]
async fn a_member_is_shown_beside_a_cache_of_its_node(stage: Stage) {
    create(&stage, "/group", b"");
    create(&stage, "/group/one", b"x");
    let (proxy, client, _cache) = far_away(&stage, "/group/one").await;
    stage.servers().delete("/group/one");
    create(&stage, "/group/one", b"x");
    let mut members = Group::new(&client, "/group").unwrap().watch_members();
    within(members.wait_for(|members| members.is_current())).await.unwrap();
    sleep(secs(2)).await;
    let is_shown = members.get().get("one").is_some();
    assert!(is_shown, "a member that is there is not shown");
    proxy.set_traffic(Traffic::pass());
}

/// Waits that begin and end all the time.
fn churn(client: &Client, path: &str) -> Vec<JoinHandle<()>> {
    const WITHIN: Duration = ms(200);
    let waiter = |number: u32| {
        let barrier = Barrier::new(client, path).unwrap();
        tokio::spawn(async move {
            sleep(WITHIN * number / 100).await;
            loop {
                let _ = barrier.wait_within(WITHIN).await;
            }
        })
    };
    (0..100).map(waiter).collect()
}

/// `Cache::wait_loaded`, `wait_current`: "It lags behind the servers by the time of an event and a read"; "Other types of
/// this library watch that node through the cache's watch, as long as it is set" (src/cache/cache.rs). trees.rs: "There
/// are only as many of these as were there before the persistent watch."
#[history]
async fn a_cache_loads_beside_waits_that_are_given_up(stage: Stage) {
    create(&stage, "/barrier", b"");
    for number in 0..2000 {
        create(&stage, &format!("/barrier/n{number:05}"), b"x");
    }
    let client = stage.client(0).await;
    let waiters = churn(&client, "/barrier");
    sleep(secs(1)).await;
    let cache = Cache::start(&client, "/barrier", CacheOptions::tree()).unwrap();
    let loaded = timeout(SOON, cache.wait_loaded()).await;
    assert!(loaded.is_ok(), "it does not load within {SOON:?}");
    waiters.iter().for_each(JoinHandle::abort);
}

/// A cache that was there first, after a reconnect.
#[history]
async fn a_cache_becomes_current_after_a_reconnect_beside_waits_that_are_given_up(stage: Stage) {
    create(&stage, "/barrier", b"");
    let (proxy, client) = stage.far(usual).await;
    let cache = current(&client, "/barrier").await;
    let waiters = churn(&client, "/barrier");
    sleep(secs(2)).await;
    assert!(cache.state().is_current(), "all watch through the cache");
    proxy.cut();
    within(cache.watch_state().wait_for(|state| !state.is_current())).await.unwrap();
    within(cache.watch_state().wait_for(CacheState::is_current)).await.unwrap();
    for number in 0..10 {
        let path = format!("/barrier/n{number}");
        create(&stage, &path, b"");
        let shown = timeout(A_MOMENT, cache.wait_until(|all| all.get(&path).is_some())).await;
        assert!(shown.is_ok(), "{path} is not shown within {A_MOMENT:?}");
    }
    within(cache.watch_state().wait_for(CacheState::is_current)).await.unwrap();
    waiters.iter().for_each(JoinHandle::abort);
}

/// While the node at the path of a cache is a count that a waiter of this client watches, and that changes often.
#[history]
async fn a_cache_loads_although_one_shot_watches_come_and_go(stage: Stage) {
    let other = stage.client(1).await;
    let theirs = SharedCount::new(&other, "/count", 1).unwrap();
    let _one = Semaphore::with_shared_count(&other, "/semaphore", &theirs).unwrap().acquire().await.unwrap();
    for number in 0..10_000 {
        stage.servers().create(&format!("/count/n{number:05}"), b"x", false);
    }
    let (proxy, client) = stage.far(usual).await;
    let count = SharedCount::new(&client, "/count", 1).unwrap();
    let semaphore = Semaphore::with_shared_count(&client, "/semaphore", &count).unwrap();
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    sleep(secs(1)).await;
    let servers = stage.servers().clone();
    let mut writes = 0;
    let writing = async {
        loop {
            // It stays at one permit.
            servers.set_data("/count", &1_i32.to_be_bytes());
            writes += 1;
            sleep(ms(20)).await;
        }
    };
    let cache = Cache::start(&client, "/count", CacheOptions::tree()).unwrap();
    proxy.take_requests();
    let loaded = tokio::select! {
        loaded = timeout(SOON, cache.wait_loaded()) => loaded.is_ok(),
        () = writing => unreachable!("there is no end to it"),
    };
    let requests = proxy.take_requests();
    assert!(requests.len() < 3000 + 20 * writes, "{} requests for {writes} writes", requests.len());
    assert!(loaded, "it does not load in {SOON:?}");
    waiting.abort();
}

// --- Nodes that change, come or go more than once while a request is on its way ---

/// A cache at the other end of the stage, and another client.
async fn becomes_current(stage: Stage, act: impl AsyncFn(&Stage, &zk::Client), check: impl Fn(&Cache)) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    proxy.set_traffic(Traffic::pass().delay(ms(50)));
    let zookeeper = other.zookeeper().await.unwrap();
    let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
    let acting = async {
        loop {
            act(&stage, &zookeeper).await;
            sleep(ms(5)).await;
        }
    };
    let is_current = tokio::select! {
        current = timeout(SOON, cache.wait_current()) => current.is_ok(),
        () = acting => unreachable!("there is no end to it"),
    };
    assert!(is_current, "it is {:?}", cache.state());
    check(&cache);
    proxy.set_traffic(Traffic::pass());
}

#[history]
async fn a_cache_loads_the_children_of_a_node_that_changes_all_the_time(stage: Stage) {
    create(&stage, "/r", b"");
    create(&stage, "/r/a", b"x");
    let change = async |stage: &Stage, _: &zk::Client| assert!(stage.servers().set_data("/r", b"y"));
    becomes_current(stage, change, |cache| {
        assert_eq!(cache.current().data("/r/a"), Some(&b"x"[..]));
    })
    .await;
}

#[history]
async fn a_cache_loads_although_nodes_come_and_go_below_one_that_may_not_be_read(stage: Stage) {
    create(&stage, "/r", b"");
    create(&stage, "/r/a", b"");
    let operator = stage.client(2).await;
    let all_but_read =
        zk::Permission::CREATE | zk::Permission::DELETE | zk::Permission::WRITE | zk::Permission::ADMIN;
    let acl = [zk::Acl::new(all_but_read, zk::AuthId::anyone())];
    operator.zookeeper().await.unwrap().set_acl("/r/a", &acl, None).await.unwrap();
    operator.close().await;
    // A node comes and goes in one transaction.
    let come_and_go = async |_: &Stage, zookeeper: &zk::Client| {
        let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
        let mut writer = zookeeper.new_multi_writer();
        writer.add_create("/r/a/c", b"", &open).unwrap();
        writer.add_delete("/r/a/c", None).unwrap();
        writer.commit().await.unwrap();
    };
    becomes_current(stage, come_and_go, |cache| {
        assert_eq!(cache.current().unreadable().collect::<Vec<_>>(), ["/r/a"]);
    })
    .await;
}

// --- What it asks for, and how it ends ---

const ADD_WATCH: Request = Request::Other(106);
const READ_MANY: Request = Request::Other(22);

/// One reply with all large nodes would break the connection. They come behind small ones.
#[history]
async fn a_cache_reads_few_large_nodes_at_a_time(stage: Stage) {
    const LARGE: usize = 60;
    create(&stage, "/r", b"");
    for number in 0..500 {
        create(&stage, &format!("/r/a{number:04}"), b"x");
    }
    for number in 0..LARGE {
        create(&stage, &format!("/r/z{number:04}"), &[7; 250_000]);
    }
    let (proxy, client) = stage.far(usual).await;
    let cache = current(&client, "/r").await;
    let reads = proxy.take_requests().iter().filter(|request| **request == READ_MANY).count();
    assert!((LARGE / 4..LARGE + 250).contains(&reads), "{reads} requests");
    let snapshot = cache.current();
    assert_eq!(snapshot.len(), 1 + 500 + LARGE);
    let bytes = snapshot.iter().map(|node| node.path().len() + node.data().unwrap_or_default().len());
    assert_eq!(snapshot.bytes(), bytes.sum::<usize>());
}

/// Until a watch is removed at the server, its events arrive and each makes `zookeeper-client` remove it again. Beside a
/// watch on its way, that is a use of freed memory.
#[history]
async fn no_watch_is_set_while_another_one_is_removed(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let first = current(&client, "/r").await;
    let removal = proxy.intercept(Request::RemoveWatches, Fate::HoldReply);
    drop(first);
    within(removal.happened()).await;
    let second = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
    let setting = proxy.intercept(ADD_WATCH, Fate::HoldReply);
    let is_early = timeout(SOON, setting.happened()).await.is_ok();
    assert!(!is_early, "the server had not removed the first watch yet");
    drop(setting);
    removal.release();
    within(second.wait_current()).await.unwrap();
}

#[history]
async fn no_watch_is_left_of_a_cache_that_is_dropped_while_it_is_set(stage: Stage) {
    create(&stage, "/r", b"");
    let (proxy, client) = stage.far(usual).await;
    for _ in 0..20 {
        let held = proxy.intercept(ADD_WATCH, Fate::HoldReply);
        let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
        within(held.happened()).await;
        drop(cache);
        sleep(A_MOMENT).await;
        held.release();
    }
    sleep(SOON).await;
    assert_eq!(stage.servers().watch_count(), 0);
    drop(current(&client, "/r").await);
}
