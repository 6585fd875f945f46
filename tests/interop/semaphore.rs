//! `Semaphore`, and the `SharedCount` that can limit it.

use tokio::sync::Mutex;

use crate::interop::prelude::*;

const PATH: &str = "/semaphore";
const OPEN: &str = "semaphore /semaphore permits=3";
/// Where those stand in line who do not hold yet.
const GATE: &str = "/semaphore/locks";
const LEASES: &str = "/semaphore/leases";

fn semaphore(client: &Client) -> Semaphore {
    Semaphore::new(client, PATH, 3).unwrap()
}

fn ours(name: &'static str, client: &Client, leases: &str) -> Contender {
    let (semaphore, leases) = (semaphore(client), leases.parse().unwrap());
    Contender::ours_with_several(name, async move {
        semaphore.many(leases)?.acquire().await.map(LockGuard::into_permits)
    })
}

/// Leases have no order.
fn sorted(data: &str) -> Vec<&str> {
    let mut data: Vec<_> = data.split(' ').collect();
    data.sort_unstable();
    data
}

pub(crate) async fn semaphore_is_shared(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let client = stage.client("rust").await;
    let ours_is = LockOptions::new().node_data("rust-data");
    let semaphore = semaphore(&client).with_options(ours_is).unwrap();
    let mut java_a = java.open("a", &format!("{OPEN} data=java-data")).await;
    let mut python_a = python.open("a", OPEN).await;

    // One lease each, and there are no more.
    let guard = semaphore.acquire().await.unwrap();
    java_a.call("acquire").await;
    python_a.call("acquire").await;
    let mut triers = [java.open("b", OPEN).await, python.open("b", OPEN).await];
    assert_taken(&semaphore).await;
    for trier in &mut triers {
        assert_eq!(trier.call("try 300").await, "false");
    }

    // Each sees all.
    let expected = ["java-data", "python", "rust-data"];
    assert_eq!(sorted(&data_of(&semaphore.participants().await.unwrap())), expected);
    assert_eq!(sorted(&java_a.call("participants").await), expected);
    assert_eq!(sorted(&python_a.call("participants").await), expected);

    // Several at once, or none of them.
    java_a.call("release").await;
    assert!(semaphore.many(2).unwrap().try_acquire().await.unwrap().is_none());
    python_a.call("release").await;
    let two = semaphore.many(2).unwrap().try_acquire().await.unwrap().expect("two are free").into_permits();
    assert_eq!(java_a.call("try 0").await, "false");
    for guard in two {
        guard.release().await.unwrap();
    }
    java_a.call("acquire 2").await;
    let tried = answered(async || semaphore.many(1).unwrap().try_acquire_for(ms(300)).await);
    assert!(tried.await.is_none());
    assert_eq!(python_a.call("try 0").await, "false");
    guard.release().await.unwrap();
    assert!(semaphore.many(2).unwrap().try_acquire().await.unwrap().is_none());
    python_a.call("acquire").await;
    queue_of(&stage.zookeeper, GATE, 0).await;
    queue_of(&stage.zookeeper, LEASES, 3).await;

    // First come, first served, also for who wants several: Java has two of them, and Python one.
    let mut line = Line::new(&stage, GATE);
    let cast = Cast::new(OPEN).peer("java", &java).peer("python", &python);
    let cast = cast.ours("rust", |name, how| ours(name, &client, how));
    line.enter(&cast, "python b how=1, rust 2 how=2, java b how=1, rust 1 how=1").await;
    line.only_holders_are(&[]).await;
    java_a.call("release").await;
    line.only_holders_are(&["python b"]).await;
    python_a.call("release").await;
    line.only_holders_are(&["python b", "rust 2"]).await;
    line.releases("python b").await;
    line.only_holders_are(&["rust 2", "java b"]).await;
    line.releases("rust 2").await;
    line.only_holders_are(&["java b", "rust 1"]).await;
    line.releases("java b").await;
    line.releases("rust 1").await;
    queue_of(&stage.zookeeper, LEASES, 0).await;

    // Curator takes several one by one; so it can wait for us with one in its hand.
    let two = semaphore.many(2).unwrap().acquire().await.unwrap().into_permits();
    java_a.send("acquire 2");
    queue_of(&stage.zookeeper, LEASES, 4).await;
    java_a.assert_waiting().await;
    for guard in two {
        guard.release().await.unwrap();
    }
    java_a.answer().await;
    java_a.call("release").await;
    queue_of(&stage.zookeeper, LEASES, 0).await;
    queue_of(&stage.zookeeper, GATE, 0).await;
}

pub(crate) async fn semaphore_outlives_the_death_of_others(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, doomed_java, doomed_python) =
        tokio::join!(stage.curator("java"), stage.mortal_curator("java"), stage.mortal_kazoo("python"));
    let client = stage.client("rust").await;
    let (doomed_client, wire) = stage.mortal_client("rust").await;
    let mut line = Line::new(&stage, GATE);

    // Peers die while they hold, and while they wait at the gate, in front and further back.
    doomed_java.open("a", OPEN).await.call("acquire 2").await;
    doomed_python.open("a", OPEN).await.call("acquire").await;
    queue_of(&stage.zookeeper, GATE, 0).await;
    let cast = Cast::new(OPEN)
        .peer("java", &java)
        .peer("doomed java", &doomed_java)
        .peer("doomed python", &doomed_python)
        .ours("rust", |name, how| ours(name, &client, how))
        .ours("doomed rust", |name, how| ours(name, &doomed_client, how));
    line.enter(&cast, "doomed java b, rust 2 how=2, doomed python b, rust 1 how=1").await;
    line.only_holders_are(&[]).await;
    line.die(&["doomed java b", "doomed python b"]);
    doomed_java.kill().await;
    doomed_python.kill().await;
    line.only_holders_are(&["rust 2", "rust 1"]).await;
    queue_of(&stage.zookeeper, LEASES, 3).await;
    line.releases("rust 2").await;
    line.releases("rust 1").await;

    // A client of ours dies while it holds and while it waits.
    let held = semaphore(&doomed_client).many(3).unwrap().acquire().await.unwrap().into_permits();
    queue_of(&stage.zookeeper, GATE, 0).await;
    line.enter(&cast, "doomed rust how=3, java how=2").await;
    line.only_holders_are(&[]).await;
    cut_off(&wire);
    line.only_holders_are(&["java"]).await;
    queue_of(&stage.zookeeper, LEASES, 2).await;
    mend(&wire);
    queue_of(&stage.zookeeper, GATE, 1).await;
    line.releases("java").await;
    line.serves(&["doomed rust"]).await;
    drop(held);
    queue_of(&stage.zookeeper, LEASES, 0).await;
}

pub(crate) async fn shared_count_is_shared(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.curator("java").await;
    let client = stage.client("rust").await;

    // Whoever comes first makes it.
    let mut java_count = java.open("count", "count /count seed=2").await;
    let count = SharedCount::new(&client, "/count", 7).unwrap();
    assert_eq!(count.get().await.unwrap(), 2);
    java_count.call("set -3").await;
    assert_eq!(count.get().await.unwrap(), -3);
    let count = SharedCount::new(&client, "/count-of-rust", 1).unwrap();
    assert_eq!(count.get().await.unwrap(), 1);
    let mut java_count = java.open("count2", "count /count-of-rust seed=7").await;
    assert_eq!(java_count.call("get").await, "1");

    // It limits a semaphore, and lets waiters in when it grows.
    let semaphore = Semaphore::with_shared_count(&client, PATH, &count).unwrap();
    let open = "semaphore /semaphore count=/count-of-rust";
    let guard = semaphore.acquire().await.unwrap();
    let mut line = Line::new(&stage, GATE);
    line.enters(Contender::peer("java", java.open("a", open).await)).await;
    line.enters(Contender::lock("rust", semaphore)).await;
    line.only_holders_are(&[]).await;
    count.set(2).await.unwrap();
    line.only_holders_are(&["java"]).await;
    java_count.call("set 3").await;
    line.only_holders_are(&["java", "rust"]).await;
    line.releases("java").await;
    line.releases("rust").await;
    guard.release().await.unwrap();
    queue_of(&stage.zookeeper, LEASES, 0).await;

    // Curator hears of the change.
    count.set(i32::MAX).await.unwrap();
    let java_count = Mutex::new(java_count);
    eventually("Curator's view of the count", || async {
        (java_count.lock().await.call("get").await == i32::MAX.to_string()).then_some(())
    })
    .await;
}
