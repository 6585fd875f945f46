//! Crowds: what the restart of a server costs when a thousand wait, and callers that give up again and again. They cost
//! the servers little, nobody else notices, those who stay are served, and nothing is left.

use std::collections::HashMap;

use futures_util::future::select_all;
use zk_recipes_simulation::machine::Machine;

use super::prelude::*;

const SECOND: Duration = secs(1);

// --- Restarts ---

const WAITERS: usize = 1000;
/// Long enough for no ping to be sent in between.
const SESSION: Duration = secs(60);

/// A server that can be restarted, and what its clients ask of it.
struct Herd {
    servers: MemoryEnsemble,
    proxy: Proxy,
}

impl Herd {
    async fn new(stage: &Stage) -> Self {
        let (servers, proxy) =
            apart(stage, MemoryEnsemble::builder().servers(1).tick_time(SESSION / 10), "10.5.0.1:2181").await;
        Self { servers, proxy }
    }

    async fn client(&self) -> Client {
        self.proxy.client(|builder| builder.session_timeout(SESSION)).await
    }

    /// Restarts the server. Returns what was asked of it until all wait again: at most three requests each, no list and
    /// no create. There are so many watches.
    async fn asks_few_at_a_restart(&self, watches: usize) {
        assert_eq!(self.servers.watch_count(), watches);
        self.proxy.take_requests();
        self.servers.stop(0);
        self.servers.start(0);
        sleep(3 * SECOND).await;
        assert_eq!(self.servers.watch_count(), watches);
        let mut counts = HashMap::<Request, usize>::new();
        for request in self.proxy.take_requests() {
            *counts.entry(request).or_default() += 1;
        }
        let total: usize = counts.values().sum();
        assert!(total <= 3 * WAITERS, "{total} requests: {counts:?}");
        assert_eq!(counts.get(&Request::GetChildren), None, "nobody's turn has come: {counts:?}");
        assert_eq!(counts.get(&Request::Create), None, "nobody has lost its place: {counts:?}");
    }
}

fn mutex(client: &Client, number: usize) -> InterProcessMutex {
    mutex_at(client, &format!("/locks/{number}"))
}

type Waiting = JoinHandle<Option<zk_recipes::Result<LockGuard>>>;

fn acquire(machine: &Machine, mutex: InterProcessMutex) -> Waiting {
    machine.spawn(async move { mutex.acquire().await })
}

#[history]
async fn a_restart_costs_a_thousand_sessions_in_one_queue_three_requests_each(stage: Stage) {
    let herd = Herd::new(&stage).await;
    let beside = Proxy::before(&stage, herd.servers.clone(), "10.5.0.2:2181").await;
    let holder = beside.client(|builder| builder.session_timeout(SESSION)).await;
    let held = mutex(&holder, 0).acquire().await.unwrap();
    let clients = join_all((0..WAITERS).map(|_| herd.client())).await;
    let waiting: Vec<_> =
        clients.iter().map(|client| acquire(&stage.machines()[0], mutex(client, 0))).collect();
    sleep(3 * SECOND).await;
    // Each lock object watches its path, and the holder its node.
    herd.asks_few_at_a_restart(2 * WAITERS + 1).await;
    assert!(held.is_valid());
    // It goes on from one to the next.
    held.release().await.unwrap();
    let mut others = waiting;
    for _ in 0..2 {
        let (first, _, rest) = within(select_all(others)).await;
        first.unwrap().unwrap().unwrap().release().await.unwrap();
        others = rest;
    }
    others.iter().for_each(JoinHandle::abort);
    sleep(SECOND).await;
    assert_eq!(herd.servers.children("/locks/0"), Some(Vec::new()));
    join_all(clients.iter().map(Client::close)).await;
}

#[history]
async fn a_restart_costs_a_client_that_waits_in_a_thousand_queues_three_requests_for_each(stage: Stage) {
    let herd = Herd::new(&stage).await;
    let beside = Proxy::before(&stage, herd.servers.clone(), "10.5.0.2:2181").await;
    let holder = beside.client(|builder| builder.session_timeout(SESSION)).await;
    let client = herd.client().await;
    let held = join_all((0..WAITERS).map(async |n| mutex(&holder, n).acquire().await.unwrap())).await;
    let waiting: Vec<_> = (0..WAITERS).map(|n| acquire(&stage.machines()[0], mutex(&client, n))).collect();
    sleep(3 * SECOND).await;
    herd.asks_few_at_a_restart(3 * WAITERS).await;
    assert!(held.iter().all(LockGuard::is_valid));
    drop(held);
    for waiter in waiting {
        within(waiter).await.unwrap().unwrap().unwrap().release().await.unwrap();
    }
}

// --- Callers that give up ---

/// Creates and deletes of one client that are under way in one queue.
const UNDER_WAY: usize = 64;
const STORM: Duration = secs(1);

/// Sees a queue at each change. Returns what becomes the most that were in it at any time.
fn most_of(servers: &MemoryEnsemble, queue: String) -> Arc<AtomicUsize> {
    let most = Arc::new(AtomicUsize::new(0));
    let (noted, looked_at) = (most.clone(), servers.clone());
    servers.observe(move |change| {
        let is_there = change.path.strip_prefix(&queue).is_some_and(|name| name.starts_with("/_c_"));
        if is_there && matches!(change.kind, ObservedKind::Created) {
            noted.fetch_max(looked_at.children(&queue).unwrap_or_default().len(), SeqCst);
        }
    });
    most
}

/// Callers of one client that each give up after this time, again and again. Returns how often they gave up, and how often
/// they had the lock.
async fn storm<F: Future + 'static>(
    machine: &Machine,
    callers: usize,
    patience: Duration,
    acquire: impl Fn() -> F + 'static,
) -> (usize, usize) {
    let (acquire, end) = (Rc::new(acquire), Instant::now() + STORM);
    let callers = (0..callers).map(|_| {
        let acquire = acquire.clone();
        machine.spawn(async move {
            let (mut given_up, mut had) = (0, 0);
            while Instant::now() < end {
                match timeout(patience, acquire()).await {
                    Err(_) => given_up += 1,
                    Ok(_) => had += 1,
                }
            }
            (given_up, had)
        })
    });
    let counts = join_all(callers).await.into_iter().map(|counts| counts.unwrap().unwrap());
    counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

#[history]
async fn cancels_of_a_held_lock_leave_no_crowd_of_nodes(stage: Stage) {
    const CALLERS: usize = 20;
    let [client, holder] = stage.clients().await;
    for kind in KINDS {
        let held = kind.rival(&holder).acquire().await.unwrap();
        let session = client.zookeeper().await.unwrap().session_id();
        let lock = kind.unlimited(&client);
        let most = most_of(stage.servers(), kind.queue());
        let stormed = lock.clone();
        let (given_up, had) = storm(&stage.machines()[0], CALLERS, ms(5), move || {
            let lock = stormed.clone();
            async move { lock.acquire().await.unwrap() }
        })
        .await;
        assert!(given_up > 0 && had == 0, "{kind:?}: {given_up} gave up, {had} had it");
        let left = || {
            let nodes = stage.servers().nodes_below(kind.path());
            nodes.iter().filter(|(_, node)| node.ephemeral_owner != 0).count()
        };
        assert!(left() <= UNDER_WAY + 1, "{kind:?}: {} nodes after the last cancel", left());
        let most = most.load(SeqCst);
        assert!(most > 1 && most <= CALLERS + UNDER_WAY + 1, "{kind:?}: {most} nodes");
        sleep(A_MOMENT).await;
        assert_eq!(left(), 1, "{kind:?}: all are gone but the holder's");
        // Nobody lost a session over it.
        assert!(held.is_valid(), "{kind:?}");
        assert_eq!(client.zookeeper().await.unwrap().session_id(), session, "{kind:?}");
        held.release().await.unwrap();
        within(lock.acquire()).await.unwrap().release().await.unwrap();
    }
}

/// How often callers that give up soon have a free lock for a moment, those of each client together.
async fn share(stage: &Stage, clients: usize, callers: usize, patience: Duration) -> Vec<usize> {
    let machine = &stage.machines()[0];
    let clients = join_all((0..clients).map(|_| machine.client())).await;
    let storms = clients.iter().map(|client| {
        let lock = mutex(client, 0);
        storm(machine, callers, patience, move || {
            let lock = lock.clone();
            async move {
                let held = lock.acquire().await.unwrap();
                // It is held as long as its holder wants.
                sleep(ms(1)).await;
                drop(held);
            }
        })
    });
    let had = join_all(storms).await.into_iter().map(|(_, had)| had).collect();
    join_all(clients.iter().map(Client::close)).await;
    had
}

#[history]
async fn a_few_callers_of_a_few_clients_that_give_up_soon_have_a_free_lock(stage: Stage) {
    let alone = share(&stage, 1, 1, SESSION).await[0];
    // Long enough for one cycle, and too short for the queue.
    let patience = ms(5).max(STORM * 4 / alone as u32);
    for (clients, callers) in [(1, 2), (2, 2), (3, 5), (3, 7), (8, 3)] {
        let had = share(&stage, clients, callers, patience).await;
        let all: usize = had.iter().sum();
        assert!(all * 3 >= alone, "{clients} x {callers}: {all} times, {alone} times alone");
        assert!(had.iter().all(|had| *had > 0), "{clients} x {callers}: {had:?}");
    }
}

#[history]
async fn latches_that_start_and_close_leave_no_crowd_of_nodes(stage: Stage) {
    const CALLERS: usize = 20;
    let [client, leader] = stage.clients().await;
    let latch = |client: &Client| LeaderLatch::start(client, "/latch", LeaderOptions::new()).unwrap();
    let leading = latch(&leader);
    let leadership = within(leading.await_leadership()).await.unwrap();
    let most = most_of(stage.servers(), "/latch".into());
    let candidates = client.clone();
    let (_, closed) = storm(&stage.machines()[0], CALLERS, SESSION, move || {
        let candidate = latch(&candidates);
        async move {
            let elected = timeout(ms(5), candidate.await_leadership()).await;
            assert!(elected.is_err());
            candidate.close(CloseMode::Silent).await.unwrap();
        }
    })
    .await;
    let most = most.load(SeqCst);
    assert!(most > 1 && most <= CALLERS + UNDER_WAY + 1, "{most} nodes");
    assert!(closed > 0);
    queue_of(stage.servers(), "/latch", 1).await;
    assert!(leadership.is_valid());
    leading.close(CloseMode::Silent).await.unwrap();
}
