//! What is said while its reader has paused, as `less` does.

use std::os::fd::AsFd;

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::time::{Duration, sleep};
use zk_recipes::testing::MemoryServer;
use zk_recipes::{Client, InterProcessMutex};

use crate::support::{bystander_of, ephemerals_below, queue_of, until, within};
use crate::zklock::zklock;

/// The capacity of a pipe on Linux.
const FULL: u64 = 64 << 10;

/// Fills the pipe of the standard error.
const UNREAD: &str = "trap 'exit 3' TERM; head -c 65536 /dev/zero >&2; exec 2>/dev/null; echo started; while :; do sleep 0.05; done";

async fn filled(pipe: impl AsFd) {
    until("the pipe is full", || ioctl_fionread(&pipe).unwrap() == FULL).await;
}

fn terminate(process: &Child) {
    let id = process.id().unwrap().try_into().unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
}

/// A run whose standard error takes nothing more.
async fn full(server: &MemoryServer) -> (Child, ChildStderr) {
    let arguments = ["run", "--grace", "1s", "/locks/a", "--", "sh", "-c", UNREAD];
    let mut process = zklock(&server.connect_string(), &arguments).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert_eq!(within(lines.next_line()).await.unwrap().as_deref(), Some("started"));
    let unread = process.stderr.take().unwrap();
    filled(&unread).await;
    (process, unread)
}

#[tokio::test]
async fn a_lost_lock_stops_the_command() {
    let server = MemoryServer::start().unwrap();
    let zookeeper = bystander_of(&server.connect_string()).await;
    let (mut process, _unread) = full(&server).await;
    let (_, session) = ephemerals_below(&zookeeper, "/locks/a").await[0];
    server.kill_session(session).await.unwrap();
    assert_eq!(within(process.wait()).await.unwrap().code(), Some(120));
}

/// In an outage, of which it speaks.
#[tokio::test]
async fn signals_are_forwarded() {
    let mut server = MemoryServer::start().unwrap();
    let (mut process, _unread) = full(&server).await;
    server.stop().await.unwrap();
    // It speaks after a second.
    sleep(Duration::from_secs(3)).await;
    terminate(&process);
    // Later ones give up on the servers.
    let ended = async {
        loop {
            tokio::select! {
                ended = process.wait() => return ended,
                () = sleep(Duration::from_secs(1)) => {}
            }
            terminate(&process);
        }
    };
    assert_eq!(within(ended).await.unwrap().code(), Some(3));
}

#[tokio::test]
async fn a_signal_ends_a_display() {
    let server = MemoryServer::start().unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    let mut guards = Vec::new();
    for number in 0..600 {
        let path = format!("/locks/of-some-length-{number}");
        guards.push(InterProcessMutex::new(&client, &path).unwrap().acquire().await.unwrap());
    }
    let mut process = zklock(&server.connect_string(), &["top", "--json"]).spawn().unwrap();
    let unread = process.stdout.take().unwrap();
    filled(&unread).await;
    terminate(&process);
    assert_eq!(within(process.wait()).await.unwrap().code(), Some(143));
}

#[tokio::test]
async fn a_signal_ends_a_hold() {
    let server = MemoryServer::start().unwrap();
    let zookeeper = bystander_of(&server.connect_string()).await;
    let (output, mut input) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut input, &[b'x'; FULL as usize]).unwrap();
    let mut command = zklock(&server.connect_string(), &["hold", "/locks/a"]);
    command.stdin(std::process::Stdio::piped()).stdout(input);
    let mut process = command.spawn().unwrap();
    queue_of(&zookeeper, "/locks/a", 1).await;
    terminate(&process);
    assert_eq!(within(process.wait()).await.unwrap().code(), Some(0));
    queue_of(&zookeeper, "/locks/a", 0).await;
    drop(output);
}
