//! How caches end, also those that would become too large.

use super::*;

/// It is dropped, or its client is closed.
#[tokio::test]
async fn a_cache_that_ends_before_it_has_loaded_ends_all() {
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    for closes in [false, true] {
        let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
        let (mut changes, mut state) = (cache.changes(), cache.watch_state());
        let ended = tokio::spawn(async move { changes.next().await.is_none() });
        if closes {
            client.close().await;
            assert_eq!(within(cache.wait_loaded()).await.unwrap_err(), Error::Closed);
            assert!(within(cache.changes().next()).await.is_none());
        } else {
            drop(cache);
        }
        assert!(within(ended).await.unwrap());
        while within(state.changed()).await.is_some() {}
        assert_eq!(closes, state.get() == CacheState::Failed(Error::Closed));
    }
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
    within(changes.next()).await;
    assert!(within(cache.wait_until(|_| false)).await.is_err());
    assert!(!cache.state().is_current(), "with old data");
}

#[tokio::test]
async fn a_cache_that_would_be_too_large_fails() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    create_all(&zookeeper, &["/r", "/r/a", "/r/b"], b"0123456789").await;
    let too_large = |max_nodes, max_bytes| Error::CacheTooLarge { path: "/r".into(), max_nodes, max_bytes };
    for (max_nodes, max_bytes) in [(2, 1000), (1000, 30)] {
        let options = CacheOptions::tree().max_nodes(max_nodes).max_bytes(max_bytes);
        let cache = Cache::start(&client, "/r", options).unwrap();
        let failed = within(cache.wait_loaded()).await.unwrap_err();
        assert_eq!(failed, too_large(max_nodes, max_bytes));
        assert!(cache.current().is_empty(), "no part is shown");
        assert_eq!(cache.state(), CacheState::Failed(failed));
    }
    // Later, what was shown stays.
    let cache = Cache::start(&client, "/r", CacheOptions::tree().max_nodes(3)).unwrap();
    let mut changes = cache.changes();
    within(cache.wait_current()).await.unwrap();
    create(&zookeeper, "/r/c", b"").await;
    within(cache.watch_state().wait_for(|state| matches!(state, CacheState::Failed(_)))).await.unwrap();
    assert_eq!(cache.current().len(), 3);
    while within(changes.next()).await.is_some() {}
    let panics = CacheOptions::tree().filter(|_| panic!("on purpose"));
    let cache = Cache::start(&client, "/r", panics).unwrap();
    let failed = within(cache.wait_loaded()).await.unwrap_err();
    assert_eq!(failed, Error::CacheFilterPanicked { path: "/r".into() });
}

#[tokio::test]
async fn invalid_options_are_refused() {
    let (server, client) = server_and_client().await;
    for options in
        [CacheOptions::tree().max_nodes(0), CacheOptions::tree().max_bytes(0), CacheOptions::tree().buffer(0)]
    {
        let refused = Cache::start(&client, "/r", options).map(drop);
        assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    }
    assert!(matches!(
        Cache::start(&client, "r", CacheOptions::tree()).map(drop),
        Err(Error::InvalidPath { .. })
    ));
    // Where the servers of an adopted session are is not known.
    let adopted = Client::from_zookeeper(bystander(&server).await).unwrap();
    let refused = Cache::start(&adopted, "/r", CacheOptions::tree()).unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument { argument: "client", .. }), "{refused}");
}
