//! What a cache that says it is current has.

use std::time::Instant;

use futures_util::FutureExt;

use super::*;

/// It is asked for by threads all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn wait_current_returns_no_snapshot_from_before() {
    let (_server, proxy, client, zookeeper) = server_proxy_client_and_bystander().await;
    create(&zookeeper, "/r", &0_u32.to_be_bytes()).await;
    let cache = current(&client, "/r").await;
    let patience = secs(if is_thorough() { 100 } else { 5 });
    let start = Instant::now();
    let mut round = 0_u32;
    while start.elapsed() < patience {
        round += 1;
        cut_off(&proxy);
        let mut state = cache.watch_state();
        within(state.wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
        until("stale", || !cache.state().is_current()).await;
        zookeeper.set_data("/r", &round.to_be_bytes(), None).await.unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let threads = [(); 6].map(|()| {
            let (cache, done) = (cache.clone(), done.clone());
            std::thread::spawn(move || {
                while !done.load(SeqCst) {
                    if let Some(seen) = cache.wait_current().now_or_never() {
                        return seen.ok().and_then(|seen| seen.data("/r").map(<[u8]>::to_vec));
                    }
                }
                None
            })
        });
        mend(&proxy);
        let _ = timeout(BOUND, cache.wait_current()).await;
        sleep(ms(50)).await;
        done.store(true, SeqCst);
        for thread in threads {
            let seen = thread.join().unwrap();
            let is_new = seen.is_none_or(|seen| seen == round.to_be_bytes());
            assert!(is_new, "in round {round}, wait_current returned a snapshot from before the reconnect");
        }
    }
}

/// The servers tell of what happens to it then.
#[tokio::test]
async fn a_node_that_becomes_readable_appears() {
    let Some(server) = server_3_9().await else { return };
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", b"").await;
    let client = connect(&server).await;
    let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
    within(cache.wait_current()).await.unwrap();
    let hidden = [Acl::new(Permission::ADMIN, AuthId::anyone())];
    zookeeper
        .create("/r/n", b"1", &zk::CreateMode::Persistent.with_acls(zk::Acls::new(&hidden)))
        .await
        .unwrap();
    sleep(ms(500)).await;
    let all = [Acl::new(Permission::ALL, AuthId::anyone())];
    zookeeper.set_acl("/r/n", &all, None).await.unwrap();
    sleep(ms(500)).await;
    // The servers tell of all of these.
    zookeeper.set_data("/r/n", b"2", None).await.unwrap();
    create(&zookeeper, "/r/n/child", b"").await;
    let seen = timeout(BOUND, cache.wait_until(|snapshot| snapshot.get("/r/n").is_some())).await;
    assert!(seen.is_ok(), "it is {:?}, and does not have the node", cache.state());
}
