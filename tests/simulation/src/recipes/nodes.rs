//! Nodes that are kept, and members of a group.
//!
//! Promised are: a node of which it is said that it is there was created as it is said, and no one deletes it but an
//! operator or the end of its session; data that were confirmed were written; it comes back; what was closed is gone;
//! who has joined is a member for all; who watches a group sees its members; nothing is left.

use zk_recipes::nodes::{
    Group, GroupMember, Members, NodeMode, NodeState, OnStranger, PersistentNode, PersistentNodeOptions,
};

use super::prelude::*;

pub(super) const RECIPE: Recipe =
    Recipe::new("nodes", |world| Box::pin(play(world)), &[NODES, GROUP], "operations");

const NODES: &str = "/nodes";
const GROUP: &str = "/group";
const EACH: usize = 3;
const MODES: [NodeMode; EACH] = [NodeMode::Ephemeral, NodeMode::EphemeralSequential, NodeMode::Persistent];

/// What the servers have ever had.
#[derive(Debug, Default)]
struct History {
    created: BTreeSet<(String, i64)>,
    written: BTreeSet<Vec<u8>>,
    /// How many data were thought of.
    data: u64,
}

thread_local! {
    static HISTORY: RefCell<History> = RefCell::default();
}

fn was_created(path: &str, czxid: i64) -> bool {
    HISTORY.with_borrow(|history| history.created.contains(&(path.to_owned(), czxid)))
}

/// Data that no one else writes.
fn new_data() -> Vec<u8> {
    HISTORY.with_borrow_mut(|history| {
        history.data += 1;
        format!("data {}", history.data).into_bytes()
    })
}

/// Someone keeps a node, until he gives it up or his machine crashes.
struct Keeps(Rc<Cell<bool>>);

impl Keeps {
    /// Judges what is said of a node from now on.
    fn judged(world: &World, machine: &Machine, who: &str, mut states: Watch<NodeState>) -> Self {
        let keeps = Rc::new(Cell::new(true));
        let (world, who, is_kept) = (world.clone(), who.to_owned(), keeps.clone());
        machine.spawn(async move {
            while let Some(state) = states.changed().await {
                let NodeState::Present { path, czxid } = state else { continue };
                count("operations", 1);
                if world.is_faithful() && !was_created(&path, czxid) {
                    violation(format!("{who} has {path} of {czxid:#x}, which never was"));
                }
                let Some(owner) = world.servers().node(&path).map(|node| node.ephemeral_owner) else {
                    continue;
                };
                let (world, is_kept, states) = (world.clone(), is_kept.clone(), states.clone());
                let said = NodeState::Present { path: path.clone(), czxid };
                let lives = move || owner == 0 || world.servers().session_ids().contains(&owner);
                judge::keep(&path, who.clone(), move || is_kept.get() && lives() && states.get() == said);
            }
        });
        Self(keeps)
    }
}

impl Drop for Keeps {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// What was closed is not there any more, unless the client took its session for over before the servers did.
fn judge_closed(Task { world, client, who, .. }: &Task, last: &NodeState) {
    let NodeState::Present { path, czxid } = last else { return };
    let node = world.servers().node(path).filter(|node| node.czxid == *czxid);
    if node.is_some_and(|node| !of_old_session(client, &node)) && world.is_faithful() {
        violation(format!("{who} has closed {path} of {czxid:#x}, which is there"));
    }
}

struct Task {
    world: World,
    machine: Machine,
    client: Client,
    who: String,
}

impl Task {
    fn starts(&self, index: usize, turn: u32) -> (PersistentNode, Keeps) {
        let options = PersistentNodeOptions::new().mode(MODES[index]).on_stranger(OnStranger::Wait);
        let path = format!("{NODES}/{}-{index}-{turn}-", self.machine.number());
        let node = PersistentNode::start(&self.client, &path, new_data(), options).expect("it is not kept");
        let keeps = Keeps::judged(&self.world, &self.machine, &self.who, node.watch_state());
        (node, keeps)
    }

    async fn keeps_node(self, index: usize) -> (PersistentNode, Keeps) {
        let (mut turn, world) = (0, &self.world);
        let (mut node, mut keeps) = self.starts(index, turn);
        // Whether the next one may be at another path: nothing that is left at this one may stay.
        let moves = world.is_faithful() && !world.plan().has_any(&[Fault::Crash, Fault::DeleteNode]);
        while world.is_stormy() {
            match fastrand::u8(0..8) {
                0 => drop(world.chancy(node.wait_present(), Duration::from_secs(5)).await),
                1 => self.sets(&node).await,
                2 if chance(80) => loop {
                    drop(keeps);
                    self.closes(node).await;
                    turn += u32::from(moves && fastrand::bool());
                    (node, keeps) = self.starts(index, turn);
                    if fastrand::bool() {
                        break;
                    }
                    // Perhaps before it has heard of its create.
                    sleep(Duration::from_millis(fastrand::u64(0..50))).await;
                },
                3 if world.plan().has(Fault::DeleteNode) => {
                    world.servers().set_data(node.path(), b"foreign");
                }
                _ => sleep(Duration::from_millis(fastrand::u64(0..800))).await,
            }
        }
        world.calm().await;
        sleep(Duration::from_secs(30)).await;
        let present = timeout(Duration::from_secs(10), node.wait_present()).await;
        let at = present.ok().and_then(Result::ok).and_then(|path| world.servers().node(&path));
        let is_alive =
            |owner| world.servers().session_ids().contains(&owner) != (MODES[index] == NodeMode::Persistent);
        match at {
            Some(at) if at.data == node.data() && is_alive(at.ephemeral_owner) => {}
            at => violation(format!(
                "{}: in calm weather: {:?}, the servers have {at:?}",
                self.who,
                node.state()
            )),
        }
        (node, keeps)
    }

    async fn sets(&self, node: &PersistentNode) {
        let data = new_data();
        match self.world.chancy(node.set_data(data.clone()), Duration::from_secs(10)).await {
            Some(Ok(())) => {
                count("operations", 1);
                let was_written = HISTORY.with_borrow(|history| history.written.contains(&data));
                if self.world.is_faithful() && !was_written {
                    violation(format!("{}: {data:?} was confirmed, and never written", self.who));
                }
            }
            Some(Err(error)) => self.fails("set", &error),
            None => {}
        }
    }

    async fn closes(&self, node: PersistentNode) {
        let last = node.state();
        if fastrand::bool() {
            return drop(node);
        }
        match self.world.chancy(node.close(), Duration::from_secs(20)).await {
            Some(Ok(())) => judge_closed(self, &last),
            Some(Err(error)) => self.fails("close", &error),
            None => {}
        }
    }

    fn fails(&self, what: &str, error: &Error) {
        let is_expected = matches!(
            error,
            Error::NotConnected { .. } | Error::ZooKeeper { .. } | Error::NodeTaken { .. } | Error::Closed
        );
        failed(format_args!("{}: {what}", self.who), error, is_expected);
    }

    async fn joins_group(self, index: usize) -> Option<(GroupMember, Keeps)> {
        let (world, id) = (&self.world, format!("{}-{index}", self.machine.number()));
        let group = Group::new(&self.client, GROUP).expect("a valid path");
        while world.is_stormy() {
            match world.chancy(group.join(&id, new_data()), Duration::from_secs(30)).await {
                Some(Ok(member)) => {
                    let keeps = Keeps::judged(world, &self.machine, &self.who, member.watch_state());
                    self.is_member(&group, &member).await;
                    sleep(Duration::from_millis(fastrand::u64(0..2_000))).await;
                    drop(keeps);
                    self.leaves(member).await;
                }
                Some(Err(error)) => {
                    self.fails("join", &error);
                    sleep(Duration::from_millis(20)).await;
                }
                None => {}
            }
        }
        world.calm().await;
        sleep(Duration::from_secs(30)).await;
        match timeout(Duration::from_secs(10), group.join(&id, new_data())).await {
            Ok(Ok(member)) => {
                let keeps = Keeps::judged(world, &self.machine, &self.who, member.watch_state());
                Some((member, keeps))
            }
            joined => {
                violation(format!(
                    "{}: in calm weather: {:?}",
                    self.who,
                    joined.map(|joined| joined.map(drop))
                ));
                None
            }
        }
    }

    /// Whoever has joined is listed, for as long as his node is there and he knows of no end of his session.
    async fn is_member(&self, group: &Group, member: &GroupMember) {
        let joined = member.state();
        let NodeState::Present { path, czxid } = joined.clone() else { return };
        let node = || self.world.servers().node(&path).filter(|node| node.czxid == czxid);
        // The client may know of an end of its session that the state does not show yet.
        let is_there = || node().is_some_and(|node| !of_old_session(&self.client, &node));
        let was_there = is_there();
        let Some(Ok(members)) = self.world.chancy(group.members(), Duration::from_secs(20)).await else {
            return;
        };
        count("operations", 1);
        let is_listed = members.get(member.id()).is_some_and(|listed| listed.czxid() == czxid);
        if was_there && is_there() && member.state() == joined && !is_listed && self.world.is_faithful() {
            violation(format!("{} is no member: {members:?}", self.who));
        }
    }

    async fn leaves(&self, member: GroupMember) {
        let last = member.state();
        if fastrand::bool() {
            return drop(member);
        }
        match self.world.chancy(member.leave(), Duration::from_secs(20)).await {
            Some(Ok(())) => judge_closed(self, &last),
            Some(Err(error)) => self.fails("leave", &error),
            None => {}
        }
    }
}

/// A process that has done its work, and keeps its nodes.
struct Done {
    client: Client,
    watched: Watch<Members>,
    nodes: Vec<(PersistentNode, Keeps)>,
    members: Vec<(GroupMember, Keeps)>,
}

async fn play(world: World) {
    HISTORY.take();
    world.servers().observe(|change| {
        HISTORY.with_borrow_mut(|history| {
            if change.kind == ObservedKind::Created {
                history.created.insert((change.path.clone(), change.zxid));
            }
            history.written.extend(change.data.clone());
        });
    });
    let all = world.processes(process).await;
    sleep(Duration::from_secs(10)).await;
    judge_watched(&world, &all);
    let mut clients = Vec::new();
    for Done { client, watched, nodes, members } in all {
        drop(watched);
        for (node, keeps) in nodes {
            drop(keeps);
            close_in_calm_weather(node, PersistentNode::close).await;
        }
        for (member, keeps) in members {
            drop(keeps);
            close_in_calm_weather(member, GroupMember::leave).await;
        }
        clients.push(client);
    }
    sleep(Duration::from_secs(5)).await;
    for path in [NODES, GROUP] {
        expect_nothing(&world, path, |_| true);
    }
    world.ends(clients).await;
}

async fn close_in_calm_weather<T, F: Future<Output = zk_recipes::Result<()>>>(
    kept: T,
    close: impl Fn(T) -> F,
) {
    if fastrand::bool() {
        drop(kept);
    } else if let Err(error) = close(kept).await {
        violation(format!("in calm weather, close: {error}"));
    }
}

async fn process(world: World, machine: Machine) -> Done {
    let client = machine.client().await;
    let group = Group::new(&client, GROUP).expect("a valid path");
    let watched = group.watch_members();
    machine.spawn(follow(world.clone(), format!("machine {}", machine.number()), watched.clone()));
    let task = |what, index| {
        let who = format!("machine {} {what} {index}", machine.number());
        Task { world: world.clone(), machine: machine.clone(), client: client.clone(), who }
    };
    let nodes: Vec<_> = (0..EACH).map(|index| machine.spawn(task("node", index).keeps_node(index))).collect();
    let members: Vec<_> =
        (0..EACH).map(|index| machine.spawn(task("member", index).joins_group(index))).collect();
    let nodes = all_done(nodes).await;
    let members = all_done(members).await.into_iter().flatten().collect();
    Done { client, watched, nodes, members }
}

/// Whoever is shown as a member has been one.
async fn follow(world: World, who: String, mut watched: Watch<Members>) {
    while let Some(members) = watched.changed().await {
        for (id, member) in members.iter() {
            if world.is_faithful() && !was_created(&format!("{GROUP}/{id}"), member.czxid()) {
                violation(format!("{who} sees {id} of {:#x}, who never was", member.czxid()));
            }
        }
    }
}

fn judge_watched(world: &World, all: &[Done]) {
    let expected = EACH * world.machines().len();
    let kept = world.servers().children(NODES).unwrap_or_default();
    if kept.len() != expected {
        violation(format!("{expected} nodes are kept, the servers have {kept:?}"));
    }
    let truth: BTreeMap<_, _> =
        world.servers().nodes_below(GROUP).into_iter().map(|(path, node)| (path, node.data)).collect();
    for (machine, done) in all.iter().enumerate() {
        let watched = done.watched.get();
        let data = |(id, member): (&str, &zk_recipes::nodes::Member)| {
            (format!("{GROUP}/{id}"), member.payload().unwrap_or_default().to_vec())
        };
        let seen: BTreeMap<_, _> = watched.iter().map(data).collect();
        if !watched.is_current() || seen != truth || seen.len() != expected {
            violation(format!("machine {machine} sees {:?}, the servers have {truth:?}", watched));
        }
    }
}
