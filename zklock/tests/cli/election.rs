//! `zklock elect`.

use rustix::process::Signal;

use crate::support::{bystander, children, empty_server, queue_of};
use crate::zklock::{Running, UNTIL_TERM, done, zklock};

#[tokio::test]
async fn a_leader_works_again_and_again() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let start = || {
        let arguments = ["elect", "/leaders/a", "--", "sh", "-c", UNTIL_TERM];
        Running::start(zklock(&server.connect_string(), &arguments))
    };
    let mut first = start();
    first.says("started").await;
    let mut second = start();
    queue_of(&zookeeper, "/leaders/a", 2).await;
    // It resigns, and the other one leads after its command has ended.
    assert_eq!(done(&server, &["ask", "/leaders/a"]).await.code, Some(0));
    first.says("TERM").await;
    second.says("started").await;
    queue_of(&zookeeper, "/leaders/a", 2).await;
    // The leadership is lost.
    assert_eq!(done(&server, &["kick", "--yes", "/leaders/a"]).await.code, Some(0));
    second.says("TERM").await;
    first.says("started").await;
    queue_of(&zookeeper, "/leaders/a", 2).await;
    // One waits, and one leads.
    second.send(Signal::TERM);
    assert_eq!(second.ended().await.code, Some(143));
    first.send(Signal::TERM);
    first.says("TERM").await;
    let ended = first.ended().await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(children(&zookeeper, "/leaders/a").await.is_empty());
}

#[tokio::test]
async fn who_is_told_to_end_while_its_command_is_stopped_stands_no_more() {
    let server = empty_server().await;
    // At the second one.
    let ends = "n=0; trap 'echo TERM; n=$((n+1)); [ $n = 2 ] && exit 3' TERM; echo started; while :; do sleep 0.05; done";
    let arguments = ["elect", "/leaders/a", "--", "sh", "-c", ends];
    let mut running = Running::start(zklock(&server.connect_string(), &arguments));
    running.says("started").await;
    assert_eq!(done(&server, &["kick", "--yes", "/leaders/a"]).await.code, Some(0));
    running.says("TERM").await;
    running.send(Signal::TERM);
    running.says("TERM").await;
    let ended = running.ended().await;
    assert_eq!((ended.code, &*ended.output), (Some(143), ""), "{ended:?}");
}
