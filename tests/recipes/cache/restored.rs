//! Servers that have lost their data, or had them restored from a backup.

use std::fs;

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
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let cache = Cache::new(&client, "/r", CacheOptions::tree()).unwrap();
    let mut changes = cache.changes();
    let mut reader = Reader::default();
    within(cache.wait_current()).await.unwrap();
    reader.read(&mut changes);
    cut_off(&proxy);
    until("it knows that it may be stale", || !cache.state().is_current()).await;
    server.kill().await.unwrap();
    fs::remove_dir_all(server.real().data_dir().join("version-2")).unwrap();
    server.restart().await.unwrap();
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", b"").await;
    create(&zookeeper, "/r/a", b"new").await;
    mend(&proxy);
    within(cache.wait_current()).await.unwrap();
    assert_eq!(cache.current().data("/r/a"), Some(&b"new"[..]));
    zookeeper.set_data("/r/a", b"newer", None).await.unwrap();
    shows(&cache, "/r/a", Some(b"newer")).await;
    reader.read(&mut changes);
    reader.assert_is(&cache.current());
}
