//! Signals to `zklock run`.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::process::Command;

use crate::support::{bystander, children, connect, empty_server, mutex, queue_of};
use crate::zklock::{Running, UNTIL_TERM, zklock};

#[tokio::test]
async fn one_that_waits_leaves_without_a_trace() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let _guard = mutex(&client).acquire().await.unwrap();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let waiting = Running::script(&server, &["/locks/a"], "echo ran");
        queue_of(&zookeeper, "/locks/a", 2).await;
        // These are for the command, which there is not.
        waiting.send(Signal::USR1);
        waiting.send(Signal::WINCH);
        waiting.send(signal);
        // The user is impatient.
        waiting.send(signal);
        let ended = waiting.ended().await;
        assert_eq!((ended.code, &*ended.output), (Some(code), ""), "{ended:?}");
        assert_eq!(children(&zookeeper, "/locks/a").await.len(), 1, "{signal:?}");
    }
}

#[tokio::test]
async fn signals_reach_the_command() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let script = "for s in HUP INT QUIT USR1 USR2 ALRM WINCH; do trap \"echo $s\" $s; done
        trap 'echo TERM; exit 3' TERM; echo started; while :; do sleep 0.05; done";
    let mut running = Running::script(&server, &["/locks/a"], script);
    running.says("started").await;
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        // The second one is no other.
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::WINCH, "WINCH"),
        (Signal::TERM, "TERM"),
    ] {
        assert_eq!(children(&zookeeper, "/locks/a").await.len(), 1, "before {name}");
        running.send(signal);
        running.says(name).await;
    }
    let ended = running.ended().await;
    assert_eq!((ended.code, &*ended.output), (Some(3), ""), "{ended:?}");
    assert!(children(&zookeeper, "/locks/a").await.is_empty());
}

#[tokio::test]
async fn two_interrupts_leave_no_node() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let script = "n=0; trap 'n=$((n+1)); echo INT $n; if [ $n = 2 ]; then exit 4; fi' INT
        echo started; while :; do sleep 0.05; done";
    let mut running = Running::script(&server, &["/locks/a"], script);
    running.says("started").await;
    for line in ["INT 1", "INT 2"] {
        running.send(Signal::INT);
        running.says(line).await;
    }
    assert_eq!(running.ended().await.code, Some(4));
    assert!(children(&zookeeper, "/locks/a").await.is_empty());
}

/// As `nohup` and the shell want it.
#[tokio::test]
async fn signals_that_were_ignored_stay_ignored() {
    let server = empty_server().await;
    let mut command = Command::new("sh");
    let zklock = env!("CARGO_BIN_EXE_zklock");
    command.args([
        "-c",
        "trap '' HUP CHLD; exec \"$@\"",
        "sh",
        zklock,
        "--connect",
        &server.connect_string(),
    ]);
    command.args(["run", "/locks/a", "--", "sh", "-c", UNTIL_TERM]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command);
    running.says("started").await;
    running.send(Signal::HUP);
    running.send(Signal::TERM);
    running.says("TERM").await;
    let ended = running.ended().await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

/// Programs that wait for signals in one thread block them, and what they start inherits that.
#[tokio::test]
async fn a_signal_that_was_blocked_ends_it() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let zklock = zklock(&server.connect_string(), &["hold", "/locks/a"]);
    let mut command = Command::new("env");
    // The option that unblocks is left out.
    command.arg("--block-signal=TERM").args(zklock.as_std().get_args().skip(1));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut running = Running::start(command);
    let _input = running.input();
    running.line().await;
    running.send(Signal::TERM);
    queue_of(&zookeeper, "/locks/a", 0).await;
    assert_eq!(running.ended().await.code, Some(0));
}
