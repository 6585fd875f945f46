//! Curator with compressed node data.

use crate::interop::prelude::*;

const PATH: &str = "/compressed";
const GZIP: &[u8] = &[0x1f, 0x8b];

pub(crate) async fn compressed_data_is_understood(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.compressing_curator("java").await;
    let client = stage.client("rust").await;
    let mutex = InterProcessMutex::new(&client, PATH).unwrap();
    let mut java_a = java.open("a", "mutex /compressed").await;

    // Curator's data is shown as text.
    java_a.call("acquire").await;
    let participants = mutex.participants().await.unwrap();
    assert_eq!(data_of(&participants), "java");
    let (raw, _) = stage.zookeeper.get_data(participants[0].node_path()).await.unwrap();
    assert!(raw.starts_with(GZIP), "{raw:?}");
    assert_eq!(mutex.holder().await.unwrap().unwrap().id(), "java");
    java_a.call("release").await;

    // We ask Curator, which reads only a request that is compressed.
    java_a.call("revocable").await;
    java_a.call("acquire").await;
    assert_eq!(data_of(&operate::ask(&client, PATH).await.unwrap()), "");
    java_a.revoked().await;
    java_a.call("release").await;
    let mut readers = java.open("rw", "rw /rw").await;
    readers.call("revocable read").await;
    readers.call("acquire read").await;
    let lock = ReadWriteLock::new(&client, "/rw").unwrap();
    let reading = lock.read().acquire().await.unwrap();
    assert_eq!(operate::ask(&client, "/rw").await.unwrap().len(), 2);
    readers.revoked().await;
    within(reading.revoke_requested()).await.unwrap();
    readers.call("release read").await;
    reading.release().await.unwrap();

    // Curator asks us.
    let guard = mutex.acquire().await.unwrap();
    java_a.call(&format!("revoke {}", guard.node_path())).await;
    within(guard.revoke_requested()).await.unwrap();
    let holder = eventually("it shows again who holds", || async {
        mutex.holder().await.unwrap().filter(|holder| holder.id() == "rust")
    })
    .await;
    assert!(holder.is_revoke_requested());
    guard.release().await.unwrap();

    // The leaders of Curator.
    for recipe in [Recipe::Latch, Recipe::Selector] {
        let path = format!("/leaders/{recipe:?}");
        let kind = recipe.open("data=java-leader").replace(crate::interop::candidate::PATH, &path);
        let mut leader = java.open(&format!("{recipe:?}"), &kind).await;
        leader.call("acquire").await;
        let observer = LeaderObserver::new(&client, &path).unwrap();
        assert_eq!(ids(&observer.leader().await.unwrap()), "java-leader");
        leader.call("release").await;
    }
}

pub(crate) async fn clients_that_compress_are_understood(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.compressing_curator("java").await;
    let (plain, client) = (stage.client("plain").await, stage.compressing_client("rust").await);
    let mut java_a = java.open("a", "mutex /compressed").await;

    // Curator cannot even wait behind a node whose data is not compressed.
    let guard = InterProcessMutex::new(&plain, PATH).unwrap().acquire().await.unwrap();
    let failure = java_a.fails("acquire").await;
    assert!(failure.contains("ZipException") || failure.contains("EOFException"), "{failure}");
    guard.release().await.unwrap();
    queue_of(&stage.zookeeper, PATH, 0).await;

    let mut line = Line::new(&stage, PATH);
    let ours = |name, _| Contender::lock(name, InterProcessMutex::new(&client, PATH).unwrap());
    let cast = Cast::new("mutex /compressed").peer("java", &java).ours("rust", ours);
    line.enter(&cast, "rust 1, java b, rust 2, java c").await;
    assert_eq!(java_a.call("participants").await, "rust java rust java");
    let mutex = InterProcessMutex::new(&plain, PATH).unwrap();
    assert_eq!(data_of(&mutex.participants().await.unwrap()), "rust java rust java");
    line.is_served_in_order().await;

    // What is written over a request is compressed as well.
    let guard = InterProcessMutex::new(&client, PATH).unwrap().acquire().await.unwrap();
    java_a.call(&format!("revoke {}", guard.node_path())).await;
    within(guard.revoke_requested()).await.unwrap();
    eventually("it shows again who holds", || async {
        (data_of(&mutex.participants().await.unwrap()) == "rust").then_some(())
    })
    .await;
    assert_eq!(java_a.call("participants").await, "rust");
    operate::ask(&plain, PATH).await.unwrap();
    let data = eventually("it shows again who holds", || async {
        let (data, stat) = stage.zookeeper.get_data(guard.node_path()).await.unwrap();
        (stat.version == 4).then_some(data)
    })
    .await;
    assert!(data.starts_with(GZIP), "{data:?}");
    guard.release().await.unwrap();

    // Candidates, and counts.
    let ours = Recipe::Selector.start(&client, LeaderOptions::new().id("rust-leader"));
    ours.leads().await;
    let mut looker = java.open("looker", &Recipe::Selector.open("")).await;
    assert_eq!(looker.call("leader").await, "rust-leader");
    within(ours.close()).await.unwrap();
    let count = SharedCount::new(&client, "/count", 3).unwrap();
    assert_eq!(count.get().await, Ok(3));
    let mut java_count = java.open("count", "count /count seed=1").await;
    assert_eq!(java_count.call("get").await, "3");
    java_count.call("set 4").await;
    assert_eq!(count.get().await, Ok(4));
    assert_eq!(SharedCount::new(&plain, "/count", 0).unwrap().get().await, Ok(4));
}
