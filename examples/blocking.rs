//! Threads that share a counter in a file, without a runtime, until Ctrl-C or the end:
//! `./zk-docker/with-zookeeper cargo run --example blocking`

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use zk_recipes::Error;
use zk_recipes::blocking::{Client, InterProcessMutex, LockGuard};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const THREADS: u32 = 4;
const TIMES: u32 = 1000;

fn main() -> Result<()> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    let client = Client::connect(&servers)?;
    let id = fastrand::u32(..);
    let mutex = InterProcessMutex::new(&client, &format!("/examples/blocking-{id:08x}"))?;
    let file = std::env::temp_dir().join(format!("zk-recipes-blocking-{id:08x}"));
    fs::write(&file, "0")?;

    let is_told_to_end = IsToldToEnd::default();
    end_by_signals(&client, &is_told_to_end)?;
    let counted = count(&mutex, &file, &is_told_to_end);
    let reached = fs::read_to_string(&file);
    fs::remove_file(&file)?;
    counted?;
    let reached = reached?;
    println!("{THREADS} threads counted to {reached}");
    if !*is_told_to_end.read().unwrap_or_else(PoisonError::into_inner) {
        assert_eq!(reached, (THREADS * TIMES).to_string());
        give_up(&mutex)?;
    }
    // Frees everything, also if threads went on.
    client.close()?;
    Ok(())
}

/// Threads read it while they work.
type IsToldToEnd = Arc<RwLock<bool>>;

/// Ctrl-C, and SIGTERM.
fn end_by_signals(client: &Client, is_told_to_end: &IsToldToEnd) -> Result<()> {
    let (client, is_told_to_end) = (client.clone(), is_told_to_end.clone());
    ctrlc::set_handler(move || {
        // Waits until no thread works.
        *is_told_to_end.write().unwrap_or_else(PoisonError::into_inner) = true;
        // Tells those who wait for the lock.
        if let Err(error) = client.close() {
            eprintln!("{}", zk_recipes::report(&error));
        }
    })?;
    Ok(())
}

/// All through one lock object: each thread is an owner.
fn count(mutex: &InterProcessMutex, file: &Path, is_told_to_end: &RwLock<bool>) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..TIMES {
                        let guard = match mutex.acquire() {
                            Err(Error::Closed) => break,
                            guard => guard?,
                        };
                        let ends = is_told_to_end.read().unwrap_or_else(PoisonError::into_inner);
                        if *ends {
                            break;
                        }
                        add_one(mutex, file)?;
                        guard.release()?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

/// Locks by itself as well: the thread that holds the lock enters again, without a request.
fn add_one(mutex: &InterProcessMutex, file: &Path) -> Result<()> {
    let _guard: LockGuard = mutex.acquire()?;
    let count: u32 = fs::read_to_string(file)?.parse()?;
    fs::write(file, (count + 1).to_string())?;
    Ok(())
}

/// A thread that does not wait for ever.
fn give_up(mutex: &InterProcessMutex) -> Result<()> {
    let guard = mutex.acquire()?;
    let within = Duration::from_millis(100);
    let tried = thread::scope(|scope| scope.spawn(|| mutex.try_acquire_for(within)).join());
    match tried.expect("no thread panics")? {
        Some(_) => unreachable!("it is held"),
        None => {
            println!("another thread gave up after {within:?}, since token {} holds", guard.fencing_token())
        }
    }
    guard.release()?;
    Ok(())
}
