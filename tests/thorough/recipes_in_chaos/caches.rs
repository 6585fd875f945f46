//! Caches of all that there is, one at each client of ours.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;
use zk_recipes::Client;
use zk_recipes::cache::{Cache, CacheEvent, CacheOptions, CachedNode, Change, Snapshot};
use zookeeper_client as zk;

use crate::reader::Reader;
use crate::run::Run;
use crate::trouble::pause;

/// What is known of a node.
type Known = (i64, i64, Vec<u8>);

/// What is known of all nodes, by path.
pub(crate) type Tree = BTreeMap<String, Known>;

/// What the servers have; `None` if they do not answer, or it changes meanwhile.
pub(crate) async fn tree(bystander: &zk::Client, root: &str) -> Option<Tree> {
    let mut tree = Tree::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let (data, stat) = bystander.get_data(&path).await.ok()?;
        let names = bystander.list_children(&path).await.ok()?;
        paths.extend(names.iter().map(|name| format!("{path}/{name}")));
        tree.insert(path, (stat.czxid, stat.mzxid, data));
    }
    Some(tree)
}

fn known(snapshot: &Snapshot) -> Tree {
    let known =
        |node: &CachedNode| (node.created_by(), node.modified_by(), node.data().unwrap_or_default().to_vec());
    snapshot.iter().map(|node| (node.path().to_owned(), known(node))).collect()
}

/// In what these differ.
pub(crate) fn difference(servers: &Tree, shown: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, known) in servers {
        if shown.get(path) != Some(known) {
            faults.push(format!("{path}: it is {known:?}, and shown as {:?}", shown.get(path)));
        }
    }
    let gone = shown.keys().filter(|path| !servers.contains_key(*path));
    faults.extend(gone.map(|path| format!("{path}: it is not there, and shown")));
    faults
}

/// A cache, and somebody who reads all that it tells.
pub(crate) struct Followed {
    pub(crate) name: String,
    pub(crate) cache: Cache,
    reader: Arc<Mutex<Reader>>,
    pub(crate) told: Arc<AtomicUsize>,
    reading: JoinHandle<()>,
}

impl Followed {
    pub(crate) fn start(client: &Client, name: String, root: &str, buffer: usize) -> Self {
        Self::start_with(client, name, root, buffer, |_| true)
    }

    /// One whose reader is not told all.
    pub(crate) fn start_with(
        client: &Client,
        name: String,
        root: &str,
        buffer: usize,
        is_heard: impl Fn(&CacheEvent) -> bool + Send + 'static,
    ) -> Self {
        let cache = Cache::new(client, root, CacheOptions::tree().buffer(buffer)).unwrap();
        let (reader, told) = (Arc::<Mutex<Reader>>::default(), Arc::<AtomicUsize>::default());
        let mut changes = cache.changes();
        let reading = tokio::spawn({
            let (reader, told) = (reader.clone(), told.clone());
            async move {
                while let Some(event) = changes.next().await {
                    if let CacheEvent::Change(Change::Changed { old, new }) = &event {
                        assert!(old.modified_by() <= new.modified_by(), "{old:?} is followed by {new:?}");
                    }
                    if is_heard(&event) {
                        let mut reader = reader.lock().unwrap();
                        reader.take(event);
                        // It would grow without end.
                        reader.told.clear();
                    }
                    told.fetch_add(1, SeqCst);
                }
            }
        });
        Self { name, cache, reader, told, reading }
    }

    /// In what it differs from the servers. Whoever is behind may still come.
    pub(crate) fn faults(&self, servers: &Tree) -> Vec<String> {
        assert!(!self.reading.is_finished(), "{}: what it tells is wrong, or has an end", self.name);
        let mut faults = Vec::new();
        if !self.cache.state().is_current() {
            faults.push(format!("it is {:?}", self.cache.state()));
        }
        faults.extend(difference(servers, &known(&self.cache.current())));
        let told = &self.reader.lock().unwrap().nodes;
        let told = told.iter().map(|(path, node)| {
            let known = (node.created_by(), node.modified_by(), node.data().unwrap_or_default().to_vec());
            (path.clone(), known)
        });
        faults.extend(difference(servers, &told.collect()).into_iter().map(|fault| format!("told: {fault}")));
        faults
    }

    pub(crate) fn resets(&self) -> usize {
        self.reader.lock().unwrap().resets
    }
}

/// Loads a cache in the middle of it all, again and again.
pub(crate) async fn visit(client: Client, root: String, name: Arc<str>, run: Arc<Run>) {
    let mut last = BTreeMap::new();
    while !run.is_over() {
        let cache = Cache::new(&client, &root, CacheOptions::tree()).unwrap();
        let snapshot = run.within(&name, cache.wait_current()).await.unwrap();
        let zxids = |node: &CachedNode| (node.created_by(), node.modified_by());
        let now: BTreeMap<_, _> = snapshot.iter().map(|node| (node.path().to_owned(), zxids(node))).collect();
        for (path, zxids) in &now {
            let before = last.get(path).unwrap_or(zxids);
            assert!(before <= zxids, "{name}: {path} goes back from {before:?} to {zxids:?}");
        }
        last = now;
        run.succeeded(&name);
        pause(0..1000).await;
    }
}
