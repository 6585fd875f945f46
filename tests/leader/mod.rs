//! Elections.

mod elections;
mod eligibility;
mod trouble;

use crate::recipes::stage::*;
use crate::support::prelude::*;

/// The path of most elections.
const PATH: &str = "/leaders/a";

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
