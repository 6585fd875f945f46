//! Ids for orders that several shops accept at the same time: `./zk-docker/with-zookeeper cargo run --example order_ids`

use std::collections::BTreeSet;

use tokio::task::JoinSet;
use zk_recipes::atomic::{CachedAtomicLong, DistributedAtomicLong};
use zk_recipes::{Client, Result};

const SHOPS: usize = 3;
const ORDERS: usize = 1000;
/// As many ids as a shop needs within some seconds.
const BLOCK: u32 = 100;

#[tokio::main]
async fn main() -> Result<()> {
    let path = format!("/examples/order-ids-{:08x}", fastrand::u32(..));
    let mut shops = JoinSet::new();
    for shop in 0..SHOPS {
        let path = path.clone();
        shops.spawn(async move { open(shop, &path).await });
    }
    let mut ids = BTreeSet::new();
    while let Some(accepted) = shops.join_next().await {
        ids.extend(accepted.expect("a shop does not panic")?);
    }
    assert_eq!(ids.len(), SHOPS * ORDERS, "no two orders have the same id");

    let office = connect().await?;
    let drawn = DistributedAtomicLong::new(&office, &path)?;
    println!("{} orders; {} ids were drawn, in blocks of {BLOCK}", ids.len(), drawn.get().await?);
    // The number stays until somebody removes it.
    let removed = office.zookeeper().await?.delete(drawn.path(), None).await;
    if let Err(error) = removed {
        println!("the number is left behind: {error}");
    }
    Ok(())
}

/// Each shop has a client with a session of its own, which stands for a process.
async fn connect() -> Result<Client> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    Client::connect(&servers).await
}

/// Accepts orders, each in a task of its own, and returns their ids.
async fn open(shop: usize, path: &str) -> Result<Vec<i64>> {
    let client = connect().await?;
    let ids = CachedAtomicLong::new(&DistributedAtomicLong::new(&client, path)?, BLOCK)?;
    let mut orders = JoinSet::new();
    for _ in 0..ORDERS {
        let ids = ids.clone();
        orders.spawn(async move { ids.next().await });
    }
    let mut accepted = Vec::new();
    while let Some(id) = orders.join_next().await {
        accepted.push(id.expect("an order does not panic")?);
    }
    accepted.sort_unstable();
    println!("shop {shop}: orders from {} to {}", accepted[0], accepted[accepted.len() - 1]);
    Ok(accepted)
}
