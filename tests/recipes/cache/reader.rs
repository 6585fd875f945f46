//! Who reads the changes of a cache, and checks each.

use std::collections::HashMap;

use super::*;

/// What a reader of the changes knows.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) changes: Changes,
    pub(crate) nodes: HashMap<String, Arc<CachedNode>>,
    pub(crate) resets: usize,
    /// As `+`, `=` or `-`, and the path.
    pub(crate) told: Vec<String>,
}

fn nodes(snapshot: &Snapshot) -> HashMap<String, Arc<CachedNode>> {
    snapshot.iter().map(|node| (node.path().to_owned(), node.clone())).collect()
}

impl Reader {
    /// One that knows what the cache has loaded.
    pub(crate) async fn of(cache: &Cache) -> Self {
        let (changes, nodes, told) = (cache.changes(), HashMap::new(), Vec::new());
        let mut reader = Self { changes, nodes, resets: 0, told };
        within(cache.wait_current()).await.unwrap();
        reader.read();
        reader
    }

    /// Takes what has happened so far.
    pub(crate) fn read(&mut self) {
        while let Some(event) = self.changes.try_next() {
            self.take(event);
        }
    }

    pub(crate) fn take(&mut self, event: CacheEvent) {
        match event {
            CacheEvent::Reset(snapshot) => {
                self.resets += 1;
                self.nodes = nodes(&snapshot);
            }
            CacheEvent::Change(Change::Created(node)) => {
                self.told.push(format!("+{}", node.path()));
                let parent = node.path().rsplit_once('/').map(|(parent, _)| parent);
                let parent = parent.filter(|parent| !parent.is_empty()).unwrap_or("/");
                assert!(self.nodes.is_empty() || self.nodes.contains_key(parent), "{:?}", self.told);
                let before = self.nodes.insert(node.path().to_owned(), node);
                assert_eq!(before, None, "it was there already");
            }
            CacheEvent::Change(Change::Changed { old, new }) => {
                self.told.push(format!("={}", new.path()));
                // It may not be known of one that was unreadable.
                assert!([0, new.created_by()].contains(&old.created_by()));
                assert_eq!(self.nodes.insert(new.path().to_owned(), new), Some(old));
            }
            CacheEvent::Change(Change::Deleted(node)) => {
                self.told.push(format!("-{}", node.path()));
                assert_eq!(self.nodes.remove(node.path()).as_ref(), Some(&node));
                let below = format!("{}/", node.path().trim_end_matches('/'));
                assert!(!self.nodes.keys().any(|path| path.starts_with(&below)), "{:?}", self.told);
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn assert_is(&self, snapshot: &Snapshot) {
        assert_eq!(self.nodes, nodes(snapshot));
    }
}
