//! What others put in the place of a kept node.

use super::*;

// The same promise, without any interruption: the write and the takeover pass each other.
#[tokio::test]
async fn set_data_at_the_time_of_a_takeover_leaves_a_strangers_node_alone() {
    let (_server, proxy, client, zookeeper) = server_proxy_client_and_bystander().await;
    let node = present(&client, NodeMode::Ephemeral).await;
    // Whatever comes from the server is late.
    let held = proxy.intercept(Request::GetChildren, Fate::HoldReply);
    let reader = client.zookeeper().await.unwrap();
    let listing = tokio::spawn(async move { reader.list_children("/kept").await });
    within(held.happened()).await;
    take_over(&zookeeper).await;
    assert!(poll_once(&mut Box::pin(node.set_data("ours, newer"))).is_pending());
    eventually("it is looked at or written to", async || {
        let mut requests = proxy.take_requests().into_iter();
        requests.any(|request| matches!(request, Request::Exists | Request::SetData)).then_some(())
    })
    .await;
    held.release();
    let _ = within(listing).await;
    taken(&node).await;
    assert_eq!(data(&zookeeper, PATH).await.as_deref(), Some("theirs"));
}

// The same for a member: another process has taken the id.
#[tokio::test]
async fn who_leaves_a_group_does_not_evict_another() {
    let (server, proxy, one, two) = server_proxy_and_clients().await;
    let first = within(Group::new(&one, "/g").unwrap().join("a", "1")).await.unwrap();
    let group = Group::new(&two, "/g").unwrap();
    let waiting = tokio::spawn(async move { group.join_within("a", "2", BOUND).await });
    eventually("it waits", async || {
        (server.four_letter_word("wchp").await.unwrap().matches("0x").count() >= 2).then_some(())
    })
    .await;
    cut_off(&proxy);
    // An operator evicts the first.
    bystander(&server).await.delete("/g/a", None).await.unwrap();
    let second = within(waiting).await.unwrap().unwrap();
    let NodeState::Present { czxid, .. } = second.state() else { panic!("{:?}", second.state()) };
    let leaving = begun(first.leave());
    mend(&proxy);
    within(leaving).await.unwrap();
    let members = within(second.group().members()).await.unwrap();
    assert_eq!(members.get("a").map(|member| member.czxid()), Some(czxid), "it is still the same");
}

/// A value that ends before it was present has not taken over what was there, however far it has come.
#[tokio::test]
async fn a_value_that_ends_at_once_leaves_the_persistent_node_of_a_stranger() {
    let (_server, proxy, client, zookeeper) = server_proxy_client_and_bystander().await;
    let persistent = anyone(CreateMode::Persistent);
    for (path, request, has) in [
        ("/early", Request::Create, "theirs"),
        ("/later", Request::GetData, "theirs"),
        ("/late", Request::SetData, "ours"),
    ] {
        zookeeper.create(path, b"theirs", &persistent).await.unwrap();
        let held = proxy.intercept(request, Fate::HoldReply);
        let options = PersistentNodeOptions::new().mode(NodeMode::Persistent);
        let node = PersistentNode::start(&client, path, "ours", options).unwrap();
        within(held.happened()).await;
        let closing = begun(node.close());
        held.release();
        within(closing).await.unwrap();
        assert_eq!(data(&zookeeper, path).await.as_deref(), Some(has), "{path}");
    }
}
