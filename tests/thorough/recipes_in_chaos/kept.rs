//! Nodes that are kept, and members of a group, which come and go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::nodes::{Group, GroupMember, NodeMode, NodeState, PersistentNode, PersistentNodeOptions};
use zk_recipes::{Client, Error};

use crate::peer::Actor;
use crate::run::Run;
use crate::stage::Participant;
use crate::trouble::pause;

/// What is there, or is to be there, by path.
pub(crate) type Nodes = BTreeMap<String, Node>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) data: String,
    /// The transaction that created it; `None` if its keeper does not know.
    pub(crate) created: Option<i64>,
}

pub(crate) fn group_path(root: &str) -> String {
    format!("{root}/group")
}

pub(crate) fn nodes_path(root: &str) -> String {
    format!("{root}/nodes")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Member,
    Node(NodeMode),
}

impl Kind {
    /// Nodes of several kinds at one path would be in each other's way.
    fn letter(self) -> char {
        match self {
            Self::Member => 'm',
            Self::Node(NodeMode::EphemeralSequential) => 's',
            Self::Node(NodeMode::Persistent) => 'p',
            Self::Node(_) => 'e',
        }
    }

    /// Whether clients compete for some of them.
    fn is_contested(self) -> bool {
        matches!(self, Self::Member | Self::Node(NodeMode::Ephemeral))
    }

    fn any() -> Self {
        let node = Self::Node;
        let kinds = [
            Self::Member,
            Self::Member,
            node(NodeMode::Ephemeral),
            node(NodeMode::EphemeralSequential),
            node(NodeMode::Persistent),
        ];
        kinds[fastrand::usize(..kinds.len())]
    }
}

/// One that our clients keep.
#[derive(Debug)]
enum Ours {
    Member(GroupMember),
    Node(PersistentNode),
}

impl Ours {
    async fn start(kind: Kind, client: &Client, root: &str, id: &str) -> zk_recipes::Result<Self> {
        match kind {
            Kind::Member => Group::new(client, &group_path(root))?.join(id, "0").await.map(Self::Member),
            Kind::Node(mode) => {
                let path = format!("{}/{id}", nodes_path(root));
                let options = PersistentNodeOptions::new().mode(mode);
                let node = PersistentNode::start(client, &path, "0", options)?;
                node.wait_present().await?;
                Ok(Self::Node(node))
            }
        }
    }

    async fn set(&self, data: &str) -> zk_recipes::Result<()> {
        match self {
            Self::Member(member) => member.set_payload(data).await,
            Self::Node(node) => node.set_data(data).await,
        }
    }

    fn data(&self) -> String {
        let data = match self {
            Self::Member(member) => member.payload(),
            Self::Node(node) => node.data(),
        };
        String::from_utf8(data).unwrap()
    }

    fn state(&self) -> NodeState {
        match self {
            Self::Member(member) => member.state(),
            Self::Node(node) => node.state(),
        }
    }

    async fn close(self) -> zk_recipes::Result<()> {
        match self {
            Self::Member(member) => member.leave().await,
            Self::Node(node) => node.close().await,
        }
    }
}

/// One that a peer keeps.
struct Theirs {
    actor: Actor,
    path: String,
    data: String,
}

/// What was kept when the run was over, and goes on being kept.
#[derive(Default)]
pub(crate) struct Living {
    ours: Mutex<Vec<Ours>>,
    theirs: tokio::sync::Mutex<Vec<Theirs>>,
}

impl Living {
    /// What of ours must be there. `None` while a node is not there as far as its client knows, unless another one of ours
    /// is there instead, or if two are at one path.
    pub(crate) fn ours(&self) -> Option<Nodes> {
        let ours = self.ours.lock().unwrap();
        let mut nodes = Nodes::new();
        let mut taken = Vec::new();
        for kept in &*ours {
            match kept.state() {
                NodeState::Present { path, czxid } => {
                    let node = Node { data: kept.data(), created: Some(czxid) };
                    if nodes.insert(path, node).is_some() {
                        return None;
                    }
                }
                NodeState::Blocked(Error::NodeTaken { path, .. }) => taken.push(path),
                _ => return None,
            }
        }
        taken.iter().all(|path| nodes.contains_key(path)).then_some(nodes)
    }

    /// What of the peers must be there.
    pub(crate) async fn theirs(&self) -> Nodes {
        let theirs = self.theirs.lock().await;
        let node = |kept: &Theirs| Node { data: kept.data.clone(), created: None };
        theirs.iter().map(|kept| (kept.path.clone(), node(kept))).collect()
    }

    /// Has the peers write their data once more: Curator may not have done so when the connection was lost.
    pub(crate) async fn refresh_theirs(&self) {
        for kept in &mut *self.theirs.lock().await {
            kept.data = "last".to_owned();
            // If that fails, it is seen in the end.
            let _ = kept.actor.try_call("act data last").await;
        }
    }

    /// Ends them all.
    pub(crate) async fn close(&self, run: &Run) {
        let ours = std::mem::take(&mut *self.ours.lock().unwrap());
        for kept in ours {
            run.within("the close", kept.close()).await.unwrap();
        }
        for mut kept in self.theirs.lock().await.drain(..) {
            let _ = kept.actor.try_call("release").await;
        }
    }
}

/// Keeps nodes of one of our clients, one after the other; the last one may stay.
pub(crate) async fn keep(client: Client, root: String, name: Arc<str>, living: Arc<Living>, run: Arc<Run>) {
    let mut number = 0;
    while !run.is_over() {
        let kind = Kind::any();
        let is_contested = kind.is_contested() && fastrand::u8(..3) == 0;
        let id = match is_contested {
            true => format!("rust-any.{}.{}", kind.letter(), fastrand::u8(..2)),
            false => format!("{name}.{}.{number}", kind.letter()),
        };
        let start = Ours::start(kind, &client, &root, &id);
        let kept = if fastrand::u8(..6) == 0 {
            // Nothing must come of it.
            number += 1;
            match timeout(Duration::from_millis(fastrand::u64(..30)), start).await {
                Ok(kept) => kept,
                Err(_) => continue,
            }
        } else {
            run.within(&id, start).await
        };
        let kept = match kept {
            Ok(kept) => kept,
            // It waits less long for a session than for a node. It may still be there for a moment: so the next one has
            // another name.
            Err(Error::NotConnected { .. }) => {
                number += 1;
                continue;
            }
            // By another client, or by this one.
            Err(Error::NodeTaken { .. } | Error::InvalidArgument { .. }) if is_contested => {
                pause(10..100).await;
                continue;
            }
            Err(error) => panic!("{id}: {error}"),
        };
        run.succeeded(&name);
        for data in 1..fastrand::usize(1..5) {
            let data = data.to_string();
            let set = kept.set(&data);
            // Another one may have taken its place when its session ended.
            if is_contested || fastrand::u8(..4) == 0 {
                let _ = timeout(Duration::from_millis(fastrand::u64(..20)), set).await;
            } else {
                run.within(&id, set).await.unwrap_or_else(|error| panic!("{id}: {error}"));
            }
            pause(0..50).await;
        }
        pause(0..500).await;
        if run.is_over() && fastrand::bool() {
            living.ours.lock().unwrap().push(kept);
            return;
        }
        if fastrand::u8(..4) == 0 {
            drop(kept);
            number += 1;
        } else {
            run.within(&id, kept.close()).await.unwrap_or_else(|error| panic!("{id}: {error}"));
            // The same one may come again.
            number += fastrand::usize(..2);
        }
    }
}

/// The same for a peer. What it leaves behind is shown, and no fault of ours.
pub(crate) async fn keep_theirs(
    peer: Arc<Participant>,
    root: String,
    name: Arc<str>,
    living: Arc<Living>,
    run: Arc<Run>,
) {
    let (group, nodes) = (group_path(&root), nodes_path(&root));
    let mut actor = peer.peer.as_ref().expect("it is a peer").open(&name, &format!("group {group}")).await;
    for number in 0.. {
        let id = format!("{name}.{number}");
        let (kind, path) = match fastrand::bool() {
            true => (format!("group {group} id={id} data=0"), format!("{group}/{id}")),
            false => (format!("node {nodes}/{id} data=0"), format!("{nodes}/{id}")),
        };
        actor.try_call(&format!("open {kind}")).await.unwrap();
        let is_there = actor.try_call("acquire").await.is_ok();
        if is_there {
            run.succeeded(&name);
            pause(0..200).await;
            let _ = actor.try_call("act data 1").await;
            pause(0..500).await;
        }
        if run.is_over() && is_there && fastrand::bool() {
            living.theirs.lock().await.push(Theirs { actor, path, data: String::new() });
            return;
        }
        let _ = actor.try_call("release").await;
        if run.is_over() {
            return;
        }
    }
}
