//! Hand-overs at the head of a long queue.

use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use tokio::sync::mpsc;
use zk_recipes::zookeeper_client as zk;
use zk_recipes::{Client, InterProcessMutex, Owner};

use crate::meter::median;
use crate::{Result, server};

const LENGTHS: [usize; 6] = [10, 100, 1_000, 10_000, 30_000, 100_000];
const SESSIONS: usize = 8;
/// Contenders at the head of the queue, which hand the lock on.
const AHEAD: usize = 64;
/// How long each of them holds.
const HOLD: Duration = Duration::from_millis(5);
/// Nodes that are created in one transaction.
const AT_ONCE: usize = 500;

pub(crate) async fn measure() -> Result<()> {
    println!(
        "Queue: {AHEAD} contenders of {SESSIONS} sessions, and nodes behind them; each holds for {HOLD:?}"
    );
    println!(
        "{:>9}{:>15}{:>15}{:>15}{:>12}",
        "behind", "hand-over p50", "to enter p50", "to list p50", "list"
    );
    for length in LENGTHS {
        row(length).await?;
    }
    println!();
    Ok(())
}

async fn row(length: usize) -> Result<()> {
    let server = server().start().await?;
    let servers = server.connect_string();
    let clients = try_join_all((0..SESSIONS).map(|_| Client::connect(&servers))).await?;
    let mutexes = clients
        .iter()
        .map(|client| InterProcessMutex::new(client, "/queue"))
        .collect::<zk_recipes::Result<Vec<_>>>()?;
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut holder = Some(mutexes[0].acquire().await?);
    for n in 0..AHEAD {
        let ticket = mutexes[n % SESSIONS].owned_by(&Owner::new()).enqueue().await?;
        let tell = tell.clone();
        tokio::spawn(async move {
            let granted = match ticket.acquired().await {
                Ok(guard) => Ok((Instant::now(), guard)),
                Err(error) => Err(error),
            };
            drop(tell.send(granted));
        });
    }
    let behind = zk::Client::connect(&servers).await?;
    fill(&behind, length).await?;
    let mut hand_overs = Vec::new();
    for _ in 0..AHEAD {
        tokio::time::sleep(HOLD).await;
        let released = Instant::now();
        drop(holder.take());
        let (granted, guard) = told.recv().await.ok_or("a contender is gone")??;
        hand_overs.push(granted - released);
        holder = Some(guard);
    }
    let (mut entered, mut listed) = (Vec::new(), Vec::new());
    for mutex in &mutexes {
        let started = Instant::now();
        let ticket = mutex.owned_by(&Owner::new()).enqueue().await?;
        entered.push(started.elapsed());
        drop(ticket);
        let started = Instant::now();
        let size: usize = behind.list_children("/queue").await?.iter().map(|name| name.len() + 4).sum();
        listed.push((started.elapsed(), size));
    }
    let size = listed.first().map_or(0, |(_, size)| *size);
    println!(
        "{length:>9}{:>12} us{:>12} us{:>12} us{:>9} KB",
        median(hand_overs).as_micros(),
        median(entered).as_micros(),
        median(listed.into_iter().map(|(time, _)| time).collect()).as_micros(),
        size / 1000,
    );
    drop(holder);
    join_all(clients.iter().map(Client::close)).await;
    Ok(())
}

/// Creates nodes at the end of the queue, like those of waiters.
async fn fill(client: &zk::Client, length: usize) -> Result<()> {
    let options = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
    for start in (0..length).step_by(AT_ONCE) {
        let mut writer = client.new_multi_writer();
        for n in start..length.min(start + AT_ONCE) {
            let node = format!("/queue/_c_{:08x}-0000-4000-8000-000000000000-lock-", n);
            writer.add_create(&node, b"", &options)?;
        }
        writer.commit().await?;
    }
    Ok(())
}
