//! Caches for threads.

use futures_util::FutureExt;

use super::*;

#[test]
fn a_thread_follows_a_cache() {
    use zk_recipes::blocking::{Client, cache::Cache};

    let server = MemoryServer::start().unwrap();
    let client = Client::connect(&server.connect_string()).unwrap();
    let count = zk_recipes::blocking::shared::SharedCount::new(&client, "/count", 1).unwrap();
    assert_eq!(count.get(), Ok(1));
    let cache = Cache::start(&client, "/count", CacheOptions::node()).unwrap();
    assert_eq!(cache.wait_current().unwrap().len(), 1);
    let mut changes = cache.changes();
    assert!(matches!(changes.next(), Ok(Some(CacheEvent::Reset(_)))));
    assert!(changes.next_within(ms(10)).unwrap().is_none());
    count.set(2).unwrap();
    let two = 2_i32.to_be_bytes();
    let snapshot = cache.wait_until(|snapshot| snapshot.data("/count") == Some(&two)).unwrap();
    assert_eq!(snapshot.len(), 1);
    let change = changes.next().unwrap();
    assert!(matches!(change, Some(CacheEvent::Change(Change::Changed { .. }))), "{change:?}");
    let root = Cache::start(&client, "/", CacheOptions::children()).unwrap();
    assert!(root.wait_current().unwrap().children("/").any(|node| node.path() == "/count"));
    client.close().unwrap();
    assert!(changes.next().unwrap().is_none());
    assert_eq!(cache.wait_until(|snapshot| snapshot.len() == 7).unwrap_err(), Error::Closed);
}

/// It is asked for by threads all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn wait_current_returns_no_snapshot_from_before() {
    let (server, proxy, client) = server_proxy_and_client().await;
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", &0_u32.to_be_bytes()).await;
    let cache = current(&client, "/r").await;
    for round in 1..=repeats(100) as u32 {
        cut_off(&proxy);
        let mut state = cache.watch_state();
        within(state.wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
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
