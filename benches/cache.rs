//! What a cache costs: its load, its memory, its reads, and the time from a write to its event. Needs `java`.
//!
//! `cargo bench -p zk-recipes-benches --bench cache`, with the number of nodes as an argument (100,000 by default).

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use zk_recipes::Client;
use zk_recipes::cache::{Cache, CacheEvent, CacheOptions};
use zk_recipes::testing::TestingServer;
use zk_recipes::zookeeper_client as zk;

/// The data of each node.
const DATA: [u8; 100] = [7; 100];
/// How many nodes have one parent.
const CHILDREN: usize = 1000;

#[tokio::main]
async fn main() {
    let nodes = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let server = TestingServer::start().await.expect("a server");
    let zookeeper = zk::Client::connect(&server.connect_string()).await.expect("a session");
    fill(&zookeeper, nodes).await;
    let client = Client::connect(&server.connect_string()).await.expect("a session");

    let before = resident();
    let start = Instant::now();
    let cache = Cache::new(&client, "/tree", CacheOptions::tree()).expect("good options");
    let snapshot = cache.wait_current().await.expect("it loads");
    let took = start.elapsed();
    let held = snapshot.len();
    println!(
        "load: {held} nodes of {} bytes in {took:?}, {:.1} us per node",
        DATA.len(),
        micros(took) / held as f64
    );
    let grown = resident().saturating_sub(before) as f64 * 1024.0;
    println!(
        "memory: {:.0} bytes per node, {:.0} of them path and data",
        grown / held as f64,
        snapshot.bytes() as f64 / held as f64
    );

    let paths: Vec<String> = (0..1000).map(|at| path(at * (nodes / 1000).max(1) % nodes)).collect();
    let rounds = 1000;
    let start = Instant::now();
    let mut found = 0;
    for _ in 0..rounds {
        found += paths.iter().filter(|path| cache.current().get(path).is_some()).count();
    }
    assert_eq!(found, rounds * paths.len());
    println!("read: {:.0} ns, a snapshot and a node of it", 1000.0 * micros(start.elapsed()) / found as f64);

    let mut changes = cache.changes();
    assert!(matches!(changes.next().await, Some(CacheEvent::Reset(_))));
    let mut times = Vec::new();
    for at in 0..2000 {
        let start = Instant::now();
        let write = zookeeper.set_data(&paths[at % paths.len()], &at.to_be_bytes(), None);
        let (written, _) = tokio::join!(write, changes.next());
        written.expect("it is written");
        times.push(start.elapsed());
    }
    times.sort();
    println!("write to event: p50 {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
    client.close().await;
}

fn path(number: usize) -> String {
    format!("/tree/{:03}/node-{number:06}", number / CHILDREN)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

async fn fill(zookeeper: &zk::Client, nodes: usize) {
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/tree", b"", &open).await.expect("it is created");
    for parent in 0..nodes.div_ceil(CHILDREN) {
        zookeeper.create(&format!("/tree/{parent:03}"), b"", &open).await.expect("it is created");
    }
    let batches = (0..nodes).step_by(100).map(|first| {
        let mut writer = zookeeper.new_multi_writer();
        for number in first..nodes.min(first + 100) {
            writer.add_create(&path(number), &DATA, &open).expect("a good path");
        }
        writer.commit()
    });
    let mut writes = futures_util::stream::iter(batches).buffer_unordered(10);
    while let Some(written) = writes.next().await {
        written.expect("they are created");
    }
}

/// The memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
