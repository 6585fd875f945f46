//! What a server in memory does when it is stopped, when time passes, and when clients misbehave.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use zk_recipes::testing::{MemoryServer, MemoryServerBuilder};

use crate::memory::operation::{CREATE, CREATE_CONTAINER, CREATE_TTL, EXISTS, GET_DATA};
use crate::memory::wire::{self, Body, Event, Welcome, Wire};
use crate::support::BOUND;

const DELETED: i32 = 2;

const PERSISTENT: i32 = 0;
const EPHEMERAL: i32 = 1;
const CONTAINER: i32 = 4;
const TTL: i32 = 5;

fn connect(server: &MemoryServer, timeout: i32) -> (Wire, Welcome) {
    Wire::connect(&server.connect_string(), timeout, 0, &[0; 16], 0).expect("a session")
}

fn create(wire: &mut Wire, code: i32, path: &str, flags: i32, ttl: Option<i64>) -> i32 {
    let body = ttl.into_iter().fold(wire::create(path, flags), Body::long);
    wire.call(code, &body.0).1.expect("a reply").error
}

fn watch(wire: &mut Wire, path: &str) -> i32 {
    wire.call(EXISTS, &Body::default().text(path).bool(true).0).1.expect("a reply").error
}

/// Waits for the event that a node was deleted, and keeps the session meanwhile.
fn wait_for_deletion(wire: &mut Wire, path: &str) {
    let started = Instant::now();
    loop {
        match &wire.events()[..] {
            [] => std::thread::sleep(Duration::from_millis(1)),
            [Event { kind: DELETED, path: deleted, .. }] if deleted == path => return,
            events => panic!("{events:?}"),
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{path} is still there");
    }
}

fn quick() -> MemoryServerBuilder {
    MemoryServer::builder()
        .tick_time(Duration::from_millis(10))
        .container_check_interval(Duration::from_millis(5))
        .ttl_nodes(true)
}

#[test]
fn it_starts_at_once_and_is_gone_when_dropped() {
    let started = Instant::now();
    let server = MemoryServer::start().unwrap();
    let (mut wire, Welcome { session, password, .. }) = connect(&server, 10_000);
    let took = started.elapsed();
    eprintln!("ready, and a session, after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let address = server.connect_string();
    drop(server);
    assert!(wire.receive().is_none());
    match TcpStream::connect(&address) {
        Err(refused) => assert_eq!(refused.kind(), ErrorKind::ConnectionRefused),
        // Another server has got the port since; it does not know the session.
        Ok(_) => {
            let resumed = Wire::connect(&address, 10_000, session, &password, 0);
            assert!(resumed.is_none_or(|(_, refusal)| refusal.session == 0));
        }
    }
}

#[test]
fn a_silent_session_ends_with_its_nodes_after_its_timeout() {
    let server = quick().start().unwrap();
    let (mut silent, Welcome { timeout, session, password }) = connect(&server, 1_000);
    assert_eq!(timeout, 1_000);
    let (mut watcher, _) = connect(&server, 10_000);
    let since = Instant::now();
    assert_eq!(create(&mut silent, CREATE, "/ephemeral", EPHEMERAL, None), 0);
    assert_eq!(watch(&mut watcher, "/ephemeral"), 0);
    wait_for_deletion(&mut watcher, "/ephemeral");
    let lasted = since.elapsed();
    assert!(lasted >= Duration::from_secs(1), "{lasted:?}");
    assert!(silent.receive().is_none(), "its connection is closed");

    let resumed = Wire::connect(&server.connect_string(), 1_000, session, &password, 0);
    let (mut wire, refusal) = resumed.expect("an answer");
    assert_eq!((refusal.timeout, refusal.session), (0, 0));
    assert!(wire.receive().is_none());
    let unknown = block_on(server.kill_session(session)).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

#[test]
fn timeouts_are_within_bounds() {
    let server = MemoryServer::start().unwrap();
    for (asked, granted) in [(1, 200), (-1, 200), (700, 700), (i32::MAX, 60_000)] {
        assert_eq!(connect(&server, asked).1.timeout, granted);
    }
    let bounds = (Duration::from_secs(3), Duration::from_secs(4));
    let server = MemoryServer::builder().session_timeout_bounds(bounds.0, bounds.1).start().unwrap();
    assert_eq!(connect(&server, 1).1.timeout, 3_000);
    let error = MemoryServer::builder().tick_time(Duration::ZERO).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn containers_and_nodes_with_a_time_to_live_are_removed() {
    let server = quick().start().unwrap();
    let (mut wire, _) = connect(&server, 10_000);
    assert_eq!(create(&mut wire, CREATE_CONTAINER, "/container", CONTAINER, None), 0);
    assert_eq!(create(&mut wire, CREATE_TTL, "/container/timed", TTL, Some(1_000)), 0);
    assert_eq!(watch(&mut wire, "/container"), 0);
    wait_for_deletion(&mut wire, "/container");
    let (_, timed) = wire.call(EXISTS, &Body::default().text("/container/timed").bool(false).0);
    assert_eq!(timed.unwrap().error, -101);

    let plain = MemoryServer::start().unwrap();
    let (mut wire, _) = connect(&plain, 10_000);
    assert_eq!(
        create(&mut wire, CREATE_TTL, "/timed", TTL, Some(30)),
        -6,
        "not enabled, as on a real server"
    );
}

#[test]
fn nodes_and_sessions_outlive_a_restart_and_a_dropped_connection() {
    let mut server = MemoryServer::start().unwrap();
    let (mut wire, Welcome { session, password, .. }) = connect(&server, 10_000);
    assert_eq!(create(&mut wire, CREATE, "/ephemeral", EPHEMERAL, None), 0);
    for round in 0..2 {
        if round == 0 {
            server.drop_connections();
        } else {
            block_on(server.stop()).unwrap();
            // For a moment, a process that another test starts has the sockets of this one.
            let start = Instant::now();
            let refused = loop {
                match TcpStream::connect(server.connect_string()) {
                    Ok(_) => assert!(start.elapsed() < BOUND, "it can be connected to"),
                    Err(refused) => break refused,
                }
            };
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let refused = block_on(server.watch_count()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            assert_eq!(server.pause().unwrap_err().kind(), ErrorKind::NotConnected);
            block_on(server.restart()).unwrap();
        }
        assert!(wire.receive().is_none());
        let resumed = Wire::connect(&server.connect_string(), 10_000, session, &password, 0).unwrap();
        assert_eq!(resumed.1.session, session);
        wire = resumed.0;
        assert_eq!(watch(&mut wire, "/ephemeral"), 0);
    }
}

#[test]
fn a_restart_waits_for_its_port() {
    let mut server = MemoryServer::start().unwrap();
    block_on(server.stop()).unwrap();
    // As a process has it that is being started.
    let listener = TcpListener::bind(server.connect_string()).unwrap();
    let freeing = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        drop(listener);
    });
    block_on(server.restart()).unwrap();
    freeing.join().unwrap();
    connect(&server, 10_000);
}

#[test]
fn a_paused_server_is_silent() {
    let server = MemoryServer::start().unwrap();
    let (mut wire, Welcome { session, .. }) = connect(&server, 10_000);
    server.pause().unwrap();
    assert!(server.is_running());
    assert_eq!(block_on(server.kill_session(session)).unwrap_err().kind(), ErrorKind::TimedOut);
    let request = Body::default().int(1).int(EXISTS).text("/").bool(false);
    wire.send(&request.0);
    // The request has arrived by the time at which its reply would have.
    let mut late = TcpStream::connect(server.connect_string()).unwrap();
    late.write_all(b"ruok").unwrap();
    late.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(late.read(&mut [0; 4]).is_err(), "accepted by the system, and not answered");
    server.resume().unwrap();
    assert_eq!(wire.receive().unwrap()[..4], 1_i32.to_be_bytes());
}

#[test]
fn too_long_a_request_closes_the_connection() {
    let server = MemoryServer::builder().max_request_size(1_000).start().unwrap();
    let request = |length: usize| {
        let (mut wire, _) = connect(&server, 10_000);
        let body = Body::default().int(1).int(GET_DATA).text("/").bool(false);
        wire.send(&[&body.0[..], &vec![0; length - body.0.len()]].concat());
        wire.receive()
    };
    assert!(request(1_000).is_some());
    assert!(request(1_001).is_none());
}

#[test]
fn noise_does_not_end_the_server() {
    let server = MemoryServer::builder().max_request_size(10_000).start().unwrap();
    let mut random = fastrand::Rng::with_seed(4);
    let (mut witness, _) = connect(&server, 60_000);
    for round in 0..300 {
        let length = random.usize(..200);
        let noise: Vec<_> = (0..length).map(|_| random.u8(..) & random.u8(..) & random.u8(..)).collect();
        match round % 3 {
            0 => {
                let mut stream = TcpStream::connect(server.connect_string()).unwrap();
                let _ = stream.write_all(&noise);
            }
            1 => {
                let (mut wire, _) = connect(&server, 10_000);
                wire.send_raw(&noise);
            }
            _ => {
                let (mut wire, _) = connect(&server, 10_000);
                let operation = random.i32(-12..110);
                wire.send(&[&Body::default().int(1).int(operation).0[..], &noise].concat());
            }
        }
        assert_eq!(watch(&mut witness, "/"), 0);
    }
}

#[test]
fn words_are_answered_on_the_port_and_to_the_test() {
    let server = MemoryServer::start().unwrap();
    let mut stream = TcpStream::connect(server.connect_string()).unwrap();
    stream.write_all(b"ruok").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "imok");

    let (mut wire, Welcome { session, .. }) = connect(&server, 10_000);
    assert_eq!(create(&mut wire, CREATE, "/a", PERSISTENT, None), 0);
    assert_eq!(watch(&mut wire, "/a"), 0);
    assert_eq!(block_on(server.watch_count()).unwrap(), 1);
    assert_eq!(block_on(server.session_packets(session)).unwrap(), 3);
    let packets = block_on(server.packets_received()).unwrap();
    assert_eq!(block_on(server.packets_received()).unwrap(), packets + 1);
    assert_eq!(block_on(server.four_letter_word("nope")).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}
