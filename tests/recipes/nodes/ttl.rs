//! `PersistentTtlNode`; that it is touched in time is told in the simulation.

use super::*;

const TOUCH: &str = "/kept/a/touch";
/// Longer than any test.
const LONG: Duration = secs(600);

/// A server that has nodes with a time to live, and looks for those whose time is over all the time.
async fn server() -> Server {
    let builder = Server::builder().ttl_nodes();
    builder.container_check_interval(ms(50)).start().await.unwrap()
}

fn start(client: &Client) -> PersistentTtlNode {
    PersistentTtlNode::start(client, PATH, "ours", PersistentTtlNodeOptions::new(LONG)).unwrap()
}

async fn kept(client: &Client) -> PersistentTtlNode {
    let node = start(client);
    assert_eq!(within(node.wait_present()).await.unwrap(), PATH);
    node
}

async fn stat(zookeeper: &zk::Client, path: &str) -> Option<zk::Stat> {
    zookeeper.check_stat(path).await.unwrap()
}

#[tokio::test]
async fn it_and_its_child_are_created_at_once() {
    let server = server().await;
    let (zookeeper, (proxy, client)) = (bystander(&server).await, connect_by_proxy(&server).await);
    // So that the parent is there, and stays.
    make_parent(&zookeeper).await;
    proxy.take_requests();
    let node = kept(&client).await;
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
async fn servers_without_such_nodes_are_named() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    make_parent(&zookeeper).await;
    let node = start(&client);
    let error = within(node.wait_present()).await.unwrap_err();
    assert_eq!(error, Error::TtlUnsupported { path: PATH.into() });
    assert!(error.to_string().contains("-Dzookeeper.extendedTypesEnabled=true"), "{error}");
    assert_eq!(node.state(), NodeState::Blocked(error.clone()));
    assert_eq!(within(node.set_data("newer")).await, Err(error));
    assert_eq!(children(&zookeeper, "/kept").await, [""; 0]);
    within(node.close()).await.unwrap();
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

// "Waits until the node exists and was touched": its data are refused.
#[tokio::test]
async fn one_that_is_there_is_shown_as_present_when_it_was_touched() {
    let server = server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    make_parent(&zookeeper).await;
    let acl = [Acl::new(Permission::READ | Permission::CREATE | Permission::DELETE, AuthId::anyone())];
    let options = CreateMode::Persistent.with_acls(zk::Acls::new(&acl)).with_ttl(LONG);
    zookeeper.create(PATH, b"theirs", &options).await.unwrap();
    let _node = kept(&client).await;
    assert!(stat(&zookeeper, TOUCH).await.is_some());
}
