//! Callers that give up by the thousand cost the server little, and leave nothing in memory. Other crowds are in
//! `tests/simulation/tests/timely/crowds.rs`.

#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use support::alone::is_alone;
use support::kinds::Kind;
use support::*;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_recipes::Client;
use zookeeper_client as zk;

/// Creates and deletes of one client that are under way in one queue.
const UNDER_WAY: usize = 64;

/// Held by the test that runs: two crowds at once would keep the machine from each other.
static MACHINE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// How long a storm lasts.
const STORM: Duration = Duration::from_secs(1);

/// Looks at a queue all the time.
struct Onlooker {
    is_over: Arc<AtomicBool>,
    most: tokio::task::JoinHandle<usize>,
}

impl Onlooker {
    /// Counts the children of a path.
    fn watch(zookeeper: &zk::Client, path: &str) -> Self {
        let (zookeeper, path) = (zookeeper.clone(), path.to_owned());
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let most = tokio::spawn(async move {
            let mut most = 0;
            while !ends.load(SeqCst) {
                most = most.max(children(&zookeeper, &path).await.len());
            }
            most
        });
        Self { is_over, most }
    }

    /// The most that were there at any time.
    async fn most(self) -> usize {
        self.is_over.store(true, SeqCst);
        self.most.await.unwrap()
    }
}

/// Callers of one client that each give up after this time, again and again. Returns how often they gave up, and how often
/// they had the lock.
async fn storm<F: Future<Output: Send> + Send>(
    tasks: usize,
    patience: Duration,
    acquire: impl Fn() -> F + Clone + Send + 'static,
) -> (u64, u64) {
    let counts: Arc<(AtomicU64, AtomicU64)> = Arc::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..tasks {
        let (counts, is_over, acquire) = (counts.clone(), is_over.clone(), acquire.clone());
        callers.spawn(async move {
            while !is_over.load(SeqCst) {
                match timeout(patience, acquire()).await {
                    Err(_) => counts.0.fetch_add(1, SeqCst),
                    Ok(_) => counts.1.fetch_add(1, SeqCst),
                };
            }
        });
    }
    sleep(STORM).await;
    is_over.store(true, SeqCst);
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    (counts.0.load(SeqCst), counts.1.load(SeqCst))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_callers_give_up_too_soon_is_given_out_all_the_same() {
    let _machine = MACHINE.lock().await;
    const CALLERS: usize = 128;
    for kind in [Kind::Mutex, Kind::Write, Kind::Permit] {
        let server = Server::start().await.unwrap();
        let [client, other] = connect_many(&server).await;
        let bystander = bystander(&server).await;
        let lock = kind.unlimited(&client);
        // So that the path is there.
        lock.acquire().await.unwrap().release().await.unwrap();
        // Too soon for most of a queue, and not for the first of it, however slow the machine is.
        let alone = Instant::now();
        for _ in 0..5 {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        let patience = Duration::from_millis(50).max(2 * alone.elapsed());
        let creates = async || bystander.check_stat(&kind.queue()).await.unwrap().unwrap().cversion / 2;
        let before = creates().await;
        let onlooker = Onlooker::watch(&bystander, &kind.queue());
        let stays = kind.unlimited(&other);
        let one_that_stays = tokio::spawn(async move {
            within(stays.acquire()).await.unwrap().release().await.unwrap();
        });
        let stormed = lock.clone();
        let (given_up, had) = storm(CALLERS, patience, move || {
            let lock = stormed.clone();
            async move { lock.acquire().await.unwrap().release().await.unwrap() }
        })
        .await;
        one_that_stays.await.unwrap();
        let created = creates().await - before;
        let most = onlooker.most().await;
        println!(
            "{kind:?}: {given_up} gave up, {had} had it, {created} nodes made, at most {most} at a time"
        );
        assert!(given_up > 0 && had > 0, "{kind:?}: {given_up} gave up, {had} had it");
        // A place that is given up serves another caller.
        let served = had as i32 + CALLERS as i32;
        assert!(created <= 4 * served, "{kind:?}: {created} nodes made for {had} that had it");
        assert!(most <= CALLERS + UNDER_WAY + 1, "{kind:?}: {most} nodes of {CALLERS} callers");
        assert_nothing_left(&server, &bystander, &kind.queue()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_cancels_in_ten_clients_leave_nothing() {
    let _machine = MACHINE.lock().await;
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
