//! Histories of several clients, played on two servers at once.

use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;
use tokio::runtime::Runtime;
use zk_recipes::testing::{MemoryVersion, TestingCluster, TestingServer};

use crate::memory::operation::{
    self, CREATE, CREATE_2, CREATE_CONTAINER, CREATE_TTL, Generator, Operation, Scope,
};
use crate::memory::servers::{Memory, Real};
use crate::memory::wire::{self, Event, Parts, Welcome, Wire};

const CLIENTS: usize = 3;
const STEPS: usize = 120;
/// Long enough for no session to expire by accident.
const TIMEOUT: i32 = 40_000;
const CLOSE_SESSION: i32 = -11;
const UNKNOWN: i32 = 4711;
/// How many steps before a difference are shown.
const SHOWN: usize = 40;

/// Containers would be removed at other times than by the other server.
const PROPERTIES: [(&str, &str); 2] =
    [("zookeeper.extendedTypesEnabled", "true"), ("znode.container.checkIntervalMs", "86400000")];

/// The two servers. Both have seen the same requests since they were started.
pub(crate) struct Pair {
    memory: Memory,
    real: Real,
    version: (u32, u32, u32),
    runtime: Runtime,
}

/// What the two sides did not do alike.
pub(crate) struct Difference {
    pub(crate) report: String,
    /// Whether it is that the real follower has closed a connection: it may have lost its leader.
    pub(crate) lost_leader: bool,
}

/// One server, and the clients that are connected to it.
struct Side {
    name: &'static str,
    address: String,
    /// Whether it has closed a connection at the last request instead of replying.
    has_hung_up: bool,
    clients: Vec<(Wire, Welcome)>,
}

impl Pair {
    /// Starts both servers; the real one of the version that is found, or of a class path.
    pub(crate) fn start(class_path: Option<&str>) -> Self {
        let runtime = runtime();
        let mut builder = TestingServer::builder();
        for (name, value) in PROPERTIES {
            builder = builder.system_property(name, value);
        }
        if let Some(class_path) = class_path {
            builder = builder.class_path(class_path);
        }
        let (real, version) = runtime.block_on(async {
            let real = Real::One(builder.start().await.unwrap());
            let answer = real.server().four_letter_word("srvr").await.unwrap();
            (real, version(&answer))
        });
        Self { memory: Memory::one(), real, version, runtime }
    }

    /// Same, with a follower of three servers on both sides.
    pub(crate) fn start_three(class_path: Option<&str>) -> Self {
        let runtime = runtime();
        // With the usual tick, the servers lose each other on a busy machine.
        let mut builder =
            TestingCluster::builder(3).tick_time(Duration::from_millis(500)).property("syncLimit", "60");
        for (name, value) in PROPERTIES {
            builder = builder.system_property(name, value);
        }
        if let Some(class_path) = class_path {
            builder = builder.class_path(class_path);
        }
        let (memory, real, version) = runtime.block_on(async {
            let cluster = builder.start().await.unwrap();
            let follower = (cluster.leader().await.unwrap() + 1) % 3;
            let real = Real::Cluster { cluster, follower };
            let answer = real.server().four_letter_word("srvr").await.unwrap();
            let version = version(&answer);
            let same = if version >= (3, 8, 2) { MemoryVersion::V3_9 } else { MemoryVersion::V3_6 };
            (Memory::three(same).await, real, version)
        });
        Self { memory, real, version, runtime }
    }

    fn scope(&self, seed: u64) -> Scope {
        // Old versions do not keep the modes of watches at one path apart, and tell everyone of changes.
        let current = self.version >= (3, 9, 2);
        Scope {
            one_shot_watches: current || seed.is_multiple_of(3),
            lasting_watches: current || seed % 3 == 1,
            mixed_watches: current,
            current,
            stats_in_multi: current || matches!(self.real, Real::Cluster { .. }),
            acls: current || seed % 3 == 2,
        }
    }

    /// Whether both sides treat an operation alike. The configuration of an ensemble has its addresses, and a real follower
    /// closes the connection at some requests that it cannot decode.
    fn has_same(&self, operation: &Operation) -> bool {
        const CONFIG: &[u8] = b"/zookeeper/config";
        let is_on_config = operation.body.windows(CONFIG.len()).any(|part| part == CONFIG);
        !is_on_config && !operation.text.starts_with("truncated") || matches!(self.real, Real::One(_))
    }

    /// Returns the first difference.
    pub(crate) fn play(&mut self, seed: u64) -> Result<(), Difference> {
        let mut sides = [
            Side::new("memory", self.memory.address()),
            Side::new("real", self.real.server().connect_string()),
        ];
        let mut history = Vec::new();
        let played = self.steps(seed, &mut sides, &mut history);
        let hung_up = sides.each_ref().map(|side| side.has_hung_up);
        let lost_leader = hung_up == [false, true] && matches!(self.real, Real::Cluster { .. });
        for side in sides {
            for (mut wire, _) in side.clients {
                wire.call(CLOSE_SESSION, &[]);
            }
        }
        played.map_err(|difference| {
            let version = self.version;
            let before = history[history.len().saturating_sub(SHOWN)..].join("\n");
            let step = history.len();
            let report = format!("seed {seed}, ZooKeeper {version:?}, step {step}:\n{before}\n{difference}");
            Difference { report, lost_leader }
        })
    }

    fn steps(&mut self, seed: u64, sides: &mut [Side; 2], history: &mut Vec<String>) -> Result<(), String> {
        let mut random = Rng::with_seed(seed);
        let scope = self.scope(seed);
        let root = format!("/h{seed}");
        let below = ["", "/a", "/b", "/a/x", "/a/y", "/a/x/p", "/b/z", "/n-", "/a/n-"];
        let mut paths: Vec<_> = below.iter().map(|path| format!("{root}{path}")).collect();
        for client in 0..CLIENTS {
            both(sides, |side| side.connect_new(client))?;
        }
        let mut first = ["/a/x", "/b", "/a", ""].map(|path| create(&format!("{root}{path}"))).to_vec();
        let mut zxid = 0;
        for step in 0..STEPS {
            let client = random.usize(..CLIENTS);
            let chance = if !first.is_empty() { 0 } else { random.usize(..100) };
            let (text, mut is_unordered) = (|what: &str| format!("{step}: client {client} {what}"), false);
            let said = match chance {
                0..90 => {
                    let mut generator = Generator { random: &mut random, paths: &paths, scope, zxid };
                    let mut operation = first.pop().unwrap_or_else(|| generator.operation());
                    while !self.has_same(&operation) {
                        operation = generator.operation();
                    }
                    history.push(text(&operation.text));
                    let said = self.both_perform(sides, client, &operation)?;
                    if let Some(created) = said.created {
                        paths.push(created);
                    }
                    if said.is_closed {
                        both(sides, |side| side.resume(client, 0))?;
                    }
                    zxid = said.zxid.unwrap_or(zxid);
                    said.text
                }
                90..94 => {
                    history.push(text("reconnects"));
                    let said = both(sides, |side| side.resume(client, zxid))?;
                    let mut generator = Generator { random: &mut random, paths: &paths, scope, zxid };
                    if step % 4 != 0 {
                        let operation = generator.set_watches();
                        history.push(text(&operation.text));
                        self.both_perform(sides, client, &operation)?;
                    }
                    said
                }
                94..96 => {
                    is_unordered = true;
                    history.push(text("closes its session"));
                    let operation = Operation { code: CLOSE_SESSION, body: Vec::new(), text: String::new() };
                    let mut said = self.both_perform(sides, client, &operation)?.text;
                    said += &both(sides, |side| side.connect_new(client))?;
                    said
                }
                96..98 => {
                    is_unordered = true;
                    history.push(text("loses its session"));
                    let [memory, real] = [0, 1].map(|side| sides[side].clients[client].1.session);
                    self.memory.kill_session(&self.runtime, memory);
                    self.runtime.block_on(self.real.server().kill_session(real)).unwrap();
                    let mut said = both(sides, |side| side.try_to_resume(client))?;
                    said += &both(sides, |side| side.connect_new(client))?;
                    said
                }
                98 => {
                    history.push(text("is from the future, or an impostor"));
                    both(sides, |side| side.intrude(client))? + &both(sides, |side| side.resume(client, 0))?
                }
                _ => {
                    history.push(text("speaks another protocol"));
                    let operation = Operation { code: UNKNOWN, body: Vec::new(), text: String::new() };
                    let said = self.both_perform(sides, client, &operation)?;
                    said.text + &both(sides, |side| side.resume(client, 0))?
                }
            };
            let keep_zxids = self.version >= (3, 9, 0);
            let others = both(sides, |side| side.events(is_unordered, keep_zxids))?;
            history.push(format!("    -> {said}{others}"));
        }
        Ok(())
    }

    fn both_perform(
        &self,
        sides: &mut [Side; 2],
        client: usize,
        operation: &Operation,
    ) -> Result<Said, String> {
        let keep_zxids = self.version >= (3, 9, 0);
        let mut said = None;
        let text = both(sides, |side| {
            let perform = side.perform(client, operation, keep_zxids);
            let text = perform.text.clone();
            said = Some(perform);
            text
        })?;
        Ok(Said { text, ..said.unwrap() })
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn create(path: &str) -> Operation {
    Operation { code: CREATE, body: wire::create(path, 0).0, text: format!("create {path}") }
}

/// What a request has led to.
struct Said {
    text: String,
    zxid: Option<i64>,
    created: Option<String>,
    is_closed: bool,
}

/// Does the same on both servers. The error is the difference.
fn both(sides: &mut [Side; 2], mut act: impl FnMut(&mut Side) -> String) -> Result<String, String> {
    let [memory, real] = sides;
    let said = [act(memory), act(real)];
    let [first, second] = said;
    if first == second {
        return Ok(first);
    }
    Err(format!("  {}: {first}\n  {}: {second}", memory.name, real.name))
}

impl Side {
    fn new(name: &'static str, address: String) -> Self {
        Self { name, address, has_hung_up: false, clients: Vec::new() }
    }

    fn connect_new(&mut self, client: usize) -> String {
        let connected = Wire::connect(&self.address, TIMEOUT, 0, &[0; 16], 0).expect("a session");
        let timeout = connected.1.timeout;
        assert!(connected.1.session != 0);
        if client < self.clients.len() {
            self.clients[client] = connected;
        } else {
            self.clients.push(connected);
        }
        format!("(a session of {timeout} ms)")
    }

    /// Connects with the session that the client has.
    fn resume(&mut self, client: usize, last_zxid: i64) -> String {
        let Welcome { session, password, .. } = self.clients[client].1.clone();
        let connected = Wire::connect(&self.address, TIMEOUT, session, &password, last_zxid);
        let (wire, welcome) = connected.unwrap_or_else(|| panic!("{} does not know {session:#x}", self.name));
        let is_same = welcome.session == session && welcome.password == password;
        self.clients[client].0 = wire;
        format!("(resumed: {is_same}, {} ms)", welcome.timeout)
    }

    /// Connects with a session that has ended.
    fn try_to_resume(&mut self, client: usize) -> String {
        let Welcome { session, password, .. } = self.clients[client].1.clone();
        let (mut wire, welcome) =
            Wire::connect(&self.address, TIMEOUT, session, &password, 0).expect("an answer");
        format!("(refused: {welcome:?}, then {:?})", wire.receive())
    }

    /// Connects with the wrong password, and with knowledge of what has not happened.
    fn intrude(&mut self, client: usize) -> String {
        let session = self.clients[client].1.session;
        let refused = Wire::connect(&self.address, TIMEOUT, session, &[7; 16], 0);
        let closed = Wire::connect(&self.address, TIMEOUT, 0, &[0; 16], i64::MAX).is_none();
        format!("(impostor: {:?}, from the future: closed {closed})", refused.map(|(_, welcome)| welcome))
    }

    fn perform(&mut self, client: usize, operation: &Operation, keep_zxids: bool) -> Said {
        let names: Vec<_> = self.clients.iter().map(|(_, welcome)| welcome.session).collect();
        let name_of = |owner| match names.iter().position(|session| *session == owner) {
            Some(client) => format!("client {client}"),
            None => format!("{owner:#x}"),
        };
        let (events, reply) = self.clients[client].0.call(operation.code, &operation.body);
        self.has_hung_up = reply.is_none();
        let mut text = describe_events(events, operation.code == CLOSE_SESSION, keep_zxids);
        let Some(reply) = reply else {
            text.push_str("closed");
            return Said { text, zxid: None, created: None, is_closed: true };
        };
        text.push_str(&operation::describe(operation, &reply, &name_of));
        let is_create = [CREATE, CREATE_2, CREATE_CONTAINER, CREATE_TTL].contains(&operation.code);
        let created = (is_create && reply.error == 0).then(|| Parts(&reply.body).text());
        // Failed authentication.
        let is_closed = reply.error == -115;
        if is_closed || operation.code == CLOSE_SESSION || operation.code == UNKNOWN {
            let _ = write!(text, " then {:?}", self.clients[client].0.receive());
        }
        Said { text, zxid: Some(reply.zxid), created, is_closed }
    }

    fn events(&mut self, is_unordered: bool, keep_zxids: bool) -> String {
        let mut has_hung_up = false;
        let events = self.clients.iter_mut().map(|(wire, _)| {
            let (events, pong) = wire.ping();
            has_hung_up |= pong.is_none();
            let events = describe_events(events, is_unordered, keep_zxids);
            match pong.map(|pong| pong.error) {
                Some(0) => events,
                unexpected => format!("{events} then {unexpected:?}"),
            }
        });
        let events = events.collect::<Vec<_>>().join("|");
        self.has_hung_up = has_hung_up;
        events
    }
}

/// The nodes of a session are removed in any order.
fn describe_events(mut events: Vec<Event>, is_unordered: bool, keep_zxids: bool) -> String {
    if !keep_zxids {
        events.iter_mut().for_each(|event| event.zxid = 0);
    }
    if is_unordered {
        events.sort();
    }
    events.iter().map(|Event { zxid, kind, path }| format!("[{kind} {path} z{zxid}]")).collect()
}

/// Returns the version in the answer to `srvr`.
fn version(srvr: &str) -> (u32, u32, u32) {
    let text = srvr.lines().next().unwrap().trim_start_matches("Zookeeper version: ");
    let mut numbers = text.split(|char: char| !char.is_ascii_digit()).map(|number| number.parse().unwrap());
    let mut number = || numbers.next().unwrap();
    (number(), number(), number())
}
