//! What a cache that says it is current has.

use std::time::Instant;

use futures_util::FutureExt;

use super::*;

#[test]
fn wait_current_returns_no_snapshot_from_before() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, proxy, zookeeper, client) = runtime.block_on(async {
        let (server, zookeeper) = server_and_bystander().await;
        create(&zookeeper, "/r", &0_u32.to_be_bytes()).await;
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let client = connect_through(&proxy).await;
        (server, proxy, zookeeper, client)
    });
    let cache = Cache::new(&client, "/r", CacheOptions::tree()).unwrap();
    runtime.block_on(async { within(cache.wait_current()).await }).unwrap();
    let patience = secs(if is_thorough() { 100 } else { 5 });
    let mut stale = 0;
    let start = Instant::now();
    let mut rounds = 0_u32;
    while start.elapsed() < patience && stale == 0 {
        rounds += 1;
        runtime.block_on(async {
            cut_off(&proxy);
            let mut state = cache.watch_state();
            within(state.wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
            until("stale", || !cache.state().is_current()).await;
            zookeeper.set_data("/r", &rounds.to_be_bytes(), None).await.unwrap();
        });
        let done = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..6)
            .map(|_| {
                let (cache, done) = (cache.clone(), done.clone());
                std::thread::spawn(move || {
                    while !done.load(SeqCst) {
                        if let Some(seen) = cache.wait_current().now_or_never() {
                            return seen.ok().and_then(|seen| seen.data("/r").map(<[u8]>::to_vec));
                        }
                    }
                    None
                })
            })
            .collect();
        mend(&proxy);
        let _ = runtime.block_on(async { timeout(BOUND, cache.wait_current()).await });
        runtime.block_on(async { sleep(ms(50)).await });
        done.store(true, SeqCst);
        for thread in threads {
            let seen = thread.join().unwrap();
            stale += usize::from(seen.is_some_and(|seen| seen != rounds.to_be_bytes()));
        }
    }
    drop(server);
    assert_eq!(stale, 0, "in round {rounds}, wait_current returned a snapshot from before the reconnect");
}

/// The servers tell of what happens to it then.
#[tokio::test]
async fn a_node_that_becomes_readable_appears() {
    let Some(server) = server_3_9().await else { return };
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", b"").await;
    let client = connect(&server).await;
    let cache = Cache::new(&client, "/r", CacheOptions::tree()).unwrap();
    within(cache.wait_current()).await.unwrap();
    let hidden = [zk::Acl::new(zk::Permission::ADMIN, zk::AuthId::anyone())];
    zookeeper.create("/r/n", b"1", &CreateMode::Persistent.with_acls(zk::Acls::new(&hidden))).await.unwrap();
    sleep(ms(500)).await;
    let all = [zk::Acl::new(zk::Permission::ALL, zk::AuthId::anyone())];
    zookeeper.set_acl("/r/n", &all, None).await.unwrap();
    sleep(ms(500)).await;
    // The servers tell of all of these.
    zookeeper.set_data("/r/n", b"2", None).await.unwrap();
    create(&zookeeper, "/r/n/child", b"").await;
    let seen = timeout(BOUND, cache.wait_until(|snapshot| snapshot.get("/r/n").is_some())).await;
    assert!(seen.is_ok(), "it is {:?}, and does not have the node", cache.state());
}
