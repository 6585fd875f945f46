//! Caches of a tree that others change.
//!
//! Promised are: each node is shown as it was at some time, and never as it was before that; the changes that are told
//! lead from one snapshot to the next, and always make a tree; in calm weather a cache is current, and is what the
//! servers have soon after each change.

use zk_recipes::cache::{Cache, CacheEvent, CacheOptions, CachedNode, Change, Changes, Snapshot};

use super::prelude::*;

pub(super) const RECIPE: Recipe =
    Recipe { needs_3_6: true, ..Recipe::new("caches", |world| Box::pin(play(world)), &[TREE], "events") };

const TREE: &str = "/tree";
const KINDS: [Kind; 5] = [Kind::Tree, Kind::Children, Kind::Node, Kind::WithoutData, Kind::Filtered];

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tree,
    Children,
    Node,
    WithoutData,
    /// No node whose name is `0`, and nothing below it.
    Filtered,
}

impl Kind {
    fn options(self) -> CacheOptions {
        match self {
            Self::Tree => CacheOptions::tree(),
            Self::Children => CacheOptions::children(),
            Self::Node => CacheOptions::node(),
            Self::WithoutData => CacheOptions::tree().without_data(),
            Self::Filtered => CacheOptions::tree().filter(|path| !path.ends_with("/0")),
        }
    }

    fn holds(self, path: &str) -> bool {
        let depth = path.matches('/').count() - 1;
        match self {
            Self::Tree | Self::WithoutData => true,
            Self::Children => depth <= 1,
            Self::Node => depth == 0,
            Self::Filtered => !path.split('/').any(|name| name == "0"),
        }
    }
}

/// How a node is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    created: i64,
    modified: i64,
    data: Option<Vec<u8>>,
}

type Nodes = BTreeMap<String, Shown>;

thread_local! {
    /// The data of each node after each transaction that has changed it.
    static HISTORY: RefCell<BTreeMap<(String, i64), Vec<u8>>> = RefCell::default();
}

fn shown(node: &CachedNode) -> Shown {
    let data = node.data().map(<[u8]>::to_vec);
    Shown { created: node.created_by(), modified: node.modified_by(), data }
}

fn nodes(snapshot: &Snapshot) -> Nodes {
    snapshot.iter().map(|node| (node.path().to_owned(), shown(node))).collect()
}

/// What a cache of this kind is to show.
fn truth(world: &World, kind: Kind) -> Nodes {
    let mut nodes = Nodes::new();
    let root = world.servers().node(TREE).map(|node| (TREE.to_owned(), node));
    for (path, node) in root.into_iter().chain(world.servers().nodes_below(TREE)) {
        if kind.holds(&path) {
            let data = (kind != Kind::WithoutData).then_some(node.data);
            nodes.insert(path, Shown { created: node.czxid, modified: node.mzxid, data });
        }
    }
    nodes
}

/// What someone knows who only listens to the changes.
struct Mirror {
    who: String,
    kind: Kind,
    /// Whether the servers never forget.
    is_judged: bool,
    known: Nodes,
    newest: BTreeMap<String, (i64, i64)>,
}

impl Mirror {
    fn take(&mut self, event: CacheEvent) {
        count("events", 1);
        match event {
            CacheEvent::Reset(snapshot) => {
                count("resets", 1);
                self.known = nodes(&snapshot);
                for (path, node) in self.known.clone() {
                    self.sees(&path, &node);
                }
            }
            CacheEvent::Change(Change::Created(node)) => self.is_created(node.path(), shown(&node)),
            CacheEvent::Change(Change::Changed { old, new, .. }) => {
                let path = new.path();
                self.sees(path, &shown(&new));
                if self.known.insert(path.to_owned(), shown(&new)) != Some(shown(&old)) || old == new {
                    violation(format!("{}: {path} has changed from {old:?} to {new:?}", self.who));
                }
            }
            CacheEvent::Change(Change::Deleted(node)) => self.is_deleted(node.path(), &shown(&node)),
            _ => {}
        }
    }

    /// It was so at some time, and that is not before what was seen.
    fn sees(&mut self, path: &str, node: &Shown) {
        if !self.is_judged {
            return;
        }
        let now = (node.created, node.modified);
        let newest = self.newest.entry(path.to_owned()).or_insert(now);
        if now < *newest {
            violation(format!("{}: {path} of {now:?} after {newest:?}", self.who));
        }
        *newest = now.max(*newest);
        let was = HISTORY.with_borrow(|history| history.get(&(path.to_owned(), node.modified)).cloned());
        if was.is_none() || node.data.is_some() && node.data != was || !self.kind.holds(path) {
            violation(format!("{}: {path} is shown as {node:?}, it was {was:?}", self.who));
        }
    }

    fn is_created(&mut self, path: &str, node: Shown) {
        self.sees(path, &node);
        let is_below_nothing =
            path != TREE && !path.rsplit_once('/').is_some_and(|(at, _)| self.known.contains_key(at));
        if self.known.insert(path.to_owned(), node).is_some() || is_below_nothing {
            violation(format!("{}: {path} is created twice, or below nothing", self.who));
        }
    }

    fn is_deleted(&mut self, path: &str, node: &Shown) {
        let was = self.known.remove(path);
        let below = format!("{path}/");
        if was.as_ref() != Some(node) || self.known.keys().any(|path| path.starts_with(&below)) {
            violation(format!("{}: {path} is deleted as {node:?}, it was {was:?}", self.who));
        }
    }
}

/// A cache, and someone who listens to it.
struct Cached {
    kind: Kind,
    cache: Cache,
    mirror: Rc<RefCell<Mirror>>,
    listener: JoinHandle<Option<()>>,
}

impl Cached {
    fn new(world: &World, machine: &Machine, client: &Client, kind: Kind) -> Self {
        let options = kind.options().buffer(if chance(60) { 4 } else { 4096 });
        let cache = Cache::start(client, TREE, options).expect("a cache");
        let who = format!("machine {} ({kind:?})", machine.number());
        let is_judged = world.is_faithful();
        let mirror = Mirror { who, kind, is_judged, known: Nodes::new(), newest: BTreeMap::new() };
        let mirror = Rc::new(RefCell::new(mirror));
        let listener = machine.spawn(listen(cache.changes(), mirror.clone()));
        Self { kind, cache, mirror, listener }
    }

    /// In calm weather, it is current, and shows what the servers have; so do the changes that it tells.
    fn judge(&self, world: &World) {
        let mirror = self.mirror.borrow();
        let (state, truth) = (self.cache.state(), truth(world, self.kind));
        if !state.is_current() {
            violation(format!("{}: in calm weather, it is {state:?}", mirror.who));
        }
        for (what, seen) in [("the cache", &nodes(&self.cache.current())), ("its changes", &mirror.known)] {
            if *seen != truth {
                let differs = |one: &Nodes, other: &Nodes| -> Nodes {
                    one.iter().filter(|(path, node)| other.get(*path) != Some(node)).map(own).collect()
                };
                let (seen, truth) = (differs(seen, &truth), differs(&truth, seen));
                violation(format!("{}: {what}: {seen:?}, the servers have {truth:?}", mirror.who));
            }
        }
    }
}

fn own((path, node): (&String, &Shown)) -> (String, Shown) {
    (path.clone(), node.clone())
}

async fn listen(mut changes: Changes, mirror: Rc<RefCell<Mirror>>) {
    while let Some(event) = changes.next().await {
        mirror.borrow_mut().take(event);
        if chance(4) {
            sleep(Duration::from_millis(fastrand::u64(0..100))).await;
        }
    }
}

/// Changes something below the tree, or all of it.
fn garden(world: &World) {
    let servers = world.servers();
    let mut path = String::from(TREE);
    for _ in 0..fastrand::u32(1..4) {
        path += &format!("/{}", fastrand::u8(0..4));
    }
    count("garden", 1);
    match fastrand::u8(0..20) {
        0..8 => {
            for (end, _) in path.match_indices('/').skip(1) {
                servers.create(&path[..end], b"on the way", false);
            }
            servers.create(&path, &[fastrand::u8(..)], fastrand::bool());
        }
        8..14 => drop(servers.set_data(&path, &[fastrand::u8(..), 1])),
        14..18 => drop(servers.delete(&path)),
        18 => drop(servers.set_data(TREE, &[fastrand::u8(..)])),
        _ => {
            servers.delete(TREE);
            if fastrand::bool() {
                servers.create(TREE, b"again", false);
            }
        }
    }
}

async fn play(world: World) {
    HISTORY.take();
    world.servers().observe(|change| {
        if let Some(data) = &change.data {
            let key = (change.path.clone(), change.zxid);
            HISTORY.with_borrow_mut(|history| history.insert(key, data.clone()));
        }
    });
    world.servers().create(TREE, b"root", false);
    let processes = world.processes(process);
    while world.is_stormy() {
        sleep(Duration::from_millis(fastrand::u64(0..if chance(20) { 3_000 } else { 60 }))).await;
        garden(&world);
    }
    let all = processes.await;
    for change in 0..10 {
        note(|| format!("change {change} in calm weather"));
        garden(&world);
        sleep(Duration::from_secs(1)).await;
        all.iter().flat_map(|(_, caches)| caches).for_each(|cached| cached.judge(&world));
    }
    world.expect_idle().await;
    for (client, caches) in all {
        for Cached { cache, listener, mirror, .. } in caches {
            drop(cache);
            if timeout(Duration::from_secs(10), listener).await.is_err() {
                violation(format!("{}: the changes do not end", mirror.borrow().who));
            }
        }
        client.close().await;
    }
}

async fn process(world: World, machine: Machine) -> (Client, Vec<Cached>) {
    let client = machine.client().await;
    let new = |kind| Cached::new(&world, &machine, &client, kind);
    let mut caches = vec![new(Kind::Tree), new(KINDS[fastrand::usize(..KINDS.len())])];
    while world.is_stormy() {
        sleep(Duration::from_millis(fastrand::u64(0..4_000))).await;
        // One that has just begun to load, or has a long history.
        if chance(60) {
            caches[1] = new(KINDS[fastrand::usize(..KINDS.len())]);
        }
    }
    world.calm().await;
    sleep(Duration::from_secs(30)).await;
    (client, caches)
}
