//! A job that is due every now and then, and is to be done by one of three processes, whatever happens to them:
//! `cargo run --example scheduled_job`
//!
//! The workers are processes, each with a session of its own. Each starts the same [`ScheduledJob`], and does it at
//! each tick of the clock while it leads. One leader after the other resigns, is killed, is paused, and is cut
//! off from the servers. All that workers do goes into a record outside of ZooKeeper, before it is done and after;
//! in the end that record tells whether each tick was done once, and how long nobody did any.
//!
//! - [`story`]: the parent process, from the first tick to the last
//! - [`worker`]: what a worker does, and [`crew`]: the worker processes
//! - [`ticks`]: what ZooKeeper knows of the ticks
//! - [`network`]: the cable of each worker, which can be cut; [`forwarder`]: what is at its end
//! - [`record`]: what happened, in order, and [`proof`]: what that proves
//! - [`tamper`]: shows that the proof would notice
//! - [`figures`]: what there is to see
//!
//! [`ScheduledJob`]: zk_recipes::job::ScheduledJob

mod crew;
mod figures;
mod forwarder;
mod network;
mod proof;
mod record;
#[path = "../servers.rs"]
mod servers;
mod story;
mod tamper;
mod ticks;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use zk_recipes::Client;

use self::servers::servers;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// How often the job is due.
const PERIOD: Duration = Duration::from_millis(200);

/// For how long the servers shall keep the session, and so the leadership, of one who is not heard of. A proposal:
/// what they make of it is printed.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// What a change of the leader may take beyond the session timeout: the servers look only once in a tick of theirs
/// for sessions that have expired.
const FAIL_OVER: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => story::run().await,
        ["worker", name, root, record] => worker::run(name, root, Path::new(record)).await.map(|()| true),
        _ => Err("no arguments are taken; name the servers in ZK_CONNECT".into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let who = arguments.get(1).map_or("scheduled_job", String::as_str);
            eprintln!("{who}: {}", zk_recipes::report(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Connects under a name, by which the others can tell who leads and who waits.
async fn connect(name: &str, servers: &str) -> Result<Client> {
    let builder = Client::builder().identity(name).session_timeout(SESSION_TIMEOUT);
    Ok(builder.connection_timeout(Duration::from_secs(10)).connect(servers).await?)
}

fn job(root: &str) -> String {
    format!("{root}/job")
}

/// That of the job, for those who observe it.
fn election(root: &str) -> String {
    format!("{}/leader", job(root))
}
