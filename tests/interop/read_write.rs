//! `ReadWriteLock`.

use crate::interop::prelude::*;

const PATH: &str = "/rw";
const OPEN: &str = "rw /rw";
const SIDES: [&str; 2] = ["read", "write"];

fn ours(name: &'static str, client: &Client, side: &'static str) -> Contender {
    let lock = ReadWriteLock::new(client, PATH).unwrap();
    match side {
        "read" => Contender::lock(name, lock.read().clone()),
        _ => Contender::lock(name, lock.write().clone()),
    }
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
    let cast = Cast::new(OPEN).peer("java", &java).peer("python", &python);
    let cast = cast.ours("rust", |name, how| ours(name, &client, how));
    line.enter(&cast, "rust reads how=read, java reads how=read data=java-reader").await;
    line.enter(&cast, "python writes how=write data=python-writer, java reads 2 how=read").await;
    line.enter(&cast, "rust reads 2 how=read, python reads how=read, rust writes how=write").await;
    line.enter(&cast, "java writes how=write, rust reads 3 how=read").await;

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
    line.serves(&["java reads", "python writes"]).await;
    line.only_holders_are(&["java reads 2", "rust reads 2", "python reads"]).await;
    line.releases("rust reads 2").await;
    line.releases("java reads 2").await;
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
    let cast = Cast::new(OPEN).peer("java", &java).peer("python", &python);
    let cast = cast.ours("rust", |name, how| ours(name, &client, how));
    line.enter(&cast, "java reads how=read, python reads how=read").await;
    line.enter(&cast, "java writes how=write, python writes how=write").await;
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
    line.enter(&cast, "rust reads how=read, python reads 2 how=read").await;
    if matches!(generation, Generation::Current) {
        line.enter(&cast, "rust writes how=write").await;
    }
    holder.call("acquire read").await;
    if matches!(generation, Generation::Debian) {
        line.enter(&cast, "rust writes how=write").await;
    }
    queue_of(&stage.zookeeper, PATH, 5).await;
    line.only_holders_are(&[]).await;
    holder.call("release write").await;
    line.only_holders_are(&["rust reads", "python reads 2"]).await;
    line.releases("rust reads").await;
    line.releases("python reads 2").await;
    line.only_holders_are(&[]).await;
    holder.call("release read").await;
    line.is_served_in_order().await;
    queue_of(&stage.zookeeper, PATH, 0).await;
}
