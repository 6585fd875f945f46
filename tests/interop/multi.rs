//! `MultiLock`.

use crate::interop::prelude::*;

const PATHS: [&str; 3] = ["/multi/a", "/multi/b", "/multi/c"];
const OPEN: &str = "multi /multi/a,/multi/b,/multi/c";

fn ours(name: &'static str, client: &Client) -> Contender {
    Contender::lock(name, MultiLock::new(client, PATHS).unwrap())
}

pub(crate) async fn multi_lock_excludes_in_order(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python, doomed_java) =
        tokio::join!(stage.curator("java"), stage.kazoo("python"), stage.mortal_curator("java"));
    let client = stage.client("rust").await;
    let (doomed_client, wire) = stage.mortal_client("rust").await;
    let lock = MultiLock::new(&client, PATHS).unwrap();
    let mut peers = [java.open("a", OPEN).await, python.open("a", OPEN).await];

    // Whoever holds them, the others do not get them, nor a part.
    let guard = lock.acquire().await.unwrap();
    for peer in &mut peers {
        assert_eq!(peer.call("try 300").await, "false");
    }
    for path in PATHS {
        let mut part = java.open(path, &format!("mutex {path}")).await;
        assert_eq!(part.call("try 0").await, "false");
    }
    guard.release().await.unwrap();
    for peer in &mut peers {
        peer.call("acquire").await;
        assert_taken(&lock).await;
        for path in PATHS {
            let part = InterProcessMutex::new(&client, path).unwrap();
            assert!(part.try_acquire().await.unwrap().is_none());
        }
        peer.call("release").await;
    }

    // Who has some waits for the others, and keeps those out who come after it.
    let cast = Cast::new(OPEN)
        .peer("java", &java)
        .peer("python", &python)
        .peer("doomed java", &doomed_java)
        .ours("rust", |name, _| ours(name, &client))
        .ours("doomed rust", |name, _| ours(name, &doomed_client));
    let mut line = Line::new(&stage, PATHS[0]);
    let mut part = java.open("part", "mutex /multi/b").await;
    part.call("acquire").await;
    line.enter(&cast, "rust 1, java, rust 2, python").await;
    line.only_holders_are(&[]).await;
    part.call("release").await;
    line.is_served_in_order().await;
    for (path, entries) in [(PATHS[1], "java 2, rust"), (PATHS[2], "rust, java 3")] {
        let part = InterProcessMutex::new(&client, path).unwrap().acquire().await.unwrap();
        line.enter(&cast, entries).await;
        line.only_holders_are(&[]).await;
        part.release().await.unwrap();
        line.is_served_in_order().await;
    }

    // Nobody is kept waiting by the death of another one.
    line.enter(&cast, "doomed java 1").await;
    line.only_holders_are(&["doomed java 1"]).await;
    line.enter(&cast, "doomed rust 1, doomed java 2, java 4, doomed rust 2, rust").await;
    line.die(&["doomed java 1", "doomed java 2"]);
    doomed_java.kill().await;
    line.only_holders_are(&["doomed rust 1"]).await;
    let lost = [line.remove("doomed rust 1"), line.remove("doomed rust 2")];
    cut_off(&wire);
    line.is_served_in_order().await;
    drop(lost);
    for path in PATHS {
        queue_of(&stage.zookeeper, path, 0).await;
    }
}

/// The peers take one lock after the other, and we all at once: nobody waits for somebody who waits for it.
pub(crate) async fn multi_locks_taken_at_once_do_not_deadlock(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let mut peers = [java.open("a", OPEN).await, python.open("a", OPEN).await];
    let client = stage.client("rust").await;
    let lock = MultiLock::new(&client, PATHS.iter().rev()).unwrap();
    for _ in 0..100 {
        let by_peers = peers.iter_mut().map(|peer| async move {
            peer.call("acquire").await;
            peer.call("release").await;
        });
        let by_us = async {
            let guard = within(lock.acquire()).await.unwrap();
            guard.release().await.unwrap();
        };
        tokio::join!(join_all(by_peers), by_us);
    }
    for path in PATHS {
        queue_of(&stage.zookeeper, path, 0).await;
    }
}
