//! What is true of an ensemble: the newest committed state, and what has led to it.

use super::state::State;
use crate::testing::memory::tree::{Change, Event, Node};

/// A node, as the newest committed state has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The id of the transaction that created the node.
    pub czxid: i64,
    /// The id of the transaction that last set its data.
    pub mzxid: i64,
    /// How often its data was set.
    pub version: i32,
    /// The session that it ends with, or 0.
    pub ephemeral_owner: i64,
    /// Its data.
    pub data: Vec<u8>,
    /// How many children it has.
    pub num_children: usize,
}

/// A committed change of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observed {
    /// The id of the transaction.
    pub zxid: i64,
    /// The node.
    pub path: String,
    /// What happened to it.
    pub kind: ObservedKind,
    /// The data after the transaction; `None` if there is no such node then.
    pub data: Option<Vec<u8>>,
    /// Whether an operator did it: a method of [`MemoryEnsemble`](crate::testing::MemoryEnsemble).
    pub is_by_operator: bool,
}

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObservedKind {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its data was set.
    DataChanged,
}

impl NodeInfo {
    pub(super) fn of(node: &Node) -> Self {
        Self {
            czxid: node.czxid,
            mzxid: node.mzxid,
            version: node.version,
            ephemeral_owner: node.owner,
            data: node.data.clone().unwrap_or_default(),
            num_children: node.names().len(),
        }
    }
}

impl State {
    /// Notes what an update of a server has changed, unless another server has made the same update before.
    pub(super) fn note(&mut self, server: usize, is_by_operator: bool) {
        let database = &mut self.replicas[server].database;
        let changes = std::mem::take(&mut database.changes);
        if database.zxid <= self.noted {
            return;
        }
        self.noted = database.zxid;
        if !self.is_observed {
            return;
        }
        let (tree, zxid) = (&database.tree, database.zxid);
        for Change { event, path, .. } in changes {
            let kind = match event {
                Event::Created => ObservedKind::Created,
                Event::Deleted => ObservedKind::Deleted,
                Event::DataChanged => ObservedKind::DataChanged,
                Event::ChildrenChanged => continue,
            };
            let data = tree.node(&path).ok().map(|node| node.data.clone().unwrap_or_default());
            self.observed.push_back(Observed { zxid, path, kind, data, is_by_operator });
        }
    }
}
