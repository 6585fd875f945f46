//! What a lock's fencing token is for. Worker A is stopped in the middle of its work, loses the lock to B
//! without knowing, and goes on: `./zk-docker/with-zookeeper cargo run -p zk-recipes-fencing`
//!
//! Both workers are processes, each with a session of its own. Each of them takes the lock, and then writes
//! twice to two rows of a [`store`] outside of ZooKeeper. One row takes whatever comes, and there A's late
//! write wins over B's. The other one refuses a token smaller than the greatest it has seen.
//!
//! - [`store`]: what the lock protects, and how it takes part in that
//! - [`worker`]: what a worker does, and [`process`]: the process it does it in

mod process;
mod store;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::process::Process;
use crate::store::{Row, Store};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// When something must have gone wrong.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run().await,
        ["worker", name, lock, store] => worker::run(name, lock, Path::new(store)).await,
        _ => Err("no arguments are taken; name the servers in ZK_CONNECT".into()),
    };
    if let Err(error) = outcome {
        let who = arguments.get(1).map_or("fencing", String::as_str);
        eprintln!("{who}: {}", zk_recipes::report(&*error));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Plays the story, and leaves nothing behind.
async fn run() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store.db");
    let store = Store::create(&path)?;
    let lock = format!("/examples/fencing-{:08x}", fastrand::u32(..));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut a = Process::start("A", &lock, &path)?;
    let mut b = Process::start("B", &lock, &path)?;
    let outcome = tokio::select! {
        told = story(&mut a, &mut b, &store) => told,
        () = sleep(LIMIT) => Err(format!("it is not over after {LIMIT:?}").into()),
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
    };
    let gone = a.kill().await.and(b.kill().await);
    let removed = directory.close();
    // What went wrong first is what counts.
    outcome?;
    gone?;
    Ok(removed?)
}

async fn story(a: &mut Process, b: &mut Process, store: &Store) -> Result<()> {
    a.go_on().await?;
    a.tells("waits").await?;
    a.tells("holds").await?;
    a.tells("writes").await?;
    b.go_on().await?;
    b.tells("waits").await?;
    a.tells("looks").await?;

    // A has seen that it holds the lock, and is about to write once more.
    a.signal(Signal::STOP)?;
    let stopped = Instant::now();
    println!("A is stopped");
    b.tells("holds").await?;
    println!("  {:.1?} later: the servers, not hearing from A, have ended its session", stopped.elapsed());
    b.tells("writes").await?;
    b.tells("looks").await?;
    b.go_on().await?;
    b.tells("writes").await?;
    b.tells("releases").await?;
    b.ends().await?;

    a.go_on().await?;
    a.signal(Signal::CONT)?;
    println!("A is continued");
    let stale = a.tells("writes").await?;
    a.tells("finds").await?;
    a.ends().await?;
    verdict(&stale, &store.row(store::UNPROTECTED)?, &store.row(store::PROTECTED)?)
}

/// What A's last write has done to each row.
fn verdict(stale: &str, unprotected: &Row, protected: &Row) -> Result<()> {
    println!("unprotected: {unprotected}");
    println!("protected:   {protected}");
    if !stale.ends_with(worker::REFUSED) {
        return Err("the protected row took the write of one who had lost the lock".into());
    }
    if protected.value != worker::value("B", 2) {
        return Err("the protected row should have what B wrote last".into());
    }
    if unprotected.value != worker::value("A", 2) {
        return Err("the unprotected row should have lost what B wrote".into());
    }
    println!("The token has kept what B wrote. Without it, A has written over that.");
    Ok(())
}
