//! `MultiLock`.

use crate::interop::prelude::*;

const PATHS: [&str; 3] = ["/multi/a", "/multi/b", "/multi/c"];
const OPEN: &str = "multi /multi/a,/multi/b,/multi/c";

fn ours(name: &'static str, client: &Client) -> Contender {
    let lock = MultiLock::new(client, PATHS).unwrap();
    Contender::ours(name, async move { lock.acquire().await })
}

pub(crate) async fn multi_lock_excludes_in_order(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python, doomed_java) =
        tokio::join!(stage.curator("java"), stage.kazoo("python"), stage.mortal_curator("java"));
    let client = stage.client("rust").await;
    let (doomed_client, wire) = stage.mortal_client("rust").await;
    let lock = MultiLock::new(&client, PATHS).unwrap();
    let mut java_a = java.open("a", OPEN).await;
    let mut python_a = python.open("a", OPEN).await;

    // Whoever holds them, the others do not get them, nor a part.
    let guard = lock.acquire().await.unwrap();
    for peer in [&mut java_a, &mut python_a] {
        assert_eq!(peer.call("try 300").await, "false");
    }
    for path in PATHS {
        let mut part = java.open(path, &format!("mutex {path}")).await;
        assert_eq!(part.call("try 0").await, "false");
    }
    guard.release().await.unwrap();
    for peer in [&mut java_a, &mut python_a] {
        peer.call("acquire").await;
        assert!(lock.try_acquire().await.unwrap().is_none());
        let tried = answered(async || lock.try_acquire_for(ms(300)).await);
        assert!(tried.await.is_none());
        for path in PATHS {
            let part = InterProcessMutex::new(&client, path).unwrap();
            assert!(part.try_acquire().await.unwrap().is_none());
        }
        peer.call("release").await;
    }

    // Who has some waits for the others, and keeps those out who come after it.
    let mut part = java.open("part", "mutex /multi/b").await;
    part.call("acquire").await;
    let mut line = Line::new(&stage, PATHS[0]);
    line.enters(ours("rust 1", &client)).await;
    line.enters(Contender::peer("java", java_a)).await;
    line.enters(ours("rust 2", &client)).await;
    line.enters(Contender::peer("python", python_a)).await;
    line.only_holders_are(&[]).await;
    part.call("release").await;
    line.is_served_in_order().await;
    let part = InterProcessMutex::new(&client, PATHS[1]).unwrap().acquire().await.unwrap();
    line.enters(Contender::peer("java", java.open("b", OPEN).await)).await;
    line.enters(ours("rust", &client)).await;
    line.only_holders_are(&[]).await;
    part.release().await.unwrap();
    line.is_served_in_order().await;

    let part = InterProcessMutex::new(&client, PATHS[2]).unwrap().acquire().await.unwrap();
    line.enters(ours("rust", &client)).await;
    line.enters(Contender::peer("java", java.open("c", OPEN).await)).await;
    line.only_holders_are(&[]).await;
    part.release().await.unwrap();
    line.is_served_in_order().await;

    // Nobody is kept waiting by the death of another one.
    line.enters(Contender::peer("doomed java 1", doomed_java.open("a", OPEN).await)).await;
    line.only_holders_are(&["doomed java 1"]).await;
    line.enters(ours("doomed rust 1", &doomed_client)).await;
    line.enters(Contender::peer("doomed java 2", doomed_java.open("b", OPEN).await)).await;
    line.enters(Contender::peer("java", java.open("d", OPEN).await)).await;
    line.enters(ours("doomed rust 2", &doomed_client)).await;
    line.enters(ours("rust", &client)).await;
    line.remove("doomed java 1");
    line.remove("doomed java 2");
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
