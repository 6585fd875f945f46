//! What a server's restart costs when a thousand wait: three requests for each at most, and no list.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::*;
use futures_util::future::join_all;
use zk_recipes::testing::{FaultProxy, Request};
use zk_recipes::{Client, InterProcessMutex, LockGuard};

const WAITERS: usize = 1000;

/// Long enough for no ping to be sent in between.
const SESSION: Duration = Duration::from_secs(60);

/// A server that can be restarted, and what its clients ask of it.
struct Herd {
    server: Server,
    proxy: FaultProxy,
}

impl Herd {
    async fn new() -> Self {
        let server =
            Server::builder().session_timeout_bounds(Duration::from_secs(1), SESSION).start().await.unwrap();
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        Self { server, proxy }
    }

    /// A client whose requests are counted.
    async fn client(&self) -> Client {
        let builder = Client::builder().session_timeout(SESSION).drop_timeout(Duration::ZERO);
        builder.connect(&self.proxy.connect_string()).await.unwrap()
    }

    /// Restarts the server. Returns what was asked of it until all wait again.
    async fn requests_of_restart(&mut self) -> HashMap<Request, usize> {
        watches_of(&self.server, WAITERS as u64).await;
        self.proxy.take_requests();
        self.server.restart().await.unwrap();
        watches_of(&self.server, WAITERS as u64).await;
        let mut counts = HashMap::new();
        for request in self.proxy.take_requests() {
            *counts.entry(request).or_default() += 1;
        }
        counts
    }
}

/// Asserts that each of the reconnected waiters has sent at most three requests, no list and no create.
fn assert_few(counts: &HashMap<Request, usize>, reconnected: usize) {
    println!("{counts:?}");
    let total: usize = counts.values().sum();
    assert!(total <= 3 * reconnected, "{total} requests, {reconnected} times reconnected: {counts:?}");
    let lists = counts.get(&Request::GetChildren).copied().unwrap_or_default();
    assert_eq!(lists, 0, "nobody's turn has come: {counts:?}");
    let created = counts.get(&Request::Create).copied().unwrap_or_default();
    assert_eq!(created, 0, "nobody has lost its place: {counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_costs_a_thousand_sessions_in_one_queue_three_requests_each() {
    let _machine = crate::MACHINE.lock().await;
    let mut herd = Herd::new().await;
    let holder = connect_for_long(&herd.server).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let mut waiting = Vec::new();
    let mut clients = Vec::new();
    // Not all at once: they are to be in the queue, in whatever order.
    for _ in 0..WAITERS / 50 {
        let some = join_all((0..50).map(|_| herd.client())).await;
        waiting.extend(some.iter().map(|client| acquire_in_task(&mutex(client))));
        clients.extend(some);
    }
    let counts = herd.requests_of_restart().await;
    // Each connection is confirmed once, so this counts them. A client may have to connect again.
    let connections = counts.get(&Request::Confirm).copied().unwrap_or_default();
    assert!(connections <= WAITERS + WAITERS / 10, "{connections} connections: {counts:?}");
    assert_few(&counts, connections.max(WAITERS));
    assert!(held.is_valid());
    // It goes on from one to the next.
    held.release().await.unwrap();
    let (first, _, others) = futures_util::future::select_all(waiting).await;
    first.unwrap().unwrap().release().await.unwrap();
    let (second, _, others) = futures_util::future::select_all(others).await;
    second.unwrap().unwrap().release().await.unwrap();
    others.iter().for_each(|waiter| waiter.abort());
    join_all(clients.iter().map(Client::close)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_costs_a_client_that_waits_in_a_thousand_queues_three_requests_for_each() {
    let _machine = crate::MACHINE.lock().await;
    let mut herd = Herd::new().await;
    let holder = connect_for_long(&herd.server).await;
    let client = herd.client().await;
    let lock = |client: &Client, n: usize| InterProcessMutex::new(client, &format!("/locks/{n}")).unwrap();
    let held: Vec<LockGuard> = join_all((0..WAITERS).map(|n| {
        let lock = lock(&holder, n);
        async move { lock.acquire().await.unwrap() }
    }))
    .await;
    let waiting: Vec<_> = (0..WAITERS).map(|n| acquire_in_task(&lock(&client, n))).collect();
    assert_few(&herd.requests_of_restart().await, WAITERS);
    assert!(held.iter().all(LockGuard::is_valid));
    drop(held);
    for waiter in waiting {
        within(waiter).await.unwrap().unwrap().release().await.unwrap();
    }
}

async fn connect_for_long(server: &Server) -> Client {
    Client::builder().session_timeout(SESSION).connect(&server.connect_string()).await.unwrap()
}
