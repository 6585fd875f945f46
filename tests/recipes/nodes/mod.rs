//! Nodes that are there as long as a value lives.

mod edges;
mod group;
mod persistent_node;
mod ttl;
mod unreadable;

use crate::recipes::prelude::*;

const PATH: &str = "/kept/a";

fn start(client: &Client, mode: NodeMode) -> PersistentNode {
    PersistentNode::start(client, PATH, "ours", PersistentNodeOptions::new().mode(mode)).unwrap()
}

/// One that is there.
async fn present(client: &Client, mode: NodeMode) -> PersistentNode {
    let node = start(client, mode);
    within(node.wait_present()).await.unwrap();
    node
}

/// Waits until a node of someone else's blocks it.
async fn taken(node: &PersistentNode) {
    let is_taken = |state: &NodeState| matches!(state, NodeState::Blocked(Error::NodeTaken { .. }));
    within(node.watch_state().wait_for(is_taken)).await.unwrap();
}

async fn data(zookeeper: &zk::Client, path: &str) -> Option<String> {
    match zookeeper.get_data(path).await {
        Err(zk::Error::NoNode) => None,
        data => Some(String::from_utf8(data.unwrap().0).unwrap()),
    }
}

async fn make_parent(zookeeper: &zk::Client) {
    zookeeper.mkdir("/kept", &anyone(CreateMode::Container)).await.unwrap();
}

fn text(members: &Members) -> String {
    let members = members
        .iter()
        .map(|(id, member)| format!("{id}={}", String::from_utf8_lossy(member.payload().unwrap_or(b"?"))));
    members.collect::<Vec<_>>().join(" ")
}
