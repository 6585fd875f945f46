//! What Curator writes, in caches.

use crate::interop::prelude::*;

pub(crate) async fn what_curator_writes_is_followed(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.curator("java").await;
    let client = stage.client("rust").await;
    let counts = Cache::start(&client, "/count", CacheOptions::node()).unwrap();
    let whole = Cache::start(&client, "/", CacheOptions::tree()).unwrap();
    assert!(within(counts.wait_current()).await.unwrap().is_empty());

    let mut count = java.open("count", "count /count seed=2").await;
    let shows = async |number: i32| {
        let number = number.to_be_bytes();
        within(counts.wait_until(|snapshot| snapshot.data("/count") == Some(&number))).await.unwrap();
    };
    shows(2).await;
    for number in [-3, 70_000, 0] {
        count.call(&format!("set {number}")).await;
        shows(number).await;
    }
    let mut mutex = java.open("mutex", "mutex /locks/a").await;
    mutex.call("acquire").await;
    let held = within(whole.wait_until(|snapshot| snapshot.children("/locks/a").count() == 1)).await.unwrap();
    let holder = held.children("/locks/a").next().unwrap();
    assert_eq!(holder.data(), Some(&b"java"[..]));
    assert!(holder.ephemeral_owner().is_some());
    mutex.call("release").await;
    within(whole.wait_until(|snapshot| snapshot.children("/locks/a").count() == 0)).await.unwrap();
}

/// Only the later Curator compresses all that it writes.
pub(crate) async fn what_curator_compresses_is_followed(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.compressing_curator("java").await;
    let client = stage.client("rust").await;
    let cache = Cache::start(&client, "/locks", CacheOptions::tree()).unwrap();
    let mut mutex = java.open("mutex", "mutex /locks/a").await;
    mutex.call("acquire").await;
    let held = within(cache.wait_until(|snapshot| snapshot.children("/locks/a").count() == 1)).await.unwrap();
    let holder = held.children("/locks/a").next().unwrap();
    assert_eq!(holder.data(), Some(&b"java"[..]));
    assert_ne!(holder.data_length(), 4, "at the servers, it is compressed");
    mutex.call("release").await;
}
