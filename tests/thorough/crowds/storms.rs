//! Callers that give up by the thousand: they cost the servers little, nobody else notices, those who stay are served, and
//! nothing is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::alone::is_alone;
use crate::support::kinds::{KINDS, Kind};
use crate::support::*;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::MemoryServer;
use zk_recipes::{Client, CloseMode, LeaderLatch, LeaderOptions};
use zookeeper_client as zk;

/// Creates and deletes of one client that are under way in one queue.
const UNDER_WAY: usize = 64;

/// How long each storm lasts. In all it is about ten seconds.
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
async fn cancels_of_a_held_lock_leave_no_crowd_of_nodes() {
    let _machine = crate::MACHINE.lock().await;
    const CALLERS: usize = 20;
    for kind in KINDS {
        let server = Server::start().await.unwrap();
        let [holder, client] = connect_many(&server).await;
        let bystander = bystander(&server).await;
        let held = kind.rival(&holder).acquire().await.unwrap();
        let session = session_id(&client).await;
        let lock = kind.unlimited(&client);
        let onlooker = Onlooker::watch(&bystander, &kind.queue());
        let stormed = lock.clone();
        let (given_up, had) = storm(CALLERS, Duration::from_millis(5), move || {
            let lock = stormed.clone();
            async move { lock.acquire().await.unwrap() }
        })
        .await;
        assert!(given_up > 0 && had == 0, "{kind:?}: {given_up} gave up, {had} had it");
        let left = ephemerals_below(&bystander, kind.path()).await.len();
        let most = onlooker.most().await;
        assert!(most <= CALLERS + UNDER_WAY + 1, "{kind:?}: {most} nodes of {CALLERS} callers");
        assert!(left <= UNDER_WAY + 1, "{kind:?}: {left} nodes after the last cancel");
        eventually("all are gone but the holder's", async || {
            (ephemerals_below(&bystander, kind.path()).await.len() == 1).then_some(())
        })
        .await;
        // Nobody lost a session over it.
        assert!(held.is_valid(), "{kind:?}");
        assert_eq!(session_id(&client).await, session, "{kind:?}");
        held.release().await.unwrap();
        within(lock.acquire()).await.unwrap().release().await.unwrap();
        println!("{kind:?}: {given_up} gave up, at most {most} nodes, {left} at the end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_callers_give_up_too_soon_is_given_out_all_the_same() {
    let _machine = crate::MACHINE.lock().await;
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

/// How often callers that give up soon have a free lock for a moment, those of each client together, and how many nodes that
/// takes.
async fn share(clients: usize, callers: usize, patience: Duration) -> (Vec<u64>, i32) {
    let server = MemoryServer::start().unwrap();
    let connect = async || Client::connect(&server.connect_string()).await.unwrap();
    let mut storms = Vec::new();
    for _ in 0..clients {
        let lock = mutex(&connect().await);
        storms.push(storm(callers, patience, move || {
            let lock = lock.clone();
            async move {
                let held = lock.acquire().await.unwrap();
                // It is held as long as its holder wants.
                tokio::task::unconstrained(sleep(Duration::from_millis(1))).await;
                drop(held);
            }
        }));
    }
    let had = futures_util::future::join_all(storms).await.into_iter().map(|(_, had)| had).collect();
    let zookeeper = connect().await.zookeeper().await.unwrap();
    let made = zookeeper.check_stat("/locks/a").await.unwrap().unwrap().cversion / 2;
    (had, made)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_callers_of_a_few_clients_that_give_up_soon_have_a_free_lock() {
    let _machine = crate::MACHINE.lock().await;
    // Long enough for one cycle, and too short for the queue, however slow the machine is.
    let (alone, _) = share(1, 1, BOUND).await;
    let patience = Duration::from_millis(5).max(STORM * 4 / alone[0].max(1) as u32);
    for (clients, callers) in [(1, 2), (2, 2), (3, 5), (3, 7), (8, 3)] {
        let (had, made) = share(clients, callers, patience).await;
        let all: u64 = had.iter().sum();
        // The machine may have become slower meanwhile.
        let alone = alone[0].min(share(1, 1, BOUND).await.0[0]);
        println!("{clients} x {callers}, {patience:?}: {all}, {had:?}, with {made} nodes; alone {alone}");
        assert!(all * 3 >= alone, "{clients} x {callers}: {all} times, {alone} times alone");
        assert!(had.iter().all(|had| *had > 0), "{clients} x {callers}: {had:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_cancels_in_ten_clients_leave_nothing() {
    let _machine = crate::MACHINE.lock().await;
    const CLIENTS: usize = 10;
    const TASKS: usize = 50;
    const CANCELS: usize = 100_000;
    if !is_alone("storms::a_hundred_thousand_cancels_in_ten_clients_leave_nothing") {
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

#[tokio::test(flavor = "multi_thread")]
async fn latches_that_start_and_close_leave_no_crowd_of_nodes() {
    let _machine = crate::MACHINE.lock().await;
    const CALLERS: usize = 20;
    let server = Server::start().await.unwrap();
    let [leader, client] = connect_many(&server).await;
    let bystander = bystander(&server).await;
    let latch = |client: &Client| LeaderLatch::start(client, "/latch", LeaderOptions::new()).unwrap();
    let leading = latch(&leader);
    let leadership = within(leading.await_leadership()).await.unwrap();
    let onlooker = Onlooker::watch(&bystander, "/latch");
    let (_, closed) = storm(CALLERS, BOUND, move || {
        let candidate = latch(&client);
        async move {
            let elected = timeout(Duration::from_millis(5), candidate.await_leadership()).await;
            assert!(elected.is_err());
            candidate.close(CloseMode::Silent).await.unwrap();
        }
    })
    .await;
    let most = onlooker.most().await;
    assert!(closed > 0 && most <= CALLERS + UNDER_WAY + 1, "{closed} closed, {most} nodes");
    queue_of(&bystander, "/latch", 1).await;
    assert!(leadership.is_valid());
    leading.close(CloseMode::Silent).await.unwrap();
}
