//! Changes of the tree, all or none.

use std::sync::Arc;

use super::super::acl::{self, Acl};
use super::super::code::Code;
use super::path;
use super::{Change, Event, Kind, Node, Requester, Stamp, Stat, Tree};

/// The node that is to be created.
#[derive(Clone, Debug)]
pub(in super::super) struct Create {
    pub(in super::super) path: String,
    pub(in super::super) data: Option<Vec<u8>>,
    pub(in super::super) acl: Vec<Acl>,
    pub(in super::super) kind: Kind,
    pub(in super::super) is_sequential: bool,
}

/// One or more changes with the same stamp. Each method makes one, or fails and changes nothing.
///
/// The order in which conditions are looked at is that of ZooKeeper, since it decides which error is returned.
#[must_use = "changes are undone unless they are committed"]
pub(in super::super) struct Transaction<'a> {
    tree: &'a mut Tree,
    stamp: Stamp,
    requester: Requester<'a>,
    changes: Vec<Change>,
    undo: Vec<Undo>,
}

/// How a change is undone.
enum Undo {
    Create { path: String, creates: i32, pzxid: i64 },
    Delete { path: String, node: Node, pzxid: i64 },
    SetData { path: String, data: Option<Vec<u8>>, version: i32, mzxid: i64, mtime: i64 },
}

impl Tree {
    /// Begins a transaction. What it has done is undone unless it is committed.
    pub(in super::super) fn begin<'a>(
        &'a mut self,
        stamp: Stamp,
        requester: Requester<'a>,
    ) -> Transaction<'a> {
        Transaction { tree: self, stamp, requester, changes: Vec::new(), undo: Vec::new() }
    }
}

impl Transaction<'_> {
    /// Keeps the changes, and returns them in their order.
    pub(in super::super) fn commit(mut self) -> Vec<Change> {
        self.undo.clear();
        std::mem::take(&mut self.changes)
    }

    /// Returns the path and the `Stat` of the new node.
    pub(in super::super) fn create(&mut self, create: Create) -> Result<(String, Stat), Code> {
        let Create { mut path, data, acl, kind, is_sequential } = create;
        let Requester { session, ids } = self.requester;
        if !kind.is_valid() {
            return Err(Code::BadArguments);
        }
        let parent_path = match path::split(&path) {
            Some((parent, _)) if !path.contains('\0') => parent.to_owned(),
            _ => return Err(Code::BadArguments),
        };
        let acl: Arc<[Acl]> = acl::resolve(&acl, ids)?.into();
        let parent = self.tree.node(&parent_path)?;
        acl::check(&parent.acl, acl::CREATE, ids)?;
        if is_sequential {
            path = format!("{path}{:010}", parent.creates);
        }
        if !path::is_valid(&path) {
            return Err(Code::BadArguments);
        }
        if self.tree.node(&path).is_ok() {
            return Err(Code::NodeExists);
        }
        if parent.kind == Kind::Ephemeral {
            return Err(Code::NoChildrenForEphemerals);
        }

        let owner = if kind == Kind::Ephemeral { session } else { 0 };
        let node = Node::new(data, acl.clone(), self.stamp, kind, owner);
        let stat = node.stat();
        let zxid = self.stamp.zxid;
        let parent = self.tree.nodes.get_mut(&parent_path).ok_or(Code::NoNode)?;
        let (creates, pzxid) = (parent.creates, parent.pzxid);
        // The counter stays at its largest value.
        if creates < i32::MAX {
            parent.creates += 1;
            parent.pzxid = zxid;
        }
        let parent_acl = parent.acl.clone();
        self.tree.insert(path.clone(), node);
        self.undo.push(Undo::Create { path: path.clone(), creates, pzxid });
        self.changes.push(Change { event: Event::Created, path: path.clone(), zxid, acl });
        self.changes.push(Change { event: Event::ChildrenChanged, path: parent_path, zxid, acl: parent_acl });
        Ok((path, stat))
    }

    pub(in super::super) fn delete(&mut self, path: &str, version: i32) -> Result<(), Code> {
        let parent_path = match path::split(path) {
            Some((parent, _)) if !path.contains('\0') && !path::is_special(path) => parent,
            _ => return Err(Code::BadArguments),
        };
        let parent = self.tree.node(parent_path)?;
        acl::check(&parent.acl, acl::DELETE, self.requester.ids)?;
        let node = self.tree.node(path)?;
        check_version(node.version, version)?;
        if !node.children.is_empty() {
            return Err(Code::NotEmpty);
        }
        let pzxid = parent.pzxid;
        if let Some(node) = self.tree.remove(path, self.stamp.zxid, &mut self.changes) {
            self.undo.push(Undo::Delete { path: path.into(), node, pzxid });
        }
        Ok(())
    }

    pub(in super::super) fn set_data(
        &mut self,
        path: &str,
        data: Option<Vec<u8>>,
        version: i32,
    ) -> Result<Stat, Code> {
        let Stamp { zxid, time } = self.stamp;
        let node = self.writable(path, acl::WRITE)?;
        let next = next_version(node.version, version)?;
        let undo = Undo::SetData {
            path: path.into(),
            data: std::mem::replace(&mut node.data, data),
            version: std::mem::replace(&mut node.version, next),
            mzxid: std::mem::replace(&mut node.mzxid, zxid),
            mtime: std::mem::replace(&mut node.mtime, time),
        };
        let (stat, acl) = (node.stat(), node.acl.clone());
        self.undo.push(undo);
        self.changes.push(Change { event: Event::DataChanged, path: path.into(), zxid, acl });
        Ok(stat)
    }

    /// Sets the list of a node. ZooKeeper has no transactions with it, so it is not undone.
    pub(in super::super) fn set_acl(&mut self, path: &str, list: &[Acl], version: i32) -> Result<Stat, Code> {
        if !path::is_valid(path) {
            return Err(Code::BadArguments);
        }
        let list = acl::resolve(list, self.requester.ids)?;
        let node = self.writable(path, acl::ADMIN)?;
        node.aversion = next_version(node.aversion, version)?;
        node.acl = list.into();
        Ok(node.stat())
    }

    pub(in super::super) fn check(&mut self, path: &str, version: i32) -> Result<(), Code> {
        check_version(self.writable(path, acl::READ)?.version, version)
    }

    /// Returns a node for which the requester has a permission.
    fn writable(&mut self, path: &str, permission: i32) -> Result<&mut Node, Code> {
        if !path::is_valid(path) {
            return Err(Code::BadArguments);
        }
        let node = self.tree.nodes.get_mut(path).ok_or(Code::NoNode)?;
        acl::check(&node.acl, permission, self.requester.ids)?;
        Ok(node)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        for undo in self.undo.drain(..).rev() {
            undo.apply(self.tree);
        }
    }
}

impl Undo {
    fn apply(self, tree: &mut Tree) {
        match self {
            Self::Create { path, creates, pzxid } => {
                tree.take(&path);
                if let Some((parent, _)) = tree.parent(&path) {
                    (parent.creates, parent.pzxid) = (creates, pzxid);
                }
            }
            Self::Delete { path, node, pzxid } => {
                if let Some((parent, _)) = tree.parent(&path) {
                    parent.pzxid = pzxid;
                }
                tree.insert(path, node);
            }
            Self::SetData { path, data, version, mzxid, mtime } => {
                if let Some(node) = tree.nodes.get_mut(&path) {
                    (node.data, node.version, node.mzxid, node.mtime) = (data, version, mzxid, mtime);
                }
            }
        }
    }
}

/// -1 stands for any version.
fn check_version(current: i32, expected: i32) -> Result<(), Code> {
    if expected == -1 || expected == current { Ok(()) } else { Err(Code::BadVersion) }
}

fn next_version(current: i32, expected: i32) -> Result<i32, Code> {
    check_version(current, expected)?;
    Ok(current.wrapping_add(1))
}
