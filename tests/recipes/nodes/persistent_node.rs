//! `PersistentNode`.

use super::*;

const PATH: &str = "/kept/a";

fn ephemeral(client: &Client, data: &str) -> PersistentNode {
    PersistentNode::start(client, PATH, data, PersistentNodeOptions::new()).unwrap()
}

fn with(client: &Client, options: PersistentNodeOptions) -> PersistentNode {
    PersistentNode::start(client, PATH, "ours", options).unwrap()
}

async fn data(zookeeper: &zk::Client, path: &str) -> String {
    super::data(zookeeper, path).await.expect("it is there")
}

async fn stat(zookeeper: &zk::Client, path: &str) -> Option<zk::Stat> {
    zookeeper.check_stat(path).await.unwrap()
}

async fn czxid(state: &mut Watch<NodeState>) -> i64 {
    match within(state.wait_for(NodeState::is_present)).await.unwrap() {
        NodeState::Present { czxid, .. } => czxid,
        other => panic!("{other:?}"),
    }
}

async fn blocked(state: &mut Watch<NodeState>) -> Error {
    let is_blocked = |state: &NodeState| matches!(state, NodeState::Blocked(_));
    match within(state.wait_for(is_blocked)).await.unwrap() {
        NodeState::Blocked(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Makes a node of someone else's at the path, which everybody may change.
async fn make(zookeeper: &zk::Client, mode: zk::CreateMode) {
    zookeeper.mkdir("/kept", &anyone(CreateMode::Container)).await.unwrap();
    zookeeper.create(PATH, b"theirs", &anyone(mode)).await.unwrap();
}

#[tokio::test]
async fn it_is_there_as_long_as_its_value_lives() {
    let (server, client, zookeeper) = server_client_and_bystander().await;
    let node = ephemeral(&client, "one");
    assert_eq!(within(node.wait_present()).await.unwrap(), PATH);
    assert_eq!(data(&zookeeper, PATH).await, "one");
    let stat_before = stat(&zookeeper, PATH).await.unwrap();
    assert_eq!(stat_before.ephemeral_owner, session_id(&client).await);
    assert_eq!(node.state(), NodeState::Present { path: PATH.into(), czxid: stat_before.czxid });

    within(node.set_data("two")).await.unwrap();
    assert_eq!((data(&zookeeper, PATH).await.as_str(), node.data()), ("two", b"two".to_vec()));
    let mut state = node.watch_state();
    within(node.close()).await.unwrap();
    assert_eq!(stat(&zookeeper, PATH).await, None);
    within(state.wait_for(|state| *state == NodeState::Closed)).await.unwrap();

    // Dropped: the same in the background. The next one at the path waits for that.
    let node = ephemeral(&client, "three");
    within(node.wait_present()).await.unwrap();
    drop(node);
    let again = ephemeral(&client, "four");
    within(again.wait_present()).await.unwrap();
    assert_eq!(data(&zookeeper, PATH).await, "four");
    let another = PersistentNode::start(&client, PATH, "five", PersistentNodeOptions::new());
    assert!(matches!(another, Err(Error::InvalidArgument { argument: "path", .. })));
    drop(again);
    queue_of(&zookeeper, "/kept", 0).await;
    all_watches(&server, 0).await;

    let last = ephemeral(&client, "six");
    within(last.wait_present()).await.unwrap();
    within(client.close()).await;
    queue_of(&zookeeper, "/kept", 0).await;
    within(last.watch_state().wait_for(|state| *state == NodeState::Closed)).await.unwrap();
    for error in [
        within(last.wait_present()).await.unwrap_err(),
        within(last.set_data("seven")).await.unwrap_err(),
        within(last.close()).await.unwrap_err(),
    ] {
        assert_eq!(error, Error::Closed);
    }
}

#[tokio::test]
async fn it_takes_few_requests() {
    let (server, proxy, client) = server_proxy_and_client().await;
    make(&bystander(&server).await, CreateMode::Persistent).await;
    bystander(&server).await.delete(PATH, None).await.unwrap();
    proxy.take_requests();
    let node = ephemeral(&client, "one");
    within(node.wait_present()).await.unwrap();
    assert_eq!(proxy.take_requests(), [Request::Create, Request::Exists]);
    within(node.set_data("two")).await.unwrap();
    assert_eq!(proxy.take_requests(), [Request::Exists, Request::SetData, Request::Exists]);
    // One that is closed before it was ever there sends nothing at all.
    within(node.close()).await.unwrap();
    assert_eq!(proxy.take_requests(), [Request::Exists, Request::Delete]);
}

#[tokio::test]
async fn someone_elses_node_is_left_alone() {
    let (server, client, zookeeper) = server_client_and_bystander().await;
    for mode in [CreateMode::Ephemeral, CreateMode::Persistent, CreateMode::Container] {
        make(&zookeeper, mode).await;
        let theirs = stat(&zookeeper, PATH).await.unwrap();
        let failing = with(&client, PersistentNodeOptions::new());
        let error = within(failing.wait_present()).await.unwrap_err();
        let session = (mode == CreateMode::Ephemeral).then_some(theirs.ephemeral_owner);
        assert_eq!(error, Error::NodeTaken { path: PATH.into(), session });
        assert_eq!(blocked(&mut failing.watch_state()).await, error);
        // A close deletes nothing that is not ours.
        within(failing.close()).await.unwrap();
        assert_eq!(stat(&zookeeper, PATH).await, Some(theirs));

        let waiting = with(&client, PersistentNodeOptions::new().on_stranger(OnStranger::Wait));
        blocked(&mut waiting.watch_state()).await;
        let present = begun(waiting.wait_present());
        zookeeper.delete(PATH, None).await.unwrap();
        within(present).await.unwrap();
        assert_eq!(data(&zookeeper, PATH).await, "ours");
        within(waiting.close()).await.unwrap();
    }
    queue_of(&zookeeper, "/kept", 0).await;
    all_watches(&server, 0).await;
}

#[tokio::test]
async fn what_blocks_it_is_shown_and_it_recovers() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let acl = [Acl::new(Permission::READ | Permission::ADMIN, AuthId::anyone())];
    let persistent = CreateMode::Persistent.with_acls(zk::Acls::new(&acl));
    zookeeper.create("/kept", b"", &persistent).await.unwrap();
    let node = ephemeral(&client, "ours");
    let error = within(node.wait_present()).await.unwrap_err();
    assert!(
        matches!(&error, Error::ZooKeeper { source: zk::Error::NoAuth, path, .. } if path == PATH),
        "{error}"
    );
    let error = within(node.set_data("newer")).await.unwrap_err();
    assert!(matches!(&error, Error::ZooKeeper { source: zk::Error::NoAuth, .. }), "{error}");
    let acl = [Acl::new(Permission::ALL, AuthId::anyone())];
    zookeeper.set_acl("/kept", &acl, None).await.unwrap();
    czxid(&mut node.watch_state()).await;
    assert_eq!(data(&zookeeper, PATH).await, "newer");

    // Below an ephemeral node.
    let below = PersistentNode::start(&client, "/kept/a/b", "", PersistentNodeOptions::new()).unwrap();
    let error = within(below.wait_present()).await.unwrap_err();
    let is_refused =
        |error: &Error| matches!(error, Error::ZooKeeper { source: zk::Error::NoChildrenForEphemerals, .. });
    assert!(is_refused(&error), "{error}");
    // Without parents.
    let options = PersistentNodeOptions::new().create_parents(false);
    let orphan = PersistentNode::start(&client, "/nowhere/a", "", options).unwrap();
    let error = within(orphan.wait_present()).await.unwrap_err();
    assert!(matches!(&error, Error::ZooKeeper { source: zk::Error::NoNode, .. }), "{error}");
    zookeeper.create("/nowhere", b"", &anyone(CreateMode::Container)).await.unwrap();
    czxid(&mut orphan.watch_state()).await;
    // Data that no server takes are refused at once.
    let large = PersistentNode::start(&client, "/kept/b", vec![0; 1 << 20], PersistentNodeOptions::new());
    assert!(matches!(large, Err(Error::InvalidArgument { argument: "data", .. })));
    assert!(matches!(orphan.set_data(vec![0; 1 << 20]).await, Err(Error::InvalidArgument { .. })));
}

// "Closing the client deletes it as well."
#[tokio::test]
async fn a_dropped_persistent_node_goes_before_its_client() {
    let (server, zookeeper) = server_and_bystander().await;
    for close in [true, false] {
        let client = connect(&server).await;
        let node = present(&client, NodeMode::Persistent).await;
        drop(node);
        if close {
            within(client.close()).await;
        } else {
            drop(client);
        }
        eventually("it is deleted", async || stat(&zookeeper, PATH).await.is_none().then_some(())).await;
    }
}

#[tokio::test]
async fn threads_have_the_same() {
    let server = Server::builder().ttl_nodes().start().await.unwrap();
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    on_a_thread(move || {
        use zk_recipes::blocking;
        let client = blocking::Client::from(client);
        let node =
            blocking::nodes::PersistentNode::start(&client, PATH, "1", PersistentNodeOptions::new()).unwrap();
        assert_eq!(node.wait_present_within(BOUND).unwrap().as_deref(), Some(PATH));
        node.set_data("2").unwrap();
        assert_eq!((node.data(), node.path()), (b"2".to_vec(), PATH));
        let mut states = node.watch_state();
        assert!(states.blocking_changed().unwrap().unwrap().is_present());
        node.close().unwrap();

        let options = PersistentTtlNodeOptions::new(secs(600));
        let node = blocking::nodes::PersistentTtlNode::start(&client, PATH, "1", options).unwrap();
        assert_eq!(node.wait_present().unwrap(), PATH);
        assert_eq!(node.wait_present_within(BOUND).unwrap().as_deref(), Some(PATH));
        node.set_data("3").unwrap();
        assert_eq!((node.data(), node.path()), (b"3".to_vec(), PATH));
        assert!(node.state().is_present() && node.watch_state().get().is_present());
        node.close().unwrap();

        let group = blocking::nodes::Group::new(&client, "/group").unwrap();
        let a = group.join("a", "1").unwrap();
        let b = group.join_within("b", "2", BOUND).unwrap();
        assert_eq!(text(&group.members().unwrap()), "a=1 b=2");
        b.set_payload("3").unwrap();
        let mut seen = group.watch_members();
        while text(&seen.blocking_changed_within(BOUND).unwrap().expect("it comes")) != "a=1 b=3" {}
        assert_eq!((a.id(), a.payload(), a.is_member(), group.path()), ("a", b"1".to_vec(), true, "/group"));
        assert!(a.state().is_present());
        a.leave().unwrap();
        b.leave().unwrap();
    })
    .await;
    assert_eq!(data(&zookeeper, PATH).await, "3", "the servers remove it");
    queue_of(&zookeeper, "/group", 0).await;
}
