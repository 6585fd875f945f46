//! Caches of nodes.

mod beside_others;
mod busy;
mod current;
mod ending;
mod following;
mod limits;
mod one_shots;
pub(crate) mod reader;
mod replies;
mod restored;
mod root;
mod servers;
mod threads;

use std::sync::Arc;

use zk_recipes::cache::{Cache, Snapshot};
use zookeeper_client as zk;

pub(crate) use self::reader::Reader;
use crate::installed::{Generation, Peers};
use crate::support::{Server, empty_server, within};

/// A server of ZooKeeper 3.9, if it is installed.
pub(crate) async fn server_3_9() -> Option<Server> {
    let peers = Peers::if_installed(Generation::Current)?;
    Some(Server::builder().class_path(peers.class_path).start().await.unwrap())
}

/// Checks something on these servers, and on ZooKeeper 3.9 if that is installed.
pub(crate) async fn on_each_server(check: impl AsyncFn(&Server)) {
    check(&*empty_server().await).await;
    if let Some(server) = server_3_9().await {
        check(&server).await;
    }
}

/// Creates a node.
pub(crate) async fn create(zookeeper: &zk::Client, path: &str, data: &[u8]) {
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create(path, data, &open).await.unwrap();
}

/// Creates many nodes, in transactions.
pub(crate) async fn create_many(zookeeper: &zk::Client, paths: impl Iterator<Item = String>, data: &[u8]) {
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    let paths: Vec<String> = paths.collect();
    for paths in paths.chunks(1000) {
        let mut writer = zookeeper.new_multi_writer();
        for path in paths {
            writer.add_create(path, data, &open).unwrap();
        }
        writer.commit().await.unwrap();
    }
}

/// Waits until the node has this data, or is gone.
pub(crate) async fn shows(cache: &Cache, path: &str, data: Option<&[u8]>) -> Arc<Snapshot> {
    within(cache.wait_until(|snapshot| snapshot.data(path) == data)).await.unwrap()
}

pub(crate) fn paths(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.iter().map(|node| node.path()).collect()
}
