//! What differs between servers: ZooKeeper 3.8, on which one-shot watches end persistent ones, 3.9, and the one in memory.

use super::*;

/// Lets a node become readable, of which some servers have told nothing before.
async fn becomes_readable(server: &Server) {
    let (client, zookeeper) = (&connect(server).await, &bystander(server).await);
    let permit = async |path, permissions| {
        let acl = [Acl::new(permissions, AuthId::anyone())];
        zookeeper.set_acl(path, &acl, None).await.unwrap();
    };
    for (path, hidden, below, told) in [
        ("/", "/", "/zookeeper/quota", ["=/", "+/zookeeper"]),
        ("/r", "/r/a", "/r/a/b", ["=/r/a", "+/r/a/b"]),
    ] {
        permit(hidden, Permission::ADMIN | Permission::WRITE).await;
        let cache = Cache::start(client, path, CacheOptions::tree()).unwrap();
        let mut reader = Reader::of(&cache).await;
        let snapshot = cache.current();
        assert_eq!((paths(&snapshot).pop(), snapshot.unreadable().collect()), (Some(hidden), vec![hidden]));
        permit(hidden, Permission::ALL).await;
        zookeeper.set_data(hidden, b"2", None).await.unwrap();
        shows(&cache, hidden, Some(b"2")).await;
        within(cache.wait_until(|snapshot| snapshot.get(below).is_some())).await.unwrap();
        reader.read();
        assert_eq!(reader.told[..2], told);
        assert_eq!(reader.told.len() == 2, path == "/r", "{:?}", reader.told);
        if path == "/" {
            create_all(zookeeper, &["/r", "/r/a", "/r/a/b"], b"1").await;
        }
    }
}

#[tokio::test]
async fn a_node_that_becomes_readable_is_changed() {
    on_each_server(becomes_readable).await;
}

/// A watch that a cache leaves behind, or takes away, is one that others wait for.
#[tokio::test]
async fn a_cache_that_ends_takes_no_other_watch_along() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    for _ in 0..5 {
        let cache = current(&client, "/leaders").await;
        let mut leader = LeaderObserver::new(&client, "/leaders").unwrap().watch_leader();
        drop(cache);
        within(leader.wait_for(|leader| *leader == Observation::Nobody)).await.unwrap();
        let latch = LeaderLatch::start(&client, "/leaders", LeaderOptions::new()).unwrap();
        within(leader.wait_for(|leader| matches!(leader, Observation::Leader(_)))).await.unwrap();
        within(latch.close(CloseMode::Silent)).await.unwrap();
        drop(leader);
        eventually("the path is gone", async || zookeeper.delete("/leaders", None).await.ok()).await;
    }
}

/// All caches of a client share a second session, which ends with the client.
#[tokio::test]
async fn caches_of_a_client_share_a_second_session() {
    let (server, zookeeper) = server_and_bystander().await;
    let sessions = async || {
        let connections = server.four_letter_word("cons").await.unwrap();
        connections.lines().filter(|line| line.contains("sid=0x")).count()
    };
    let before = sessions().await;
    let client = connect(&server).await;
    assert_eq!(sessions().await, before + 1);
    let caches = ["/a", "/b", "/a"].map(|path| Cache::start(&client, path, CacheOptions::tree()).unwrap());
    for cache in &caches {
        within(cache.wait_current()).await.unwrap();
    }
    assert_eq!(sessions().await, before + 2);
    // One of two on the same path goes; the other one is told all the same.
    let [one, other, first] = caches;
    let two = first.clone();
    drop((one, other, first));
    create(&zookeeper, "/a", b"1").await;
    shows(&two, "/a", Some(b"1")).await;
    client.close().await;
    assert_eq!(sessions().await, before, "the end of the second one is awaited, too");
}
