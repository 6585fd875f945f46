//! A service whose locks Prometheus watches: `./zk-docker/with-zookeeper cargo run -p zk-recipes-metrics`, and then
//! `curl http://127.0.0.1:9898/metrics`.
//!
//! Three workers take orders: each locks the customer, and then the stock, which there is once. One of all processes of
//! this service leads, and writes reports. Beside this file are what Prometheus needs (`prometheus.yml`, `alerts.yaml`)
//! and a dashboard for Grafana (`dashboard.json`).
//!
//! | environment | |
//! |---|---|
//! | `ZK_CONNECT` | the servers |
//! | `METRICS_LISTEN` | where the metrics are served: `127.0.0.1:9898` |
//! | `ORDER_SECONDS` | how long an order takes: 0.05 |

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;
use zk_recipes::{Client, InterProcessMutex, LeaderOptions, LeaderSelector, Locks};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const CUSTOMERS: &str = "/examples/metrics/customers";

/// In seconds. Without them, there are quantiles of each process alone, which cannot be put together.
const BUCKETS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0];

#[tokio::main]
async fn main() -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let listen: SocketAddr = env::var("METRICS_LISTEN").as_deref().unwrap_or("127.0.0.1:9898").parse()?;
    let order = Duration::from_secs_f64(env::var("ORDER_SECONDS").as_deref().unwrap_or("0.05").parse()?);

    // Before the client is made: what is made earlier is not measured.
    PrometheusBuilder::new()
        .with_http_listener(listen)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS)?
        .install()?;
    println!("metrics at http://{listen}/metrics");

    let client = Client::builder()
        // There is no bound to the customers, so they share a label.
        .metric_label(|path| if path.starts_with(CUSTOMERS) { CUSTOMERS } else { path }.to_owned())
        .connect(&env::var("ZK_CONNECT")?)
        .await?;
    let _reports = LeaderSelector::start(
        &client,
        "/examples/metrics/reports",
        LeaderOptions::new(),
        |leadership| async move {
            leadership.resign_requested().await;
            Ok::<_, std::convert::Infallible>(())
        },
    )?;
    let (customers, stock) =
        (Locks::new(&client, CUSTOMERS)?, InterProcessMutex::new(&client, "/examples/metrics/stock")?);
    let mut workers = JoinSet::new();
    for worker in 0..3 {
        let (customers, stock) = (customers.clone(), stock.clone());
        workers.spawn(async move {
            for number in 0.. {
                if let Err(error) = take_order(&customers, &stock, (worker + number) % 5, order).await {
                    println!("worker {worker}: {}", zk_recipes::report(&error));
                    sleep(Duration::from_secs(1)).await;
                }
            }
        });
    }
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    workers.shutdown().await;
    client.close().await;
    Ok(())
}

async fn take_order(
    customers: &Locks,
    stock: &InterProcessMutex,
    customer: u32,
    takes: Duration,
) -> zk_recipes::Result<()> {
    let customer = customers.mutex(customer)?.acquire().await?;
    let stock = stock.acquire().await?;
    stock.run(sleep(takes)).await?;
    stock.release().await?;
    customer.release().await
}
