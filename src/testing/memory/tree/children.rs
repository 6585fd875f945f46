//! The names of a node's children.

use std::collections::BTreeSet;

/// Names in an order that looks random, and is the same in each run. A real server lists children in the order of
/// its hash table; names in order would hide that a program forgets to sort them.
#[derive(Clone, Debug, Default)]
pub(super) struct Children(BTreeSet<(u64, Box<str>)>);

impl Children {
    pub(super) fn add(&mut self, name: &str) {
        self.0.insert(entry(name));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(&entry(name));
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, name)| &**name)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The hash is FNV-1a, and a multiplication that spreads names with different ends.
fn entry(name: &str) -> (u64, Box<str>) {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = name.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    ((hash ^ hash >> 32).wrapping_mul(SPREAD), name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_in_no_useful_order() {
        let mut children = Children::default();
        let names: Vec<_> = (0..100).map(|number| format!("lock-{number:010}")).collect();
        names.iter().for_each(|name| children.add(name));
        children.add(&names[0]);
        assert_eq!(children.len(), 100);
        let listed: Vec<_> = children.names().collect();
        let ascending = listed.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((30..70).contains(&ascending), "{ascending} of 99");
        names.iter().for_each(|name| children.remove(name));
        assert!(children.is_empty());
    }
}
