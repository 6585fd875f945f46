//! Numbers and values while others write, delete and arrive all the time.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::join_all;
use zk_recipes::atomic::DistributedAtomicLong;
use zk_recipes::testing::{Fate, FaultProxy, Request};
use zk_recipes::{Client, Error};

use crate::recipes::stage::server_and_bystander;
use crate::support::{connect, connect_through, empty_server, repeats, within};

const PATH: &str = "/numbers/a";

fn long(client: &Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).unwrap()
}

/// The handle itself has made the node.
#[tokio::test]
async fn a_number_that_was_initialized_again_is_counted_from() {
    let (server, zookeeper) = server_and_bystander().await;
    let number = long(&connect(&server).await);
    assert_eq!(number.initialize(5).await, Ok(true));
    assert_eq!(number.compare_exchange(1, 2).await, Ok(Err(5)));
    zookeeper.delete(PATH, None).await.unwrap();
    assert_eq!(number.initialize(100).await, Ok(true));
    let counted = number.increment().await;
    assert_eq!((counted, number.get().await), (Ok(101), Ok(101)));
}

/// What the calls of one task have told.
#[derive(Debug, Default)]
struct Told {
    /// The numbers that nobody else may have got.
    own: Vec<i64>,
    /// How much was added for certain, and how much more may have been.
    added: i64,
    maybe: i64,
    /// How many calls were told that nobody knows.
    unknown: usize,
}

impl Told {
    /// Of a call that has the numbers from what it returns on for itself.
    fn note(&mut self, size: i64, outcome: Option<zk_recipes::Result<i64>>) {
        match outcome {
            Some(Ok(first)) => {
                self.own.extend(first..first + size);
                self.added += size;
            }
            None => self.maybe += size,
            Some(Err(Error::WriteOutcomeUnknown { .. })) => {
                self.maybe += size;
                self.unknown += 1;
            }
            Some(Err(_)) => {}
        }
    }
}

/// Increments, updates, and calls that are cancelled at any moment, while replies are lost and sessions end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_number_is_given_twice_by_calls_of_all_kinds() {
    const CLIENTS: usize = 3;
    let server = empty_server().await;
    let proxies = join_all((0..CLIENTS).map(|_| FaultProxy::start(server.connect_string()))).await;
    let proxies: Vec<_> = proxies.into_iter().map(Result::unwrap).collect();
    let clients = join_all(proxies.iter().map(connect_through)).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let calling = (0..CLIENTS * 6).map(|nth| {
        let number = long(&clients[nth % CLIENTS]);
        let is_over = is_over.clone();
        tokio::spawn(async move {
            let mut told = Told::default();
            while !is_over.load(SeqCst) {
                let patience = match fastrand::bool() {
                    true => Duration::from_micros(fastrand::u64(0..6000)),
                    false => Duration::from_secs(600),
                };
                let size = fastrand::i64(1..4);
                let outcome = match nth / CLIENTS {
                    0 | 1 => tokio::time::timeout(patience, number.fetch_add(size)).await.ok(),
                    2 | 3 => {
                        let updating = number.fetch_update(|old| Some(old + size));
                        let updated = tokio::time::timeout(patience, updating).await.ok();
                        updated.map(|updated| updated.map(|updated| updated.expect("it is always updated")))
                    }
                    4 => {
                        let swapping = async {
                            let now = number.get().await?;
                            let swapped = number.compare_exchange(now, now + size).await?;
                            swapped.map_err(|value| Error::Overflow { path: String::new(), value, delta: 0 })
                        };
                        tokio::time::timeout(patience, swapping).await.ok()
                    }
                    _ => {
                        let ids = zk_recipes::atomic::CachedAtomicLong::new(&number, size as u32).unwrap();
                        let mut drawn = Vec::new();
                        for _ in 0..5 {
                            drawn.extend(
                                tokio::time::timeout(patience, ids.next()).await.into_iter().flatten(),
                            );
                        }
                        told.own.extend(drawn);
                        // Blocks of unknown number.
                        told.maybe += 20 * size;
                        None
                    }
                };
                if nth / CLIENTS < 5 {
                    told.note(size, outcome);
                }
            }
            told
        })
    });
    let calling: Vec<_> = calling.collect();
    for fault in 0..repeats(200).max(60) {
        let nth = fastrand::usize(0..CLIENTS);
        if fault % 7 == 6 {
            let _ = zk_recipes::testing::kill_session(&clients[nth]).await;
            continue;
        }
        let fate = if fastrand::bool() { Fate::LoseReply } else { Fate::LoseRequest };
        let lost = proxies[nth].intercept(Request::SetData, fate);
        within(lost.happened()).await;
    }
    is_over.store(true, SeqCst);
    let told: Vec<Told> = within(join_all(calling)).await.into_iter().map(Result::unwrap).collect();
    let mut own: Vec<i64> = told.iter().flat_map(|told| told.own.clone()).collect();
    let count = own.len();
    own.sort_unstable();
    own.dedup();
    assert_eq!(own.len(), count, "given twice");
    let (added, maybe) =
        told.iter().fold((0, 0), |(added, maybe), told| (added + told.added, maybe + told.maybe));
    let number = long(&connect(&server).await).get().await.unwrap();
    assert!((added..=added + maybe).contains(&number), "{added} <= {number} <= {added} + {maybe}");
    let unknown: usize = told.iter().map(|told| told.unknown).sum();
    assert!(count > 100 && unknown > 0, "{count} were given, {unknown} are unknown");
}
