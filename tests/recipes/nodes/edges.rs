//! Rare uses of kept nodes and groups.

use super::*;

/// gzip of "x", as in the tests of the library.
const GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xab\0\0\x83\x16\xdc\x8c\x01\0\0\0";

// "Returns the payload; `None` if this client may not read it."
#[tokio::test]
async fn data_that_look_compressed_are_what_they_are() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let group = Group::new(&client, "/g").unwrap();
    let _member = within(group.join("a", GZIP)).await.unwrap();
    let members = within(group.members()).await.unwrap();
    assert_eq!(members.get("a").unwrap().payload(), Some(GZIP));
    // "If someone writes other data to it, the data of this value are written back", also if they only look alike.
    let node = PersistentNode::start(&client, PATH, "x", PersistentNodeOptions::new()).unwrap();
    within(node.wait_present()).await.unwrap();
    zookeeper.set_data(PATH, GZIP, None).await.unwrap();
    eventually("the data are back", async || {
        (zookeeper.get_data(PATH).await.unwrap().0 == b"x").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_numbered_node_may_be_right_below_the_root() {
    let (_server, client) = server_and_client().await;
    let options = PersistentNodeOptions::new().mode(NodeMode::EphemeralSequential);
    let node = PersistentNode::start(&client, "/m-", "ours", options).unwrap();
    let path = within(node.wait_present()).await.unwrap();
    assert!(path.starts_with("/_c_"), "{path}");
}

// "[`Error::InvalidArgument`]: the data are larger than … readers decompress if the client compresses."
#[tokio::test]
async fn a_payload_that_readers_would_not_decompress_is_refused() {
    let server = empty_server().await;
    let client = builder().enable_compression().connect(&server.connect_string()).await.unwrap();
    let group = Group::new(&client, "/g").unwrap();
    let refused = |error: &Error| matches!(error, Error::InvalidArgument { .. });
    assert!(refused(&within(group.join("a", vec![7; 2 << 20])).await.unwrap_err()));
    let member = within(group.join("a", vec![7; 1 << 20])).await.unwrap();
    assert!(refused(&within(member.set_payload(vec![8; 2 << 20])).await.unwrap_err()));
    let members = within(group.members()).await.unwrap();
    assert_eq!(members.get("a").unwrap().payload(), Some(&[7; 1 << 20][..]));
}

// "[`Error::InvalidArgument`]: the data are larger than the servers accept": what is accepted can be created.
#[tokio::test]
async fn the_largest_data_are_kept() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    for mode in [NodeMode::Ephemeral, NodeMode::EphemeralSequential, NodeMode::Persistent] {
        let options = || PersistentNodeOptions::new().mode(mode);
        let (mut fits, mut too_large) = (0, 2 << 20);
        while too_large - fits > 1 {
            let middle = (fits + too_large) / 2;
            // On another path each time: a client keeps one node at a path.
            match PersistentNode::start(
                &Client::connect_lazily("127.0.0.1:1").unwrap(),
                PATH,
                vec![7; middle],
                options(),
            ) {
                Ok(_) => fits = middle,
                Err(_) => too_large = middle,
            }
        }
        let node = PersistentNode::start(&client, PATH, vec![7; fits], options()).unwrap();
        let path = within(node.wait_present()).await.unwrap();
        assert_eq!(zookeeper.get_data(&path).await.unwrap().0.len(), fits);
        within(node.set_data(vec![8; fits])).await.unwrap();
        within(node.close()).await.unwrap();
    }
}

// "Set whether missing parents are created": on a chroot, below a namespace.
#[tokio::test]
async fn below_a_chroot_and_a_namespace() {
    let (server, zookeeper) = server_and_bystander().await;
    zookeeper.mkdir("/ch/root", &anyone(CreateMode::Persistent)).await.unwrap();
    let client =
        builder().namespace("n/s").connect(&format!("{}/ch/root", server.connect_string())).await.unwrap();
    let group = Group::new(&client, "/g").unwrap();
    let member = within(group.join("a", "1")).await.unwrap();
    assert!(zookeeper.check_stat("/ch/root/n/s/g/a").await.unwrap().is_some());
    assert_eq!(within(group.members()).await.unwrap().len(), 1);
    let options = PersistentNodeOptions::new().mode(NodeMode::EphemeralSequential);
    let node = PersistentNode::start(&client, "/s/m-", "ours", options).unwrap();
    let path = within(node.wait_present()).await.unwrap();
    zookeeper.delete(&format!("/ch/root{path}"), None).await.unwrap();
    queue_of(&zookeeper, "/ch/root/n/s/s", 1).await;
    within(node.close()).await.unwrap();
    within(member.leave()).await.unwrap();
    assert!(children(&zookeeper, "/ch/root/n/s/s").await.is_empty());
}
