//! One client that holds many locks.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use zk_recipes::testing::FaultProxy;
use zk_recipes::{Client, InterProcessMutex, LockGuard};

use crate::meter::{memory, packets_when_quiet};
use crate::{Result, server};

const COUNTS: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// Acquires under way at once.
const AT_ONCE: usize = 64;
const SESSION: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_millis(500);

pub(crate) async fn measure() -> Result<()> {
    println!("Locks that one client holds: {AT_ONCE} acquires at once, a path for each, which is new");
    println!(
        "{:>9}{:>13}{:>12}{:>13}{:>26}{:>24}",
        "locks", "acquires/s", "memory", "releases/s", "a reconnect: requests", "an expiry: all told"
    );
    for count in COUNTS {
        row(count).await?;
    }
    println!();
    Ok(())
}

async fn row(count: usize) -> Result<()> {
    let server = server().session_timeout_bounds(Duration::from_secs(1), SESSION).start().await?;
    let proxy = FaultProxy::start(server.connect_string()).await?;
    let client = Client::builder().session_timeout(SESSION).connect(&proxy.connect_string()).await?;
    // The first ones find out how to create the paths.
    drop(acquire(&client, "warm-up", AT_ONCE).await?);
    let before = memory();
    let started = Instant::now();
    let held = acquire(&client, "first", count).await?;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    let memory = memory().saturating_sub(before) as f64 / count as f64;

    let asked = packets_when_quiet(&server, QUIET).await?;
    let mut connection = client.watch_connection();
    proxy.cut();
    connection.wait_for(|state| !state.is_connected()).await;
    connection.wait_for(|state| state.is_connected()).await;
    // The question itself counts.
    let requests = packets_when_quiet(&server, QUIET).await?.saturating_sub(asked);
    if !held.iter().all(LockGuard::is_valid) {
        return Err("a lock was lost by a reconnect".into());
    }

    let started = Instant::now();
    let releases = stream::iter(held.into_iter().map(|guard| Ok(guard.release())));
    releases.try_buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    let released = count as f64 / started.elapsed().as_secs_f64();

    let held = acquire(&client, "second", count).await?;
    let started = Instant::now();
    server.kill_session(client.zookeeper().await?.session_id().0).await?;
    for guard in &held {
        guard.lost().await;
    }
    let told = started.elapsed();
    println!(
        "{count:>9}{rate:>13.0}{memory:>10.0} B{released:>13.0}{requests:>26}{:>21} ms",
        told.as_millis()
    );
    drop(held);
    client.close().await;
    Ok(())
}

async fn acquire(client: &Client, name: &str, count: usize) -> Result<Vec<LockGuard>> {
    let acquires = (0..count).map(|n| {
        let mutex = InterProcessMutex::new(client, &format!("/locks/{name}/{n}"));
        async move { mutex?.acquire().await }
    });
    Ok(stream::iter(acquires).buffer_unordered(AT_ONCE).try_collect().await?)
}
