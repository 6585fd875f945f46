//! The end of a kept node, in bad weather.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::*;

// "Deletes the node, if it is there and ours": someone else has written right before a write, and the look after it was lost.
#[tokio::test]
async fn close_after_a_forestalled_write_and_a_lost_look_leaves_no_persistent_node() {
    let (_server, proxy, zookeeper) = server_proxy_and_bystander().await;
    make_parent(&zookeeper).await;
    let client = connect_through(&proxy).await;
    let node = present(&client, NodeMode::Persistent).await;
    let held = proxy.intercept(Request::Exists, Fate::HoldReply);
    assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
    within(held.happened()).await;
    zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
    let lost = proxy.intercept(Request::Exists, Fate::LoseReply);
    let closing = begun(node.close());
    held.release();
    within(lost.happened()).await;
    within(closing).await.unwrap();
    assert_eq!(data(&zookeeper, PATH).await, None);
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
    let builder = Client::builder().session_timeout(secs(10)).drop_timeout(Duration::ZERO);
    let builder = builder.auth("digest", "me:secret").connection_timeout(secs(3));
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let node = present(&client, NodeMode::Persistent).await;
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
        eventually("it is deleted", async || data(&zookeeper, PATH).await.is_none().then_some(())).await;
    }
}

// The create found someone else's node, but the reply that says so was lost.
#[tokio::test]
async fn close_after_a_lost_create_leaves_a_strangers_persistent_node_alone() {
    let (_server, proxy, zookeeper) = server_proxy_and_bystander().await;
    make_parent(&zookeeper).await;
    let persistent = anyone(CreateMode::Persistent);
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
