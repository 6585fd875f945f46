//! The core against a model of servers: random writes, replies and events in the order of the connection, cuts, watches
//! that end silently, and permissions that change.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use zookeeper_client::{self as zk, EventType};

use super::super::change::Change;
use super::super::node::CachedNode;
use super::super::options::CacheOptions;
use super::*;
use crate::error::Error;

mod busy;
mod cases;
mod replaced;

/// A node of the servers.
#[derive(Clone, Debug)]
struct Node {
    data: Vec<u8>,
    stat: zk::Stat,
    is_forbidden: bool,
}

/// What is on its way to the client.
#[derive(Clone, Debug)]
enum Message {
    Event(EventType, String, i64),
    Reply(Vec<(Op, Found)>),
}

#[derive(Clone, Debug)]
enum Step {
    /// A client of the servers does something to one of the paths.
    Write(u8, u8),
    /// A node with children, and those, are deleted and created again.
    CreateAgain,
    /// Of two nodes, the first one gets the data of the second one, which loses them.
    Exchange(u8, u8),
    /// One of the paths cannot be read, or can be again.
    Permit(u8, bool),
    /// The client sends the next request.
    Send,
    /// The server answers the next request.
    Answer,
    /// The client takes so many messages, and sees the events among so many more.
    Take(u8, u8),
    Cut,
    Connect,
    LookAtUnreadable,
}

struct World {
    nodes: BTreeMap<String, Node>,
    zxid: i64,
    is_connected: bool,
    tells_zxids: bool,
    /// Whether nothing is told of nodes that cannot be read.
    hides_stats: bool,
    /// Whether no event tells of nodes that cannot be read.
    hides_events: bool,
    requests: VecDeque<Vec<Op>>,
    messages: VecDeque<Message>,
    core: Core,
    /// The paths of nodes that were deleted.
    deleted: HashSet<String>,
    /// The changes, replayed.
    replayed: HashMap<String, Arc<CachedNode>>,
    /// The latest node of each path that was told of.
    created: HashMap<String, i64>,
}

const PATHS: [&str; 9] =
    ["/r", "/r/a", "/r/b", "/r/a/c", "/r/a/d", "/r/a/c/e", "/r/a/c/f", "/r/b/skip", "/r/b/skip/x"];
const AT_ONCE: usize = 3;

fn rules(depth: usize, with_data: bool) -> Rules {
    limited(depth, with_data, 100, 10_000)
}

fn limited(depth: usize, with_data: bool, max_nodes: usize, max_bytes: usize) -> Rules {
    let options = CacheOptions::tree().depth(depth).max_nodes(max_nodes).max_bytes(max_bytes);
    let options = options.filter(|path| !path.ends_with("/skip"));
    Rules { root: "/r".into(), full_path: "/r".into(), options: CacheOptions { with_data, ..options } }
}

impl World {
    fn new(depth: usize, with_data: bool, tells_zxids: bool) -> Self {
        Self {
            nodes: BTreeMap::new(),
            zxid: 0,
            is_connected: false,
            tells_zxids,
            hides_stats: false,
            hides_events: false,
            requests: VecDeque::new(),
            messages: VecDeque::new(),
            core: Core::new(rules(depth, with_data)),
            deleted: HashSet::new(),
            replayed: HashMap::new(),
            created: HashMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(path, what) => self.write(PATHS[usize::from(*path) % PATHS.len()], *what),
            Step::CreateAgain => create_again(self),
            Step::Exchange(one, other) => self.exchange([one, other].map(|at| usize::from(*at))),
            Step::Permit(path, is_forbidden) => {
                if let Some(node) = self.nodes.get_mut(PATHS[usize::from(*path) % PATHS.len()]) {
                    node.is_forbidden = *is_forbidden;
                }
            }
            Step::Send if self.is_connected && self.requests.len() < AT_ONCE => {
                let ops = self.core.next();
                if !ops.is_empty() {
                    self.requests.push_back(ops);
                }
            }
            Step::Answer => self.answer(),
            Step::Take(messages, more) => self.take((*messages).into(), (*more).into()),
            Step::Cut if self.is_connected => self.cut(),
            Step::Connect if !self.is_connected => {
                self.is_connected = true;
                self.core.resume();
            }
            Step::LookAtUnreadable => self.core.look_at_unreadable(),
            _ => {}
        }
        self.replay();
    }

    /// Ends the connection, or the use of it.
    fn cut(&mut self) {
        self.is_connected = false;
        self.requests.clear();
        self.messages.clear();
        self.core.interrupt();
    }

    fn write(&mut self, path: &str, what: u8) {
        let parent = path.rsplit_once('/').map(|(parent, _)| parent.to_owned()).unwrap();
        let has_children = self.nodes.keys().any(|other| other.starts_with(&format!("{path}/")));
        let has_parent = parent.is_empty() || self.nodes.contains_key(&parent);
        self.zxid += 1;
        let zxid = self.zxid;
        let mut is_hidden = self.nodes.get(path).is_some_and(|node| node.is_forbidden);
        let kind = match self.nodes.get_mut(path) {
            Some(_) if what.is_multiple_of(3) && !has_children => {
                self.nodes.remove(path);
                self.deleted.insert(path.to_owned());
                EventType::NodeDeleted
            }
            Some(node) => {
                node.stat.mzxid = zxid;
                node.stat.version += 1;
                node.data = vec![what; usize::from(what) % 5];
                node.stat.data_length = node.data.len() as i32;
                EventType::NodeDataChanged
            }
            None if has_parent => {
                let data = vec![what; usize::from(what) % 5];
                let mut stat = stat_of(zxid);
                stat.data_length = data.len() as i32;
                is_hidden = self.hides_events && what >= 192;
                self.nodes.insert(path.to_owned(), Node { data, stat, is_forbidden: is_hidden });
                EventType::NodeCreated
            }
            None => return,
        };
        if kind != EventType::NodeDataChanged
            && let Some(parent) = self.nodes.get_mut(&parent)
        {
            parent.stat.pzxid = zxid;
            parent.stat.cversion += 1;
            parent.stat.num_children += if kind == EventType::NodeCreated { 1 } else { -1 };
        }
        if self.is_connected && !(self.hides_events && is_hidden) {
            self.messages.push_back(Message::Event(kind, path.to_owned(), zxid));
        }
    }

    /// Exchanges data in one transaction.
    fn exchange(&mut self, at: [usize; 2]) {
        let [one, other] = at.map(|at| PATHS[at % PATHS.len()]);
        let length = |path| self.nodes.get(path).map(|node: &Node| node.data.len());
        if let (Some(0), Some(length @ 1..)) = (length(one), length(other)) {
            self.write(one, [1, 1, 2, 8, 4][length]);
            self.write(other, 5);
        }
    }

    fn answer(&mut self) {
        let Some(ops) = self.requests.pop_front() else { return };
        let reply = ops.into_iter().map(|op| {
            let found = self.find(&op);
            (op, found)
        });
        let reply = Message::Reply(reply.collect());
        self.messages.push_back(reply);
    }

    fn find(&self, op: &Op) -> Found {
        match (op, self.nodes.get(&**op.path())) {
            (_, None) => Found::Nothing,
            (op, Some(node)) if node.is_forbidden && (self.hides_stats || !matches!(op, Op::Stat(_))) => {
                Found::Forbidden
            }
            (Op::Stat(_), Some(node)) => Found::Node(None, node.stat),
            (Op::Data(_), Some(node)) => Found::Node(Some(node.data.clone()), node.stat),
            (Op::Children(path), Some(_)) => {
                let below = format!("{path}/");
                let names = self.nodes.keys().filter_map(|other| other.strip_prefix(&below));
                Found::Children(names.filter(|name| !name.contains('/')).map(String::from).collect())
            }
        }
    }

    /// Takes messages. Of those behind them, the events may be seen already.
    fn take(&mut self, messages: usize, more: usize) {
        let mut replies = Vec::new();
        let mut events = Vec::new();
        for _ in 0..messages {
            match self.messages.pop_front() {
                Some(Message::Event(kind, path, zxid)) => events.push((kind, path, zxid)),
                Some(Message::Reply(reply)) => replies.push(reply),
                None => {}
            }
        }
        let mut at = 0;
        for _ in 0..more {
            match self.messages.get(at) {
                Some(Message::Event(..)) => {
                    if let Some(Message::Event(kind, path, zxid)) = self.messages.remove(at) {
                        events.push((kind, path, zxid));
                    }
                }
                Some(Message::Reply(_)) => at += 1,
                None => break,
            }
        }
        for (kind, path, zxid) in events {
            let zxid = self.tells_zxids.then_some(zxid);
            self.core.event(kind, &path, zxid).unwrap();
        }
        for reply in replies {
            self.core.apply(reply).unwrap();
        }
    }

    /// Applies the changes, each of which must fit what was told before: a tree, at any time.
    fn replay(&mut self) {
        for change in self.core.take_changes() {
            match change {
                Change::Created(node) => {
                    // Of one that is hidden, it is not known.
                    if node.created_by() > 0 {
                        let latest = self.created.insert(node.path().to_owned(), node.created_by());
                        assert!(
                            latest.is_none_or(|latest| latest < node.created_by()) || self.hides_events,
                            "told twice: {node:?}"
                        );
                    }
                    if let Some((parent, _)) = node.path().rsplit_once('/').filter(|_| node.path() != "/r") {
                        let parent = self.replayed.get(parent).expect("nothing is above it");
                        let is_known = node.created_by() > 0;
                        assert!(
                            !is_known || parent.created_by() < node.created_by(),
                            "{node:?} is not below {parent:?}"
                        );
                    }
                    assert!(self.replayed.insert(node.path().to_owned(), node).is_none());
                }
                Change::Changed { old, new } => {
                    assert_ne!(old, new);
                    if old.is_unknown() {
                        self.created.insert(new.path().to_owned(), new.created_by());
                    } else {
                        assert_eq!(old.created_by(), new.created_by(), "that is another node");
                    }
                    assert_eq!(self.replayed.insert(new.path().to_owned(), new), Some(old));
                }
                Change::Deleted(node) => {
                    let below = format!("{}/", node.path());
                    assert!(!self.replayed.keys().any(|path| path.starts_with(&below)), "{node:?} is empty");
                    let there = self.nodes.get(node.path()).map(|there| there.stat.czxid);
                    assert!(there != Some(node.created_by()) || self.hides_stats, "{node:?} is there");
                    assert!(
                        self.deleted.contains(node.path()) || self.hides_events,
                        "{node:?} was never deleted"
                    );
                    assert_eq!(self.replayed.remove(node.path()), Some(node));
                }
            }
        }
        assert_eq!(self.replayed.len(), self.core.held().len());
        let bytes = |node: &Arc<CachedNode>| node.path().len() + node.data().map_or(0, <[u8]>::len);
        assert_eq!(self.core.held().bytes(), self.core.held().iter().map(bytes).sum::<usize>());
        for node in self.core.held().iter() {
            assert_eq!(self.replayed.get(node.path()), Some(node));
            assert_eq!(self.core.held().unreadable.contains(node.path()), !node.is_readable());
        }
    }

    /// How many nodes and bytes of what a cache is to hold the servers have.
    fn held(&self, depth: usize) -> (usize, usize) {
        let held = self.nodes.iter().filter(|(path, _)| is_held(path, depth));
        held.fold((0, 0), |(nodes, bytes), (path, node)| (nodes + 1, bytes + path.len() + node.data.len()))
    }

    /// Lets everything that is under way come to its end.
    fn settle(&mut self) {
        for _ in 0..1000 {
            for step in [Step::Connect, Step::Send, Step::Answer, Step::Take(2, 0)] {
                self.step(&step);
            }
        }
        assert!(self.messages.is_empty() && self.requests.is_empty());
        assert!(self.core.has_loaded());
        assert!(self.core.next().is_empty(), "there is no end to it");
    }

    /// What a cache must have. What is below an unreadable node may be known or not.
    fn assert_is_right(&self, depth: usize, with_data: bool, knows_permissions: bool) {
        for path in self.nodes.keys().filter(|path| is_held(path, depth)) {
            let mut above = path.as_str();
            let mut is_hidden = false;
            while let Some((parent, _)) = above.rsplit_once('/') {
                is_hidden |= self.nodes.get(parent).is_some_and(|node| node.is_forbidden);
                // It may be readable since.
                let shown = self.core.held().get(parent);
                is_hidden |= !knows_permissions && shown.is_some_and(|node| !node.is_readable());
                above = parent;
            }
            let node = &self.nodes[path];
            let Some(cached) = self.core.held().get(path) else {
                assert!(is_hidden, "{path} is missing");
                continue;
            };
            if cached.is_readable() || !self.hides_stats {
                assert_eq!(
                    (cached.created_by(), cached.modified_by()),
                    (node.stat.czxid, node.stat.mzxid),
                    "{path}"
                );
            }
            if with_data && knows_permissions {
                assert_eq!(cached.is_readable(), !node.is_forbidden, "{path}");
            }
            if with_data && cached.is_readable() {
                assert_eq!(cached.data(), Some(&node.data[..]), "{path}");
            }
        }
        for node in self.core.held().iter() {
            let is_there = self.nodes.contains_key(node.path()) && is_held(node.path(), depth);
            assert!(is_there, "{node:?} is not there");
        }
    }
}

/// Whether a cache is to hold a node of this path.
fn is_held(path: &str, depth: usize) -> bool {
    !path.contains("/skip") && path.matches('/').count() <= depth + 1
}

/// The most nodes and bytes that the servers have at once.
fn most_held(steps: &[Step], depth: usize) -> (usize, usize) {
    let mut servers = World::new(depth, true, true);
    let held = steps.iter().map(|step| {
        if let Step::Write(..) | Step::CreateAgain = step {
            servers.step(step);
        }
        servers.held(depth)
    });
    held.fold((1, 1), |(nodes, bytes), held| (nodes.max(held.0), bytes.max(held.1)))
}

/// The stat of a node that this transaction has created.
fn stat_of(zxid: i64) -> zk::Stat {
    zk::Stat {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime: 0,
        mtime: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 0,
        num_children: 0,
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<u8>(), any::<u8>()).prop_map(|(path, what)| Step::Write(path, what)),
        1 => Just(Step::CreateAgain),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(path, is_forbidden)| Step::Permit(path, is_forbidden)),
        6 => Just(Step::Send),
        6 => Just(Step::Answer),
        8 => (0..4_u8, 0..4_u8).prop_map(|(messages, more)| Step::Take(messages, more)),
        1 => Just(Step::Cut),
        2 => Just(Step::Connect),
        1 => Just(Step::LookAtUnreadable),
    ]
}

proptest! {
    #[test]
    fn a_cache_becomes_what_the_servers_have(
        steps in prop::collection::vec(step(), 0..150),
        depth in prop_oneof![Just(0), Just(1), Just(2), Just(usize::MAX - 1)],
        with_data in any::<bool>(),
        tells_zxids in any::<bool>(),
        hides_stats in any::<bool>(),
        cuts_last in any::<bool>(),
    ) {
        let (most_nodes, most_bytes) = most_held(&steps, depth);
        // It never fails, as the servers never have more.
        let core = Core::new(limited(depth, with_data, most_nodes, most_bytes));
        let mut world = World { hides_stats, core, ..World::new(depth, with_data, tells_zxids) };
        for step in &steps {
            world.step(step);
        }
        if cuts_last {
            world.step(&Step::Cut);
        }
        world.settle();
        world.assert_is_right(depth, with_data, cuts_last);
    }
}

proptest! {
    /// Since 3.8.4 and 3.9.2.
    #[test]
    fn a_cache_becomes_what_servers_have_that_hide_what_may_not_be_read(
        steps in prop::collection::vec(step(), 0..150),
        depth in prop_oneof![Just(0), Just(1), Just(2), Just(usize::MAX - 1)],
        with_data in any::<bool>(),
        tells_zxids in any::<bool>(),
    ) {
        let world = World::new(depth, with_data, tells_zxids);
        let mut world = World { hides_stats: true, hides_events: true, ..world };
        for step in &steps {
            world.step(step);
        }
        world.step(&Step::Cut);
        world.settle();
        world.assert_is_right(depth, with_data, true);
    }
}

/// What does not change how much the servers have.
fn exchange() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<u8>(), any::<u8>()).prop_map(|(one, other)| Step::Exchange(one, other)),
        4 => Just(Step::Send),
        4 => Just(Step::Answer),
        4 => (0..4_u8, 0..4_u8).prop_map(|(messages, more)| Step::Take(messages, more)),
        1 => Just(Step::Cut),
        2 => Just(Step::Connect),
    ]
}

fn loaded(world: &mut World) {
    for path in ["/r", "/r/a", "/r/a/c"] {
        world.write(path, 1);
    }
    world.settle();
}

/// Deletes nodes, and creates them again, while no one looks.
fn create_again(world: &mut World) {
    let is_below = |path: &String| path.starts_with("/r/a/");
    let below: Vec<String> = world.nodes.keys().filter(|path| is_below(path)).cloned().collect();
    for path in below.iter().map(String::as_str).rev().chain(["/r/a"]) {
        world.write(path, 0);
    }
    for path in ["/r/a"].into_iter().chain(below.iter().map(String::as_str)) {
        world.write(path, 1);
    }
}
