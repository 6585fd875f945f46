//! How it grows: `cargo bench -p zk-recipes-benches --bench scale [-- queue|locks|clients]`.
//!
//! Hand-overs in a queue of up to 100,000 (`queue.rs`), up to 100,000 locks that one client holds (`locks.rs`), and up to
//! 5,000 clients that wait for one lock (`clients.rs`), each on one server. Prints a table for each.

mod clients;
mod locks;
mod meter;
mod queue;

use zk_recipes::testing::{TestingServer, TestingServerBuilder};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // A test runner that starts all programs there are wants nothing of this one.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let wanted: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| *argument != "--bench").collect();
    let wants = |curve| wanted.is_empty() || wanted.contains(&curve);
    tokio::runtime::Runtime::new()?.block_on(async {
        if wants("queue") {
            queue::measure().await?;
        }
        if wants("locks") {
            locks::measure().await?;
        }
        if wants("clients") {
            clients::measure().await?;
        }
        Ok(())
    })
}

/// A server that takes as many clients as come.
fn server() -> TestingServerBuilder {
    TestingServer::builder().property("maxClientCnxns", "0")
}
