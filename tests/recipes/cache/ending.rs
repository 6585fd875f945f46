//! How caches end.

use super::*;

const ADD_WATCH: Request = Request::Other(106);

#[tokio::test]
async fn changes_of_a_cache_that_is_dropped_before_it_has_loaded_end() {
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    for waits in [false, true] {
        let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
        let mut changes = cache.changes();
        let ended = tokio::spawn(async move { changes.next().await.is_none() });
        if waits {
            sleep(ms(300)).await;
        }
        drop(cache);
        assert!(matches!(timeout(BOUND, ended).await, Ok(Ok(true))), "it waits for ever");
    }
}

#[tokio::test]
async fn a_client_that_is_closed_before_the_load_ends_all() {
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
    let mut changes = cache.changes();
    let mut state = cache.watch_state();
    client.close().await;
    assert!(within(changes.next()).await.is_none());
    assert_eq!(within(cache.wait_loaded()).await.unwrap_err(), Error::Closed);
    let seen = within(state.wait_for(|state| matches!(state, CacheState::Failed(_)))).await.unwrap().clone();
    assert_eq!(seen, CacheState::Failed(Error::Closed));
    while within(state.changed()).await.is_some() {}
    assert!(within(cache.changes().next()).await.is_none());
}

#[tokio::test]
async fn a_cache_ends_with_the_runtime_of_its_client() {
    let (server, zookeeper) = server_and_bystander().await;
    create(&zookeeper, "/r", b"old").await;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let builder = Client::builder().runtime(runtime.handle().clone());
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let cache = current(&client, "/r").await;
    let mut changes = cache.changes();
    assert!(matches!(within(changes.next()).await, Some(CacheEvent::Reset(_))));
    runtime.shutdown_background();
    eventually("the client is closed", async || client.is_closed().then_some(())).await;
    zookeeper.set_data("/r", b"new", None).await.unwrap();
    let mut broken = Vec::new();
    if timeout(secs(20), changes.next()).await.is_err() {
        broken.push("changes().next() waits for ever");
    }
    if timeout(secs(20), cache.wait_until(|_| false)).await.is_err() {
        broken.push("wait_until waits for ever");
    }
    if cache.state().is_current() {
        broken.push("the state is Current for ever, with old data");
    }
    assert!(broken.is_empty(), "{broken:?}");
}

/// Until a watch is removed at the server, its events arrive and each makes `zookeeper-client` remove it again. Beside a
/// watch on its way, that is a use of freed memory.
#[tokio::test]
async fn no_watch_is_set_while_another_one_is_removed() {
    let server = MemoryServer::start().unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let new_cache = || Cache::start(&client, "/r", CacheOptions::node()).unwrap();
    let first = new_cache();
    within(first.wait_current()).await.unwrap();
    let removal = proxy.intercept(Request::RemoveWatches, Fate::HoldReply);
    drop(first);
    within(removal.happened()).await;
    let second = new_cache();
    let setting = proxy.intercept(ADD_WATCH, Fate::HoldReply);
    let is_early = timeout(ms(50), setting.happened()).await.is_ok();
    assert!(!is_early, "the server had not removed the first watch yet");
    drop(setting);
    removal.release();
    within(second.wait_current()).await.unwrap();
}

/// A cache that is dropped while its watch is being set, or a client that is closed meanwhile.
#[tokio::test]
async fn no_watch_is_left_of_a_cache_that_is_dropped_early() {
    let (server, zookeeper) = server_and_bystander().await;
    create(&zookeeper, "/r", b"").await;
    let (proxy, client) = connect_by_proxy(&server).await;
    for _ in 0..20 {
        let held = proxy.intercept(ADD_WATCH, Fate::HoldReply);
        let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
        held.happened().await;
        drop(cache);
        sleep(ms(10)).await;
        held.release();
    }
    eventually("no watch is left", async || (server.watch_count().await.unwrap() == 0).then_some(())).await;
    drop(current(&client, "/r").await);
}
