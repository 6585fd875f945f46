//! The smallest use: `./zk-docker/with-zookeeper cargo run --example mutex`

use zk_recipes::{Client, InterProcessMutex, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    let client = Client::connect(&servers).await?;
    let mutex = InterProcessMutex::new(&client, "/examples/mutex")?;

    let guard = mutex.acquire().await?;
    println!("acquired {} with token {}", guard.node_path(), guard.fencing_token());
    guard.release().await
}
