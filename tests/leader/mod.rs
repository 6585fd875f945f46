//! Elections.

mod elections;
mod eligibility;
mod failing;
mod trouble;

use crate::support::prelude::*;

/// The path of most elections.
const PATH: &str = "/leaders/a";

/// A server for one test, and clients.
async fn server_with_clients<const N: usize>() -> (PooledServer, [Client; N]) {
    let server = empty_server().await;
    let clients = connect_many(&server).await;
    (server, clients)
}

/// Work that goes on until it is to end.
async fn until_asked(leadership: Leadership) -> Result<(), Error> {
    leadership.resign_requested().await;
    Ok(())
}

/// A latch that leads.
async fn leading(client: &Client, options: LeaderOptions) -> (LeaderLatch, Leadership) {
    let latch = LeaderLatch::start(client, PATH, options).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    (latch, leadership)
}
