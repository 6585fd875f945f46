//! What a cache holds at one moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node::CachedNode;
use super::tree::Tree;

/// The nodes of a [`Cache`](super::Cache) at one moment. It does not change any more, and shares its memory with the
/// snapshots before and after it: keep it for as long as you like, and read it without locks.
///
/// Paths are given and returned below the client's namespace.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(super) nodes: Tree,
    pub(super) unreadable: Arc<BTreeSet<Arc<str>>>,
    bytes: usize,
    /// How many changes there were before it.
    changes: u64,
}

debug_by!(Snapshot, |it| nodes: it.len(), bytes: it.bytes, unreadable: it.unreadable.len());

impl Snapshot {
    /// Puts a node at its path. Returns the one that was there.
    pub(super) fn insert(&mut self, node: &Arc<CachedNode>) -> Option<Arc<CachedNode>> {
        self.mark_unreadable(node, !node.is_readable());
        let before = self.nodes.insert(node.clone());
        self.bytes += node.bytes();
        self.bytes -= before.as_ref().map_or(0, |before| before.bytes());
        self.changes += 1;
        before
    }

    /// Removes a node that is there.
    pub(super) fn remove(&mut self, node: &Arc<CachedNode>) {
        self.mark_unreadable(node, false);
        self.nodes.remove(node.path());
        self.bytes -= node.bytes();
        self.changes += 1;
    }

    fn mark_unreadable(&mut self, node: &CachedNode, is_unreadable: bool) {
        // Otherwise it would be copied for nothing.
        if self.unreadable.contains(node.path()) == is_unreadable {
            return;
        }
        let unreadable = Arc::make_mut(&mut self.unreadable);
        match is_unreadable {
            true => unreadable.insert(node.shared_path().clone()),
            false => unreadable.remove(node.path()),
        };
    }

    /// Returns the node at this path.
    pub fn get(&self, path: &str) -> Option<&Arc<CachedNode>> {
        self.nodes.get(path)
    }

    /// Returns the data of the node at this path; `None` if there is no such node, or its data is not known.
    pub fn data(&self, path: &str) -> Option<&[u8]> {
        self.get(path)?.data()
    }

    /// Returns the children of the node at this path, by name.
    pub fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Arc<CachedNode>> + 'a {
        self.nodes.children(path)
    }

    /// Returns all nodes: each one before its children, siblings by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CachedNode>> {
        self.nodes.iter()
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there is no node, not even at the path of the cache.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of all data and paths together. See [`CacheOptions::max_bytes`](super::CacheOptions::max_bytes).
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the paths of the nodes that the client may not read, which are held without data and children.
    ///
    /// The servers tell nothing of such nodes (since 3.8.4 and 3.9.2): neither of their changes and deletions, nor that
    /// there are new ones. So they are looked at every 30 s, and after each reconnect; new ones are found when their
    /// parent is listed again. In a cache [without data](super::CacheOptions::without_data), only those that have
    /// children are known to be unreadable.
    pub fn unreadable(&self) -> impl ExactSizeIterator<Item = &str> {
        self.unreadable.iter().map(|path| &**path)
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }
}
