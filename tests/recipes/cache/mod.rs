//! Caches of nodes.

mod beside_others;
mod ending;
mod following;
mod one_shots;
mod reader;
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
