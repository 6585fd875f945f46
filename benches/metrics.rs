//! What the feature `metrics` adds to an acquire and its release, with an installed recorder. Needs no server.
//!
//! `cargo bench -p zk-recipes-benches --features metrics --bench metrics`; the same without the feature for comparison.
//!
//! The last line is what the meters of one cycle take by themselves; in a whole cycle, which takes hundreds of
//! microseconds, it is lost in the noise.

// The files of the library, as they are: nothing of it is public for the sake of a measurement.
#[cfg(feature = "metrics")]
#[allow(dead_code, unused_imports, unreachable_pub, reason = "the rest is for the library")]
#[path = "../src/meters/mod.rs"]
mod meters;

#[cfg(feature = "metrics")]
mod error {
    pub(crate) use zk_recipes::LossReason;
}

use std::time::{Duration, Instant};

use zk_recipes::testing::MemoryServer;
use zk_recipes::{Client, InterProcessMutex, LockOptions};

#[tokio::main]
async fn main() {
    #[cfg(feature = "metrics")]
    let recorder =
        metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder().expect("the first one");
    // As an exporter does now and then.
    let upkeep = || {
        #[cfg(feature = "metrics")]
        recorder.run_upkeep();
    };
    println!("feature metrics: {}", cfg!(feature = "metrics"));
    let server = MemoryServer::start().expect("a server");
    let client = Client::connect(&server.connect_string()).await.expect("a session");
    let mutex = |path| InterProcessMutex::new(&client, path).expect("a good path");

    let (free, lingering, again) = (mutex("/free"), mutex("/lingers"), mutex("/again"));
    let lingering =
        lingering.with_options(LockOptions::new().linger(Duration::from_secs(60))).expect("good options");
    let _held = again.acquire().await.expect("it is free");
    for (name, mutex, batches, cycles) in [
        ("free, by a server in memory", &free, 10_000, 1),
        ("lingering", &lingering, 300, 1_000),
        ("re-entrant", &again, 300, 1_000),
    ] {
        let mut times = Vec::new();
        for _ in 0..batches {
            let start = Instant::now();
            for _ in 0..cycles {
                mutex.acquire().await.expect("it is free").release().await.expect("it is held");
            }
            times.push(start.elapsed() / cycles);
            upkeep();
        }
        report(name, times);
    }
    #[cfg(feature = "metrics")]
    {
        use meters::{Labels, LockMeters, Outcome, Request, Requests};

        let (meters, requests) = (Labels::default().meters("/free", "mutex"), Requests::default());
        let mut times = Vec::new();
        for _ in 0..300 {
            let start = Instant::now();
            for _ in 0..1_000 {
                let mut wait = LockMeters::wait([&meters]);
                requests.count(Request::Create);
                wait.ends_as(Outcome::Granted);
                let hold = meters.hold();
                drop(wait);
                requests.count(Request::Delete);
                drop(hold);
            }
            times.push(start.elapsed() / 1_000);
            upkeep();
        }
        report("the meters of one cycle alone", times);
    }
    client.close().await;
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    println!("{name}: p50 {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
}
