//! What others go on doing to kept nodes.

use std::time::Duration;

use zk_recipes::nodes::{NodeMode, NodeState, OnStranger, PersistentNode, PersistentNodeOptions};
use zk_recipes::testing::{FaultProxy, Request};
use zk_recipes::{Client, Error};
use zookeeper_client as zk;

use super::{PATH, anyone, data, make_parent, start};
use crate::support::*;

/// A node that waits for a stranger's to go.
async fn behind_a_stranger(zookeeper: &zk::Client, proxy: &FaultProxy) -> (Client, PersistentNode) {
    make_parent(zookeeper).await;
    zookeeper.create(PATH, b"theirs", &anyone(zk::CreateMode::Ephemeral)).await.unwrap();
    let client = connect_through(proxy).await;
    let options = PersistentNodeOptions::new().on_stranger(OnStranger::Wait);
    let node = PersistentNode::start(&client, PATH, "ours", options).unwrap();
    let blocked = |state: &NodeState| matches!(state, NodeState::Blocked(Error::NodeTaken { .. }));
    within(node.watch_state().wait_for(blocked)).await.unwrap();
    proxy.take_requests();
    (client, node)
}

// "It is tried again, with pauses of up to 5 seconds; and as soon as someone else's node is gone."
#[tokio::test]
async fn a_stranger_who_writes_to_his_node_causes_no_storm() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let _waiting = behind_a_stranger(&zookeeper, &proxy).await;
    let mut creates = 0;
    let mut writes = 0;
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        zookeeper.set_data(PATH, b"theirs, newer", None).await.unwrap();
        writes += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
        creates += proxy.take_requests().iter().filter(|request| **request == Request::Create).count();
    }
    assert!(creates < 60, "{creates} creates in 5 s, for {writes} writes of the owner");
}

// "Present: The node exists."; "Absent".
#[tokio::test]
async fn the_state_is_right_while_someone_disturbs() {
    let server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let mut state = node.watch_state();
    for _ in 0..9 {
        zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
        eventually("the data are back", async || {
            (data(&zookeeper, PATH).await.as_deref() == Some("ours")).then_some(())
        })
        .await;
    }
    // The next pause is of 5 s.
    zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    zookeeper.delete(PATH, None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (is_there, shown) = (data(&zookeeper, PATH).await.is_some(), state.borrow_and_update().clone());
    assert_eq!(is_there, shown.is_present(), "{shown:?}");
}

// The same with an ended session: "it is taken to exist until its session is known to have ended".
#[tokio::test]
async fn the_state_is_right_after_a_session_that_ends_while_someone_disturbs() {
    let server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    for _ in 0..9 {
        zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
        eventually("the data are back", async || {
            (data(&zookeeper, PATH).await.as_deref() == Some("ours")).then_some(())
        })
        .await;
    }
    zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let old = session_id(&client).await;
    zk_recipes::testing::kill_session(&client).await.unwrap();
    eventually("there is another session", async || {
        (client.zookeeper().await.is_ok() && session_id(&client).await != old).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let (is_there, shown) = (data(&zookeeper, PATH).await.is_some(), node.state());
    assert_eq!(is_there, shown.is_present(), "{shown:?}");
}

// "If someone writes other data to it, the data of this value are written back."
#[tokio::test]
async fn data_that_only_look_alike_are_written_back() {
    let server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    let node = PersistentNode::start(&client, PATH, "x", PersistentNodeOptions::new()).unwrap();
    within(node.wait_present()).await.unwrap();
    let hex = "1f8b08000000000000ffab00008316dc8c01000000";
    let gzip: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    zookeeper.set_data(PATH, &gzip, None).await.unwrap();
    eventually("the data are back", async || {
        (zookeeper.get_data(PATH).await.unwrap().0 == b"x").then_some(())
    })
    .await;
}

// "Someone who goes on deleting or writing is not fought: the pauses grow up to 5 s." The same of someone else's node.
#[tokio::test]
async fn a_stranger_who_replaces_his_node_causes_no_storm() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let _waiting = behind_a_stranger(&zookeeper, &proxy).await;
    let (mut creates, mut times) = (0, 0);
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        let mut writer = zookeeper.new_multi_writer();
        writer.add_delete(PATH, None).unwrap();
        writer.add_create(PATH, b"theirs", &anyone(zk::CreateMode::Ephemeral)).unwrap();
        writer.commit().await.unwrap();
        times += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
        creates += proxy.take_requests().iter().filter(|request| **request == Request::Create).count();
    }
    assert!(creates < 60, "{creates} creates in 5 s, for {times} replacements by the owner");
}
