//! Other types of the same client that watch the nodes of a cache.

use super::*;

/// Whoever waits for something is woken by its watch on children, which a cache of that node, started by the same client while
/// it waits, must not take away: a waiter for a lease; a waiter behind a node that it may not read, which watches the queue.
#[tokio::test]
async fn a_waiter_is_woken_beside_a_later_cache() {
    for (path, watched) in [("/semaphore", "/semaphore/leases"), ("/locks/a", "/locks/a")] {
        let (server, client) = server_and_client().await;
        let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
        let builder = Client::builder().auth("digest", "other:secret");
        let builder = builder.acl_for_path(move |path| path.contains("/locks/a/_c_").then(|| own.to_vec()));
        let other = builder.connect(&server.connect_string()).await.unwrap();
        let lock = |client: &Client| -> Arc<dyn InterProcessLock> {
            match path {
                "/semaphore" => Arc::new(Semaphore::new(client, path, 1).unwrap()),
                _ => Arc::new(InterProcessMutex::new(client, path).unwrap()),
            }
        };
        let held = lock(&other).acquire().await.unwrap();
        let waiting = kinds::in_task(lock(&client));
        eventually("it watches", async || (watches_on_children(&server).await > 0).then_some(())).await;
        let _cache = current(&client, watched).await;
        held.release().await.unwrap();
        drop(within(waiting).await.unwrap().unwrap());
    }
}

/// The same for the observer of the first leader, for who watches a group, and for a position that is followed.
#[tokio::test]
async fn whoever_watches_is_told_beside_a_later_cache() {
    let (server, [other, client], zookeeper) = server_clients_and_bystander().await;
    create_all(&zookeeper, &["/election", "/group"], b"").await;
    let mut leader = LeaderObserver::new(&client, "/election").unwrap().watch_leader();
    within(leader.wait_for(|leader| *leader == Observation::Nobody)).await.unwrap();
    let mut members = Group::new(&client, "/group").unwrap().watch_members();
    within(members.wait_for(|members| members.is_current())).await.unwrap();
    let held = mutex(&other).acquire().await.unwrap();
    let second = mutex(&other).owned_by(&Owner::new()).enqueue().await.unwrap();
    let ticket = mutex(&client).enqueue().await.unwrap();
    let mut position = ticket.watch_position();
    let waiting = tokio::spawn(ticket.acquired());
    eventually("all watch", async || (watches_on_children(&server).await >= 3).then_some(())).await;
    assert_eq!(position.get(), 2);

    let paths = ["/election", "/group", "/locks/a"];
    let _caches = join_all(paths.map(|path| current(&client, path))).await;
    let _latch = LeaderLatch::start(&other, "/election", LeaderOptions::default()).unwrap();
    within(leader.wait_for(|leader| matches!(leader, Observation::Leader(_)))).await.unwrap();
    let _member = Group::new(&other, "/group").unwrap().join("one", "x").await.unwrap();
    within(members.wait_for(|members| members.get("one").is_some())).await.unwrap();
    drop(second);
    within(position.wait_for(|position| *position == 1)).await.unwrap();
    held.release().await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());
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
    let _ = timeout(secs(2), state.wait_for(|state| !state.is_current())).await;
    within(cache.wait_current()).await.unwrap();
    let _member = Group::new(&other, "/group").unwrap().join("one", "x").await.unwrap();
    within(members.wait_for(|members| members.get("one").is_some())).await.unwrap();
}
