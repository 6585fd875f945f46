//! `SemaphoreMutex`.

use crate::interop::prelude::*;

const PATH: &str = "/semaphore-mutex";
const OPEN: &str = "semaphore_mutex /semaphore-mutex";
const GATE: &str = "/semaphore-mutex/locks";
const LEASES: &str = "/semaphore-mutex/leases";

fn ours(name: &'static str, client: &Client) -> Contender {
    Contender::lock(name, SemaphoreMutex::new(client, PATH).unwrap())
}

pub(crate) async fn semaphore_mutex_excludes_in_order(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python, doomed_java) =
        tokio::join!(stage.curator("java"), stage.kazoo("python"), stage.mortal_curator("java"));
    let client = stage.client("rust").await;
    let (doomed_client, wire) = stage.mortal_client("rust").await;
    let mutex = SemaphoreMutex::new(&client, PATH).unwrap();
    let mut peers = [java.open("a", OPEN).await, python.open("a", OPEN).await];

    // Whoever holds it, the others do not get it.
    let guard = mutex.acquire().await.unwrap();
    for peer in &mut peers {
        assert_eq!(peer.call("try 300").await, "false");
    }
    guard.release().await.unwrap();
    for peer in &mut peers {
        peer.call("acquire").await;
        assert_taken(&mutex).await;
        peer.call("release").await;
    }

    // First come, first served, and nobody is kept waiting by the death of another one.
    let guard = mutex.acquire().await.unwrap();
    queue_of(&stage.zookeeper, GATE, 0).await;
    let mut line = Line::new(&stage, GATE);
    let cast = Cast::new(OPEN)
        .peer("java", &java)
        .peer("python", &python)
        .peer("doomed java", &doomed_java)
        .ours("rust", |name, _| ours(name, &client))
        .ours("doomed rust", |name, _| ours(name, &doomed_client));
    line.enter(&cast, "java, rust 1, doomed java, python, doomed rust, rust 2, java 2").await;
    line.only_holders_are(&[]).await;
    guard.release().await.unwrap();
    line.serves(&["java", "rust 1"]).await;
    line.only_holders_are(&["doomed java"]).await;
    line.die(&["doomed java"]);
    doomed_java.kill().await;
    line.serves(&["python"]).await;
    line.only_holders_are(&["doomed rust"]).await;
    let lost = line.remove("doomed rust");
    cut_off(&wire);
    line.is_served_in_order().await;
    drop(lost);
    queue_of(&stage.zookeeper, LEASES, 0).await;
}
