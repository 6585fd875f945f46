//! What a cache shows, and of what it tells.

use super::*;

#[tokio::test]
async fn a_tree_is_followed() {
    let (server, zookeeper) = server_and_bystander().await;
    let client = Client::builder().namespace("app").connect(&server.connect_string()).await.unwrap();
    let cache = Cache::start(&client, "/config", CacheOptions::tree()).unwrap();
    let mut reader = Reader::of(&cache).await;
    assert!(cache.current().is_empty() && reader.resets == 1, "there is no node yet");

    for path in ["/app", "/app/config", "/app/config/a", "/app/config/a/b", "/app/configuration"] {
        create(&zookeeper, path, path.as_bytes()).await;
    }
    let snapshot = shows(&cache, "/config/a/b", Some(b"/app/config/a/b")).await;
    assert_eq!(paths(&snapshot), ["/config", "/config/a", "/config/a/b"]);
    zookeeper.set_data("/app/config/a", b"new", None).await.unwrap();
    let snapshot = shows(&cache, "/config/a", Some(b"new")).await;
    let node = snapshot.get("/config/a").unwrap();
    let (_, stat) = zookeeper.get_data("/app/config/a").await.unwrap();
    assert_eq!((node.created_by(), node.modified_by(), node.version()), (stat.czxid, stat.mzxid, 1));
    zookeeper.delete("/app/config/a/b", None).await.unwrap();
    shows(&cache, "/config/a/b", None).await;
    reader.read();
    assert_eq!(reader.told, ["+/config", "+/config/a", "+/config/a/b", "=/config/a", "-/config/a/b"]);
    assert_eq!(snapshot.len(), 3, "a snapshot does not change");
    client.close().await;
    assert!(within(reader.changes.next()).await.is_none());
    assert_eq!(cache.state(), CacheState::Failed(Error::Closed));
}

#[tokio::test]
async fn a_cache_holds_what_its_options_say() {
    let (server, zookeeper) = server_and_bystander().await;
    create_all(
        &zookeeper,
        &["/r", "/r/a", "/r/a/b", "/r/a/b/c", "/r/skip", "/r/skip/x", "/r/leaf", "/r/leaf/x"],
        b"data",
    )
    .await;
    let client = connect(&server).await;
    let held = async |options: CacheOptions| {
        let cache = Cache::start(&client, "/r", options).unwrap();
        let snapshot = within(cache.wait_current()).await.unwrap();
        paths(&snapshot).join(" ")
    };
    assert_eq!(held(CacheOptions::node()).await, "/r");
    assert_eq!(held(CacheOptions::children()).await, "/r /r/a /r/leaf /r/skip");
    assert_eq!(
        held(CacheOptions::tree().depth(2)).await,
        "/r /r/a /r/leaf /r/skip /r/a/b /r/leaf/x /r/skip/x"
    );
    let selected =
        CacheOptions::tree().filter(|path| !path.ends_with("/skip")).descend(|path| path != "/r/leaf");
    assert_eq!(held(selected.clone()).await, "/r /r/a /r/leaf /r/a/b /r/a/b/c");

    let cache = Cache::start(&client, "/r", selected.without_data()).unwrap();
    within(cache.wait_current()).await.unwrap();
    create_all(&zookeeper, &["/r/skip/y", "/r/leaf/y", "/r/a/y"], b"1234567").await;
    let snapshot = within(cache.wait_until(|snapshot| snapshot.get("/r/a/y").is_some())).await.unwrap();
    assert_eq!(paths(&snapshot).join(" "), "/r /r/a /r/leaf /r/a/b /r/a/y /r/a/b/c");
    let node = snapshot.get("/r/a/y").unwrap();
    assert_eq!((node.data(), node.data_length()), (None, 7));
}

#[tokio::test]
async fn compressed_data_is_decompressed() {
    let (server, zookeeper) = server_and_bystander().await;
    let client = Client::builder().enable_compression().connect(&server.connect_string()).await.unwrap();
    let count = zk_recipes::shared::SharedCount::new(&client, "/count", 7).unwrap();
    assert_eq!(count.get().await, Ok(7));
    let (raw, _) = zookeeper.get_data("/count").await.unwrap();
    let cache = Cache::start(&client, "/count", CacheOptions::node()).unwrap();
    let plain = within(cache.wait_current()).await.unwrap();
    assert_eq!(plain.data("/count"), Some(&7_i32.to_be_bytes()[..]));
    let cache = Cache::start(&client, "/count", CacheOptions::node().decompress(false)).unwrap();
    let kept = within(cache.wait_current()).await.unwrap();
    assert_eq!(kept.data("/count"), Some(&raw[..]));
    assert_ne!(plain.data("/count"), kept.data("/count"));
    // The root of a namespace, too.
    let client = Client::builder().namespace("count").connect(&server.connect_string()).await.unwrap();
    let cache = Cache::start(&client, "/", CacheOptions::node()).unwrap();
    let root = within(cache.wait_current()).await.unwrap();
    assert_eq!(root.data("/"), Some(&7_i32.to_be_bytes()[..]));
    assert_eq!(root.get("/").unwrap().data_length(), raw.len(), "at the servers, it is compressed");
}

#[tokio::test]
async fn a_node_that_may_not_be_read_is_held_without_data() {
    let (server, zookeeper) = server_and_bystander().await;
    create_all(&zookeeper, &["/r", "/r/a", "/r/a/b", "/r/z"], b"secret").await;
    let hidden = [zk::Acl::new(zk::Permission::CREATE | zk::Permission::DELETE, zk::AuthId::anyone())];
    zookeeper.set_acl("/r/a", &hidden, None).await.unwrap();
    let client = connect(&server).await;
    let cache = current(&client, "/r").await;
    let snapshot = cache.current();
    assert_eq!(paths(&snapshot), ["/r", "/r/a", "/r/z"]);
    assert_eq!(snapshot.unreadable().collect::<Vec<_>>(), ["/r/a"]);
    let node = snapshot.get("/r/a").unwrap();
    assert_eq!((node.is_readable(), node.data()), (false, None));
    assert!(matches!(node.data_length(), 0 | 6), "newer servers do not tell the length");
    zookeeper.delete("/r/a/b", None).await.unwrap();
    zookeeper.delete("/r/a", None).await.unwrap();
}
