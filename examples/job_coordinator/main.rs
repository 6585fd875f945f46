//! Workers that share a list of jobs under one lock, one of which is killed in the middle of a job, and the
//! proof that nothing went wrong: `cargo run --example job_coordinator`
//!
//! The workers are processes, each with a session of its own. They take part in an [`InterProcessMutex`];
//! whoever holds it does the next job, and marks it done in ZooKeeper. All of them write what they do into one
//! record. When the jobs are done, the coordinator examines that record, and compares it with ZooKeeper.
//!
//! - [`coordinator`]: the parent process, from the first job to the verdict
//! - [`worker`]: what a worker does, and [`crew`]: the worker processes
//! - [`jobs`]: the jobs in ZooKeeper
//! - [`record`]: what happened, in order, and [`proof`]: what that proves
//! - [`tamper`]: shows that the proof would notice
//! - [`progress`], [`summary`] and [`screen`]: what there is to see
//!
//! [`InterProcessMutex`]: zk_recipes::InterProcessMutex

mod coordinator;
mod crew;
mod jobs;
mod progress;
mod proof;
mod record;
mod screen;
#[path = "../servers.rs"]
mod servers;
mod summary;
mod tamper;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use zk_recipes::Client;

use self::servers::servers;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// How long the servers shall keep the session, and so the lock, of a worker that was killed.
///
/// A proposal: with ZooKeeper's defaults, the servers make 4 s of it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => coordinator::run().await,
        ["worker", name, root, record] => worker::run(name, root, Path::new(record)).await.map(|()| true),
        _ => Err("no arguments are taken; name the servers in ZK_CONNECT".into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // What a worker says is told by the coordinator, with the name of the worker.
            let who = if arguments.is_empty() { "job_coordinator: " } else { "" };
            eprintln!("{who}{}", zk_recipes::report(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Connects under a name, by which the others can tell who holds the lock and who waits.
async fn connect(name: &str) -> Result<Client> {
    let builder = Client::builder().identity(name).session_timeout(SESSION_TIMEOUT);
    Ok(builder.connection_timeout(Duration::from_secs(10)).connect(&servers()).await?)
}

fn lock_path(root: &str) -> String {
    format!("{root}/lock")
}
