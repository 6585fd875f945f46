//! `zklock hold`.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::io::AsyncWriteExt;

use crate::live::Shown;
use crate::support::{Server, bystander, connect, empty_server, ephemerals_below, mutex, queue_of};
use crate::zklock::{Running, done, zklock};

/// With a standard input that goes on.
pub(crate) fn holding(server: &Server, options: &[&str]) -> (Running, tokio::process::ChildStdin) {
    let mut command = zklock(&server.connect_string(), &[&["hold"], options].concat());
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let input = running.input();
    (running, input)
}

#[tokio::test]
async fn it_says_its_token_and_node_and_holds_until_it_is_told_to_end() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    for (option, signal) in
        [("--timeout=1m30s", None), ("--shared", Some(Signal::TERM)), ("--permits=2", Some(Signal::INT))]
    {
        let path = format!("/locks/of{option}");
        let (mut running, mut input) = holding(&server, &[option, &path]);
        let line = running.line().await;
        let (token, node) = line.split_once(' ').unwrap();
        assert!(node.starts_with(&path), "{line}");
        let stat = zookeeper.check_stat(node).await.unwrap().unwrap();
        assert_eq!(token, stat.czxid.to_string());
        // What is said to it does not matter.
        input.write_all(b"anything\n").await.unwrap();
        match signal {
            Some(signal) => running.send(signal),
            None => drop(input),
        }
        let ended = running.ended().await;
        assert_eq!((ended.code, &*ended.output, &*ended.errors), (Some(0), "", ""), "{option}");
        assert_eq!(zookeeper.check_stat(node).await.unwrap(), None);
    }
}

#[tokio::test]
async fn it_ends_when_the_lock_is_lost() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let (mut running, _input) = holding(&server, &["/locks/a"]);
    running.line().await;
    let (_, session) = ephemerals_below(&zookeeper, "/locks/a").await[0];
    server.kill_session(session).await.unwrap();
    let ended = running.ended().await;
    assert_eq!(ended.code, Some(120), "{ended:?}");
    assert!(ended.errors.contains("the lock /locks/a was lost"), "{ended:?}");
}

#[tokio::test]
async fn an_input_that_ends_ends_the_wait() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let _guard = mutex(&client).acquire().await.unwrap();
    let ended = done(&server, &["hold", "/locks/a"]).await;
    assert_eq!((ended.code, &*ended.output), (Some(125), ""), "{ended:?}");
    assert!(ended.errors.contains("the standard input ended"), "{ended:?}");
    queue_of(&zookeeper, "/locks/a", 1).await;
}

/// Which may be that of a shell that it runs in the background of.
#[tokio::test]
async fn it_does_not_read_from_a_terminal() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let mut terminal = Shown::start(&server, &["hold", "/locks/a"]);
    terminal.shows("/locks/a/_c_").await;
    terminal.types(b"\x04");
    terminal.send(Signal::TERM);
    assert_eq!(terminal.exit_code().await, Some(0));
    queue_of(&zookeeper, "/locks/a", 0).await;
}

/// A standard input that does not block, as another process may have set it.
#[tokio::test]
async fn an_input_that_has_nothing_yet_has_not_ended() {
    let server = empty_server().await;
    let (input, mut writer) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&input, rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut command = zklock(&server.connect_string(), &["hold", "/locks/a"]);
    command.stdin(input);
    let mut running = Running::start(command);
    running.line().await;
    std::io::Write::write_all(&mut writer, b"anything\n").unwrap();
    drop(writer);
    let ended = running.ended().await;
    assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{ended:?}");
}
