use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use zk_recipes::zookeeper_client as zk;
use zk_recipes::{Client, CreateMode, Error, LeaderOptions, LeaderSelector, Leadership};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut terminated = signal(SignalKind::terminate())?;
    let client = Client::connect_lazily(&std::env::var("ZK_CONNECT")?)?;
    let _selector = LeaderSelector::start(&client, "/leaders/reports", LeaderOptions::new(), lead)?;
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    // Has the work end, and then the next one lead.
    client.close().await;
    Ok(())
}

/// Is called when this process is elected, and leads for as long as it works.
async fn lead(leadership: Leadership) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // Before the first record of all.
    create(&leadership, "/reports").await?;
    let mut ticks = tokio::time::interval(Duration::from_secs(60));
    while leadership.until_resigning(ticks.tick()).await.is_some() {
        let minute = SystemTime::UNIX_EPOCH.elapsed()?.as_secs() / 60;
        // Only if no leader has done it before.
        if create(&leadership, &format!("/reports/{minute}")).await? {
            println!("the report of minute {minute}");
        }
    }
    Ok(())
}

/// Creates a node, which the servers do only while we lead. Returns false if it is there already.
async fn create(leadership: &Leadership, path: &str) -> zk_recipes::Result<bool> {
    match leadership.transaction().create(path, "", CreateMode::Persistent).commit().await {
        Ok(_) => Ok(true),
        Err(Error::OperationFailed { source: zk::Error::NodeExists, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
