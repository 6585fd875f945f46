//! What clients notice of three servers.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zk_recipes::testing::{MemoryEnsemble, MemoryEnsembleBuilder};

use super::client::{Client, EPHEMERAL, PERSISTENT, Refusal};
use crate::memory::operation::{CREATE, DELETE, GET_DATA};
use crate::memory::wire::{Body, Parts, Welcome, create};

const MS: Duration = Duration::from_millis(1);
const NO_NODE: i32 = -101;

fn builder() -> MemoryEnsembleBuilder {
    MemoryEnsemble::builder().seed(11)
}

/// Returns an ensemble, its leader, and its followers.
fn start(builder: MemoryEnsembleBuilder) -> (MemoryEnsemble, usize, [usize; 2]) {
    let ensemble = builder.start().unwrap();
    let leader = ensemble.leader().unwrap();
    (ensemble, leader, [(leader + 1) % 3, (leader + 2) % 3])
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        sleep(MS).await;
    }
    panic!("not within a minute: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_follower_shows_the_past_until_a_sync() {
    let (ensemble, leader, [slow, fast]) = start(builder());
    let mut writer = Client::open(&ensemble, leader).await.unwrap();
    let mut readers =
        [Client::open(&ensemble, slow).await.unwrap(), Client::open(&ensemble, fast).await.unwrap()];
    writer.create("/a", PERSISTENT).await.unwrap().unwrap();
    sleep(2 * MS).await;
    ensemble.set_lag(slow, 500 * MS);
    assert_eq!(writer.set_data("/a", "new").await, Some(0));
    sleep(2 * MS).await;
    assert_eq!(readers[0].data("/a").await, Some(Ok(String::new())));
    assert_eq!(readers[1].data("/a").await, Some(Ok("new".into())));

    // The writer has seen what the slow server has not.
    assert!(writer.resume(&ensemble, slow).await.is_none());

    let since = Instant::now();
    assert_eq!(readers[0].sync().await, Some(0));
    assert!((400 * MS..600 * MS).contains(&since.elapsed()), "{:?}", since.elapsed());
    assert_eq!(readers[0].data("/a").await, Some(Ok("new".into())));
    assert!(writer.resume(&ensemble, slow).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_the_writes_of_its_connection() {
    let (ensemble, _, [slow, _]) = start(builder());
    let mut client = Client::open(&ensemble, slow).await.unwrap();
    ensemble.set_lag(slow, 50 * MS);
    let since = Instant::now();
    let first = client.request(CREATE, &create("/a", PERSISTENT).0).await;
    client.request(GET_DATA, &Body::default().text("/a").bool(false).0).await;
    client.request(DELETE, &Body::default().text("/a").int(-1).0).await;
    client.request(GET_DATA, &Body::default().text("/a").bool(false).0).await;
    for (index, error) in [0, 0, 0, NO_NODE].into_iter().enumerate() {
        let (xid, reply) = client.reply().await.unwrap();
        assert_eq!((xid, reply.error), (first + index as i32, error));
    }
    assert!((50 * MS..60 * MS).contains(&since.elapsed()), "pipelined: {:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_answers_reads_and_syncs_but_no_writes() {
    let (ensemble, old, others) = start(builder());
    let mut client = Client::open(&ensemble, old).await.unwrap();
    client.create("/a", PERSISTENT).await.unwrap().unwrap();
    ensemble.partition(&[&[old], &others]);
    for _ in 0..4 {
        assert_eq!(client.data("/a").await, Some(Ok(String::new())));
        assert_eq!(client.sync().await, Some(0));
        sleep(100 * MS).await;
    }
    let mut writer = client.resume(&ensemble, old).await.unwrap();
    writer.request(CREATE, &create("/lost", PERSISTENT).0).await;
    assert!(timeout(50 * MS, writer.reply()).await.is_err());
    // It steps down, and refuses clients.
    assert!(writer.is_closed_within(200 * MS).await);
    assert!(writer.resume(&ensemble, old).await.is_none() && !ensemble.is_serving(old));

    until("the others have a leader", || ensemble.leader().is_some()).await;
    let new = ensemble.leader().unwrap();
    assert!(others.contains(&new));
    let mut client = writer.resume(&ensemble, new).await.unwrap();
    client.create("/b", PERSISTENT).await.unwrap().unwrap();
    assert!(writer.resume(&ensemble, old).await.is_none());

    ensemble.heal();
    until("the old leader follows", || ensemble.is_serving(old)).await;
    let mut client = client.resume(&ensemble, old).await.unwrap();
    assert_eq!(client.data("/b").await, Some(Ok(String::new())));
    assert_eq!(client.data("/lost").await, Some(Err(NO_NODE)));
    assert_eq!(ensemble.leader(), Some(new));
}

#[tokio::test(start_paused = true)]
async fn what_a_new_leader_has_logged_is_committed() {
    // After how long the leader of a write stops: before the followers have logged it, or before it knows that.
    for (delay, is_done) in [(5, false), (15, true)] {
        let (ensemble, old, [other, silent]) = start(builder().latency(10 * MS..11 * MS));
        let mut client = Client::open(&ensemble, old).await.unwrap();
        ensemble.set_paused(silent, true);
        client.request(CREATE, &create("/a", PERSISTENT).0).await;
        sleep(delay * MS).await;
        if !is_done {
            ensemble.partition(&[&[other, silent]]);
        }
        ensemble.stop(old);
        assert!(client.reply().await.is_none());
        ensemble.set_paused(silent, false);
        until("another leader", || ensemble.leader().is_some()).await;
        assert_eq!(ensemble.node("/a").is_some(), is_done);
        ensemble.heal();
        ensemble.start(old);
        until("all servers", || (0..3).all(|server| ensemble.is_serving(server))).await;
        for server in [old, other, silent] {
            let mut client = client.resume(&ensemble, server).await.unwrap();
            client.sync().await.unwrap();
            assert_eq!(client.data("/a").await.unwrap().is_ok(), is_done, "server {server}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_majority_ends_a_session_that_the_minority_answers() {
    let (ensemble, leader, [cut, other]) = start(builder().sync_limit(50));
    let short = Welcome { timeout: 300, session: 0, password: vec![0; 16] };
    let mut client = Client::connect(&ensemble, cut, &short, 0).await.unwrap();
    client.create("/a", EPHEMERAL).await.unwrap().unwrap();
    // As long as its server is connected, pings keep the session.
    for _ in 0..20 {
        assert_eq!(client.ping().await, Some(0));
        sleep(100 * MS).await;
    }
    ensemble.partition(&[&[cut], &[leader, other]]);
    let since = Instant::now();
    while ensemble.node("/a").is_some() {
        assert_eq!(client.ping().await, Some(0));
        sleep(10 * MS).await;
    }
    assert!((200 * MS..600 * MS).contains(&since.elapsed()), "{:?}", since.elapsed());
    assert!(ensemble.session_ids().is_empty());
    assert_eq!(client.data("/a").await, Some(Ok(String::new())), "the minority has not heard of it");
    ensemble.heal();
    assert!(client.is_closed_within(100 * MS).await);
    let refused = Client::connect(&ensemble, other, &client.welcome, client.zxid).await;
    assert_eq!(refused.unwrap_err(), Refusal::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_session_moves_between_servers() {
    let (ensemble, leader, [first, second]) = start(builder());
    let mut client = Client::open(&ensemble, first).await.unwrap();
    client.create("/a", EPHEMERAL).await.unwrap().unwrap();
    for server in [second, leader, first, first] {
        let mut moved = client.resume(&ensemble, server).await.unwrap();
        assert_eq!(moved.welcome, client.welcome);
        moved.create("/b", PERSISTENT).await.unwrap().unwrap();
        moved.call(DELETE, Body::default().text("/b").int(-1)).await.unwrap();
        // What the old connection still sends is not done.
        if server != first {
            assert_eq!(client.ping().await, Some(0));
        }
        assert_eq!(client.create("/old", PERSISTENT).await, None);
        assert!(ensemble.node("/old").is_none());
        client = moved;
    }
    assert_eq!(ensemble.node("/a").unwrap().ephemeral_owner, client.welcome.session);
    let impostor = Welcome { password: vec![7; 16], ..client.welcome.clone() };
    let refused = Client::connect(&ensemble, second, &impostor, 0).await;
    assert_eq!(refused.unwrap_err(), Refusal::Expired);
    client.request(super::client::CLOSE_SESSION, &[]).await;
    assert_eq!(client.reply().await.unwrap().1.error, 0);
    assert!(client.is_closed_within(MS).await && ensemble.node("/a").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_silent_session_ends_whichever_server_leads() {
    let (ensemble, leader, [follower, _]) = start(builder());
    let mut client = Client::open(&ensemble, follower).await.unwrap();
    client.create("/a", EPHEMERAL).await.unwrap().unwrap();
    sleep(800 * MS).await;
    ensemble.stop(leader);
    until("a new leader", || ensemble.leader().is_some()).await;
    // It has its whole time again.
    let since = Instant::now();
    until("the session is over", || ensemble.node("/a").is_none()).await;
    assert!((1_000 * MS..1_200 * MS).contains(&since.elapsed()), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_lost_its_disk_gets_everything_again() {
    for count in [10, 1_500] {
        let (ensemble, leader, [wiped, other]) = start(builder());
        let mut client = Client::open(&ensemble, leader).await.unwrap();
        client.create("/ephemeral", EPHEMERAL).await.unwrap().unwrap();
        for number in 0..count {
            client.create(&format!("/n{number}"), PERSISTENT).await.unwrap().unwrap();
        }
        ensemble.wipe(wiped);
        assert!(!ensemble.is_serving(wiped));
        client.create("/meanwhile", PERSISTENT).await.unwrap().unwrap();
        ensemble.start(wiped);
        until("it follows again", || ensemble.is_serving(wiped)).await;
        ensemble.stop(other);
        for path in ["/ephemeral", "/n0", "/n9", "/meanwhile"] {
            client = client.resume(&ensemble, wiped).await.unwrap();
            assert_eq!(client.data(path).await, Some(Ok(String::new())));
        }
        client.create("/after", PERSISTENT).await.unwrap().unwrap();
        assert_eq!(ensemble.node_count(), 4 + count + 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_quorum_refuses_clients() {
    let (ensemble, leader, followers) = start(builder());
    let mut client = Client::open(&ensemble, leader).await.unwrap();
    for follower in followers {
        ensemble.stop(follower);
    }
    assert!(client.is_closed_within(100 * MS).await);
    assert!(Client::open(&ensemble, leader).await.is_none() && ensemble.leader().is_none());
    sleep(5_000 * MS).await;
    assert!(Client::open(&ensemble, leader).await.is_none());
    ensemble.start(followers[0]);
    until("a leader", || ensemble.leader().is_some()).await;
    let mut client = client.resume(&ensemble, leader).await.unwrap();
    assert!(client.create("/a", PERSISTENT).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn operators_and_watches_reach_every_server() {
    let (ensemble, _, followers) = start(builder().seed(5));
    let mut client = Client::open(&ensemble, followers[0]).await.unwrap();
    assert!(ensemble.create("/a", b"", true));
    sleep(2 * MS).await;
    let watched = client.call(GET_DATA, Body::default().text("/a").bool(true)).await.unwrap();
    assert_eq!(Parts(&watched.body).text(), "");
    assert_eq!(ensemble.watch_count(), 1);
    assert!(ensemble.set_data("/a", b"x"));
    sleep(2 * MS).await;
    client.ping().await.unwrap();
    assert_eq!((client.events.len(), client.events[0].kind, &*client.events[0].path), (1, 3, "/a"));
    assert!(ensemble.end_session(client.welcome.session));
    assert!(client.is_closed_within(10 * MS).await);
    assert!(ensemble.delete("/a"));
    sleep(2 * MS).await;
    assert!(ensemble.node("/a").is_none());
    assert!(ensemble.packets() >= 3);
}
