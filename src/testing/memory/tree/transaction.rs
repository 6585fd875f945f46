//! Changes of the tree, all or none.

use std::sync::Arc;

use super::super::acl::{self, Acl};
use super::super::code::Code;
use super::super::request::{Create, Write};
use super::path;
use super::{Change, Event, Kind, Node, Requester, Stamp, Tree};
use crate::testing::jute::Writer;

/// One or more writes with the same stamp. Each is done, or fails and changes nothing.
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

    /// Does a write, and puts what it returns into the body of the reply.
    pub(in super::super) fn write(&mut self, write: Write, body: &mut Writer) -> Result<(), Code> {
        match write {
            Write::Create(create) => self.create(create, body),
            Write::Delete { path, version } => self.delete(&path, version),
            Write::SetData { path, data, version } => self.set_data(path, data, version, body),
            Write::Check { path, version } => {
                check_version(self.writable(&path, acl::READ)?.version, version)
            }
            Write::SetAcl { path, acl, version } => self.set_acl(&path, &acl, version, body),
            Write::Refused(code) => Err(code),
        }
    }

    fn create(&mut self, create: Create, body: &mut Writer) -> Result<(), Code> {
        let Create { mut path, data, acl, kind, is_sequential, returns_stat } = create;
        let Requester { session, ids } = self.requester;
        if matches!(kind, Kind::Ttl(_)) && !self.tree.has_ttl_nodes {
            return Err(Code::Unimplemented);
        }
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
        body.string(&path);
        if returns_stat {
            node.put_stat(body);
        }
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
        self.changes.push(Change { event: Event::Created, path: path.clone(), acl });
        self.changes.push(Change { event: Event::ChildrenChanged, path: parent_path, acl: parent_acl });
        Ok(())
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

    fn set_data(
        &mut self,
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
        body: &mut Writer,
    ) -> Result<(), Code> {
        let Stamp { zxid, time } = self.stamp;
        let node = self.writable(&path, acl::WRITE)?;
        let next = next_version(node.version, version)?;
        let undo = Undo::SetData {
            path: path.clone(),
            data: std::mem::replace(&mut node.data, data),
            version: std::mem::replace(&mut node.version, next),
            mzxid: std::mem::replace(&mut node.mzxid, zxid),
            mtime: std::mem::replace(&mut node.mtime, time),
        };
        node.put_stat(body);
        let acl = node.acl.clone();
        self.undo.push(undo);
        self.changes.push(Change { event: Event::DataChanged, path, acl });
        Ok(())
    }

    /// Sets the list of a node. ZooKeeper has no transactions with it, so it is not undone.
    fn set_acl(&mut self, path: &str, list: &[Acl], version: i32, body: &mut Writer) -> Result<(), Code> {
        if !path::is_valid(path) {
            return Err(Code::BadArguments);
        }
        let list = acl::resolve(list, self.requester.ids)?;
        let node = self.writable(path, acl::ADMIN)?;
        node.aversion = next_version(node.aversion, version)?;
        node.acl = list.into();
        node.put_stat(body);
        Ok(())
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
