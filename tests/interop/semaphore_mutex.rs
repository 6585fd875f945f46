//! `SemaphoreMutex`.

use crate::interop::prelude::*;

const PATH: &str = "/semaphore-mutex";
const OPEN: &str = "semaphore_mutex /semaphore-mutex";
const GATE: &str = "/semaphore-mutex/locks";
const LEASES: &str = "/semaphore-mutex/leases";

fn ours(name: &'static str, client: &Client) -> Contender {
    let mutex = SemaphoreMutex::new(client, PATH).unwrap();
    Contender::ours(name, async move { mutex.acquire().await })
}

pub(crate) async fn semaphore_mutex_excludes_in_order(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python, doomed_java) =
        tokio::join!(stage.curator("java"), stage.kazoo("python"), stage.mortal_curator("java"));
    let client = stage.client("rust").await;
    let (doomed_client, wire) = stage.mortal_client("rust").await;
    let mutex = SemaphoreMutex::new(&client, PATH).unwrap();
    let mut java_a = java.open("a", OPEN).await;
    let mut python_a = python.open("a", OPEN).await;

    // Whoever holds it, the others do not get it.
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(java_a.call("try 300").await, "false");
    assert_eq!(python_a.call("try 300").await, "false");
    guard.release().await.unwrap();
    for peer in [&mut java_a, &mut python_a] {
        peer.call("acquire").await;
        assert!(mutex.try_acquire().await.unwrap().is_none());
        let tried = answered(async || mutex.try_acquire_for(ms(300)).await);
        assert!(tried.await.is_none());
        peer.call("release").await;
    }

    // First come, first served, and nobody is kept waiting by the death of another one.
    let guard = mutex.acquire().await.unwrap();
    queue_of(&stage.zookeeper, GATE, 0).await;
    let mut line = Line::new(&stage, GATE);
    line.enters(Contender::peer("java", java_a)).await;
    line.enters(ours("rust 1", &client)).await;
    line.enters(Contender::peer("doomed java", doomed_java.open("a", OPEN).await)).await;
    line.enters(Contender::peer("python", python_a)).await;
    line.enters(ours("doomed rust", &doomed_client)).await;
    line.enters(ours("rust 2", &client)).await;
    line.enters(Contender::peer("java 2", java.open("b", OPEN).await)).await;
    line.only_holders_are(&[]).await;
    guard.release().await.unwrap();
    for name in ["java", "rust 1"] {
        line.only_holders_are(&[name]).await;
        line.releases(name).await;
    }
    line.only_holders_are(&["doomed java"]).await;
    line.remove("doomed java");
    doomed_java.kill().await;
    line.only_holders_are(&["python"]).await;
    line.releases("python").await;
    line.only_holders_are(&["doomed rust"]).await;
    let lost = line.remove("doomed rust");
    cut_off(&wire);
    line.is_served_in_order().await;
    drop(lost);
    queue_of(&stage.zookeeper, LEASES, 0).await;
}
