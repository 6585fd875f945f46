//! Caches of nodes.

mod beside_others;
mod current;
mod ending;
mod following;
mod limits;
mod one_shots;
mod reader;
mod replies;
mod restored;
mod root;
mod servers;
mod threads;

use self::reader::Reader;
use crate::recipes::prelude::*;

/// Checks something on these servers, and on ZooKeeper 3.9 if that is installed. They are not taken from others, who expect an
/// empty root.
async fn on_each_server(check: impl AsyncFn(&Server)) {
    check(&lasting_server().await).await;
    if let Some(server) = server_3_9().await {
        check(&server).await;
    }
}

/// Creates a node.
async fn create(zookeeper: &zk::Client, path: &str, data: &[u8]) {
    zookeeper.create(path, data, &anyone(CreateMode::Persistent)).await.unwrap();
}

/// Creates many nodes, in transactions.
async fn create_many(zookeeper: &zk::Client, paths: impl Iterator<Item = String>, data: &[u8]) {
    let paths: Vec<String> = paths.collect();
    for paths in paths.chunks(1000) {
        let mut writer = zookeeper.new_multi_writer();
        for path in paths {
            writer.add_create(path, data, &anyone(CreateMode::Persistent)).unwrap();
        }
        writer.commit().await.unwrap();
    }
}

async fn create_all(zookeeper: &zk::Client, paths: &[&str], data: &[u8]) {
    for path in paths {
        create(zookeeper, path, data).await;
    }
}

/// A cache of a tree, which has loaded.
async fn current(client: &Client, path: &str) -> Cache {
    let cache = Cache::start(client, path, CacheOptions::tree()).unwrap();
    within(cache.wait_current()).await.unwrap();
    cache
}

/// Waits until the node has this data, or is gone.
async fn shows(cache: &Cache, path: &str, data: Option<&[u8]>) -> Arc<Snapshot> {
    within(cache.wait_until(|snapshot| snapshot.data(path) == data)).await.unwrap()
}

fn paths(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.iter().map(|node| node.path()).collect()
}
