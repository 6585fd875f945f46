//! The end of a kept node, in bad weather.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use zk_recipes::nodes::{NodeMode, NodeState, PersistentNode};
use zk_recipes::testing::{Fate, FaultProxy, Request};
use zk_recipes::{Client, Error, RetryPolicy};
use zookeeper_client as zk;

use super::{PATH, anyone, data, make_parent, start};
use crate::support::*;

// "Deletes the node, if it is there and ours, and waits until it is gone".
#[tokio::test]
async fn close_after_a_lost_write_leaves_nothing() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let client = connect_through(&proxy).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
    within(lost.happened()).await;
    within(node.close()).await.unwrap();
    // The client and its session live on.
    within(client.zookeeper()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(data(&zookeeper, PATH).await, None);
}

/// Closes a persistent node while the first reply to such a request is lost.
async fn close_after_a_lost_reply_to(request: Request) {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    make_parent(&zookeeper).await;
    let client = connect_through(&proxy).await;
    let lost = proxy.intercept(request, Fate::LoseReply);
    let node = start(&client, NodeMode::Persistent);
    within(lost.happened()).await;
    within(node.close()).await.unwrap();
    within(client.zookeeper()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(data(&zookeeper, PATH).await, None);
}

// "Deletes the node, if it is there and ours, and waits until it is gone".
#[tokio::test]
async fn close_after_a_lost_create_leaves_no_persistent_node() {
    close_after_a_lost_reply_to(Request::Create).await;
}

// The same where the create was answered, but not the look.
#[tokio::test]
async fn close_after_a_lost_look_leaves_no_persistent_node() {
    close_after_a_lost_reply_to(Request::Exists).await;
}

// The create found someone else's node, but the reply that says so was lost.
#[tokio::test]
async fn close_after_a_lost_create_leaves_a_strangers_persistent_node_alone() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    make_parent(&zookeeper).await;
    let persistent = anyone(zk::CreateMode::Persistent);
    for (theirs, is_written_to) in [("theirs", false), ("ours", true)] {
        zookeeper.create(PATH, theirs.as_bytes(), &persistent).await.unwrap();
        if is_written_to {
            zookeeper.set_data(PATH, theirs.as_bytes(), None).await.unwrap();
        }
        let client = connect_through(&proxy).await;
        let lost = proxy.intercept(Request::Create, Fate::LoseReply);
        let node = start(&client, NodeMode::Persistent);
        within(lost.happened()).await;
        within(node.close()).await.unwrap();
        assert_eq!(data(&zookeeper, PATH).await.as_deref(), Some(theirs));
        within(client.close()).await;
        zookeeper.delete(PATH, None).await.unwrap();
    }
}

/// A persistent node whose create has lost its reply, so long ago that it cannot be carried out late any more.
async fn once_in_doubt(proxy: &FaultProxy, zookeeper: &zk::Client) -> (Client, PersistentNode) {
    make_parent(zookeeper).await;
    let builder = Client::builder().session_timeout(Duration::from_secs(2)).drop_timeout(Duration::ZERO);
    let client = connected(builder, &proxy.connect_string()).await;
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let node = start(&client, NodeMode::Persistent);
    within(lost.happened()).await;
    within(node.wait_present()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    (client, node)
}

// "within two session timeouts, a node at the path counts as the one of that create".
#[tokio::test]
async fn close_long_after_a_lost_create_leaves_a_strangers_persistent_node_alone() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let (_client, node) = once_in_doubt(&proxy, &zookeeper).await;
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    zookeeper.delete(PATH, None).await.unwrap();
    zookeeper.create(PATH, b"ours", &anyone(zk::CreateMode::Persistent)).await.unwrap();
    let mut closing = Box::pin(node.close());
    assert!(poll_once(&mut closing).is_pending());
    proxy.refuse_connections(false).unwrap();
    within(closing).await.unwrap();
    assert_eq!(data(&zookeeper, PATH).await.as_deref(), Some("ours"));
}

// The same in the background: another process takes over at the same path, with the same data.
#[tokio::test]
async fn nothing_is_swept_up_long_after_a_lost_create() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let (_client, node) = once_in_doubt(&proxy, &zookeeper).await;
    within(node.close()).await.unwrap();
    zookeeper.create(PATH, b"ours", &anyone(zk::CreateMode::Persistent)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(data(&zookeeper, PATH).await.as_deref(), Some("ours"));
}

// "Deletes the node, if it is there and ours": someone else has written right before a write, and the look after it was lost.
#[tokio::test]
async fn close_after_a_forestalled_write_and_a_lost_look_leaves_no_persistent_node() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    make_parent(&zookeeper).await;
    let client = connect_through(&proxy).await;
    let node = start(&client, NodeMode::Persistent);
    within(node.wait_present()).await.unwrap();
    let held = proxy.intercept(Request::Exists, Fate::HoldReply);
    assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
    within(held.happened()).await;
    zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
    let lost = proxy.intercept(Request::Exists, Fate::LoseReply);
    let mut closing = Box::pin(node.close());
    assert!(poll_once(&mut closing).is_pending());
    held.release();
    within(lost.happened()).await;
    within(closing).await.unwrap();
    assert_eq!(data(&zookeeper, PATH).await, None);
}

// "Deletes the node, if it is there and ours, and waits until it is gone".
#[tokio::test]
async fn close_after_a_replacement_whose_look_was_lost_leaves_nothing() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let builder = Client::builder().session_timeout(Duration::from_secs(2)).drop_timeout(Duration::ZERO);
    let client = builder.connect(&proxy.connect_string()).await.unwrap();
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let old = session_id(&client).await;
    let alive = client.zookeeper().await.unwrap().into_session();
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    let keeper = zk::Client::connector().with_session(alive).connect(&server.connect_string()).await.unwrap();
    within(node.watch_state().wait_for(|state| *state == NodeState::Absent)).await.unwrap();
    let first = proxy.intercept(Request::Exists, Fate::HoldReply);
    proxy.refuse_connections(false).unwrap();
    within(first.happened()).await;
    let second = proxy.intercept(Request::Exists, Fate::HoldReply);
    first.release();
    within(second.happened()).await;
    let third = proxy.intercept(Request::Exists, Fate::LoseReply);
    second.release();
    within(third.happened()).await;
    eventually("it was replaced", async || {
        let stat = zookeeper.check_stat(PATH).await.unwrap()?;
        (stat.ephemeral_owner != old).then_some(())
    })
    .await;
    within(node.close()).await.unwrap();
    within(client.zookeeper()).await.unwrap();
    let session = session_id(&client).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(session_id(&client).await, session, "the machine was too slow");
    assert_eq!(data(&zookeeper, PATH).await, None);
    drop(keeper);
}

// "Dropping the value does the same in the background": it deletes the node.
#[tokio::test]
async fn a_persistent_node_dropped_in_an_outage_is_deleted_after_it() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let builder = Client::builder().session_timeout(Duration::from_secs(2)).drop_timeout(Duration::ZERO);
    let builder = builder
        .connection_timeout(Duration::from_secs(1))
        .retry_policy(RetryPolicy::n_times(0, Duration::ZERO));
    let client = connected(builder, &proxy.connect_string()).await;
    let node = start(&client, NodeMode::Persistent);
    within(node.wait_present()).await.unwrap();
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    within(client.watch_connection().wait_for(|state| !state.is_connected())).await.unwrap();
    // Longer than the session.
    tokio::time::sleep(Duration::from_secs(4)).await;
    drop(node);
    tokio::time::sleep(Duration::from_secs(3)).await;
    proxy.refuse_connections(false).unwrap();
    eventually("it is deleted", async || data(&zookeeper, PATH).await.is_none().then_some(())).await;
}

/// Reads a packet of ZooKeeper's protocol.
async fn packet(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut body = vec![0; from.read_u32().await? as usize];
    from.read_exact(&mut body).await?;
    Ok(body)
}

/// Takes the session of a client, and refuses its authentication.
async fn refuse(mut client: TcpStream) -> io::Result<()> {
    let connect = packet(&mut client).await?;
    let (timeout, session) = (&connect[12..16], &connect[16..24]);
    let session = if session == [0; 8] { &[1; 8] } else { session };
    let version = [0; 4];
    let (password, is_read_only) = ([[0, 0, 0, 16].as_slice(), &[7; 16]].concat(), [0]);
    let reply = [version.as_slice(), timeout, session, &password, &is_read_only].concat();
    client.write_u32(37).await?;
    client.write_all(&reply).await?;
    loop {
        let request = packet(&mut client).await?;
        let (xid, kind) = (&request[..4], &request[4..8]);
        if kind == 100_i32.to_be_bytes() {
            client.write_u32(16).await?;
            client.write_all(&[xid, &[0; 8], &(-115_i32).to_be_bytes()].concat()).await?;
        }
    }
}

/// A server that refuses every authentication until it is aborted.
async fn refuse_authentication(port: u16) -> JoinHandle<()> {
    let listener = eventually("the port is free", async || {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], port).into()).ok()?;
        socket.listen(16).ok()
    })
    .await;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(refuse(client));
        }
    })
}

// "tried again in the background for as long as the client lives", which outlasts servers that refuse it for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_node_closed_while_authentication_is_refused_is_deleted_after_that() {
    let mut server = lasting_server().await;
    let builder = Client::builder().session_timeout(Duration::from_secs(10)).drop_timeout(Duration::ZERO);
    let builder = builder.auth("digest", "me:secret").connection_timeout(Duration::from_secs(3));
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let node = start(&client, NodeMode::Persistent);
    within(node.wait_present()).await.unwrap();
    server.stop().await.unwrap();
    let refusing = refuse_authentication(server.port()).await;
    eventually("it is refused", async || {
        matches!(client.wait_connected().await, Err(Error::AuthFailed { .. })).then_some(())
    })
    .await;
    let closed = within(node.close()).await;
    assert!(matches!(closed, Err(Error::AuthFailed { .. } | Error::NotConnected { .. })), "{closed:?}");
    refusing.abort();
    let _ = refusing.await;
    server.restart().await.unwrap();
    let zookeeper = bystander(&server).await;
    eventually("it is deleted", async || data(&zookeeper, PATH).await.is_none().then_some(())).await;
}

// "[`Error::NotConnected`]: a node of [`NodeMode::Persistent`] could not be deleted under the retry policy."
#[tokio::test]
async fn close_of_a_persistent_node_in_an_outage_ends_under_the_retry_policy() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let builder = Client::builder().session_timeout(Duration::from_secs(40)).drop_timeout(Duration::ZERO);
    let builder = builder
        .connection_timeout(Duration::from_secs(1))
        .retry_policy(RetryPolicy::one_time(Duration::from_millis(100)));
    let client = connected(builder, &proxy.connect_string()).await;
    let node = start(&client, NodeMode::Persistent);
    within(node.wait_present()).await.unwrap();
    let session = session_id(&client).await;
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    let closed = within(node.close()).await;
    assert!(matches!(closed, Err(Error::NotConnected { .. })), "{closed:?}");
    proxy.refuse_connections(false).unwrap();
    eventually("it is deleted", async || data(&zookeeper, PATH).await.is_none().then_some(())).await;
    assert_eq!(session_id(&client).await, session, "the outage was shorter than the session");
}

// "Deletes the node, … and waits until it is gone: two round trips, or until its session has ended." (The reply to the create
// of a numbered node was lost, so its name is not known.)
#[tokio::test]
async fn close_of_a_numbered_node_in_an_outage_waits_for_its_session() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    make_parent(&zookeeper).await;
    for is_short in [false, true] {
        let builder = Client::builder().session_timeout(Duration::from_secs(10)).drop_timeout(Duration::ZERO);
        let builder = builder
            .connection_timeout(Duration::from_secs(1))
            .retry_policy(RetryPolicy::n_times(0, Duration::ZERO));
        let client = connected(builder, &proxy.connect_string()).await;
        let lost = proxy.intercept(Request::Create, Fate::LoseReply);
        let node = start(&client, NodeMode::EphemeralSequential);
        within(lost.happened()).await;
        proxy.refuse_connections(true).unwrap();
        let mut closing = Box::pin(node.close());
        if is_short {
            assert!(tokio::time::timeout(Duration::from_secs(3), &mut closing).await.is_err());
            proxy.refuse_connections(false).unwrap();
        }
        assert_eq!(within(closing).await, Ok(()));
        proxy.refuse_connections(false).unwrap();
        queue_of(&zookeeper, "/kept", 0).await;
    }
}

// "A node that exists as long as this value lives", and the second value lives.
#[tokio::test]
async fn what_sweeps_up_after_one_value_spares_the_next() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    make_parent(&zookeeper).await;
    let builder = Client::builder().session_timeout(Duration::from_secs(3)).drop_timeout(Duration::ZERO);
    let client = builder.connect(&proxy.connect_string()).await.unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let node = start(&client, NodeMode::Ephemeral);
    within(lost.happened()).await;
    within(node.wait_present()).await.unwrap();
    within(node.close()).await.unwrap();
    let next = start(&client, NodeMode::Ephemeral);
    within(next.wait_present()).await.unwrap();
    let session = session_id(&client).await;
    let before = zookeeper.check_stat(PATH).await.unwrap().unwrap();
    assert_eq!(before.ephemeral_owner, session);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(session_id(&client).await, session, "the machine was too slow");
    let after = zookeeper.check_stat(PATH).await.unwrap();
    assert_eq!(after.map(|stat| stat.czxid), Some(before.czxid), "no one else has deleted it");
}

// "Deletes the node, if it is there and ours, and waits until it is gone: a round trip"; "Someone who goes on deleting or
// writing is not fought".
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn close_is_not_held_up_by_someone_who_writes() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let mut writing = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let writer = bystander(&server).await;
        writing.spawn(async move {
            use futures_util::stream::{FuturesUnordered, StreamExt};
            let mut writes = FuturesUnordered::new();
            for _ in 0..64 {
                writes.push(writer.set_data(PATH, b"theirs", None));
            }
            while let Some(Ok(_)) = writes.next().await {
                writes.push(writer.set_data(PATH, b"theirs", None));
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.take_requests();
    let closed = tokio::time::timeout(Duration::from_secs(30), node.close()).await;
    let requests = proxy.take_requests().len();
    writing.abort_all();
    assert!(closed.is_ok() && requests < 100, "closed: {}, {requests} requests", closed.is_ok());
}

/// A session of the caller's own, and a client on it.
async fn adopted(server: &Server) -> (zk::Client, Client) {
    let zookeeper = bystander(server).await;
    let client = Client::from_zookeeper(zookeeper.clone()).unwrap();
    (zookeeper, client)
}

// "Deletes the node … Dropping the value does the same in the background."; "the client was closed, with whose session an
// ephemeral node goes"; of `Client::close`: "An adopted session stays open: what guards still hold on it is released when
// they are dropped."
#[tokio::test]
async fn a_node_of_an_adopted_session_goes_with_its_value() {
    let server = empty_server().await;
    let (zookeeper, client) = adopted(&server).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    within(client.close()).await;
    drop((node, client));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(data(&zookeeper, PATH).await, None);
}

#[tokio::test]
async fn a_dropped_node_of_an_adopted_session_goes_when_the_client_is_closed() {
    let server = empty_server().await;
    let (zookeeper, client) = adopted(&server).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    drop(node);
    within(client.close()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(data(&zookeeper, PATH).await, None);
}

// "Closing the client deletes it as well."
#[tokio::test]
async fn a_dropped_persistent_node_goes_before_its_client() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    for close in [true, false] {
        let client = connect(&server).await;
        let node = start(&client, NodeMode::Persistent);
        within(node.wait_present()).await.unwrap();
        drop(node);
        if close {
            within(client.close()).await;
        } else {
            drop(client);
        }
        eventually("it is deleted", async || data(&zookeeper, PATH).await.is_none().then_some(())).await;
    }
}
