//! kazoo under its own node names, which this library recognises and Curator does not. kazoo must be told to recognise
//! ours.

use zk_recipes::{InterProcessMutex, ReadWriteLock};

use crate::installed::Generation;
use crate::line::{Contender, Line};
use crate::read_write::{Trier, assert_only_readers_share};
use crate::stage::{Stage, data_of};
use crate::support::queue_of;

pub(crate) async fn kazoo_keeps_its_own_names(generation: Generation) {
    let Some(stage) = Stage::set(generation).await else { return };
    let python = stage.kazoo("python").await;
    let client = stage.client("rust").await;

    let open = "mutex /locks/a naming=kazoo";
    let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap();
    let ours = |name| {
        let mutex = mutex.clone();
        Contender::ours(name, async move { mutex.acquire().await })
    };
    let mut line = Line::new(&stage, "/locks/a");
    line.enters(ours("rust 1")).await;
    line.enters(Contender::peer("python 1", python.open("a", open).await)).await;
    line.enters(Contender::peer("python 2", python.open("b", open).await)).await;
    line.enters(ours("rust 2")).await;
    line.enters(ours("rust 3")).await;
    line.enters(Contender::peer("python 3", python.open("c", open).await)).await;
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
