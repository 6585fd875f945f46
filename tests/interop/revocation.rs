//! Asking a holder to give a lock up, and taking it.

use crate::interop::prelude::*;

const PATH: &str = "/revocable";

fn ours(name: &'static str, client: &Client) -> Contender {
    Contender::lock(name, InterProcessMutex::new(client, PATH).unwrap())
}

pub(crate) async fn holders_are_asked_to_release(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let client = stage.client("rust").await;
    let mutex = InterProcessMutex::new(&client, PATH).unwrap();
    let mut java_a = java.open("a", "mutex /revocable").await;
    let mut python_a = python.open("a", "mutex /revocable").await;

    // We ask the peers. Curator's node has no data while it listens.
    java_a.call("revocable").await;
    python_a.call("revocable").await;
    for (peer, data) in [(&mut java_a, ""), (&mut python_a, "python")] {
        peer.call("acquire").await;
        let mut line = Line::new(&stage, PATH);
        line.enters(ours("rust", &client)).await;
        let asked = operate::ask(&client, PATH).await.unwrap();
        assert_eq!(data_of(&asked), data);
        peer.revoked().await;
        peer.call("release").await;
        line.is_served_in_order().await;
    }

    // The peers ask us.
    for peer in [&mut java_a, &mut python_a] {
        let guard = mutex.acquire().await.unwrap();
        peer.call(&format!("revoke {}", guard.node_path())).await;
        within(guard.revoke_requested()).await.unwrap();
        guard.release().await.unwrap();
    }

    // One that waits can be asked, too.
    let guard = mutex.acquire().await.unwrap();
    java_a.call("revocable").await;
    java_a.send("acquire");
    queue_of(&stage.zookeeper, PATH, 2).await;
    let waiting = mutex.participants().await.unwrap().remove(1);
    operate::ask_participant(&client, &waiting).await.unwrap();
    java_a.revoked().await;
    guard.release().await.unwrap();
    java_a.answer().await;

    // What is not given up can be taken. Curator does not notice.
    let mut line = Line::new(&stage, PATH);
    line.enters(ours("rust", &client)).await;
    operate::force_release(&client, PATH).await.unwrap();
    line.is_served_in_order().await;
    java_a.call("release").await;
    readers_are_asked_to_release(&stage, &client, java.open("rw", "rw /rw").await).await;
}

/// All of them, as all are in the way.
async fn readers_are_asked_to_release(stage: &Stage, client: &Client, mut java: Actor) {
    java.call("revocable read").await;
    java.call("acquire read").await;
    let lock = ReadWriteLock::new(client, "/rw").unwrap();
    let guard = lock.read().acquire().await.unwrap();
    let mut line = Line::new(stage, "/rw");
    line.enters(Contender::lock("rust", lock.write().clone())).await;
    let asked = operate::ask(client, "/rw").await.unwrap();
    assert_eq!(asked.len(), 2);
    java.revoked().await;
    within(guard.revoke_requested()).await.unwrap();
    java.call("release read").await;
    line.only_holders_are(&[]).await;
    guard.release().await.unwrap();
    line.is_served_in_order().await;
}
