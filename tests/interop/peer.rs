//! Driver of the peers: programs on Curator and kazoo that obey commands line by line.
//!
//! A line is `<actor> <op> [argument...]`. An actor is a thread of the peer that carries out its commands one after
//! the other, and comes into being with its first. It answers each with `<actor> ok [text]` or
//! `<actor> error <text>`. On its own it says `<actor> revoked` when it is asked to give up a lock for which it was
//! told `revocable`. A peer says `ready` at the start; it ends with its standard input.
//!
//! In a `loop` it says `<actor> section <how or -> <asked> <since> <until> <proven> <czxid> <session>` after each hold:
//! since and until when it believed to hold, and the last moment at which the node of this `czxid` was there for certain,
//! or zeros if it was not seen. The times are nanoseconds of the monotonic clock.
//!
//! | command | meaning |
//! |---|---|
//! | `open <kind> <path> [key=value...]` | has the actor use this lock from now on |
//! | `acquire [how]`, `release [how]` | |
//! | `try <milliseconds> [how]` | acquires within this time, or answers `false` |
//! | `participants [how]` | the participants' node data in order, encoded as in URLs, `-` if empty |
//! | `leader` | the id of the leader, encoded in the same way; nothing if there is none |
//! | `leads` | whether the candidate believes to lead |
//! | `revocable [how]` | listens to revocation of what it acquires next |
//! | `revoke <node path>` | asks for it |
//! | `clock` | the monotonic clock |
//! | `loop <milliseconds> [how...]` | acquires, holds for up to this time and releases, until it is told `stop` |
//! | `stay`, `go` | whoever is in a section of a loop stays in it, until it may go; no answer |
//! | `stop` | ends the loop; no answer of its own |
//! | `get`, `set <value>` | of a value |
//! | `exchange <expected> <value>` | sets a value if it is the expected one, and answers whether it was |
//! | `initialize <value>` | creates an atomic value, and answers whether it did |
//! | `add <number>`, `count_up <times>` | adds to an `atomic_long`, once or by one as often, and answers each sum |
//! | `act <verb> [argument]` | what only one recipe of Curator's has: `path` and `data` of a `node`, `members` and `data` of a `group`, `close` and `open` of a `barrier`, those of a `service` |
//! | `ping` | makes a request and says `<actor> pong`, even while the actor is busy |
//!
//! The kinds are `mutex`, `rw`, `semaphore` (`permits=`, with Curator also `count=` and the path of a `SharedCount`),
//! `semaphore_mutex`, `multi` (paths with commas), `selector` (with kazoo its `Election`) and, with Curator only,
//! `latch`, the values `count` and `value` (`seed=`), `atomic_long` and `atomic_value` (`lock=` is the path of the lock
//! of those who keep failing), `node` (`mode=` or `ttl=`), `group` (`id=`), `barrier`, `double_barrier` (`members=`) and `service`. A
//! node is kept, and a group joined, from `acquire` to `release`. Who acquires a `latch` or a `selector` stands for election until it leads, and leads until it
//! releases. `data=` is the node data, where the library lets it differ from the client's, and the id of a candidate.
//! `naming=kazoo` makes kazoo use its own node names instead of Curator's. `how` is `read` or `write` for `rw`, and a
//! number of leases for `semaphore`.
#![allow(dead_code, reason = "each test target uses a part")]

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::installed::{Peers, java, repository};
use crate::support::within;

/// What an actor says.
#[derive(Debug)]
enum Said {
    Reply(Result<String, String>),
    Pong,
    Revoked,
    Section(String),
}

/// A process on another library. It ends when this is dropped.
pub(crate) struct Peer {
    process: tokio::sync::Mutex<Child>,
    commands: UnboundedSender<String>,
    actors: Arc<Mutex<HashMap<String, UnboundedSender<Said>>>>,
}

/// A thread of a peer, with a lock.
pub(crate) struct Actor {
    name: String,
    commands: UnboundedSender<String>,
    says: UnboundedReceiver<Said>,
}

impl Peer {
    pub(crate) async fn curator(peers: &Peers, connect_string: &str, session: Duration, data: &str) -> Self {
        Self::curator_with(&[], peers, connect_string, session, data).await
    }

    /// With compressed node data.
    pub(crate) async fn compressing_curator(
        peers: &Peers,
        connect_string: &str,
        session: Duration,
        data: &str,
    ) -> Self {
        Self::curator_with(&["-Dcompress=true"], peers, connect_string, session, data).await
    }

    async fn curator_with(
        properties: &[&str],
        peers: &Peers,
        connect_string: &str,
        session: Duration,
        data: &str,
    ) -> Self {
        let mut command = Command::new(java());
        command.args(properties);
        command.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]);
        command.args(["-Dlog4j2.level=OFF", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]);
        command.args(["-cp", &peers.class_path, "CuratorPeer"]);
        Self::start(command, connect_string, session, data).await
    }

    pub(crate) async fn kazoo(peers: &Peers, connect_string: &str, session: Duration, data: &str) -> Self {
        let mut command = Command::new(&peers.python);
        command.arg(repository().join("tests/interop/kazoo_peer.py"));
        Self::start(command, connect_string, session, data).await
    }

    async fn start(mut command: Command, connect_string: &str, session: Duration, data: &str) -> Self {
        command.args([connect_string, &session.as_millis().to_string(), data]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdin = process.stdin.take().expect("it is piped");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let first = within(lines.next_line()).await.unwrap();
        assert_eq!(first.as_deref(), Some("ready"), "{command:?}");
        let (commands, to_write) = mpsc::unbounded_channel();
        let actors = Arc::default();
        tokio::spawn(write(stdin, to_write));
        tokio::spawn(read(lines, Arc::clone(&actors)));
        Self { process: process.into(), commands, actors }
    }

    /// A new actor that has opened a lock.
    pub(crate) async fn open(&self, name: &str, lock: &str) -> Actor {
        assert!(!name.contains(' '), "{name:?} is to be one word");
        let (speak, says) = mpsc::unbounded_channel();
        let known = self.actors.lock().unwrap().insert(name.to_owned(), speak);
        assert!(known.is_none(), "there is an actor {name} already");
        let mut actor = Actor { name: name.to_owned(), commands: self.commands.clone(), says };
        actor.call(&format!("open {lock}")).await;
        actor
    }

    /// Tells the actors something that has no answer.
    pub(crate) fn tell_all(&self, word: &str) {
        for actor in self.actors.lock().unwrap().keys() {
            // A peer that has ended shows when it does not answer.
            let _ = self.commands.send(format!("{actor} {word}\n"));
        }
    }

    /// Ends it so that it can do nothing any more, not even close its session.
    pub(crate) async fn kill(&self) {
        self.process.lock().await.kill().await.unwrap();
    }
}

impl Actor {
    /// Has it do something, which may take long.
    pub(crate) fn send(&self, command: &str) {
        // A peer that has ended shows when it does not answer.
        let _ = self.commands.send(format!("{} {command}\n", self.name));
    }

    /// Waits until it has done the oldest thing that it was told and has not answered yet.
    pub(crate) async fn answer(&mut self) -> String {
        match self.hear().await {
            Said::Reply(Ok(text)) => text,
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// Has it do something, and waits until it has.
    pub(crate) async fn call(&mut self, command: &str) -> String {
        self.send(command);
        self.answer().await
    }

    /// Has it do something, which fails; returns how.
    pub(crate) async fn fails(&mut self, command: &str) -> String {
        self.send(command);
        match self.hear().await {
            Said::Reply(Err(text)) => text,
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// Waits until it is asked to give up what it holds.
    pub(crate) async fn revoked(&mut self) {
        match self.hear().await {
            Said::Revoked => {}
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// The next section of its loop; none when that has ended.
    pub(crate) async fn section(&mut self) -> Option<String> {
        match self.says.recv().await {
            Some(Said::Section(text)) => Some(text),
            Some(Said::Reply(Ok(_))) => None,
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// Its client has heard of all that has happened so far; and what the actor was told it has not done yet.
    pub(crate) async fn assert_waiting(&mut self) {
        self.send("ping");
        match self.hear().await {
            Said::Pong => {}
            other => panic!("{} should be waiting: {other:?}", self.name),
        }
    }

    async fn hear(&mut self) -> Said {
        let said = tokio::time::timeout(crate::support::BOUND, self.says.recv()).await;
        let said = said.unwrap_or_else(|_| panic!("{} does not say anything", self.name));
        said.unwrap_or_else(|| panic!("the peer of {} has ended", self.name))
    }
}

async fn write(mut stdin: ChildStdin, mut commands: UnboundedReceiver<String>) {
    while let Some(command) = commands.recv().await {
        if stdin.write_all(command.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(
    mut lines: Lines<BufReader<ChildStdout>>,
    actors: Arc<Mutex<HashMap<String, UnboundedSender<Said>>>>,
) {
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = line.splitn(3, ' ');
        let [actor, verb, text] = [(); 3].map(|()| words.next().unwrap_or_default());
        let said = match verb {
            "ok" => Said::Reply(Ok(text.to_owned())),
            "error" => Said::Reply(Err(text.to_owned())),
            "pong" => Said::Pong,
            "revoked" => Said::Revoked,
            "section" => Said::Section(text.to_owned()),
            _ => panic!("a peer says {line:?}"),
        };
        // An actor that was dropped is not listened to.
        let _ = actors.lock().unwrap()[actor].send(said);
    }
    actors.lock().unwrap().clear();
}
