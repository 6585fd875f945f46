//! Nodes that may not be read.

use super::*;

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
    let ephemeral = CreateMode::Ephemeral.with_acls(zk::Acls::new(&acl));
    zookeeper.create(PATH, b"theirs", &ephemeral).await.unwrap();
    let options = PersistentNodeOptions::new().on_stranger(OnStranger::Wait);
    let node = PersistentNode::start(&client, PATH, "ours", options).unwrap();
    taken(&node).await;
    zookeeper.delete(PATH, None).await.unwrap();
    within(node.wait_present()).await.unwrap();
}

// "A member that has left and joined again meanwhile gives two changes"; "always shows the latest members".
#[tokio::test]
async fn an_unreadable_member_that_joins_again_is_a_new_one() {
    let (server, client, zookeeper) = server_client_and_bystander().await;
    zookeeper.mkdir("/g", &anyone(CreateMode::Container)).await.unwrap();
    zookeeper.auth("digest", b"stranger:secret").await.unwrap();
    let acl = private();
    let ephemeral = CreateMode::Ephemeral.with_acls(zk::Acls::new(&acl));
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
    let again = tokio::time::timeout(secs(30), again).await.is_ok();
    assert!(again, "{:?} is still shown as current after {before:?}, but the server has {czxid}", seen.get());
}

// "If someone deletes the node, it is made again."
#[tokio::test]
async fn an_own_node_that_may_not_be_read_is_made_again() {
    let (server, zookeeper) = server_and_bystander().await;
    let acl = vec![Acl::new(Permission::CREATE | Permission::WRITE | Permission::ADMIN, AuthId::anyone())];
    let builder = builder().session_timeout(secs(10));
    let builder = builder.acl_for_path(move |path| path.ends_with("/a").then(|| acl.clone()));
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let _node = present(&client, NodeMode::Ephemeral).await;
    zookeeper.delete(PATH, None).await.unwrap();
    queue_of(&zookeeper, "/kept", 1).await;
}

/// A server of 3.9, which does not even say whose a node is that may not be read; a proxy before it, and a bystander, who has
/// made the parent.
async fn hiding_server(
    settings: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Option<(Server, FaultProxy, zk::Client)> {
    let server = server_3_9_with(settings).await?;
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
    let Some((_server, proxy, zookeeper)) = hiding_server(|builder| builder).await else { return };
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
    let builder = builder().session_timeout(secs(10));
    let is_kept = |path: &str| path.ends_with("/a") || path.contains("/_c_");
    let builder = builder.acl_for_path(move |path| is_kept(path).then(unreadable));
    builder.connect(&proxy.connect_string()).await.unwrap()
}

// "the newest data always win, whatever else is in progress"; "Deletes the node, if it is there and ours"; "by which the node
// is identified when the reply to its create is lost"; "it counts as someone else's unless this value has created it and
// nobody else has written to it": of a persistent node nobody has. Also right before its end.
#[tokio::test]
async fn an_unreadable_node_is_ours_whatever_is_lost() {
    let Some((_server, proxy, zookeeper)) = hiding_server(|builder| builder).await else { return };
    let create = Some((Request::Create, Fate::LoseReply));
    let write = |fate| Some((Request::SetData, fate));
    for (mode, lost, is_set) in [
        (NodeMode::Ephemeral, create, true),
        (NodeMode::Ephemeral, write(Fate::LoseReply), true),
        // Someone else writes to it.
        (NodeMode::Ephemeral, None, true),
        (NodeMode::EphemeralSequential, create, true),
        (NodeMode::Persistent, write(Fate::LoseReply), true),
        (NodeMode::Persistent, write(Fate::LoseReply), false),
        (NodeMode::Persistent, write(Fate::LoseRequest), false),
    ] {
        let client = connect_unreadable(&proxy).await;
        let intercepted = lost.map(|(request, fate)| proxy.intercept(request, fate));
        let node = start(&client, mode);
        if lost != create {
            within(node.wait_present()).await.unwrap();
        }
        match &intercepted {
            None => drop(zookeeper.set_data(PATH, b"theirs", None).await.unwrap()),
            Some(_) if lost == create => {}
            Some(_) => assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending()),
        }
        if let Some(intercepted) = intercepted {
            within(intercepted.happened()).await;
        }
        let case = format!("{mode:?}, lost: {lost:?}, set: {is_set}; {:?}", node.state());
        if is_set {
            let set = timeout(secs(15), node.set_data("newest")).await;
            assert!(matches!(set, Ok(Ok(()))) && node.state().is_present(), "{set:?}: {case}");
        }
        let closed = within(node.close()).await;
        let left = children(&zookeeper, "/kept").await;
        assert!(closed.is_ok() && left.is_empty(), "closed: {closed:?}; left: {left:?}: {case}");
    }
}

// "A node that belongs to another session is left alone".
#[tokio::test]
async fn an_unreadable_strangers_node_in_the_place_of_ours_is_left_alone() {
    let Some((_server, proxy, zookeeper)) = hiding_server(|builder| builder).await else { return };
    let client = connect_unreadable(&proxy).await;
    let node = present(&client, NodeMode::Ephemeral).await;
    let acl = unreadable();
    let mut writer = zookeeper.new_multi_writer();
    writer.add_delete(PATH, None).unwrap();
    writer.add_create(PATH, b"theirs", &CreateMode::Ephemeral.with_acls(zk::Acls::new(&acl))).unwrap();
    writer.commit().await.unwrap();
    taken(&node).await;
    within(node.close()).await.unwrap();
    assert_eq!(children(&zookeeper, "/kept").await, ["a"]);
}

/// Such servers tell nothing of a group that may not be listed any more, but the end of a member.
#[tokio::test]
async fn a_member_that_is_gone_is_not_current_in_a_group_that_may_not_be_listed_any_more() {
    let Some(server) = server_3_9().await else { return };
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    zookeeper.auth("digest", b"stranger:secret").await.unwrap();
    zookeeper.mkdir("/group", &anyone(CreateMode::Persistent)).await.unwrap();
    zookeeper.create("/group/a", b"", &anyone(CreateMode::Ephemeral)).await.unwrap();
    let mut members = Group::new(&client, "/group").unwrap().watch_members();
    within(members.wait_for(|members| members.is_current() && members.len() == 1)).await.unwrap();
    zookeeper.set_acl("/group", &private(), None).await.unwrap();
    zookeeper.delete("/group/a", None).await.unwrap();
    within(members.wait_for(|members| !members.is_current() || members.is_empty())).await.unwrap();
}

// "It is touched twice in its time to live": "a node that exists as long as this value lives".
#[tokio::test]
async fn an_unreadable_node_is_touched_although_the_reply_to_a_write_was_lost() {
    let settings = |builder: ServerBuilder| builder.ttl_nodes().container_check_interval(ms(50));
    let Some((_server, proxy, zookeeper)) = hiding_server(settings).await else { return };
    let client = connect_unreadable(&proxy).await;
    let options = PersistentTtlNodeOptions::new(secs(8));
    let node = PersistentTtlNode::start(&client, PATH, "ours", options).unwrap();
    within(node.wait_present()).await.unwrap();
    let child = zookeeper.check_stat("/kept/a/touch").await.unwrap().unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
    within(lost.happened()).await;
    // Longer than its time to live.
    for _ in 0..40 {
        tokio::time::sleep(ms(400)).await;
        let now = zookeeper.check_stat("/kept/a/touch").await.unwrap().map(|stat| stat.czxid);
        assert_eq!(now, Some(child.czxid), "{:?}", node.state());
    }
    assert!(node.state().is_present(), "{:?}", node.state());
}
