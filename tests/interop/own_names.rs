//! kazoo under its own node names, which this library recognises and Curator does not. kazoo must be told to recognise
//! ours.

use crate::interop::prelude::*;
use crate::interop::read_write::{Trier, assert_only_readers_share};

pub(crate) async fn kazoo_keeps_its_own_names(generation: Generation) {
    let stage = Stage::set(generation).await;
    let python = stage.kazoo("python").await;
    let client = stage.client("rust").await;

    let open = "mutex /locks/a naming=kazoo";
    let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap();
    let cast = Cast::new(open).peer("python", &python);
    let cast = cast.ours("rust", |name, _| Contender::lock(name, mutex.clone()));
    let mut line = Line::new(&stage, "/locks/a");
    line.enter(&cast, "rust 1, python 1, python 2, rust 2, rust 3, python 3").await;
    let expected = "rust python python rust rust python";
    assert_eq!(data_of(&mutex.participants().await.unwrap()), expected);
    assert_eq!(python.open("watcher", open).await.call("participants").await, expected);
    line.is_served_in_order().await;
    queue_of(&stage.zookeeper, "/locks/a", 0).await;

    let lock = ReadWriteLock::new(&client, "/rw").unwrap();
    let mut triers = [
        Trier::Ours(lock, None),
        Trier::Peer(python.open("rw1", "rw /rw naming=kazoo").await),
        Trier::Peer(python.open("rw2", "rw /rw naming=kazoo").await),
    ];
    assert_only_readers_share(&mut triers).await;
    queue_of(&stage.zookeeper, "/rw", 0).await;
}

pub(crate) async fn kazoo_elects_under_its_own_names(generation: Generation) {
    let stage = Stage::set(generation).await;
    let python = stage.kazoo("python").await;
    let client = stage.client("rust").await;
    let open = Recipe::Selector.open("naming=kazoo");
    let mut looker = python.open("looker", &open).await;
    let mut line = Line::new(&stage, PATH);
    let cast = Cast::new(&open).peer("python", &python);
    let cast = cast.ours("rust", |name, how| Recipe::Selector.ours(name, &client, id(how)));
    line.enter(&cast, "rust 1 how=rust-1, python a data=python-a, rust 2 how=rust-2").await;
    line.enter(&cast, "python b data=python-b, rust 3 how=rust-3").await;
    let expected = "rust-1 python-a rust-2 python-b rust-3";
    let observer = LeaderObserver::new(&client, PATH).unwrap();
    assert_eq!(ids(&observer.participants().await.unwrap()), expected);
    assert_eq!(looker.call("participants").await, expected);
    for leader in expected.split(' ') {
        line.only_holders_are(&[line.first().unwrap()]).await;
        assert_eq!(ids(&observer.leader().await.unwrap()), leader);
        line.releases(line.first().unwrap()).await;
    }
    queue_of(&stage.zookeeper, PATH, 0).await;
}
