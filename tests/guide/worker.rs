use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use zk_recipes::{Client, InterProcessMutex};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut terminated = signal(SignalKind::terminate())?;
    // Also while it connects, and while it waits for the lock.
    tokio::select! {
        done = work() => done,
        _ = terminated.recv() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
    // The lock is free when the process is gone.
}

async fn work() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(&std::env::var("ZK_CONNECT")?).await?;
    let guard = InterProcessMutex::new(&client, "/locks/orders")?.acquire().await?;
    guard.run(ship_orders(guard.fencing_token())).await?;
    guard.release().await?;
    Ok(())
}

async fn ship_orders(token: i64) {
    for order in 1..=1_000 {
        println!("ships order {order}, with token {token}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
