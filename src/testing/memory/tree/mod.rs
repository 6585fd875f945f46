//! The tree of nodes: what is where, and what a change does. It does no I/O and reads no clock.

mod children;
mod kind;
mod path;
mod transaction;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::children::Children;
use self::path::{CONFIG, QUOTA, ROOT, ZOOKEEPER};
use super::acl::{self, Acl, Id};
use super::code::Code;
use crate::testing::jute::Writer;

pub(super) use self::kind::Kind;

/// The number of a transaction, and the time at which it is made, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) zxid: i64,
    pub(super) time: i64,
}

/// On whose behalf something is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester<'a> {
    pub(super) session: i64,
    pub(super) ids: &'a [Id],
}

/// What watches are told about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Event {
    Created = 1,
    Deleted = 2,
    DataChanged = 3,
    ChildrenChanged = 4,
}

/// A change of one node, or of its children.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) event: Event,
    pub(super) path: String,
    /// Only those who may read the node learn of the change.
    pub(super) acl: Arc<[Acl]>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) data: Option<Vec<u8>>,
    acl: Arc<[Acl]>,
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    ctime: i64,
    mtime: i64,
    pub(super) version: i32,
    aversion: i32,
    /// How many children were created here. It numbers the sequential ones.
    creates: i32,
    kind: Kind,
    /// The session that it ends with, or 0.
    pub(super) owner: i64,
    children: Children,
}

/// All nodes of a server.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: HashMap<String, Node>,
    ephemerals: HashMap<i64, BTreeSet<String>>,
    /// Containers, and nodes with a time to live.
    mortals: BTreeSet<String>,
    has_ttl_nodes: bool,
}

impl Tree {
    pub(super) fn new(has_ttl_nodes: bool) -> Self {
        let open: Arc<[Acl]> = [Acl::of_everyone(acl::ALL)].into();
        let node = |children: &[&str]| {
            let mut node =
                Node::new(Some(Vec::new()), open.clone(), Stamp { zxid: 0, time: 0 }, Kind::Persistent, 0);
            children.iter().for_each(|child| node.children.add(child));
            node
        };
        let config = Node { acl: [Acl::of_everyone(acl::READ)].into(), aversion: -1, ..node(&[]) };
        let nodes = [
            (ROOT, node(&["zookeeper"])),
            (ZOOKEEPER, node(&["quota", "config"])),
            (QUOTA, node(&[])),
            (CONFIG, config),
        ];
        let nodes = nodes.map(|(path, node)| (path.to_owned(), node)).into();
        Self { nodes, ephemerals: HashMap::new(), mortals: BTreeSet::new(), has_ttl_nodes }
    }

    /// Returns a node, regardless of who may read it.
    pub(super) fn node(&self, path: &str) -> Result<&Node, Code> {
        // As a parent, the root has no name.
        self.nodes.get(if path.is_empty() { ROOT } else { path }).ok_or(Code::NoNode)
    }

    pub(super) fn readable(&self, path: &str, client: &[Id]) -> Result<&Node, Code> {
        let node = self.node(path)?;
        acl::check(&node.acl, acl::READ, client)?;
        Ok(node)
    }

    /// Returns how many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns how many nodes end with a session.
    pub(super) fn ephemerals(&self) -> usize {
        self.ephemerals.values().map(BTreeSet::len).sum()
    }

    /// Returns a node whose list a client may see, and the list as it sees it.
    pub(super) fn acl(&self, path: &str, client: &[Id]) -> Result<(Vec<Acl>, &Node), Code> {
        let node = self.node(path)?;
        acl::check(&node.acl, acl::READ | acl::ADMIN, client)?;
        let may_change = acl::check(&node.acl, acl::ADMIN, client).is_ok();
        let list = if may_change { node.acl.to_vec() } else { acl::masked(&node.acl) };
        Ok((list, node))
    }

    pub(super) fn count_below(&self, path: &str, client: &[Id]) -> Result<usize, Code> {
        self.readable(path, client)?;
        if path == ROOT {
            return Ok(self.nodes.len() - 1);
        }
        let is_below = |other: &&String| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        Ok(self.nodes.keys().filter(is_below).count())
    }

    /// Returns the nodes that end with a session, of those whose path begins with the prefix.
    pub(super) fn ephemerals_of(&self, session: i64, prefix: &str) -> Vec<&str> {
        let prefix = if prefix.trim() == ROOT { "" } else { prefix.trim_end() };
        let paths = self.ephemerals.get(&session).into_iter().flatten().map(String::as_str);
        paths.filter(|path| path.starts_with(prefix)).collect()
    }

    /// Returns the paths below a path, sorted.
    pub(super) fn paths_below(&self, path: &str) -> Vec<&str> {
        let prefix = if path == ROOT { "" } else { path };
        let is_below = |other: &&str| {
            other.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/') && rest != ROOT)
        };
        let mut paths: Vec<_> = self.nodes.keys().map(String::as_str).filter(is_below).collect();
        paths.sort_unstable();
        paths
    }

    /// Removes the nodes that end with a session.
    pub(super) fn end_session(&mut self, session: i64, zxid: i64) -> Vec<Change> {
        let mut changes = Vec::new();
        for path in self.ephemerals.remove(&session).unwrap_or_default() {
            self.remove(&path, zxid, &mut changes);
        }
        changes
    }

    /// Returns the containers, and the nodes with a time to live, that are to be removed at this time.
    pub(super) fn overdue(&self, time: i64) -> Vec<String> {
        self.mortals.iter().filter(|path| self.is_overdue(path, time)).cloned().collect()
    }

    fn is_overdue(&self, path: &str, time: i64) -> bool {
        self.nodes.get(path).is_some_and(|node| {
            let is_over = match node.kind {
                Kind::Container => node.creates > 0,
                Kind::Ttl(ttl) => time - node.mtime > ttl,
                Kind::Persistent | Kind::Ephemeral => false,
            };
            is_over && node.children.is_empty()
        })
    }

    /// Removes a node if it is [overdue](Self::overdue).
    pub(super) fn reap(&mut self, path: &str, Stamp { zxid, time }: Stamp) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.is_overdue(path, time) {
            self.remove(path, zxid, &mut changes);
        }
        changes
    }

    /// Returns the parent of a path, and the name that the path has there.
    fn parent<'p>(&mut self, path: &'p str) -> Option<(&mut Node, &'p str)> {
        let (parent, name) = path::split(path)?;
        Some((self.nodes.get_mut(parent)?, name))
    }

    /// Adds a node below a parent that is there.
    fn insert(&mut self, path: String, node: Node) {
        match node.kind {
            Kind::Persistent => {}
            Kind::Ephemeral => _ = self.ephemerals.entry(node.owner).or_default().insert(path.clone()),
            Kind::Container | Kind::Ttl(_) => _ = self.mortals.insert(path.clone()),
        }
        if let Some((parent, name)) = self.parent(&path) {
            parent.children.add(name);
        }
        self.nodes.insert(path, node);
    }

    /// Takes a node out of its parent and of every index.
    fn take(&mut self, path: &str) -> Option<Node> {
        let node = self.nodes.remove(path)?;
        match node.kind {
            Kind::Persistent => {}
            Kind::Ephemeral => {
                if let Some(paths) = self.ephemerals.get_mut(&node.owner) {
                    paths.remove(path);
                    if paths.is_empty() {
                        self.ephemerals.remove(&node.owner);
                    }
                }
            }
            Kind::Container | Kind::Ttl(_) => _ = self.mortals.remove(path),
        }
        if let Some((parent, name)) = self.parent(path) {
            parent.children.remove(name);
        }
        Some(node)
    }

    /// Removes a node without children.
    fn remove(&mut self, path: &str, zxid: i64, changes: &mut Vec<Change>) -> Option<Node> {
        let node = self.take(path)?;
        changes.push(Change { event: Event::Deleted, path: path.into(), acl: node.acl.clone() });
        if let Some((parent_path, _)) = path::split(path)
            && let Some(parent) = self.nodes.get_mut(parent_path)
        {
            parent.pzxid = zxid;
            let acl = parent.acl.clone();
            changes.push(Change { event: Event::ChildrenChanged, path: parent_path.into(), acl });
        }
        Some(node)
    }
}

impl Node {
    fn new(data: Option<Vec<u8>>, acl: Arc<[Acl]>, stamp: Stamp, kind: Kind, owner: i64) -> Self {
        let Stamp { zxid, time } = stamp;
        Self {
            data,
            acl,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            aversion: 0,
            creates: 0,
            kind,
            owner,
            children: Children::default(),
        }
    }

    /// Returns the names of the children, in no order that a client could rely on.
    pub(super) fn names(&self) -> Vec<&str> {
        self.children.names().collect()
    }

    /// Writes what clients call its `Stat`.
    pub(super) fn put_stat(&self, body: &mut Writer) {
        let length = |length: usize| i32::try_from(length).unwrap_or(i32::MAX);
        let children = length(self.children.len());
        // Clients are shown the creates and the deletes.
        let cversion = self.creates.wrapping_mul(2).wrapping_sub(children);
        body.i64(self.czxid).i64(self.mzxid).i64(self.ctime).i64(self.mtime);
        body.i32(self.version).i32(cversion).i32(self.aversion).i64(self.owner);
        body.i32(length(self.data.as_ref().map_or(0, Vec::len))).i32(children).i64(self.pzxid);
    }
}
