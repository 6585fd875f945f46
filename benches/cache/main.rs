//! What a cache costs beside Curator's: its load, its memory, its reads, and the time from a write to its event. Both
//! load the same tree of the same server, in alternating rounds.
//!
//! `cargo bench -p zk-recipes-benches --bench cache`, with the number of nodes as an argument (100,000 by default). Needs
//! `java`; Curator takes part where `tests/interop/install-peers` has put it.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use zk_recipes::Client;
use zk_recipes::cache::{Cache, CacheEvent, CacheOptions, Snapshot};
use zk_recipes::testing::TestingServer;
use zk_recipes::zookeeper_client as zk;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The data of each node.
const DATA: [u8; 100] = [7; 100];
/// How many nodes have one parent.
const CHILDREN: usize = 1000;
/// Curator's first rounds warm it up. The last one of each counts.
const ROUNDS: usize = 4;
const READS: usize = 1000;
const EVENTS: usize = 2000;

/// What came of one round.
struct Figures {
    nodes: usize,
    load: Duration,
    bytes: u64,
    read: Duration,
    /// From a write to its event.
    p50: Duration,
    p99: Duration,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(()); // a test runner, which starts all programs there are
    }
    let nodes = arguments.iter().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let server = TestingServer::start().await?;
    let writer = zk::Client::connect(&server.connect_string()).await?;
    fill(&writer, nodes).await?;
    let client = Client::connect(&server.connect_string()).await?;
    let mut curator = match Curator::start(&server.connect_string()).await {
        Ok(curator) => Some(curator),
        Err(error) => {
            eprintln!("without Curator: {error}; tests/interop/install-peers installs it");
            None
        }
    };
    println!(
        "{:10} {:>8} {:>9} {:>11} {:>8} {:>11} {:>11}",
        "", "nodes", "load", "bytes/node", "read", "event p50", "p99"
    );
    // Otherwise a round would use the memory of the one before.
    let mut kept = Vec::new();
    for _ in 0..ROUNDS {
        let (figures, snapshot) = ours(&client, &writer, nodes).await?;
        figures.print("zk-recipes");
        kept.push(snapshot);
        if let Some(curator) = &mut curator {
            curator.round().await?.print("Curator");
        }
    }
    client.close().await;
    Ok(())
}

async fn ours(client: &Client, writer: &zk::Client, nodes: usize) -> Result<(Figures, Arc<Snapshot>)> {
    let before = resident();
    let start = Instant::now();
    let cache = Cache::start(client, "/tree", CacheOptions::tree())?;
    let snapshot = cache.wait_current().await?;
    let load = start.elapsed();
    let bytes = resident().saturating_sub(before);

    let paths: Vec<String> = (0..READS).map(|at| path(at * nodes / READS)).collect();
    let mut found = 0;
    let start = Instant::now();
    for _ in 0..READS {
        found += paths.iter().filter(|path| cache.current().get(path).is_some()).count();
    }
    assert_eq!(found, READS * READS);
    let read = start.elapsed() / (READS * READS) as u32;

    let mut changes = cache.changes();
    assert!(matches!(changes.next().await, Some(CacheEvent::Reset(_))));
    let mut times = Vec::with_capacity(EVENTS);
    for at in 0..EVENTS {
        let start = Instant::now();
        let (written, _) = tokio::join!(writer.set_data(&paths[at % READS], &DATA, None), changes.next());
        written?;
        times.push(start.elapsed());
    }
    times.sort();
    let (p50, p99) = (times[EVENTS / 2], times[EVENTS * 99 / 100]);
    Ok((Figures { nodes: snapshot.len(), load, bytes, read, p50, p99 }, snapshot))
}

impl Figures {
    fn print(&self, whose: &str) {
        let Self { nodes, load, bytes, read, p50, p99 } = self;
        let per_node = bytes / *nodes as u64;
        println!("{whose:10} {nodes:>8} {load:>9.0?} {per_node:>11} {read:>8.0?} {p50:>11.0?} {p99:>11.0?}");
    }
}

/// `CachePeer.java`, compiled at its start.
struct Curator {
    _process: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Curator {
    async fn start(servers: &str) -> Result<Self> {
        let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
        let source = benches.join("cache/CachePeer.java");
        let class_path = std::fs::read_to_string(benches.join("../target/interop-peers/current/classpath"))?;
        let mut process = Command::new("java")
            .args(["-Xmx1g", "-XX:-UsePerfData", "-Dlog4j2.level=OFF", "-cp", class_path.trim_end()])
            .arg(source)
            .arg(servers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let input = process.stdin.take().ok_or("it has no input")?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("it has no output")?).lines();
        lines.next_line().await?.ok_or("it has not started")?;
        Ok(Self { _process: process, input, lines })
    }

    async fn round(&mut self) -> Result<Figures> {
        self.input.write_all(b"round\n").await?;
        let line = self.lines.next_line().await?.ok_or("it has ended")?;
        let numbers = line.split(' ').map(str::parse).collect::<std::result::Result<Vec<u64>, _>>()?;
        let &[nodes, load, bytes, read, p50, p99] = &numbers[..] else {
            return Err(format!("not figures: {line:?}").into());
        };
        let [load, read, p50, p99] = [load, read, p50, p99].map(Duration::from_nanos);
        Ok(Figures { nodes: nodes as usize, load, bytes, read, p50, p99 })
    }
}

fn path(number: usize) -> String {
    format!("/tree/{:03}/node-{number:06}", number / CHILDREN)
}

async fn fill(zookeeper: &zk::Client, nodes: usize) -> Result<()> {
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/tree", b"", &open).await?;
    for parent in 0..nodes.div_ceil(CHILDREN) {
        zookeeper.create(&format!("/tree/{parent:03}"), b"", &open).await?;
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
        written?;
    }
    Ok(())
}

/// The memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes * 1024
}
