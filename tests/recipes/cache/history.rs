//! Random histories: another session writes while connections are cut, sessions end and servers restart. After each, the
//! cache is what the servers have, and the changes lead there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use zk_recipes::Client;
use zk_recipes::cache::{Cache, CacheOptions, Snapshot};
use zk_recipes::testing::{FaultProxy, Traffic, kill_session};
use zookeeper_client as zk;

use super::reader::Reader;
use crate::support::server::are_real;
use crate::support::{BOUND, empty_server, eventually, within};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What the servers know of a node.
type Known = (i64, i64, Vec<u8>);

fn random_path(random: &mut fastrand::Rng, root: &str) -> String {
    let depth = random.usize(0..4);
    (0..depth).fold(root.to_owned(), |path, _| format!("{path}/{}", NAMES[random.usize(..NAMES.len())]))
}

/// Writes something, which may be refused.
async fn write(random: &mut fastrand::Rng, zookeeper: &zk::Client, root: &str) {
    let path = random_path(random, root);
    let mode = [zk::CreateMode::Persistent, zk::CreateMode::Ephemeral][usize::from(random.u8(..8) == 0)];
    let create = mode.with_acls(zk::Acls::anyone_all());
    let data = [random.u8(..)];
    match random.u8(..10) {
        0..5 => drop(zookeeper.create(&path, &data, &create).await),
        5..7 => drop(zookeeper.set_data(&path, &data, None).await),
        7..9 => drop(zookeeper.delete(&path, None).await),
        // Deleted and created again, in one transaction.
        _ => {
            let mut writer = zookeeper.new_multi_writer();
            writer.add_delete(&path, None).unwrap();
            writer.add_create(&path, &data, &create).unwrap();
            drop(writer.commit().await);
        }
    }
}

async fn tree(zookeeper: &zk::Client, root: &str) -> Option<BTreeMap<String, Known>> {
    let mut known = BTreeMap::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        match zookeeper.get_data(&path).await {
            Ok((data, stat)) => drop(known.insert(path.clone(), (stat.czxid, stat.mzxid, data))),
            Err(zk::Error::NoNode) => continue,
            Err(_) => return None,
        }
        match zookeeper.list_children(&path).await {
            Ok(names) => paths.extend(names.iter().map(|name| format!("{path}/{name}"))),
            Err(_) => return None,
        }
    }
    Some(known)
}

fn known(snapshot: &Snapshot) -> BTreeMap<String, Known> {
    let known = |node: &zk_recipes::cache::CachedNode| {
        (node.created_by(), node.modified_by(), node.data().unwrap_or_default().to_vec())
    };
    snapshot.iter().map(|node| (node.path().to_owned(), known(node))).collect()
}

/// Plays one history.
async fn play(seed: u64, servers: &str, restart: impl AsyncFn()) {
    let mut random = fastrand::Rng::with_seed(seed);
    let root = format!("/history{seed}");
    // One of its own, since a session may end when a busy machine takes long to restart the server.
    let writer = zk::Client::connector().with_session_timeout(Duration::from_secs(30));
    let writer = &eventually("it is connected", async || writer.clone().connect(servers).await.ok()).await;
    let proxy = FaultProxy::start(servers.to_owned()).await.unwrap();
    let builder = Client::builder().session_timeout(Duration::from_secs(10)).drop_timeout(Duration::ZERO);
    let client = builder.connect_lazily(&proxy.connect_string()).unwrap();
    for _ in 0..random.usize(..10) {
        write(&mut random, writer, &root).await;
    }
    let mut options = CacheOptions::tree();
    if random.bool() {
        options = options.buffer(random.usize(1..20));
    }
    let cache = Cache::new(&client, &root, options).unwrap();
    let mut changes = cache.changes();
    let mut reader = Reader::default();
    // Most faults come when it is loaded: a history is over sooner than a client connects.
    if random.u8(..4) != 0 {
        within(cache.wait_current()).await.unwrap();
    }
    for _ in 0..random.usize(10..60) {
        match random.u16(..400) {
            0..20 => proxy.cut(),
            20..24 => drop(kill_session(&client).await),
            24..30 => proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(random.u64(1..10)))),
            30..40 => proxy.set_traffic(Traffic::pass()),
            40..42 => restart().await,
            42..100 => reader.read(&mut changes),
            100..110 => tokio::time::sleep(Duration::from_millis(random.u64(..20))).await,
            110..120 => drop(within(cache.wait_current()).await.unwrap()),
            _ => write(&mut random, writer, &root).await,
        }
    }
    proxy.set_traffic(Traffic::pass());
    // Requests of the writer that a restart has interrupted may still be carried out.
    let deadline = Instant::now() + BOUND;
    let last = loop {
        let last = tree(writer, &root).await;
        let state = cache.state();
        match last {
            Some(last) if last == known(&cache.current()) && state.is_current() => break last,
            last if Instant::now() > deadline => {
                let shown = known(&cache.current());
                panic!("history {seed}: it is {state:?} and shows {shown:?}, but the servers have {last:?}");
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    reader.read(&mut changes);
    let snapshot = cache.current();
    reader.reaches(&mut changes, &snapshot).await;
    reader.assert_is(&snapshot);
    drop((cache, client));
    for path in last.keys().rev() {
        let _ = writer.delete(path, None).await;
    }
}

/// How many histories are played.
fn histories() -> u64 {
    std::env::var("ZK_RECIPES_CACHE_HISTORIES").map_or(60, |text| text.parse().unwrap())
}

fn seed() -> u64 {
    let seed = std::env::var("ZK_RECIPES_CACHE_SEED")
        .map_or_else(|_| fastrand::u64(..1 << 40), |text| text.parse().unwrap());
    println!("ZK_RECIPES_CACHE_SEED={seed}");
    seed
}

#[tokio::test]
async fn a_cache_becomes_what_the_servers_have() {
    // A real server has as much to do with a quarter of them.
    let histories = if are_real() { histories() / 4 } else { histories() };
    let seed = seed();
    let server = tokio::sync::Mutex::new(empty_server().await);
    let servers = server.lock().await.connect_string();
    let (server, servers) = (&server, &servers);
    let restart = async || {
        let mut server = server.lock().await;
        server.kill().await.unwrap();
        server.restart().await.unwrap();
    };
    let restart = &restart;
    let playing = (0..histories).map(|number| play(seed + number, servers, restart));
    futures_util::stream::iter(playing).buffer_unordered(4).collect::<Vec<()>>().await;
}
