//! Barriers.

mod barrier;
mod double_barrier;

use crate::recipes::prelude::*;

/// That of double barriers.
const PATH: &str = "/barriers/d";
const BRIEF: Duration = ms(300);

fn double_barrier(client: &Client, members: usize) -> DoubleBarrier {
    DoubleBarrier::new(client, PATH, members).unwrap()
}

fn enter_in_task(client: &Client, members: usize) -> JoinHandle<Result<Entered>> {
    let barrier = double_barrier(client, members);
    tokio::spawn(async move { barrier.enter().await })
}

fn leave_in_task(entered: Entered) -> JoinHandle<Result<()>> {
    tokio::spawn(entered.leave())
}

/// Has all enter.
async fn entered<const N: usize>(clients: &[Client; N]) -> Vec<Entered> {
    let entering: Vec<_> = clients.iter().map(|client| enter_in_task(client, N)).collect();
    let mut all = Vec::new();
    for entering in entering {
        all.push(within(entering).await.unwrap().unwrap());
    }
    all
}
