//! Callers that give up by the thousand leave nothing in memory. Other crowds are in
//! `tests/simulation/tests/timely/crowds.rs`.

#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use support::alone::is_alone;
use support::*;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_recipes::Client;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_cancels_in_ten_clients_leave_nothing() {
    const CLIENTS: usize = 10;
    const TASKS: usize = 50;
    const CANCELS: usize = 100_000;
    if !is_alone("a_hundred_thousand_cancels_in_ten_clients_leave_nothing") {
        return;
    }
    let server = Server::start().await.unwrap();
    let holder = connect(&server).await;
    let bystander = bystander(&server).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let clients: [Client; CLIENTS] = connect_many(&server).await;
    let cancel = async |cancels: usize| {
        let mut callers = JoinSet::new();
        for client in &clients {
            for _ in 0..TASKS {
                let lock = mutex(client);
                callers.spawn(async move {
                    for n in 0..cancels / CLIENTS / TASKS {
                        // At once, or at some point of its requests.
                        let patience = Duration::from_micros(500 * (n as u64 % 8));
                        assert!(timeout(patience, lock.acquire()).await.is_err());
                    }
                });
            }
        }
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
        eventually("only the holder is left", async || {
            (children(&bystander, "/locks/a").await.len() == 1).then_some(())
        })
        .await;
        watches_of(&server, 0).await;
    };
    cancel(CANCELS / 10).await;
    let before = memory::peak();
    cancel(CANCELS).await;
    let after = memory::peak();
    println!("{before} KiB after a tenth of them, {after} KiB after all");
    assert!(after < before + before / 4, "{before} KiB, and then {after} KiB");
    assert!(held.is_valid());
    held.release().await.unwrap();
    within(mutex(&clients[0]).acquire()).await.unwrap().release().await.unwrap();
}
