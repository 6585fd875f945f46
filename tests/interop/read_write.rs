//! `ReadWriteLock`.

use crate::interop::prelude::*;

const PATH: &str = "/rw";
const OPEN: &str = "rw /rw";
const SIDES: [&str; 2] = ["read", "write"];

fn ours(name: &'static str, client: &Client, side: &'static str) -> Contender {
    let lock = ReadWriteLock::new(client, PATH).unwrap();
    Contender::ours(name, async move {
        match side {
            "read" => lock.read().acquire().await,
            _ => lock.write().acquire().await,
        }
    })
}

/// One that does not wait.
pub(crate) enum Trier {
    Ours(ReadWriteLock, Option<LockGuard>),
    Peer(Actor),
}

impl Trier {
    async fn gets(&mut self, side: &str) -> bool {
        match self {
            Self::Ours(lock, held) => {
                *held = match side {
                    "read" => lock.read().try_acquire().await.unwrap(),
                    _ => lock.write().try_acquire().await.unwrap(),
                };
                held.is_some()
            }
            Self::Peer(actor) => actor.call(&format!("try 0 {side}")).await == "true",
        }
    }

    async fn release(&mut self, side: &str) {
        match self {
            Self::Ours(_, held) => held.take().unwrap().release().await.unwrap(),
            Self::Peer(actor) => drop(actor.call(&format!("release {side}")).await),
        }
    }
}

/// Whoever reads or writes, another one gets in only where both read.
pub(crate) async fn assert_only_readers_share(triers: &mut [Trier]) {
    for first in 0..triers.len() {
        for second in (0..triers.len()).filter(|second| *second != first) {
            for (held, wanted) in SIDES.iter().flat_map(|held| SIDES.map(|wanted| (*held, wanted))) {
                assert!(triers[first].gets(held).await, "{first} {held}");
                let both = triers[second].gets(wanted).await;
                assert_eq!(both, (held, wanted) == ("read", "read"), "{first} {held}, {second} {wanted}");
                if both {
                    triers[second].release(wanted).await;
                }
                triers[first].release(held).await;
            }
        }
    }
}

pub(crate) async fn read_write_excludes_in_order(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let client = stage.client("rust").await;
    let lock = ReadWriteLock::new(&client, PATH).unwrap();
    assert_only_readers_share(&mut [
        Trier::Ours(lock.clone(), None),
        Trier::Peer(java.open("trier", OPEN).await),
        Trier::Peer(python.open("trier", OPEN).await),
    ])
    .await;
    queue_of(&stage.zookeeper, PATH, 0).await;

    let mut line = Line::new(&stage, PATH);
    let java_reader = java.open("reader", "rw /rw data=java-reader").await;
    let python_writer = python.open("writer", "rw /rw data=python-writer").await;
    line.enters(ours("rust reads", &client, "read")).await;
    line.enters(Contender::peer_on("java reads", java_reader, "read")).await;
    line.enters(Contender::peer_on("python writes", python_writer, "write")).await;
    line.enters(Contender::peer_on("java reads 2", java.open("reader2", OPEN).await, "read")).await;
    line.enters(ours("rust reads 2", &client, "read")).await;
    line.enters(Contender::peer_on("python reads", python.open("reader", OPEN).await, "read")).await;
    line.enters(ours("rust writes", &client, "write")).await;
    line.enters(Contender::peer_on("java writes", java.open("writer", OPEN).await, "write")).await;
    line.enters(ours("rust reads 3", &client, "read")).await;

    // Each sees the others; kazoo both kinds at once.
    let (readers, writers) = ("rust java-reader java rust python rust", "python-writer rust java");
    let participants = lock.read().participants().await.unwrap();
    assert_eq!(data_of(&participants), readers);
    assert!(participants.iter().map(|participant| participant.is_holder()).eq((0..6).map(|at| at < 2)));
    let participants = lock.write().participants().await.unwrap();
    assert_eq!(data_of(&participants), writers);
    assert!(!participants.iter().any(|participant| participant.is_holder()));
    let mut java_watcher = java.open("watcher", OPEN).await;
    assert_eq!(java_watcher.call("participants read").await, readers);
    assert_eq!(java_watcher.call("participants write").await, writers);
    let both = python.open("watcher", OPEN).await.call("participants read").await;
    assert_eq!(both, "rust java-reader python-writer java rust python rust java rust");

    line.only_holders_are(&["rust reads", "java reads"]).await;
    line.releases("rust reads").await;
    line.only_holders_are(&["java reads"]).await;
    line.releases("java reads").await;
    line.only_holders_are(&["python writes"]).await;
    line.releases("python writes").await;
    line.only_holders_are(&["java reads 2", "rust reads 2", "python reads"]).await;
    line.releases("rust reads 2").await;
    line.releases("java reads 2").await;
    line.only_holders_are(&["python reads"]).await;
    line.releases("python reads").await;
    line.is_served_in_order().await;
    queue_of(&stage.zookeeper, PATH, 0).await;
}

pub(crate) async fn a_writer_becomes_a_reader(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let client = stage.client("rust").await;
    let lock = ReadWriteLock::new(&client, PATH).unwrap();
    let mut line = Line::new(&stage, PATH);

    // Ours lets the readers in that come next, but no writer, although one was there before it began to read.
    let owner = Owner::new();
    let written = lock.write().owned_by(&owner).acquire().await.unwrap();
    line.enters(Contender::peer_on("java reads", java.open("r", OPEN).await, "read")).await;
    line.enters(Contender::peer_on("python reads", python.open("r", OPEN).await, "read")).await;
    line.enters(Contender::peer_on("java writes", java.open("w", OPEN).await, "write")).await;
    line.enters(Contender::peer_on("python writes", python.open("w", OPEN).await, "write")).await;
    let read = within(lock.read().owned_by(&owner).acquire()).await.unwrap();
    queue_of(&stage.zookeeper, PATH, 6).await;
    line.only_holders_are(&[]).await;
    written.release().await.unwrap();
    line.only_holders_are(&["java reads", "python reads"]).await;
    line.releases("java reads").await;
    line.releases("python reads").await;
    line.only_holders_are(&[]).await;
    read.release().await.unwrap();
    line.is_served_in_order().await;

    // Curator's does so since 5.5. Before, it went to the end of the queue, with writers before it that came in while
    // it read; so there must be none.
    let mut holder = java.open("downgrader", OPEN).await;
    holder.call("acquire write").await;
    line.enters(ours("rust reads", &client, "read")).await;
    line.enters(Contender::peer_on("python reads", python.open("r2", OPEN).await, "read")).await;
    if matches!(generation, Generation::Current) {
        line.enters(ours("rust writes", &client, "write")).await;
    }
    holder.call("acquire read").await;
    if matches!(generation, Generation::Debian) {
        line.enters(ours("rust writes", &client, "write")).await;
    }
    queue_of(&stage.zookeeper, PATH, 5).await;
    line.only_holders_are(&[]).await;
    holder.call("release write").await;
    line.only_holders_are(&["rust reads", "python reads"]).await;
    line.releases("rust reads").await;
    line.releases("python reads").await;
    line.only_holders_are(&[]).await;
    holder.call("release read").await;
    line.is_served_in_order().await;
    queue_of(&stage.zookeeper, PATH, 0).await;
}

pub(crate) async fn read_write_outlives_the_death_of_others(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, doomed_java, doomed_python) =
        tokio::join!(stage.curator("java"), stage.mortal_curator("java"), stage.mortal_kazoo("python"));
    let client = stage.client("rust").await;
    let (doomed_client, wire) = stage.mortal_client("rust").await;
    let mut line = Line::new(&stage, PATH);

    // Peers die while they read and while they wait to write.
    let doomed = ["doomed java reads", "doomed python reads", "doomed java writes", "doomed python writes"];
    line.enters(Contender::peer_on(doomed[0], doomed_java.open("r", OPEN).await, "read")).await;
    line.enters(Contender::peer_on(doomed[1], doomed_python.open("r", OPEN).await, "read")).await;
    line.enters(ours("rust writes", &client, "write")).await;
    line.enters(Contender::peer_on(doomed[2], doomed_java.open("w", OPEN).await, "write")).await;
    line.enters(Contender::peer_on(doomed[3], doomed_python.open("w", OPEN).await, "write")).await;
    line.enters(ours("rust reads", &client, "read")).await;
    line.only_holders_are(&doomed[..2]).await;
    for name in doomed {
        line.remove(name);
    }
    doomed_java.kill().await;
    doomed_python.kill().await;
    line.only_holders_are(&["rust writes"]).await;
    queue_of(&stage.zookeeper, PATH, 2).await;
    line.is_served_in_order().await;

    // A client of ours dies while it writes and while it waits to write.
    let lock = ReadWriteLock::new(&doomed_client, PATH).unwrap();
    let guard = lock.write().acquire().await.unwrap();
    line.enters(Contender::peer_on("java reads", java.open("r", OPEN).await, "read")).await;
    line.enters(ours("doomed rust writes", &doomed_client, "write")).await;
    line.enters(Contender::peer_on("java reads 2", java.open("r2", OPEN).await, "read")).await;
    line.enters(Contender::peer_on("java writes", java.open("w", OPEN).await, "write")).await;
    line.only_holders_are(&[]).await;
    cut_off(&wire);
    line.only_holders_are(&["java reads", "java reads 2"]).await;
    mend(&wire);
    queue_of(&stage.zookeeper, PATH, 4).await;
    assert!(matches!(within(guard.release()).await, Err(Error::LockLost { .. })));
    line.releases("java reads").await;
    line.only_holders_are(&["java reads 2"]).await;
    line.releases("java reads 2").await;
    line.only_holders_are(&["java writes"]).await;
    line.releases("java writes").await;
    line.is_served_in_order().await;
    queue_of(&stage.zookeeper, PATH, 0).await;
}
