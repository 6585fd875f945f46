//! `PersistentTtlNode`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

const TOUCH: &str = "/kept/a/touch";
/// Longer than any test.
const LONG: Duration = secs(600);
/// Long enough for a busy machine to touch it in time.
const SHORT: Duration = secs(2);

/// A server that has nodes with a time to live, and looks for those whose time is over all the time.
async fn server() -> Server {
    let builder = Server::builder().ttl_nodes();
    builder.container_check_interval(ms(50)).start().await.unwrap()
}

async fn stage() -> (Server, Client, zk::Client) {
    let server = server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    (server, client, zookeeper)
}

/// The client is behind the proxy.
async fn stage_with_proxy() -> (Server, FaultProxy, zk::Client, Client) {
    let server = server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let (zookeeper, client) = (bystander(&server).await, connect_through(&proxy).await);
    (server, proxy, zookeeper, client)
}

fn start(client: &Client, ttl: Duration) -> PersistentTtlNode {
    PersistentTtlNode::start(client, PATH, "ours", PersistentTtlNodeOptions::new(ttl)).unwrap()
}

async fn kept(client: &Client, ttl: Duration) -> PersistentTtlNode {
    let node = start(client, ttl);
    assert_eq!(within(node.wait_present()).await.unwrap(), PATH);
    node
}

async fn stat(zookeeper: &zk::Client, path: &str) -> Option<zk::Stat> {
    zookeeper.check_stat(path).await.unwrap()
}

/// Waits until the child was written to so often that the node is older than its time to live.
async fn touched_for_long(zookeeper: &zk::Client) {
    touched(zookeeper, 3).await;
}

async fn touched(zookeeper: &zk::Client, times: i32) {
    let before = stat(zookeeper, TOUCH).await.unwrap().version;
    eventually("it is touched", async || {
        // None in between: then it would not have been touched in time.
        let stat = stat(zookeeper, TOUCH).await.expect("it is touched in time");
        (stat.version >= before + times).then_some(())
    })
    .await;
}

async fn vanished(zookeeper: &zk::Client) {
    eventually("it vanishes", async || stat(zookeeper, PATH).await.is_none().then_some(())).await;
}

async fn present_other_than(node: &PersistentTtlNode, before: i64) -> i64 {
    let mut state = node.watch_state();
    let is_new = |state: &NodeState| matches!(state, NodeState::Present { czxid, .. } if *czxid != before);
    match within(state.wait_for(is_new)).await.unwrap() {
        NodeState::Present { czxid, .. } => czxid,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn it_and_its_child_are_created_at_once() {
    let (server, proxy, zookeeper, client) = stage_with_proxy().await;
    // So that the parent is there, and stays.
    make_parent(&zookeeper).await;
    proxy.take_requests();
    let node = kept(&client, LONG).await;
    assert_eq!(proxy.take_requests(), [Request::Multi, Request::Exists]);
    let [both, child] = [stat(&zookeeper, PATH).await.unwrap(), stat(&zookeeper, TOUCH).await.unwrap()];
    assert_eq!(both.czxid, child.czxid);
    assert_eq!(data(&zookeeper, PATH).await.as_deref(), Some("ours"));
    assert_eq!(data(&zookeeper, TOUCH).await.unwrap().as_bytes(), client.identity());
    assert_eq!(node.path(), PATH);

    within(node.set_data("newer")).await.unwrap();
    assert_eq!(data(&zookeeper, PATH).await.as_deref(), Some("newer"));
    assert_eq!(node.data(), b"newer");
    proxy.take_requests();
    let mut state = node.watch_state();
    within(node.close()).await.unwrap();
    assert_eq!(proxy.take_requests(), [], "the servers remove it");
    within(state.wait_for(|state| *state == NodeState::Closed)).await.unwrap();
    assert!(stat(&zookeeper, PATH).await.is_some());
    all_watches(&server, 0).await;
}

#[tokio::test]
async fn it_is_there_as_long_as_its_value_lives_and_for_its_ttl() {
    let (server, client, zookeeper) = stage().await;
    let node = kept(&client, SHORT).await;
    let before = stat(&zookeeper, PATH).await.unwrap();
    touched(&zookeeper, 9).await;
    assert_eq!(stat(&zookeeper, PATH).await, Some(before), "who watches it notices nothing");
    drop(node);
    let last = stat(&zookeeper, TOUCH).await.unwrap();
    vanished(&zookeeper).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let touched = ms(last.mtime.unsigned_abs());
    assert!(now - touched >= SHORT, "{:?}", now - touched);
    // The parent was a container.
    eventually("the parent vanishes", async || stat(&zookeeper, "/kept").await.is_none().then_some(())).await;
    all_watches(&server, 0).await;
}

#[tokio::test]
async fn a_touch_takes_a_write_and_a_look() {
    let (_server, proxy, _, client) = stage_with_proxy().await;
    let _node = kept(&client, SHORT).await;
    let mut requests = Vec::new();
    until("it is touched", || {
        requests.extend(proxy.take_requests());
        requests.iter().filter(|request| **request == Request::SetData).count() >= 3
    })
    .await;
    let at = requests.iter().position(|request| *request == Request::SetData).unwrap();
    assert_eq!(requests[at..][..4], [Request::SetData, Request::Exists, Request::SetData, Request::Exists]);
}

#[tokio::test]
async fn it_outlasts_sessions_and_restarts() {
    let mut server = server().await;
    // Longer than a restart takes.
    let ttl = secs(20);
    let client = connect(&server).await;
    let node = kept(&client, ttl).await;
    let before = stat(&bystander(&server).await, PATH).await.unwrap();
    for _ in 0..3 {
        let ended = session_id(&client).await;
        kill_session(&client).await.unwrap();
        eventually("it has another session", async || (session_id(&client).await != ended).then_some(()))
            .await;
    }
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let zookeeper = bystander(&server).await;
    touched(&zookeeper, 1).await;
    assert_eq!(stat(&zookeeper, PATH).await, Some(before));
    // The next process.
    within(client.close()).await;
    drop(node);
    let node = kept(&connect(&server).await, ttl).await;
    touched(&zookeeper, 1).await;
    assert_eq!(stat(&zookeeper, PATH).await, Some(before));
    drop(node);
}

// As a process that is killed; and one that comes back.
#[tokio::test]
async fn it_vanishes_when_no_one_touches_it_and_comes_back_with_the_connection() {
    let (_server, proxy, zookeeper, client) = stage_with_proxy().await;
    let node = kept(&client, SHORT).await;
    let before = stat(&zookeeper, PATH).await.unwrap().czxid;
    cut_off(&proxy);
    vanished(&zookeeper).await;
    mend(&proxy);
    let now = present_other_than(&node, before).await;
    assert_eq!(stat(&zookeeper, PATH).await.unwrap().czxid, now);
    touched_for_long(&zookeeper).await;
}

#[tokio::test]
async fn it_comes_back_when_others_delete_it_or_its_child() {
    let (_server, client, zookeeper) = stage().await;
    let node = kept(&client, SHORT).await;
    let mut czxid = stat(&zookeeper, PATH).await.unwrap().czxid;
    for _ in 0..2 {
        let mut writer = zookeeper.new_multi_writer();
        writer.add_delete(TOUCH, None).unwrap();
        writer.add_delete(PATH, None).unwrap();
        writer.commit().await.unwrap();
        czxid = present_other_than(&node, czxid).await;
        touched_for_long(&zookeeper).await;
    }
    // Without a child it may be removed at once, since it is older than its time to live.
    zookeeper.delete(TOUCH, None).await.unwrap();
    eventually("the child", async || stat(&zookeeper, TOUCH).await).await;
    touched_for_long(&zookeeper).await;
    zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
    eventually("its data", async || (data(&zookeeper, PATH).await? == "ours").then_some(())).await;
}

#[tokio::test]
async fn several_keep_one_node() {
    let server = server().await;
    let (clients, zookeeper) = (connect_many::<3>(&server).await, bystander(&server).await);
    let first = kept(&clients[0], SHORT).await;
    let before = stat(&zookeeper, PATH).await.unwrap();
    let mut nodes = vec![first];
    for client in &clients[1..] {
        nodes.push(kept(client, SHORT).await);
    }
    for node in nodes {
        assert_eq!(stat(&zookeeper, PATH).await, Some(before), "no one else has written to it");
        touched_for_long(&zookeeper).await;
        drop(node);
    }
    vanished(&zookeeper).await;
}

// Someone writes to it for so long that the pauses before its data are written back are longer than its time to live; also
// one that is nearer to the servers, so that each write comes too late.
#[tokio::test]
async fn a_fight_about_its_data_does_not_keep_it_from_being_touched() {
    for delay in [0, 50] {
        let (_server, proxy, zookeeper, client) = stage_with_proxy().await;
        let _node = kept(&client, SHORT * 2).await;
        let before = stat(&zookeeper, PATH).await.unwrap().czxid;
        proxy.set_traffic(Traffic::pass().delay(ms(delay)));
        let writing = async {
            loop {
                zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
                sleep(ms(1)).await;
            }
        };
        tokio::select! {
            () = touched(&zookeeper, 4) => {}
            () = writing => {}
        }
        touched_for_long(&zookeeper).await;
        assert_eq!(stat(&zookeeper, PATH).await.unwrap().czxid, before);
        assert_eq!(data(&zookeeper, PATH).await.as_deref(), Some("ours"));
    }
}

#[tokio::test]
async fn what_belongs_to_no_session_is_kept_and_other_nodes_are_left_alone() {
    let (_server, client, zookeeper) = stage().await;
    // So that the parent stays.
    zookeeper.mkdir("/kept/other", &anyone(CreateMode::Persistent)).await.unwrap();
    let ttl = anyone(CreateMode::Persistent).with_ttl(SHORT);
    for (options, vanishes) in
        [(anyone(CreateMode::Container), true), (ttl, true), (anyone(CreateMode::Persistent), false)]
    {
        let (theirs, _) = zookeeper.create(PATH, b"theirs", &options).await.unwrap();
        let node = kept(&client, SHORT).await;
        assert_eq!(stat(&zookeeper, PATH).await.unwrap().czxid, theirs.czxid);
        assert_eq!(data(&zookeeper, PATH).await.as_deref(), Some("ours"));
        touched_for_long(&zookeeper).await;
        within(node.close()).await.unwrap();
        eventually("the child vanishes", async || stat(&zookeeper, TOUCH).await.is_none().then_some(()))
            .await;
        if !vanishes {
            zookeeper.delete(PATH, None).await.unwrap();
        }
        vanished(&zookeeper).await;
    }
    let (theirs, _) = zookeeper.create(PATH, b"theirs", &anyone(CreateMode::Ephemeral)).await.unwrap();
    let node = start(&client, SHORT);
    let error = within(node.wait_present()).await.unwrap_err();
    assert_eq!(error, Error::NodeTaken { path: PATH.into(), session: Some(theirs.ephemeral_owner) });
    assert_eq!(stat(&zookeeper, PATH).await, Some(theirs));
    zookeeper.delete(PATH, None).await.unwrap();
    within(node.watch_state().wait_for(NodeState::is_present)).await.unwrap();
    touched_for_long(&zookeeper).await;
}

#[tokio::test]
async fn an_end_at_any_moment_leaves_nothing() {
    let (_server, proxy, zookeeper, client) = stage_with_proxy().await;
    zookeeper.mkdir("/kept/other", &anyone(CreateMode::Persistent)).await.unwrap();
    for request in [Request::Multi, Request::SetData] {
        for fate in [Fate::LoseRequest, Fate::LoseReply, Fate::HoldReply] {
            let met = proxy.intercept(request, fate);
            let node = start(&client, SHORT);
            within(met.happened()).await;
            drop(node);
            drop(met);
            queue_of(&zookeeper, "/kept", 1).await;
        }
    }
}

#[tokio::test]
async fn lost_replies_do_not_matter() {
    let (_server, proxy, zookeeper, client) = stage_with_proxy().await;
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let met = proxy.intercept(Request::Multi, fate);
        let node = start(&client, SHORT);
        within(met.happened()).await;
        within(node.wait_present()).await.unwrap();
        let met = proxy.intercept(Request::SetData, fate);
        within(met.happened()).await;
        touched_for_long(&zookeeper).await;
        within(node.close()).await.unwrap();
        vanished(&zookeeper).await;
    }
}

#[tokio::test]
async fn servers_without_such_nodes_are_named() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    make_parent(&zookeeper).await;
    let node = start(&client, LONG);
    let error = within(node.wait_present()).await.unwrap_err();
    assert_eq!(error, Error::TtlUnsupported { path: PATH.into() });
    assert!(error.to_string().contains("-Dzookeeper.extendedTypesEnabled=true"), "{error}");
    assert_eq!(node.state(), NodeState::Blocked(error.clone()));
    assert_eq!(within(node.set_data("newer")).await, Err(error));
    assert_eq!(children(&zookeeper, "/kept").await, [""; 0]);
    within(node.close()).await.unwrap();
}

// Curator says nothing of it, and the node vanishes.
#[tokio::test]
async fn a_child_that_may_not_be_written_to_is_reported() {
    let (_server, client, zookeeper) = stage().await;
    make_parent(&zookeeper).await;
    let acl = [Acl::new(Permission::READ | Permission::WRITE, AuthId::anyone())];
    let options = CreateMode::Persistent.with_acls(zk::Acls::new(&acl)).with_ttl(SHORT);
    zookeeper.create(PATH, b"ours", &options).await.unwrap();
    let node = start(&client, SHORT);
    let refused = Error::ZooKeeper { operation: "touch", path: PATH.into(), source: zk::Error::NoAuth };
    assert_eq!(within(node.wait_present()).await, Err(refused.clone()));
    // When that has vanished, it makes one with its own ACL.
    within(node.watch_state().wait_for(NodeState::is_present)).await.unwrap();
    touched_for_long(&zookeeper).await;
}

#[tokio::test]
async fn it_has_the_acl_the_namespace_and_the_compression_of_its_client() {
    let server = server().await;
    let zookeeper = bystander(&server).await;
    let read_write = Permission::READ | Permission::WRITE;
    let acl =
        move |path: &str| path.ends_with("/alive").then(|| vec![Acl::new(read_write, AuthId::anyone())]);
    let builder = builder().namespace("ns").enable_compression().acl_for_path(acl);
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let options = PersistentTtlNodeOptions::new(LONG).child_name("alive");
    let text = "ours".repeat(1000);
    let node = PersistentTtlNode::start(&client, PATH, text.as_str(), options).unwrap();
    assert_eq!(within(node.wait_present()).await.unwrap(), "/ns/kept/a");
    for path in ["/ns/kept/a", "/ns/kept/a/alive"] {
        let (data, _) = zookeeper.get_data(path).await.unwrap();
        assert!(data.starts_with(&[0x1f, 0x8b]) && data.len() < text.len(), "{path}");
    }
    assert_eq!(node.data(), text.as_bytes());
    let permissions = async |path| zookeeper.get_acl(path).await.unwrap().0[0].permission();
    assert_eq!(permissions("/ns/kept/a").await, Permission::ALL);
    assert_eq!(permissions("/ns/kept/a/alive").await, read_write);
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_sent() {
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    let refused = |options: PersistentTtlNodeOptions| {
        PersistentTtlNode::start(&client, PATH, "", options).map(drop).unwrap_err()
    };
    let most = ms((1 << 40) - 1);
    for ttl in [Duration::ZERO, Duration::from_micros(999), most + ms(1), Duration::MAX] {
        let error = refused(PersistentTtlNodeOptions::new(ttl));
        assert!(matches!(error, Error::InvalidArgument { argument: "ttl", .. }), "{error}");
    }
    for name in ["", ".", "..", "a/b", "/", "a\n"] {
        let error = refused(PersistentTtlNodeOptions::new(LONG).child_name(name));
        assert!(matches!(error, Error::InvalidArgument { argument: "child_name", .. }), "{name:?}: {error}");
    }
    let error = PersistentTtlNode::start(&client, "a", "", PersistentTtlNodeOptions::new(LONG)).unwrap_err();
    assert!(matches!(error, Error::InvalidPath { .. }), "{error}");
    // The child, which is created along, has the identity as its data.
    let large = |size| vec![0; size];
    let identity = Client::builder().identity(large(500_000)).connect_lazily("127.0.0.1:1").unwrap();
    let options = PersistentTtlNodeOptions::new(LONG);
    let error = PersistentTtlNode::start(&identity, PATH, large(600_000), options.clone()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "data", .. }), "{error}");
    let node = PersistentTtlNode::start(&identity, PATH, large(400_000), options.clone()).unwrap();
    let error = node.set_data(large(600_000)).await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "data", .. }), "{error}");
    let again = PersistentTtlNode::start(&identity, PATH, "", options).unwrap_err();
    assert!(matches!(again, Error::InvalidArgument { argument: "path", .. }), "{again}");
}

#[tokio::test]
async fn the_shortest_and_the_longest_ttl_are_accepted() {
    let (_server, proxy, zookeeper, client) = stage_with_proxy().await;
    // A touch takes longer than the time to live, so the node may come and go.
    proxy.set_traffic(Traffic::pass().delay(ms(5)));
    drop(kept(&client, ms(1)).await);
    vanished(&zookeeper).await;
    let most = ms((1 << 40) - 1);
    drop(kept(&client, most).await);
    assert!(stat(&zookeeper, PATH).await.is_some());
}

#[tokio::test]
async fn threads_have_the_same() {
    let server = server().await;
    let client = connect(&server).await;
    on_a_thread(move || {
        let client = blocking::Client::from(client);
        let options = PersistentTtlNodeOptions::new(LONG);
        let node = blocking::nodes::PersistentTtlNode::start(&client, PATH, "1", options).unwrap();
        assert_eq!(node.wait_present().unwrap(), PATH);
        assert_eq!(node.wait_present_within(BOUND).unwrap().as_deref(), Some(PATH));
        node.set_data("2").unwrap();
        assert_eq!((node.data(), node.path()), (b"2".to_vec(), PATH));
        assert!(node.state().is_present() && node.watch_state().get().is_present());
        node.close().unwrap();
    })
    .await;
    assert_eq!(data(&bystander(&server).await, PATH).await.as_deref(), Some("2"));
}

// "A node that exists as long as this value lives".
#[tokio::test]
async fn it_is_touched_although_its_data_are_refused() {
    let server = server().await;
    let zookeeper = bystander(&server).await;
    let acl = [Acl::new(Permission::READ | Permission::CREATE | Permission::DELETE, AuthId::anyone())];
    let builder = builder().session_timeout(secs(10));
    let builder = builder.acl_for_path(move |path| path.ends_with("/a").then(|| acl.to_vec()));
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let node = kept(&client, SHORT * 2).await;
    let before = stat(&zookeeper, PATH).await.unwrap().czxid;
    let refused = within(node.set_data("newer")).await;
    assert!(matches!(refused, Err(Error::ZooKeeper { source: zk::Error::NoAuth, .. })), "{refused:?}");
    touched(&zookeeper, 5).await;
    assert_eq!(stat(&zookeeper, PATH).await.unwrap().czxid, before);
    assert!(node.state().is_present(), "{:?}", node.state());
}

// "Waits until the node exists and was touched": its data are refused.
#[tokio::test]
async fn one_that_is_there_is_shown_as_present_when_it_was_touched() {
    let (_server, client, zookeeper) = stage().await;
    make_parent(&zookeeper).await;
    let acl = [Acl::new(Permission::READ | Permission::CREATE | Permission::DELETE, AuthId::anyone())];
    let options = CreateMode::Persistent.with_acls(zk::Acls::new(&acl)).with_ttl(LONG);
    zookeeper.create(PATH, b"theirs", &options).await.unwrap();
    let _node = kept(&client, LONG).await;
    assert!(stat(&zookeeper, TOUCH).await.is_some());
}
