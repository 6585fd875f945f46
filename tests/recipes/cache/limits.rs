//! Caches that become too large, and large nodes.

use super::*;

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
    let (_server, client) = server_and_client().await;
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
}
