//! Holders in a process that is stopped for longer than its sessions.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zk_recipes::{Client, ConnectionState, CreateMode, Error, InterProcessMutex, LockGuard};

use crate::SESSION_TIMEOUT;
use crate::figures::{Distances, wall};
use crate::support::{Server, builder, bystander, queue_of, within};

/// The role of a process that holds.
pub(crate) const CHILD: &str = "holders";

const HOLDERS: usize = 25;
const ROUNDS: usize = 5;

fn lock(holder: usize) -> String {
    format!("/pause/{holder}")
}

/// What a lock protects, outside of ZooKeeper: it refuses tokens older than the newest that it has seen.
#[derive(Default)]
struct Store(HashMap<usize, i64>);

impl Store {
    fn write(&mut self, holder: usize, token: i64) -> bool {
        let newest = self.0.entry(holder).or_insert(token);
        let is_accepted = token >= *newest;
        *newest = token.max(*newest);
        is_accepted
    }
}

/// What a holder in the child reports, a line each.
struct Look {
    holder: usize,
    token: i64,
    /// By the clock on the wall.
    valid_until: f64,
    is_valid: bool,
    /// Whether the connection's state is not that of a lost session.
    seems_alive: bool,
    was_refused: bool,
}

pub(crate) async fn rounds() {
    let server = Server::start().await.unwrap();
    let waiting = Client::connect(&server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let mut store = Store::default();
    let mut ours = Distances::default();
    let mut believers = 0;
    for _ in 0..ROUNDS {
        let (child, mut lines) = start(&server.connect_string());
        within(read(&mut lines, "held")).await;
        let next: Vec<_> = (0..HOLDERS).map(|holder| acquire(&waiting, &lock(holder))).collect();
        for holder in 0..HOLDERS {
            queue_of(&zookeeper, &lock(holder), 2).await;
        }
        signal(&child, Signal::STOP);
        let next: Vec<(Instant, LockGuard)> =
            within(join_all(next)).await.into_iter().map(Result::unwrap).collect();
        for (holder, (_, guard)) in next.iter().enumerate() {
            assert!(store.write(holder, guard.fencing_token()));
        }
        signal(&child, Signal::CONT);
        for _ in 0..HOLDERS {
            let line = within(lines.next_line()).await.unwrap().expect("a look of each");
            let look = Look::parse(&line);
            let (granted, _) = &next[look.holder];
            ours.push(wall(*granted) - look.valid_until);
            believers += usize::from(look.seems_alive);
            assert!(!look.is_valid, "the first look tells that it is lost");
            assert!(look.was_refused, "its transaction is refused");
            assert!(!store.write(look.holder, look.token), "its token is refused");
        }
        join_all(next.into_iter().map(|(_, guard)| guard.release())).await;
        end(child).await;
        for holder in 0..HOLDERS {
            queue_of(&zookeeper, &lock(holder), 0).await;
        }
    }
    println!("{} holders in a process that was stopped, sessions of {SESSION_TIMEOUT:?}", ours.len());
    println!("  from the end of the validity to the next grant: {ours}");
    println!("  at the first look, none believed to hold; each had its transaction and its token refused");
    println!(
        "  by the rule of Curator, {believers} would have believed to hold: the session was not LOST yet"
    );
    assert_eq!(ours.overlaps(), 0, "another had the lock before the validity ended");
    assert!(believers > ours.len() / 2, "the rounds cannot tell a good rule from a bad one");
}

/// Acquires a lock in a task of its own, which says when it was granted.
fn acquire(client: &Client, lock: &str) -> JoinHandle<(Instant, LockGuard)> {
    let mutex = InterProcessMutex::new(client, lock).unwrap();
    tokio::spawn(async move {
        let guard = mutex.acquire().await.unwrap();
        (Instant::now(), guard)
    })
}

fn start(connect_string: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, connect_string]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

async fn read(lines: &mut Lines<BufReader<ChildStdout>>, expected: &str) {
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(expected));
}

fn signal(child: &Child, signal: Signal) {
    let id = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(id, signal).unwrap();
}

async fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(within(child.wait()).await.unwrap().success());
}

/// The child: holds, is stopped, looks, and tries to do what it may not.
pub(crate) async fn hold(connect_string: &str) {
    let holders = join_all((0..HOLDERS).map(|holder| async move {
        let builder = builder().session_timeout(SESSION_TIMEOUT);
        let client = builder.connect(connect_string).await.unwrap();
        let (_, guard) = acquire(&client, &lock(holder)).await.unwrap();
        (client, guard)
    }))
    .await;
    println!("held");
    let looks = holders.iter().enumerate().map(|(holder, (client, guard))| async move {
        let mut before = Instant::now();
        while before.elapsed() < SESSION_TIMEOUT / 2 {
            before = Instant::now();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let is_valid = guard.is_valid();
        let seems_alive = client.watch_connection().get() != ConnectionState::Lost;
        let valid_until = wall(guard.valid_until());
        let forbidden = guard.transaction().create("/pause/forbidden", "", CreateMode::Persistent);
        let was_refused = matches!(forbidden.commit().await, Err(Error::LockLost { .. }));
        let token = guard.fencing_token();
        Look { holder, token, valid_until, is_valid, seems_alive, was_refused }.print();
    });
    join_all(looks).await;
    // Until the parent has read it all.
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await.unwrap();
}

impl Look {
    fn print(&self) {
        let Self { holder, token, valid_until, is_valid, seems_alive, was_refused } = self;
        println!("{holder} {token} {valid_until} {is_valid} {seems_alive} {was_refused}");
    }

    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [holder, token, valid_until, is_valid, seems_alive, was_refused] = words[..] else {
            panic!("{line}");
        };
        Self {
            holder: holder.parse().unwrap(),
            token: token.parse().unwrap(),
            valid_until: valid_until.parse().unwrap(),
            is_valid: is_valid.parse().unwrap(),
            seems_alive: seems_alive.parse().unwrap(),
            was_refused: was_refused.parse().unwrap(),
        }
    }
}
