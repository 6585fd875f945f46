//! Servers that go away, and servers that are not there.

use std::net::TcpListener;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use zk_recipes::testing::MemoryServer;
use zk_recipes::{Client, LeaderLatch, LeaderOptions, zookeeper_client as zk};

use crate::support::{bystander, connect, empty_server, mutex, queue_of, within};
use crate::zklock::{Running, UNTIL_TERM, done, zklock};

/// So that it does not take long to give up.
const IMPATIENT: [&str; 2] = ["--session-timeout=2s", "--connect-timeout=500ms"];

#[tokio::test]
async fn no_server_is_unreachable() {
    // Nobody else gets the port meanwhile, and nobody answers at it.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = port.local_addr().unwrap().to_string();
    for arguments in [
        &["run", "/locks/a", "--", "true"][..],
        &["run", "--timeout", "300ms", "/locks/a", "--", "true"],
        &["run", "--timeout", "0", "/locks/a", "--", "true"],
        &["show", "/locks/a"],
        &["ls"],
        &["ask", "/locks/a"],
        &["kick", "--yes", "/locks/a"],
        &["deadlocks"],
        &["watch", "--json", "/locks/a"],
        &["top", "--json"],
        &["elect", "/locks/a", "--", "true"],
    ] {
        let command = zklock(&nowhere, &[&IMPATIENT[..], arguments].concat());
        let ended = Running::start(command).ended().await;
        assert_eq!((ended.code, &*ended.output), (Some(121), ""), "{arguments:?}: {ended:?}");
        assert!(ended.errors.contains(&nowhere), "{ended:?}");
    }
}

#[tokio::test]
async fn a_wait_ends_some_time_after_the_servers() {
    let mut server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let _guard = mutex(&client).acquire().await.unwrap();
    let waiting = Running::script(&server, &[&IMPATIENT[..], &["/locks/a"]].concat(), "echo ran");
    queue_of(&zookeeper, "/locks/a", 2).await;
    server.kill().await.unwrap();
    let ended = waiting.ended().await;
    assert_eq!((ended.code, &*ended.output), (Some(121), ""), "{ended:?}");
}

#[tokio::test]
async fn a_command_ends_in_time_after_the_servers() {
    let mut server = empty_server().await;
    let mut running = Running::script(&server, &[&IMPATIENT[..], &["/locks/a"]].concat(), UNTIL_TERM);
    running.says("started").await;
    server.kill().await.unwrap();
    running.says("TERM").await;
    let ended = running.ended().await;
    assert_eq!(ended.code, Some(120), "{ended:?}");
}

#[tokio::test]
async fn who_insists_does_not_wait_for_silent_servers() {
    let server = empty_server().await;
    let options = ["--session-timeout=60s", "--connect-timeout=5m", "/locks/a"];
    let mut running = Running::script(&server, &options, UNTIL_TERM);
    running.says("started").await;
    server.pause().unwrap();
    running.send(Signal::TERM);
    running.says("TERM").await;
    let zklock = Pid::from_raw(running.id().try_into().unwrap()).unwrap();
    let insists = async {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            // It may just have ended.
            let _ = kill_process(zklock, Signal::TERM);
        }
    };
    let ended = tokio::select! {
        ended = running.ended() => ended,
        never = insists => never,
    };
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.errors.contains("the servers do not answer"), "{ended:?}");
}

/// It has done its work under the lock.
#[tokio::test]
async fn a_command_that_ends_while_the_servers_are_gone_keeps_its_status() {
    let mut server = empty_server().await;
    let options = ["--session-timeout=20s", "--connect-timeout=500ms", "/locks/a"];
    let mut running = Running::script(&server, &options, UNTIL_TERM);
    running.says("started").await;
    server.kill().await.unwrap();
    running.send(Signal::TERM);
    running.says("TERM").await;
    let ended = running.ended().await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.errors.contains("/locks/a"), "{ended:?}");
    server.restart().await.unwrap();
    assert_eq!(done(&server, &["run", "--timeout", "1m", "/locks/b", "--", "true"]).await.code, Some(0));
}

/// A wait is told from one that knows nothing any more.
#[tokio::test]
async fn a_wait_says_that_there_is_no_connection() {
    let mut server = MemoryServer::start().unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    let latch = LeaderLatch::start(&client, "/leaders/a", LeaderOptions::new()).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    let [lock, leader] = [&["run", "/locks/a"], &["elect", "/leaders/a"]].map(|arguments| {
        Running::start(zklock(&server.connect_string(), &[arguments, &["--", "echo", "ran"][..]].concat()))
    });
    let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
    queue_of(&zookeeper, "/locks/a", 2).await;
    queue_of(&zookeeper, "/leaders/a", 2).await;
    server.stop().await.unwrap();
    for waiting in [&lock, &leader] {
        waiting.complains("not connected to any server").await;
    }
    server.restart().await.unwrap();
    for waiting in [&lock, &leader] {
        waiting.complains("connected again").await;
    }
    drop((guard, leadership, latch));
    client.close().await;
    for waiting in [lock, leader] {
        let ended = waiting.ended().await;
        assert_eq!((ended.code, &*ended.output), (Some(0), "ran\n"), "{ended:?}");
    }
}
