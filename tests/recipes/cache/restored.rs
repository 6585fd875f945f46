//! Servers that have lost their data, or had them restored from a backup.

use super::*;

/// Their transactions are counted from 1 again.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_cache_shows_what_is_there_after_the_servers_began_anew() {
    let mut server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", b"").await;
    for _ in 0..100 {
        zookeeper.set_data("/r", b"", None).await.unwrap();
    }
    create(&zookeeper, "/r/a", b"old").await;
    let (proxy, client) = connect_by_proxy(&server).await;
    let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
    let mut reader = Reader::of(&cache).await;
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    eventually("it knows that it may be stale", async || (!cache.state().is_current()).then_some(())).await;
    server.kill().await.unwrap();
    std::fs::remove_dir_all(server.real().data_dir().join("version-2")).unwrap();
    server.restart().await.unwrap();
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", b"").await;
    create(&zookeeper, "/r/a", b"new").await;
    proxy.refuse_connections(false).unwrap();
    within(cache.wait_current()).await.unwrap();
    assert_eq!(cache.current().data("/r/a"), Some(&b"new"[..]));
    zookeeper.set_data("/r/a", b"newer", None).await.unwrap();
    shows(&cache, "/r/a", Some(b"newer")).await;
    reader.read();
    reader.assert_is(&cache.current());
}
