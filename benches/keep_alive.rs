//! What it costs the servers to keep locks valid: `cargo bench -p zk-recipes-benches --bench keep_alive`.
//!
//! Offers one server, and then three, as many keep-alives as 10,000 clients send that hold locks on sessions of 30 s: of
//! each kind of [`KeepAlive`](zk_recipes::KeepAlive), and plain reads beside them. Then sends as many as the servers take.

use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use tokio::time::{interval, sleep_until};
use zk_recipes::testing::{TestingCluster, TestingServer};
use zk_recipes::zookeeper_client::{Client, MultiWriteError};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const CLIENTS: u32 = 10_000;
const SESSION: Duration = Duration::from_secs(30);
/// The part of a session timeout after which a keep-alive is sent.
const PART: u32 = 7;

/// They share the load, since the servers count requests and not connections.
const CONNECTIONS: usize = 100;
const TIME: Duration = Duration::from_secs(5);
/// Sent on each connection at once where the servers set the pace.
const PIPELINE: usize = 20;

#[derive(Clone, Copy, Debug)]
enum Beat {
    /// Of `KeepAlive::Quorum`.
    Check,
    /// Of `KeepAlive::Leader`.
    Sync,
    /// What an idle client sends.
    Read,
}

impl Beat {
    async fn send(self, client: &Client) -> Result<()> {
        match self {
            Self::Check => {
                let mut writer = client.new_multi_writer();
                writer.add_check_version("/", -1)?;
                match writer.commit().await {
                    Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Self::Sync => Ok(client.sync("/").await?),
            Self::Read => Ok(client.check_stat("/").await.map(drop)?),
        }
    }
}

fn main() -> Result<()> {
    // A test runner that starts all programs there are wants nothing of this one.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(async {
        println!("{CLIENTS} clients with sessions of {SESSION:?} send {:.0} keep-alives/s", pace());
        let server = TestingServer::builder().property("maxClientCnxns", "0").start().await?;
        measure("one server", &server.connect_string(), &pids([&server])).await?;
        drop(server);
        let cluster = TestingCluster::builder(3).property("maxClientCnxns", "0").start().await?;
        measure("three servers", &cluster.connect_string(), &pids(cluster.servers())).await
    })
}

fn pace() -> f64 {
    f64::from(CLIENTS) / (SESSION / PART).as_secs_f64()
}

fn pids<'a>(servers: impl IntoIterator<Item = &'a TestingServer>) -> Vec<u32> {
    servers.into_iter().filter_map(TestingServer::pid).collect()
}

async fn measure(what: &str, connect_string: &str, servers: &[u32]) -> Result<()> {
    let connect =
        || async { Client::connector().with_session_timeout(SESSION).connect(connect_string).await };
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(connect().await?);
    }
    println!("\n{what}{:>21}p50 us    p99 us   CPU of the servers   most/s", "");
    for beat in [Beat::Check, Beat::Sync, Beat::Read] {
        // The servers' code is compiled as they run.
        at_most(beat, &clients, TIME / 5).await?;
        let cpu = cpu_time(servers);
        let started = Instant::now();
        let mut latencies = paced(beat, &clients).await?;
        let cores = (cpu_time(servers) - cpu).as_secs_f64() / started.elapsed().as_secs_f64();
        latencies.sort_unstable();
        let at = |part: f64| latencies[(latencies.len() as f64 * part) as usize].as_micros();
        let most = at_most(beat, &clients, TIME).await?;
        println!(
            "{:<28}{:>12}{:>10}{:>15.2} cores{most:>9.0}",
            format!("{beat:?}"),
            at(0.5),
            at(0.99),
            cores
        );
    }
    Ok(())
}

/// As many as all clients send. Returns how long each took.
async fn paced(beat: Beat, clients: &[Client]) -> Result<Vec<Duration>> {
    let period = Duration::from_secs_f64(CONNECTIONS as f64 / pace());
    let beats = (TIME.as_secs_f64() / period.as_secs_f64()) as u32;
    let send = clients.iter().enumerate().map(|(index, client)| async move {
        sleep_until((Instant::now() + period * index as u32 / CONNECTIONS as u32).into()).await;
        let mut ticks = interval(period);
        let mut latencies = Vec::new();
        for _ in 0..beats {
            ticks.tick().await;
            let sent = Instant::now();
            beat.send(client).await?;
            latencies.push(sent.elapsed());
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(latencies)
    });
    Ok(try_join_all(send).await?.concat())
}

/// As many as the servers take. Returns how many per second.
async fn at_most(beat: Beat, clients: &[Client], time: Duration) -> Result<f64> {
    let started = Instant::now();
    let end = started + time;
    let send = clients.iter().map(|client| async move {
        let mut sent = 0;
        while Instant::now() < end {
            for outcome in join_all((0..PIPELINE).map(|_| beat.send(client))).await {
                outcome?;
                sent += 1;
            }
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(sent)
    });
    let sent: usize = try_join_all(send).await?.into_iter().sum();
    Ok(sent as f64 / started.elapsed().as_secs_f64())
}

/// What the processes have used so far.
fn cpu_time(processes: &[u32]) -> Duration {
    /// Of `/proc/<pid>/stat`: the kernel's unit for user space, on whatever machine.
    const TICK: Duration = Duration::from_millis(10);
    let ticks = |pid: &u32| -> u32 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        [11, 12].iter().filter_map(|field| fields.get(*field)?.parse::<u32>().ok()).sum()
    };
    TICK * processes.iter().map(ticks).sum::<u32>()
}
