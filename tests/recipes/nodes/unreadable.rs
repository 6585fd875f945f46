//! Nodes that may not be read.

use std::time::Duration;

use zk_recipes::nodes::{
    Group, NodeMode, OnStranger, PersistentNode, PersistentNodeOptions, PersistentTtlNode,
    PersistentTtlNodeOptions,
};
use zk_recipes::testing::{Fate, FaultProxy, Request};
use zk_recipes::{Acl, AuthId, Client, Permission};
use zookeeper_client as zk;

use super::{PATH, anyone, make_parent, present, start, taken};
use crate::installed::{Generation, Peers};
use crate::recipes::cache::server_3_9;
use crate::recipes::stage::{server_and_bystander, server_client_and_bystander};
use crate::support::*;

/// An ACL that lets only its user do anything.
fn private() -> Vec<Acl> {
    vec![Acl::new(Permission::ALL, AuthId::new("auth", ""))]
}

// "It is tried again, with pauses of up to 5 seconds; and as soon as someone else's node is gone."
// (Servers since 3.8.4 and 3.9.2 tell no one of a node that he may not read.)
#[tokio::test]
async fn an_unreadable_strangers_node_is_noticed_when_it_goes() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    make_parent(&zookeeper).await;
    zookeeper.auth("digest", b"stranger:secret").await.unwrap();
    let acl = private();
    let ephemeral = zk::CreateMode::Ephemeral.with_acls(zk::Acls::new(&acl));
    zookeeper.create(PATH, b"theirs", &ephemeral).await.unwrap();
    let options = PersistentNodeOptions::new().on_stranger(OnStranger::Wait);
    let node = PersistentNode::start(&client, PATH, "ours", options).unwrap();
    taken(&node).await;
    zookeeper.delete(PATH, None).await.unwrap();
    within(node.wait_present()).await.unwrap();
}

// The same where the stranger's session ends, as after a crash and a restart: "[`OnStranger::Wait`]: It waits until the
// other node is gone, such as that of an earlier run of this process, whose session has not expired yet."
#[tokio::test]
async fn joins_after_an_unreadable_earlier_run() {
    let server = empty_server().await;
    let run = |who: &str| {
        let builder =
            builder().session_timeout(Duration::from_secs(10)).auth("digest", format!("{who}:secret"));
        builder.acl_for_path(|path| path.ends_with("/a").then(private))
    };
    let earlier = run("one").connect(&server.connect_string()).await.unwrap();
    let first = within(Group::new(&earlier, "/g").unwrap().join("a", "1")).await.unwrap();
    let later = run("two").connect(&server.connect_string()).await.unwrap();
    let group = Group::new(&later, "/g").unwrap();
    let joining = tokio::spawn(async move { group.join_within("a", "2", BOUND).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    within(earlier.close()).await;
    drop(first);
    let joined = within(joining).await.unwrap();
    assert!(joined.is_ok(), "{joined:?}");
}

// "A member that has left and joined again meanwhile gives two changes"; "always shows the latest members".
#[tokio::test]
async fn an_unreadable_member_that_joins_again_is_a_new_one() {
    let (server, client, zookeeper) = server_client_and_bystander().await;
    zookeeper.mkdir("/g", &anyone(zk::CreateMode::Container)).await.unwrap();
    zookeeper.auth("digest", b"stranger:secret").await.unwrap();
    let acl = private();
    let ephemeral = zk::CreateMode::Ephemeral.with_acls(zk::Acls::new(&acl));
    zookeeper.create("/g/a", b"1", &ephemeral).await.unwrap();
    let mut seen = Group::new(&client, "/g").unwrap().watch_members();
    let before =
        within(seen.wait_for(|members| members.is_current() && members.len() == 1)).await.unwrap().clone();
    if bystander(&server).await.check_stat("/g/a").await == Err(zk::Error::NoAuth) {
        // Newer servers tell nothing of it but its name.
        assert_eq!(before.get("a").map(|member| (member.czxid(), member.session_id())), Some((0, 0)));
        return;
    }
    // As a session of ours replaces the node of the session before.
    let mut writer = zookeeper.new_multi_writer();
    writer.add_delete("/g/a", None).unwrap();
    writer.add_create("/g/a", b"2", &ephemeral).unwrap();
    writer.commit().await.unwrap();
    let czxid = zookeeper.check_stat("/g/a").await.unwrap().unwrap().czxid;
    let again = seen.wait_for(|members| members.get("a").is_some_and(|member| member.czxid() == czxid));
    let again = tokio::time::timeout(Duration::from_secs(30), again).await.is_ok();
    assert!(again, "{:?} is still shown as current after {before:?}, but the server has {czxid}", seen.get());
}

// "If someone deletes the node, it is made again."
#[tokio::test]
async fn an_own_node_that_may_not_be_read_is_made_again() {
    let (server, zookeeper) = server_and_bystander().await;
    let acl = vec![Acl::new(Permission::CREATE | Permission::WRITE | Permission::ADMIN, AuthId::anyone())];
    let builder = builder().session_timeout(Duration::from_secs(10));
    let builder = builder.acl_for_path(move |path| path.ends_with("/a").then(|| acl.clone()));
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let _node = present(&client, NodeMode::Ephemeral).await;
    zookeeper.delete(PATH, None).await.unwrap();
    queue_of(&zookeeper, "/kept", 1).await;
}

/// A server of 3.9, which does not even say whose a node is that may not be read; a proxy before it, and a bystander, who has
/// made the parent.
async fn hiding_server() -> Option<(Server, FaultProxy, zk::Client)> {
    let server = server_3_9().await?;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    make_parent(&zookeeper).await;
    Some((server, proxy, zookeeper))
}

/// An ACL that lets everyone do everything but read.
fn unreadable() -> Vec<Acl> {
    let all_others = Permission::WRITE | Permission::CREATE | Permission::DELETE | Permission::ADMIN;
    vec![Acl::new(all_others, AuthId::anyone())]
}

// "If someone takes away the permission later, this is noticed with the next request".
#[tokio::test]
async fn a_node_that_may_not_be_read_any_more_is_made_again() {
    let Some((_server, proxy, zookeeper)) = hiding_server().await else { return };
    let client = connect_through(&proxy).await;
    let node = present(&client, NodeMode::Ephemeral).await;
    eventually("it is read", async || proxy.take_requests().contains(&Request::GetData).then_some(())).await;
    zookeeper.set_acl(PATH, &unreadable(), None).await.unwrap();
    within(node.set_data("newer")).await.unwrap();
    zookeeper.delete(PATH, None).await.unwrap();
    queue_of(&zookeeper, "/kept", 1).await;
}

/// A client whose kept nodes may not be read.
async fn connect_unreadable(proxy: &FaultProxy) -> Client {
    let builder = builder().session_timeout(Duration::from_secs(10));
    let builder = builder.acl_for_path(|path| path.ends_with("/a").then(unreadable));
    builder.connect(&proxy.connect_string()).await.unwrap()
}

// "the newest data always win, whatever else is in progress"; "Deletes the node, if it is there and ours".
async fn is_ours(zookeeper: &zk::Client, node: PersistentNode) {
    within(node.set_data("newest")).await.unwrap();
    assert!(node.state().is_present(), "{:?}", node.state());
    within(node.close()).await.unwrap();
    assert!(children(zookeeper, "/kept").await.is_empty());
}

#[tokio::test]
async fn an_unreadable_node_is_ours_although_a_reply_was_lost() {
    let Some((_server, proxy, zookeeper)) = hiding_server().await else { return };
    for request in [Request::Create, Request::SetData] {
        let client = connect_unreadable(&proxy).await;
        let lost = proxy.intercept(request, Fate::LoseReply);
        let node = start(&client, NodeMode::Ephemeral);
        if request == Request::SetData {
            within(node.wait_present()).await.unwrap();
            assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
        }
        within(lost.happened()).await;
        is_ours(&zookeeper, node).await;
    }
}

#[tokio::test]
async fn an_unreadable_node_is_ours_although_others_write_to_it() {
    let Some((_server, proxy, zookeeper)) = hiding_server().await else { return };
    let client = connect_unreadable(&proxy).await;
    let node = present(&client, NodeMode::Ephemeral).await;
    zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
    is_ours(&zookeeper, node).await;
}

// "A node that belongs to another session is left alone".
#[tokio::test]
async fn an_unreadable_strangers_node_in_the_place_of_ours_is_left_alone() {
    let Some((_server, proxy, zookeeper)) = hiding_server().await else { return };
    let client = connect_unreadable(&proxy).await;
    let node = present(&client, NodeMode::Ephemeral).await;
    let acl = unreadable();
    let mut writer = zookeeper.new_multi_writer();
    writer.add_delete(PATH, None).unwrap();
    writer.add_create(PATH, b"theirs", &zk::CreateMode::Ephemeral.with_acls(zk::Acls::new(&acl))).unwrap();
    writer.commit().await.unwrap();
    taken(&node).await;
    within(node.close()).await.unwrap();
    assert_eq!(children(&zookeeper, "/kept").await, ["a"]);
}

// "by which the node is identified when the reply to its create is lost".
#[tokio::test]
async fn an_unreadable_numbered_node_is_ours_although_a_reply_was_lost() {
    let Some((_server, proxy, zookeeper)) = hiding_server().await else { return };
    let builder = builder().session_timeout(Duration::from_secs(10));
    let builder = builder.acl_for_path(|path| path.contains("/_c_").then(unreadable));
    let client = builder.connect(&proxy.connect_string()).await.unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let node = start(&client, NodeMode::EphemeralSequential);
    within(lost.happened()).await;
    is_ours(&zookeeper, node).await;
}

/// Such servers tell nothing of a group that may not be listed any more, but the end of a member.
#[tokio::test]
async fn a_member_that_is_gone_is_not_current_in_a_group_that_may_not_be_listed_any_more() {
    let Some(server) = server_3_9().await else { return };
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    zookeeper.auth("digest", b"stranger:secret").await.unwrap();
    zookeeper.mkdir("/group", &anyone(zk::CreateMode::Persistent)).await.unwrap();
    zookeeper.create("/group/a", b"", &anyone(zk::CreateMode::Ephemeral)).await.unwrap();
    let mut members = Group::new(&client, "/group").unwrap().watch_members();
    within(members.wait_for(|members| members.is_current() && members.len() == 1)).await.unwrap();
    zookeeper.set_acl("/group", &private(), None).await.unwrap();
    zookeeper.delete("/group/a", None).await.unwrap();
    within(members.wait_for(|members| !members.is_current() || members.is_empty())).await.unwrap();
}

// "it counts as someone else's unless this value has created it and nobody else has written to it": nobody has. A reply to
// a write of its own was lost.
#[tokio::test]
async fn an_unreadable_persistent_node_is_ours_although_the_reply_to_a_write_was_lost() {
    let Some((_server, proxy, zookeeper)) = hiding_server().await else { return };
    let client = connect_unreadable(&proxy).await;
    let node = present(&client, NodeMode::Persistent).await;
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
    within(lost.happened()).await;
    let set = tokio::time::timeout(Duration::from_secs(15), node.set_data("newest")).await;
    let state = node.state();
    let closed = within(node.close()).await;
    let left = children(&zookeeper, "/kept").await;
    assert!(
        matches!(set, Ok(Ok(()))) && closed.is_ok() && left.is_empty(),
        "set: {set:?}; {state:?}; closed: {closed:?}; left: {left:?}"
    );
}

// The same right before its end.
#[tokio::test]
async fn close_after_a_lost_write_leaves_no_unreadable_persistent_node() {
    let Some((_server, proxy, zookeeper)) = hiding_server().await else { return };
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let client = connect_unreadable(&proxy).await;
        let node = present(&client, NodeMode::Persistent).await;
        let lost = proxy.intercept(Request::SetData, fate);
        assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
        within(lost.happened()).await;
        let closed = within(node.close()).await;
        let left = children(&zookeeper, "/kept").await;
        assert!(closed.is_ok() && left.is_empty(), "{fate:?}: closed: {closed:?}; left: {left:?}");
    }
}

// "It is touched twice in its time to live": "a node that exists as long as this value lives".
#[tokio::test]
async fn an_unreadable_node_is_touched_although_the_reply_to_a_write_was_lost() {
    let Some(peers) = Peers::if_installed(Generation::Current) else { return };
    let server = Server::builder().class_path(peers.class_path);
    let server = server.ttl_nodes();
    let server = server.container_check_interval(Duration::from_millis(50)).start().await.unwrap();
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    make_parent(&zookeeper).await;
    let client = connect_unreadable(&proxy).await;
    let options = PersistentTtlNodeOptions::new(Duration::from_secs(8));
    let node = PersistentTtlNode::start(&client, PATH, "ours", options).unwrap();
    within(node.wait_present()).await.unwrap();
    let child = zookeeper.check_stat("/kept/a/touch").await.unwrap().unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
    within(lost.happened()).await;
    // Longer than its time to live.
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let now = zookeeper.check_stat("/kept/a/touch").await.unwrap().map(|stat| stat.czxid);
        assert_eq!(now, Some(child.czxid), "{:?}", node.state());
    }
    assert!(node.state().is_present(), "{:?}", node.state());
}
