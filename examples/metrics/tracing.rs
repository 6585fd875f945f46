//! The spans of an order, in OpenTelemetry: `./zk-docker/with-zookeeper cargo run -p zk-recipes-metrics --bin tracing`.
//!
//! They are printed here. A service gives them to a collector: with the exporter of `opentelemetry-otlp` in place of that
//! of `opentelemetry-stdout`, and `with_batch_exporter`.

use std::error::Error;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::time::sleep;
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use zk_recipes::{Client, InterProcessMutex};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(opentelemetry_stdout::SpanExporter::default())
        .build();
    // `acquire` and `hold` are spans at the level of debugging.
    let levels = Targets::new().with_target("zk_recipes", Level::DEBUG).with_target("tracing", Level::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders"));
    tracing_subscriber::registry().with(layer.with_filter(levels)).init();

    let client = Client::connect(&std::env::var("ZK_CONNECT")?).await?;
    let mutex = InterProcessMutex::new(&client, "/examples/tracing/stock")?;
    ship(&mutex, 4711).instrument(info_span!("order", number = 4711)).await?;
    client.close().await;
    provider.shutdown()?;
    Ok(())
}

/// The spans `acquire` and `hold` are children of the caller's; what runs by `run` is within `hold`.
async fn ship(mutex: &InterProcessMutex, order: u32) -> zk_recipes::Result<()> {
    let guard = mutex.acquire().await?;
    guard.run(pack(order)).await?;
    guard.release().await
}

#[tracing::instrument]
async fn pack(order: u32) {
    sleep(Duration::from_millis(20)).await;
}
