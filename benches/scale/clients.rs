//! Many clients of one server, all of which wait for one lock.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use zk_recipes::{Client, InterProcessMutex};

use crate::meter::{memory, packets};
use crate::{Result, server};

const COUNTS: [usize; 5] = [1, 10, 100, 1_000, 5_000];
const SESSION: Duration = Duration::from_secs(60);
/// How long the clients are left alone.
const IDLE: Duration = Duration::from_secs(10);
/// Clients that enter the queue at once.
const AT_ONCE: usize = 50;

pub(crate) async fn measure() -> Result<()> {
    println!("Clients of one server, with sessions of {SESSION:?}, that wait for one lock");
    println!(
        "{:>9}{:>16}{:>12}{:>18}{:>18}{:>34}",
        "clients",
        "connected in",
        "memory",
        "in the queue in",
        "requests/s idle",
        "after a restart: requests, time"
    );
    for count in COUNTS {
        row(count).await?;
    }
    println!();
    Ok(())
}

async fn row(count: usize) -> Result<()> {
    let mut server = server().session_timeout_bounds(Duration::from_secs(1), SESSION).start().await?;
    let servers = server.connect_string();
    let builder = Client::builder().session_timeout(SESSION).connection_timeout(SESSION);
    let before = memory();
    let started = Instant::now();
    let clients = join_all((0..count).map(|_| builder.clone().connect(&servers))).await;
    let clients = clients.into_iter().collect::<zk_recipes::Result<Vec<Client>>>()?;
    let connected = started.elapsed();
    let memory = memory().saturating_sub(before) as f64 / count as f64;

    let holder = builder.connect(&servers).await?;
    let held = InterProcessMutex::new(&holder, "/lock")?.acquire().await?;
    let started = Instant::now();
    let entering = clients.iter().map(|client| async move {
        let ticket = InterProcessMutex::new(client, "/lock")?.enqueue().await?;
        Ok::<_, zk_recipes::Error>(tokio::spawn(ticket.acquired()))
    });
    let waiting: Vec<_> = stream::iter(entering).buffer_unordered(AT_ONCE).try_collect().await?;
    let entered = started.elapsed();

    // Each waiter watches its own node and another one.
    while server.watch_count().await? < 2 * count as u64 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let asked = packets(&server).await?;
    tokio::time::sleep(IDLE).await;
    let idle = packets(&server).await?.saturating_sub(asked + 1) as f64 / IDLE.as_secs_f64();

    let started = Instant::now();
    server.restart().await?;
    let restarted = started.elapsed();
    let mut questions = 1;
    while server.watch_count().await? < 2 * count as u64 {
        questions += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = started.elapsed().saturating_sub(restarted);
    // A restarted server counts anew.
    let requests = packets(&server).await?.saturating_sub(questions + 1);
    println!(
        "{count:>9}{:>13} ms{memory:>10.0} B{:>15} ms{idle:>18.1}{:>22} {:>8} ms",
        connected.as_millis(),
        entered.as_millis(),
        requests,
        again.as_millis(),
    );
    waiting.iter().for_each(|waiter| waiter.abort());
    drop(held);
    join_all(clients.iter().chain([&holder]).map(Client::close)).await;
    Ok(())
}
