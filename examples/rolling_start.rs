//! A fleet that starts together: each instance warms up, and none serves before all are ready; a barrier holds their
//! clients back until then. `./zk-docker/with-zookeeper cargo run --example rolling_start`

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use zk_recipes::barriers::{Barrier, DoubleBarrier};
use zk_recipes::{Client, Error, Result};

const INSTANCES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    // Each start has a path of its own.
    let start = format!("/examples/rolling-start-{:08x}", fastrand::u32(..));
    let began = Instant::now();
    let gate = Barrier::new(&connect().await?, &format!("{start}/gate"))?;
    gate.set().await?;

    let mut tasks = JoinSet::new();
    tasks.spawn(caller(format!("{start}/gate"), began));
    for number in 1..=INSTANCES {
        tasks.spawn(instance(number, start.clone(), began));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|_| Error::Closed)??;
    }
    Ok(())
}

async fn connect() -> Result<Client> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    Client::connect(&servers).await
}

fn say(began: Instant, text: &str) {
    println!("{:>5.1} s  {text}", began.elapsed().as_secs_f64());
}

/// One of the instances. It has a session of its own, which stands for a process.
async fn instance(number: usize, start: String, began: Instant) -> Result<()> {
    let client = connect().await?;
    let barrier = DoubleBarrier::new(&client, &format!("{start}/instances"), INSTANCES)?;
    // Each takes another time to warm up.
    sleep(Duration::from_millis(400) * number as u32).await;
    say(began, &format!("instance {number} is warm"));
    let Some(entered) = barrier.enter_within(PATIENCE).await? else {
        say(began, &format!("instance {number} gives up: the others have not come"));
        return Ok(());
    };
    say(began, &format!("instance {number} serves"));
    // Any of them may open it, and all of them do.
    Barrier::new(&client, &format!("{start}/gate"))?.remove().await?;
    let work = sleep(Duration::from_millis(300) * number as u32);
    tokio::select! {
        () = work => {}
        reason = entered.lost() => say(began, &format!("instance {number} was lost: {reason}")),
    }
    say(began, &format!("instance {number} has finished"));
    match entered.leave_within(PATIENCE).await {
        Ok(true) => say(began, &format!("instance {number} ends, as all have finished")),
        Ok(false) => say(began, &format!("instance {number} ends without the others")),
        Err(error) => say(began, &format!("instance {number}: {}", zk_recipes::report(&error))),
    }
    client.close().await;
    Ok(())
}

/// Someone who uses the fleet as soon as it serves.
async fn caller(gate: String, began: Instant) -> Result<()> {
    let client = connect().await?;
    match Barrier::new(&client, &gate)?.wait_within(PATIENCE).await? {
        true => say(began, "the caller comes through the gate"),
        false => say(began, "the caller gives up: the gate stays closed"),
    }
    client.close().await;
    Ok(())
}
