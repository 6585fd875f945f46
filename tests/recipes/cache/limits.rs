//! Caches that become too large, and large nodes.

use super::*;

#[tokio::test]
async fn a_cache_that_would_be_too_large_fails() {
    let (server, zookeeper) = server_and_bystander().await;
    for path in ["/r", "/r/a", "/r/b"] {
        create(&zookeeper, path, b"0123456789").await;
    }
    let client = connect(&server).await;
    let too_large = |max_nodes, max_bytes| Error::CacheTooLarge { path: "/r".into(), max_nodes, max_bytes };
    for (max_nodes, max_bytes) in [(2, 1000), (1000, 30)] {
        let options = CacheOptions::tree().max_nodes(max_nodes).max_bytes(max_bytes);
        let cache = Cache::new(&client, "/r", options).unwrap();
        let failed = within(cache.wait_loaded()).await.unwrap_err();
        assert_eq!(failed, too_large(max_nodes, max_bytes));
        assert!(cache.current().is_empty(), "no part is shown");
        assert_eq!(cache.state(), CacheState::Failed(failed));
    }
    // Later, what was shown stays.
    let cache = Cache::new(&client, "/r", CacheOptions::tree().max_nodes(3)).unwrap();
    let mut changes = cache.changes();
    within(cache.wait_current()).await.unwrap();
    create(&zookeeper, "/r/c", b"").await;
    within(cache.watch_state().wait_for(|state| matches!(state, CacheState::Failed(_)))).await.unwrap();
    assert_eq!(cache.current().len(), 3);
    while within(changes.next()).await.is_some() {}
    let panics = CacheOptions::tree().filter(|_| panic!("on purpose"));
    let cache = Cache::new(&client, "/r", panics).unwrap();
    let failed = within(cache.wait_loaded()).await.unwrap_err();
    assert_eq!(failed, Error::CacheFilterPanicked { path: "/r".into() });
}

/// The first one is read before the second one.
#[tokio::test]
async fn a_node_may_grow_while_another_one_shrinks() {
    let (server, zookeeper) = server_and_bystander().await;
    for (path, data) in [("/r", &b""[..]), ("/r/a", b"small"), ("/r/z", &[7; 1000])] {
        create(&zookeeper, path, data).await;
    }
    let client = connect(&server).await;
    let cache = Cache::new(&client, "/r", CacheOptions::tree().max_bytes(1500)).unwrap();
    within(cache.wait_current()).await.unwrap();
    let mut writer = zookeeper.new_multi_writer();
    writer.add_set_data("/r/a", &[8; 1000], None).unwrap();
    writer.add_set_data("/r/z", b"small", None).unwrap();
    writer.commit().await.unwrap();
    let snapshot = shows(&cache, "/r/z", Some(b"small")).await;
    assert!(snapshot.data("/r/a") == Some(&[8; 1000]) && snapshot.bytes() < 1500);
}

/// Those of one folder go, and as many come in another one, which is read before it.
#[tokio::test]
async fn nodes_may_come_without_a_connection_while_others_go() {
    let (server, zookeeper) = server_and_bystander().await;
    for path in ["/r", "/r/a", "/r/b", "/r/c", "/r/c/x"] {
        create(&zookeeper, path, b"").await;
    }
    create_many(&zookeeper, (0..300).map(|at| format!("/r/b/{at:03}")), b"").await;
    let going = || (0..100).map(|at| format!("/r/c/x/{at:03}"));
    create_many(&zookeeper, going(), b"").await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let cache = Cache::new(&client, "/r", CacheOptions::tree().max_nodes(450)).unwrap();
    assert_eq!(within(cache.wait_current()).await.unwrap().len(), 405);
    cut_off(&proxy);
    until("it knows that it may be stale", || !cache.state().is_current()).await;
    for path in going() {
        zookeeper.delete(&path, None).await.unwrap();
    }
    create_many(&zookeeper, (0..100).map(|at| format!("/r/a/{at:03}")), b"").await;
    mend(&proxy);
    assert_eq!(within(cache.wait_current()).await.unwrap().len(), 405);
}

#[tokio::test]
async fn invalid_options_are_refused() {
    let (_server, client) = server_and_client().await;
    for options in
        [CacheOptions::tree().max_nodes(0), CacheOptions::tree().max_bytes(0), CacheOptions::tree().buffer(0)]
    {
        let refused = Cache::new(&client, "/r", options).map(drop);
        assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    }
    assert!(matches!(
        Cache::new(&client, "r", CacheOptions::tree()).map(drop),
        Err(Error::InvalidPath { .. })
    ));
}

/// One reply with all of them would have 20 MB.
#[tokio::test]
async fn large_nodes_load_beside_many_small_ones() {
    let (server, zookeeper) = server_and_bystander().await;
    create(&zookeeper, "/r", b"").await;
    let large = vec![7; 1_000_000];
    for at in 0..20 {
        create(&zookeeper, &format!("/r/large{at:02}"), &large).await;
        for of in 0..3 {
            let mut writer = zookeeper.new_multi_writer();
            for number in 0..50 {
                writer
                    .add_create(
                        &format!("/r/n{at:02}-{of}-{number}"),
                        b"small",
                        &anyone(CreateMode::Persistent),
                    )
                    .unwrap();
            }
            writer.commit().await.unwrap();
        }
    }
    let client = connect(&server).await;
    let cache = Cache::new(&client, "/r", CacheOptions::tree()).unwrap();
    let snapshot = within(cache.wait_current()).await.unwrap();
    assert_eq!(snapshot.len(), 1 + 20 * 151);
    assert!((0..20).all(|at| snapshot.data(&format!("/r/large{at:02}")) == Some(&large)));
    zookeeper.set_data("/r/large07", b"small", None).await.unwrap();
    let snapshot = shows(&cache, "/r/large07", Some(b"small")).await;
    let bytes = snapshot.iter().map(|node| node.path().len() + node.data().unwrap_or_default().len());
    assert_eq!(snapshot.bytes(), bytes.sum::<usize>());
}
