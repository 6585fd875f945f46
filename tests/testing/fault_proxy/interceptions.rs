//! Requests and replies that are intercepted.

use super::*;

#[tokio::test]
async fn a_lost_request_does_not_come_to_the_server() {
    let (_server, proxy, client, bystander) = scene().await;
    create(&bystander, "/before").await.unwrap();
    proxy.take_requests();
    let lost = proxy.intercept(Request::Create, Fate::LoseRequest);
    // Its reply is lost with the connection, or not.
    let before = client.set_data("/before", b"new", None);
    assert_eq!(create(&client, "/a").await, Err(zk::Error::ConnectionLoss));
    within(lost.happened()).await;
    let _ = within(before).await;
    eventually("what was sent before arrives", || async {
        (bystander.get_data("/before").await.unwrap().0 == b"new").then_some(())
    })
    .await;
    create(&bystander, "/a").await.expect("it is not there");
    assert_eq!(proxy.take_requests(), [Request::SetData, Request::Create]);
    // Only that one.
    assert_eq!(create(&client, "/b").await, Ok(()));
}

#[tokio::test]
async fn a_lost_reply_is_to_a_request_that_the_server_has_executed() {
    let (_server, proxy, client, bystander) = scene().await;
    let mut states = client.state_watcher();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let creating = creating(&client, "/a");
    within(lost.happened()).await;
    assert!(exists(&bystander, "/a").await);
    assert_eq!(within(creating).await.unwrap(), Err(zk::Error::ConnectionLoss));
    reconnected(&mut states).await;
    assert_eq!(create(&client, "/b").await, Ok(()), "only that one");
}

#[tokio::test]
async fn a_held_reply_and_what_follows_come_when_they_are_released() {
    let (_server, proxy, client, bystander) = scene().await;
    let other = connect(&proxy).await;
    for drop_it in [false, true] {
        let held = proxy.intercept(Request::Create, Fate::HoldReply);
        let before = proxy.replies_seen();
        let mut creating = creating(&client, "/a");
        within(held.happened()).await;
        assert!(exists(&bystander, "/a").await);
        assert_eq!(proxy.replies_seen(), before + 1);
        let mut following = Box::pin(client.check_stat("/a"));
        until("what follows is replied", || proxy.replies_seen() == before + 2).await;
        silent(async {
            tokio::select! { _ = &mut creating => "creating", _ = &mut following => "following" }
        })
        .await;
        assert!(within(other.check_stat("/a")).await.unwrap().is_some(), "others are not held");
        if drop_it {
            drop(held)
        } else {
            held.release()
        }
        within(creating).await.unwrap().unwrap();
        assert!(within(following).await.unwrap().is_some());
        within(client.delete("/a", None)).await.unwrap();
    }
}

#[tokio::test]
async fn of_several_interceptions_each_has_a_request_unless_it_is_called_off() {
    let (_server, proxy, client, _) = scene().await;
    let called_off = proxy.intercept(Request::Create, Fate::LoseRequest);
    let first = proxy.intercept(Request::Create, Fate::LoseRequest);
    // By its opcode.
    let second = proxy.intercept(Request::Other(15), Fate::LoseReply);
    called_off.release();
    for lost in [first, second] {
        silent(lost.happened()).await;
        assert_eq!(create(&client, "/a").await, Err(zk::Error::ConnectionLoss));
        within(lost.happened()).await;
    }
    assert_eq!(create(&client, "/a").await, Err(zk::Error::NodeExists), "by the second");

    // Called off with the request at the server.
    proxy.set_traffic(Traffic::pass().delay_to_server(SILENCE));
    let sent = proxy.requests_seen();
    let called_off = proxy.intercept(Request::Create, Fate::LoseReply);
    let creating = creating(&client, "/b");
    until("it is sent", || proxy.requests_seen() > sent).await;
    drop(called_off);
    assert_eq!(within(creating).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn the_request_after_so_many_others_of_any_kind_is_intercepted() {
    let (_server, proxy, client, bystander) = scene().await;
    let lost = proxy.intercept_after(2, Fate::LoseRequest);
    let next = proxy.intercept(Request::Exists, Fate::LoseReply);
    assert_eq!(create(&client, "/a").await, Ok(()));
    // That another gets it does not keep it from being counted.
    assert_eq!(client.check_stat("/a").await, Err(zk::Error::ConnectionLoss));
    within(next.happened()).await;
    silent(lost.happened()).await;
    assert_eq!(create(&client, "/b").await, Err(zk::Error::ConnectionLoss));
    within(lost.happened()).await;
    assert!(!exists(&bystander, "/b").await);
    assert_eq!(create(&client, "/b").await, Ok(()));
}

#[tokio::test]
async fn an_interception_waits_for_another_request_if_the_connection_ends_before() {
    let (_server, proxy, client, bystander) = scene().await;
    for (fate, hole) in [
        (Fate::LoseReply, Traffic::black_hole_to_client()),
        (Fate::LoseRequest, Traffic::black_hole_to_server()),
    ] {
        // Connected again, if it was cut: the hole would hold its handshake.
        assert!(exists(&client, "/").await);
        let lost = proxy.intercept(Request::Create, fate);
        proxy.set_traffic(hole);
        let sent = proxy.requests_seen();
        let first = creating(&client, "/first");
        until("it is sent", || proxy.requests_seen() > sent).await;
        proxy.cut();
        proxy.set_traffic(Traffic::pass());
        assert_eq!(within(first).await.unwrap(), Err(zk::Error::ConnectionLoss));
        silent(lost.happened()).await;
        assert_eq!(create(&client, "/second").await, Err(zk::Error::ConnectionLoss));
        within(lost.happened()).await;
        assert_eq!(exists(&bystander, "/second").await, fate == Fate::LoseReply);
        if fate == Fate::LoseReply {
            bystander.delete("/second", None).await.unwrap();
        }
    }
}

#[tokio::test]
async fn refused_connections_disturb_no_present_one() {
    let (_server, proxy, client, _) = scene().await;
    proxy.refuse_connections(true).unwrap();
    proxy.refuse_connections(true).unwrap();
    let refused = TcpStream::connect(proxy.connect_string()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    create(&client, "/a").await.unwrap();
    let mut states = client.state_watcher();
    proxy.cut();
    assert_eq!(within(states.changed()).await, zk::SessionState::Disconnected);
    silent(states.changed()).await;
    proxy.refuse_connections(false).unwrap();
    proxy.refuse_connections(false).unwrap();
    assert_eq!(within(states.changed()).await, zk::SessionState::SyncConnected);
    create(&client, "/b").await.unwrap();
}

#[tokio::test]
async fn each_connection_has_its_own_faults() {
    let (_server, proxy, first, _) = scene().await;
    let second = connect(&proxy).await;
    let connections = proxy.connections();
    assert_eq!(connections.len(), 2);
    connections[0].set_traffic(Traffic::black_hole());
    let mut held = creating(&first, "/a");
    create(&second, "/b").await.unwrap();
    silent(&mut held).await;

    let mut states = [first.state_watcher(), second.state_watcher()];
    connections[1].cut();
    assert_eq!(proxy.connections().len(), 1);
    reconnected(&mut states[1]).await;
    silent(states[0].changed()).await;
    connections[1].set_traffic(Traffic::black_hole());
    create(&second, "/c").await.expect("it is another connection");

    proxy.set_traffic(Traffic::pass());
    within(held).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_cut_is_heard_on_both_sides_even_in_a_black_hole() {
    let (proxy, listener) = before_a_socket().await;
    let [mut client, server] = both_ends(&proxy, &listener).await;
    proxy.set_traffic(Traffic::black_hole());
    client.write_all(b"never heard").await.unwrap();
    proxy.cut();
    assert!(proxy.connections().is_empty());
    ended(client).await;
    ended(server).await;
    proxy.set_traffic(Traffic::pass());
    let [mut client, mut server] = both_ends(&proxy, &listener).await;
    client.write_all(b"hello").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut server).await, b"hello", "only that of its own connection");
}

#[tokio::test]
async fn a_dropped_proxy_closes_everything() {
    let (proxy, listener) = before_a_socket().await;
    let [client, server] = both_ends(&proxy, &listener).await;
    let address = proxy.connect_string();
    proxy.set_traffic(Traffic::black_hole());
    drop(proxy);
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    ended(client).await;
    ended(server).await;
}

#[tokio::test]
async fn a_server_may_be_away_for_a_while() {
    let (mut server, proxy, client, _) = scene().await;
    let mut states = client.state_watcher();
    server.kill().await.unwrap();
    assert_eq!(within(states.changed()).await, zk::SessionState::Disconnected);
    let alone = TcpStream::connect(proxy.connect_string()).await.unwrap();
    ended(alone).await;
    server.restart().await.unwrap();
    assert_eq!(within(states.changed()).await, zk::SessionState::SyncConnected);
    create(&client, "/a").await.unwrap();
}

#[tokio::test]
async fn requests_and_pings_are_counted_apart() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let connector = zk::Client::connector().with_session_timeout(secs(3));
    let client = connector.connect(&proxy.connect_string()).await.unwrap();
    let ping = async || {
        let pings = proxy.pings_seen();
        until("a ping", || proxy.pings_seen() > pings).await;
    };
    ping().await;
    ping().await;
    assert_eq!((proxy.take_requests(), proxy.replies_seen()), (vec![], 0));

    create(&client, "/a").await.unwrap();
    client.set_data("/a", b"", None).await.unwrap();
    client.get_data("/a").await.unwrap();
    client.list_children("/a").await.unwrap();
    client.get_children("/a").await.unwrap();
    client.sync("/a").await.unwrap();
    let (_, watcher) = client.check_and_watch_stat("/a").await.unwrap();
    drop(watcher);
    // Comes after what that sends.
    let mut changes = client.new_multi_writer();
    changes.add_delete("/a", None).unwrap();
    changes.commit().await.unwrap();
    let mut check = client.new_multi_writer();
    check.add_check_version("/", -1).unwrap();
    check.commit().await.unwrap();
    client.delete("/a", None).await.unwrap_err();
    client.get_acl("/").await.unwrap();
    use Request::*;
    let [first, then] = [
        [Create, SetData, GetData, GetChildren, GetChildren, Sync],
        [Exists, RemoveWatches, Multi, Confirm, Delete, Other(6)],
    ];
    let expected = [first, then].concat();
    assert_eq!(proxy.requests_seen(), expected.len());
    assert_eq!(proxy.replies_seen(), expected.len());
    assert_eq!(proxy.take_requests(), expected);
    assert_eq!(proxy.requests_seen(), 0);
}

#[tokio::test]
async fn what_is_not_understood_is_forwarded() {
    let (_server, proxy, ..) = scene().await;
    let mut stream = TcpStream::connect(proxy.connect_string()).await.unwrap();
    stream.write_all(b"ruok").await.unwrap();
    assert_eq!(rest(&mut stream).await, b"imok");
}
