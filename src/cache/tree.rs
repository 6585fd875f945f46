//! The nodes of a snapshot: a sorted collection whose clones share what they have in common.
//!
//! It is a B-tree of reference-counted nodes. A clone takes one counter. A change copies the nodes on its way from the
//! root, unless no clone has them: some hundred pointers, whatever the size of the tree.

use std::cmp::Ordering;
use std::sync::Arc;

use super::index::Index;
use super::node::CachedNode;

/// The most entries of a node of the tree.
const MOST: usize = 64;

/// Nodes in the order of their parents' paths, then of their names. So a parent comes before its children, and the
/// children of one node are neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Arc<Page>,
    index: Index,
    len: usize,
}

#[derive(Clone, Debug)]
enum Page {
    Leaf(Vec<Arc<CachedNode>>),
    /// Not empty, and neither are its pages. Pages that have become short stay so.
    Inner(Vec<Arc<Page>>),
}

/// A place in the order: the path of a parent, and a name.
type Key<'a> = (&'a str, &'a str);

/// Returns the path of the parent, and the name. Those of the root are empty.
pub(crate) fn split(path: &str) -> Key<'_> {
    match path.rsplit_once('/') {
        _ if path == "/" => ("", ""),
        Some(("", name)) => ("/", name),
        Some(split) => split,
        None => ("", path),
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self { root: Arc::new(Page::Leaf(Vec::new())), index: Index::default(), len: 0 }
    }
}

impl Tree {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Arc<CachedNode>> {
        self.index.get(path).or_else(|| self.search(path))
    }

    fn search(&self, path: &str) -> Option<&Arc<CachedNode>> {
        self.from(split(path)).next().filter(|node| node.path() == path)
    }

    /// Returns the node that was at its path.
    pub(crate) fn insert(&mut self, node: Arc<CachedNode>) -> Option<Arc<CachedNode>> {
        self.index.insert(&node);
        let (before, split) = Arc::make_mut(&mut self.root).insert(node);
        if let Some(right) = split {
            let left = std::mem::replace(&mut self.root, right.clone());
            self.root = Arc::new(Page::Inner(vec![left, right]));
        }
        self.len += usize::from(before.is_none());
        before
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<Arc<CachedNode>> {
        let removed = Arc::make_mut(&mut self.root).remove(split(path))?;
        self.index.remove(path);
        self.len -= 1;
        while let Page::Inner(pages) = &*self.root
            && let [only] = &pages[..]
        {
            self.root = only.clone();
        }
        Some(removed)
    }

    /// All nodes in order.
    pub(crate) fn iter(&self) -> Iter<'_> {
        self.from(("", ""))
    }

    /// The children of a node, by name.
    pub(crate) fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Arc<CachedNode>> + 'a {
        self.from((path, "")).take_while(move |node| node.key().0 == path)
    }

    /// The nodes behind the one of this path, which need not exist.
    pub(crate) fn after(&self, path: &str) -> impl Iterator<Item = &Arc<CachedNode>> {
        self.from(split(path)).skip_while(move |node| node.path() == path)
    }

    fn from(&self, key: Key<'_>) -> Iter<'_> {
        let mut iter = Iter { stack: Vec::new(), leaf: [].iter() };
        iter.descend(&self.root, key);
        iter
    }
}

impl Page {
    /// That of the first node.
    fn first_key(&self) -> Key<'_> {
        let mut page = self;
        loop {
            match page {
                Self::Leaf(nodes) => return nodes.first().map(|node| node.key()).unwrap_or_default(),
                // It is not empty.
                Self::Inner(pages) => page = &pages[0],
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Leaf(nodes) => nodes.len(),
            Self::Inner(pages) => pages.len(),
        }
    }

    /// Returns the node that was there, and the right half if this had to be split.
    fn insert(&mut self, node: Arc<CachedNode>) -> (Option<Arc<CachedNode>>, Option<Arc<Page>>) {
        let before = match self {
            Self::Leaf(nodes) => match find(nodes, node.key()) {
                Ok(at) => return (Some(std::mem::replace(&mut nodes[at], node)), None),
                Err(at) => {
                    nodes.insert(at, node);
                    None
                }
            },
            Self::Inner(pages) => {
                let at = page_of(pages, node.key());
                let (before, split) = Arc::make_mut(&mut pages[at]).insert(node);
                if let Some(split) = split {
                    pages.insert(at + 1, split);
                }
                before
            }
        };
        (before, self.split())
    }

    /// Splits what has become too long.
    fn split(&mut self) -> Option<Arc<Page>> {
        if self.len() <= MOST {
            return None;
        }
        Some(Arc::new(match self {
            Self::Leaf(nodes) => Self::Leaf(nodes.split_off(nodes.len() / 2)),
            Self::Inner(pages) => Self::Inner(pages.split_off(pages.len() / 2)),
        }))
    }

    fn remove(&mut self, key: Key<'_>) -> Option<Arc<CachedNode>> {
        match self {
            Self::Leaf(nodes) => find(nodes, key).ok().map(|at| nodes.remove(at)),
            Self::Inner(pages) => {
                let at = page_of(pages, key);
                let removed = Arc::make_mut(&mut pages[at]).remove(key)?;
                if pages[at].len() == 0 {
                    pages.remove(at);
                }
                Some(removed)
            }
        }
    }
}

fn find(nodes: &[Arc<CachedNode>], wanted: Key<'_>) -> Result<usize, usize> {
    nodes.binary_search_by(|node| node.key().cmp(&wanted))
}

/// The page that would have the key: the last one that does not begin behind it.
fn page_of(pages: &[Arc<Page>], wanted: Key<'_>) -> usize {
    pages.partition_point(|page| page.first_key().cmp(&wanted) != Ordering::Greater).saturating_sub(1)
}

/// The nodes in order.
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a> {
    /// The pages to come, by level.
    stack: Vec<std::slice::Iter<'a, Arc<Page>>>,
    leaf: std::slice::Iter<'a, Arc<CachedNode>>,
}

impl<'a> Iter<'a> {
    /// Goes to the first node of the page that is not before the key.
    fn descend(&mut self, mut page: &'a Page, wanted: Key<'_>) {
        loop {
            match page {
                Page::Leaf(nodes) => {
                    let at = find(nodes, wanted).unwrap_or_else(|at| at);
                    self.leaf = nodes[at..].iter();
                    return;
                }
                Page::Inner(pages) => {
                    let at = page_of(pages, wanted);
                    self.stack.push(pages[at + 1..].iter());
                    page = &pages[at];
                }
            }
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<CachedNode>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(node) = self.leaf.next() {
                return Some(node);
            }
            match self.stack.last_mut()?.next() {
                Some(page) => self.descend(page, ("", "")),
                None => drop(self.stack.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn node(path: &str, version: i32) -> Arc<CachedNode> {
        Arc::new(CachedNode::for_tests(path, version))
    }

    /// The path of a number: some children of one parent, some deeper.
    fn path(number: u16) -> String {
        match number % 4 {
            0 => format!("/n{number}"),
            1 => format!("/a/n{number}"),
            2 => format!("/a/b/n{number}"),
            _ => format!("/a-b/n{}", number / 8),
        }
    }

    fn paths(tree: &Tree) -> Vec<String> {
        tree.iter().map(|node| node.path().to_owned()).collect()
    }

    #[test]
    fn parents_come_first_and_siblings_together() {
        let mut tree = Tree::default();
        for path in ["/a/b/c", "/a-b", "/", "/a/b", "/a", "/a-b/c", "/a/a"] {
            assert!(tree.insert(node(path, 0)).is_none());
        }
        assert_eq!(paths(&tree), ["/", "/a", "/a-b", "/a/a", "/a/b", "/a-b/c", "/a/b/c"].map(String::from));
        let children = |path| tree.children(path).map(|node| node.path().to_owned()).collect::<Vec<_>>();
        assert_eq!(children("/"), ["/a", "/a-b"]);
        assert_eq!(children("/a"), ["/a/a", "/a/b"]);
        assert!(children("/a/a").is_empty() && children("/x").is_empty());
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map_whose_clones_do_not_change(
            steps in prop::collection::vec((any::<bool>(), 0_u16..600, any::<i32>()), 1..3000),
        ) {
            let mut tree = Tree::default();
            let mut model = BTreeMap::<(String, String), i32>::new();
            let mut clone = None;
            for (at, (inserts, number, version)) in steps.iter().enumerate() {
                let path = path(*number);
                let key = { let (parent, name) = split(&path); (parent.to_owned(), name.to_owned()) };
                if *inserts || at % 5 == 0 {
                    let before = tree.insert(node(&path, *version));
                    prop_assert_eq!(before.map(|node| node.version()), model.insert(key, *version));
                } else {
                    let before = tree.remove(&path);
                    prop_assert_eq!(before.map(|node| node.version()), model.remove(&key));
                }
                prop_assert_eq!(tree.len(), model.len());
                if at == steps.len() / 2 {
                    clone = Some((tree.clone(), model.clone()));
                }
            }
            for (tree, model) in clone.into_iter().chain([(tree, model)]) {
                let seen: Vec<_> = tree.iter().map(|node| (split(node.path()), node.version())).collect();
                let expected: Vec<_> =
                    model.iter().map(|((parent, name), version)| ((&parent[..], &name[..]), *version)).collect();
                prop_assert_eq!(seen, expected);
                for number in (0..600).step_by(7) {
                    let path = path(number);
                    let (parent, name) = split(&path);
                    let expected = model.get(&(parent.to_owned(), name.to_owned()));
                    for found in [tree.index.get(&path), tree.search(&path)] {
                        prop_assert_eq!(found.map(|node| node.version()), expected.copied());
                    }
                    let behind = model.range((parent.to_owned(), name.to_owned())..);
                    let behind = behind.filter(|((p, n), _)| (&p[..], &n[..]) != (parent, name)).count();
                    prop_assert_eq!(tree.after(&path).count(), behind);
                }
                prop_assert_eq!(tree.children("/a").count(), model.keys().filter(|(parent, _)| parent == "/a").count());
            }
        }
    }
}
