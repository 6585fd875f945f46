//! Shows each fault that `FaultProxy` makes, to real clients of a real server, and to plain sockets what TCP tells.

mod interceptions;

use std::fmt::Debug;
use std::io::ErrorKind;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use crate::support::prelude::*;

/// Long enough that no client notices a black hole by itself.
const SESSION: Duration = secs(60);
/// What must not happen would happen within this time.
const SILENCE: Duration = ms(150);
/// Longer than any test.
const AGES: Duration = secs(3600);

async fn connect(proxy: &FaultProxy) -> zk::Client {
    let connector = zk::Client::connector().with_session_timeout(SESSION);
    within(connector.connect(&proxy.connect_string())).await.unwrap()
}

/// A server, a proxy before it, a client through the proxy, and one beside it.
async fn scene() -> (PooledServer, FaultProxy, zk::Client, zk::Client) {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let (client, bystander) = (connect(&proxy).await, bystander(&server).await);
    (server, proxy, client, bystander)
}

async fn create(client: &zk::Client, path: &str) -> Result<(), zk::Error> {
    within(client.create(path, b"", &anyone(CreateMode::Persistent))).await.map(|_| ())
}

fn creating(client: &zk::Client, path: &'static str) -> JoinHandle<Result<(), zk::Error>> {
    let client = client.clone();
    tokio::spawn(async move { create(&client, path).await })
}

async fn exists(client: &zk::Client, path: &str) -> bool {
    client.check_stat(path).await.unwrap().is_some()
}

/// Perhaps so soon that nobody sees it disconnected.
async fn reconnected(states: &mut zk::StateWatcher) {
    while within(states.changed()).await != zk::SessionState::SyncConnected {}
}

/// Sees that nothing comes.
async fn silent<T: Debug>(what: impl Future<Output = T>) {
    if let Ok(heard) = timeout(SILENCE, what).await {
        panic!("there was silence to be, but {heard:?}");
    }
}

/// A proxy before a socket.
async fn before_a_socket() -> (FaultProxy, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap().to_string()).await.unwrap();
    (proxy, listener)
}

/// Both ends of a connection, the client's first.
async fn both_ends(proxy: &FaultProxy, listener: &TcpListener) -> [TcpStream; 2] {
    let client = TcpStream::connect(proxy.connect_string()).await.unwrap();
    let (server, _) = within(listener.accept()).await.unwrap();
    [client, server]
}

/// What comes until the end.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    within(stream.read_to_end(&mut rest)).await.unwrap();
    rest
}

/// A closed connection may end with an error, if it was not read to the end.
async fn ended(mut stream: TcpStream) {
    assert!(matches!(within(stream.read(&mut [0])).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn streams_are_its_connections() {
    let proxy = FaultProxy::start("127.0.0.1:1").await.unwrap();
    let streams = || {
        let ((client, near), (far, server)) = (duplex(64), duplex(64));
        tokio::spawn(proxy.serve(near, far));
        (client, server)
    };
    let mut word = [0; 4];
    let (mut client, mut server) = streams();
    client.write_all(b"ruok").await.unwrap();
    within(server.read_exact(&mut word)).await.unwrap();
    assert_eq!((&word, proxy.connections().len()), (b"ruok", 1));
    proxy.cut();
    assert_eq!(within(client.read(&mut word)).await.unwrap(), 0);
    proxy.refuse_connections(true).unwrap();
    let (mut client, _server) = streams();
    assert_eq!(within(client.read(&mut word)).await.unwrap(), 0, "it refuses");
    proxy.refuse_connections(false).unwrap();
    let (mut client, mut server) = streams();
    client.write_all(b"ruok").await.unwrap();
    within(server.read_exact(&mut word)).await.unwrap();
    drop(proxy);
    assert_eq!(within(client.read(&mut word)).await.unwrap(), 0, "it is gone");
}

#[tokio::test]
async fn a_black_hole_to_the_server_holds_requests_while_the_server_is_heard() {
    let (_server, proxy, client, bystander) = scene().await;
    create(&bystander, "/watched").await.unwrap();
    let (_, _, watcher) = client.get_and_watch_data("/watched").await.unwrap();
    let replies = proxy.replies_seen();
    proxy.take_requests();

    proxy.set_traffic(Traffic::black_hole_to_server());
    let held = creating(&client, "/held");
    until("it is sent", || proxy.requests_seen() == 1).await;
    bystander.set_data("/watched", b"new", None).await.unwrap();
    assert_eq!(within(watcher.changed()).await.event_type, zk::EventType::NodeDataChanged);
    create(&bystander, "/held").await.expect("it has not come to the server");
    assert_eq!(proxy.replies_seen(), replies, "a notification is no reply");

    proxy.set_traffic(Traffic::pass());
    assert_eq!(within(held).await.unwrap(), Err(zk::Error::NodeExists), "it has come after the other");
    assert_eq!(proxy.replies_seen(), replies + 1);
    assert_eq!(proxy.take_requests(), [Request::Create]);
}

#[tokio::test]
async fn a_black_hole_to_the_client_holds_replies_while_the_client_is_heard() {
    let (_server, proxy, client, bystander) = scene().await;
    let replies = proxy.replies_seen();
    proxy.set_traffic(Traffic::black_hole_to_client());
    let mut creating = creating(&client, "/a");
    eventually("it is there", || async { exists(&bystander, "/a").await.then_some(()) }).await;
    until("it is replied", || proxy.replies_seen() == replies + 1).await;
    silent(&mut creating).await;
    proxy.set_traffic(Traffic::pass());
    within(creating).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_black_hole_hides_that_the_server_is_gone() {
    let (mut server, proxy, client, _bystander) = scene().await;
    let mut states = client.state_watcher();
    proxy.set_traffic(Traffic::black_hole());
    server.kill().await.unwrap();
    silent(states.changed()).await;
    assert_eq!(proxy.connections().len(), 1, "only one side has closed");
    proxy.set_traffic(Traffic::pass());
    assert_eq!(within(states.changed()).await, zk::SessionState::Disconnected);
    server.restart().await.unwrap();
    assert_eq!(within(states.changed()).await, zk::SessionState::SyncConnected);
}

#[tokio::test]
async fn a_client_that_connects_in_a_black_hole_waits() {
    let (_server, proxy, client, _bystander) = scene().await;
    // Kept: their connections are counted.
    let mut clients = vec![client];
    for hole in [Traffic::black_hole(), Traffic::black_hole_to_server(), Traffic::black_hole_to_client()] {
        proxy.set_traffic(hole);
        let mut connecting = Box::pin(connect(&proxy));
        silent(&mut connecting).await;
        assert_eq!(proxy.connections().len(), clients.len() + 1, "it is accepted, and tries no other time");
        proxy.set_traffic(Traffic::pass());
        clients.push(connecting.await);
    }
}

#[tokio::test]
async fn neither_side_hears_of_the_other_in_a_black_hole_until_it_is_over() {
    let (proxy, listener) = before_a_socket().await;
    for closing in [0, 1] {
        let hole = [Traffic::black_hole_to_server(), Traffic::black_hole_to_client()][closing];
        for hole in [hole, Traffic::black_hole()] {
            let [mut closed, mut other] = both_ends(&proxy, &listener).await;
            if closing == 1 {
                std::mem::swap(&mut closed, &mut other);
            }
            proxy.set_traffic(hole);
            closed.write_all(b"last words").await.unwrap();
            drop(closed);
            silent(other.read(&mut [0])).await;
            proxy.set_traffic(Traffic::pass());
            assert_eq!(rest(&mut other).await, b"last words");
            drop(other);
            eventually("both have closed", || async { proxy.connections().is_empty().then_some(()) }).await;
        }
    }
}

#[tokio::test]
async fn a_reset_and_a_refusal_are_not_heard_in_a_black_hole_either() {
    let (proxy, listener) = before_a_socket().await;
    let [client, mut server] = both_ends(&proxy, &listener).await;
    server.write_all(b"unread").await.unwrap();
    within(client.readable()).await.unwrap();
    proxy.set_traffic(Traffic::black_hole());
    // With something unread: that makes it a reset.
    drop(client);
    silent(server.read(&mut [0])).await;
    proxy.set_traffic(Traffic::pass());
    ended(server).await;

    drop(listener);
    for hole in [Traffic::black_hole(), Traffic::black_hole_to_client()] {
        proxy.set_traffic(hole);
        let mut client = TcpStream::connect(proxy.connect_string()).await.unwrap();
        silent(client.read(&mut [0])).await;
        proxy.set_traffic(Traffic::pass());
        ended(client).await;
    }
}

#[tokio::test]
async fn a_server_hears_of_a_new_client_only_when_it_is_not_in_a_black_hole() {
    let (proxy, listener) = before_a_socket().await;
    proxy.set_traffic(Traffic::black_hole_to_server());
    let mut client = TcpStream::connect(proxy.connect_string()).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    client.shutdown().await.unwrap();
    silent(listener.accept()).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let (mut server, _) = within(listener.accept()).await.unwrap();
    assert_eq!(rest(&mut server).await, b"hello");
    server.write_all(b"goodbye").await.unwrap();
    drop(server);
    silent(client.read(&mut [0])).await;
    proxy.set_traffic(Traffic::pass());
    assert_eq!(rest(&mut client).await, b"goodbye");
}

#[tokio::test]
async fn a_delay_is_that_of_a_direction_and_passes_on_many_requests_at_once() {
    const DELAY: Duration = ms(100);
    let (_server, proxy, client, _) = scene().await;
    for (traffic, round_trip) in [
        (Traffic::pass().delay(DELAY), 2 * DELAY),
        (Traffic::pass().delay_to_server(DELAY), DELAY),
        (Traffic::pass().delay_to_client(DELAY), DELAY),
    ] {
        proxy.set_traffic(traffic);
        let start = Instant::now();
        let requests = (0..100).map(|_| client.get_data("/zookeeper"));
        within(join_all(requests)).await.into_iter().for_each(|reply| _ = reply.unwrap());
        assert!(start.elapsed() >= round_trip, "{:?} for {traffic:?}", start.elapsed());
        // One by one it would be ten seconds at least.
        assert!(start.elapsed() < 50 * round_trip, "{:?} for {traffic:?}", start.elapsed());
    }
}

#[tokio::test]
async fn what_is_on_its_way_fares_as_the_traffic_does_now() {
    let (_server, proxy, client, bystander) = scene().await;
    for slow in
        [Traffic::pass().delay(AGES), Traffic::pass().bandwidth(1), Traffic::pass().delay(Duration::MAX)]
    {
        proxy.set_traffic(slow);
        let on_its_way = creating(&client, "/a");
        until("it is sent", || proxy.take_requests() == [Request::Create]).await;
        create(&bystander, "/a").await.expect("it has not come yet");
        proxy.set_traffic(Traffic::pass());
        assert_eq!(within(on_its_way).await.unwrap(), Err(zk::Error::NodeExists));
        bystander.delete("/a", None).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_held_in_a_black_hole_is_then_on_its_way_as_long_as_anything() {
    const DELAY: Duration = ms(200);
    let (_server, proxy, client, _) = scene().await;
    proxy.set_traffic(Traffic::black_hole());
    let requests = proxy.requests_seen();
    let creating = creating(&client, "/a");
    until("it is sent", || proxy.requests_seen() > requests).await;
    // By now it would have arrived.
    tokio::time::sleep(DELAY).await;
    let start = Instant::now();
    proxy.set_traffic(Traffic::pass().delay_to_server(DELAY));
    within(creating).await.unwrap().unwrap();
    assert!(start.elapsed() >= DELAY, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_bandwidth_is_shared_by_all_that_a_connection_sends() {
    let (_server, proxy, client, bystander) = scene().await;
    create(&bystander, "/a").await.unwrap();
    proxy.set_traffic(Traffic::pass().bandwidth(50_000));
    let start = Instant::now();
    let data = [7; 10_000];
    let writes = within(join_all((0..3).map(|_| client.set_data("/a", &data, None)))).await;
    assert!(writes.into_iter().all(|written| written.is_ok()));
    assert!(start.elapsed() >= ms(600), "30 kB to the server in {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(within(client.get_data("/a")).await.unwrap().0, data);
    assert!(start.elapsed() >= ms(200), "10 kB to the client in {:?}", start.elapsed());
}

#[test]
#[should_panic(expected = "use `Traffic::black_hole`")]
fn no_bandwidth_at_all_is_refused() {
    let _ = Traffic::pass().bandwidth(0);
}
