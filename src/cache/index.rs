//! Finds the nodes of a tree by the hashes of their paths.
//!
//! It is a trie of reference-counted branches. As with the [tree](super::tree), a change copies those on its way from the
//! root, unless no clone has them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::node::CachedNode;

/// How many bits of the hash choose the slot of a branch.
const BITS: u32 = 6;

/// The branches from the root on, up to the last bits of the hash.
const DEPTH: u32 = u64::BITS / BITS;

/// Nodes by their paths. A node may be missing: one whose hash is that of another.
#[derive(Clone, Debug, Default)]
pub(super) struct Index(Arc<Branch>);

#[derive(Clone, Debug, Default)]
struct Branch {
    /// A bit for each slot that there is.
    present: u64,
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
enum Slot {
    Node(Arc<CachedNode>),
    /// Not empty.
    Branch(Arc<Branch>),
}

impl Index {
    pub(super) fn get(&self, path: &str) -> Option<&Arc<CachedNode>> {
        let mut hash = hash(path);
        let mut branch = &self.0;
        loop {
            let (bit, at) = branch.place(hash);
            match branch.slots.get(at).filter(|_| branch.present & bit != 0)? {
                Slot::Node(node) => return Some(node).filter(|node| node.path() == path),
                Slot::Branch(next) => branch = next,
            }
            hash >>= BITS;
        }
    }

    pub(super) fn insert(&mut self, node: &Arc<CachedNode>) {
        Arc::make_mut(&mut self.0).insert(hash(node.path()), 1, node);
    }

    pub(super) fn remove(&mut self, path: &str) {
        Arc::make_mut(&mut self.0).remove(hash(path), path);
    }
}

impl Branch {
    /// Returns the bit and the index of the slot for what is left of a hash.
    fn place(&self, hash: u64) -> (u64, usize) {
        let bit = 1 << (hash % u64::from(u64::BITS));
        (bit, (self.present & (bit - 1)).count_ones() as usize)
    }

    fn insert(&mut self, rest: u64, depth: u32, node: &Arc<CachedNode>) {
        let (bit, at) = self.place(rest);
        if self.present & bit == 0 {
            self.present |= bit;
            // Most branches stay small.
            self.slots.reserve_exact(1);
            self.slots.insert(at, Slot::Node(node.clone()));
            return;
        }
        match &mut self.slots[at] {
            Slot::Branch(branch) => Arc::make_mut(branch).insert(rest >> BITS, depth + 1, node),
            Slot::Node(other) if other.path() == node.path() => *other = node.clone(),
            Slot::Node(other) if depth < DEPTH => {
                let mut branch = Self::default();
                branch.insert(hash(other.path()) >> (BITS * depth), depth + 1, other);
                branch.insert(rest >> BITS, depth + 1, node);
                self.slots[at] = Slot::Branch(Arc::new(branch));
            }
            Slot::Node(_) => {}
        }
    }

    fn remove(&mut self, rest: u64, path: &str) {
        let (bit, at) = self.place(rest);
        if self.present & bit == 0 {
            return;
        }
        let is_empty = match &mut self.slots[at] {
            Slot::Node(node) => node.path() == path,
            Slot::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                branch.remove(rest >> BITS, path);
                branch.slots.is_empty()
            }
        };
        if is_empty {
            self.present &= !bit;
            self.slots.remove(at);
        }
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_node_of_one_hash_is_missing_until_the_first_has_gone() {
        let node = |path| Arc::new(CachedNode::for_tests(path, 0));
        let (one, two) = (node("/a"), node("/b"));
        let same = hash("/a");
        let mut branch = Branch::default();
        branch.insert(same, 1, &one);
        branch.insert(same, DEPTH, &two);
        assert_eq!(branch.slots.len(), 1);
        branch.remove(same, "/b");
        assert!(Index(Arc::new(branch.clone())).get("/a").is_some());
        branch.remove(same, "/a");
        assert!(branch.slots.is_empty() && branch.present == 0);
    }
}
