//! Caches that become too large, and large nodes.

use zk_recipes::Error;
use zk_recipes::cache::{Cache, CacheOptions, CacheState};
use zookeeper_client as zk;

use super::{create, shows};
use crate::support::{bystander, connect, empty_server, within};

#[tokio::test]
async fn a_cache_that_would_be_too_large_fails() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
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

#[tokio::test]
async fn invalid_options_are_refused() {
    let server = empty_server().await;
    let client = connect(&server).await;
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
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", b"").await;
    let large = vec![7; 1_000_000];
    for at in 0..20 {
        create(&zookeeper, &format!("/r/large{at:02}"), &large).await;
        let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
        for of in 0..3 {
            let mut writer = zookeeper.new_multi_writer();
            for number in 0..50 {
                writer.add_create(&format!("/r/n{at:02}-{of}-{number}"), b"small", &open).unwrap();
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
