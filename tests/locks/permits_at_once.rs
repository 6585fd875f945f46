//! Permits that are taken along with the create at the gate: in one round trip, if no other client was there since.

use crate::prelude::*;
use zk_recipes::shared::SharedCount;

const PATH: &str = "/semaphores/a";
const GATE: &str = "/semaphores/a/locks";
const LEASES: &str = "/semaphores/a/leases";
const COUNT: &str = "/counts/a";

/// A client behind a proxy, and somebody who looks.
struct Stage {
    server: PooledServer,
    proxy: FaultProxy,
    zookeeper: zk::Client,
    client: Client,
}

impl Stage {
    async fn set() -> Self {
        let (server, proxy, zookeeper, client) = server_behind_proxy().await;
        Self { server, proxy, zookeeper, client }
    }

    fn semaphore(&self, permits: u32) -> Semaphore {
        Semaphore::new(&self.client, PATH, permits).unwrap()
    }

    /// Acquires and releases, until the client knows the gate.
    async fn know(&self, lock: &dyn InterProcessLock) {
        visit(lock, 2).await;
        self.quiet().await;
    }

    /// What went before shows no more.
    async fn quiet(&self) {
        queue_of(&self.zookeeper, GATE, 0).await;
        // A reply to a request that was sent later: that to the delete at the gate has come before.
        self.client.zookeeper().await.unwrap().sync("/").await.unwrap();
        self.proxy.take_requests();
    }

    /// Whether a cycle begins with a transaction, and what it sends besides.
    async fn cycle(&self, lock: &dyn InterProcessLock) -> (bool, usize) {
        self.quiet().await;
        let guard = within(lock.acquire()).await.unwrap();
        let requests = self.proxy.take_requests();
        guard.release().await.unwrap();
        let transactions = requests.iter().filter(|request| **request == Request::Multi).count();
        (requests[0] == Request::Multi, transactions)
    }

    async fn nothing_left(&self) {
        queue_of(&self.zookeeper, GATE, 0).await;
        queue_of(&self.zookeeper, LEASES, 0).await;
    }
}

/// When the leases were created.
async fn dates_of_leases(zookeeper: &zk::Client) -> Vec<i64> {
    let mut dates = Vec::new();
    for lease in children(zookeeper, LEASES).await {
        dates.push(zookeeper.check_stat(&format!("{LEASES}/{lease}")).await.unwrap().unwrap().czxid);
    }
    dates
}

#[tokio::test]
async fn one_round_trip_for_any_number_of_permits() {
    let stage = Stage::set().await;
    let count = SharedCount::new(&stage.client, COUNT, 3).unwrap();
    assert_eq!(count.get().await, Ok(3));
    let semaphore = stage.semaphore(3);
    let shared = Semaphore::with_shared_count(&stage.client, PATH, &count).unwrap();
    let locks: [(Arc<dyn InterProcessLock>, usize, &[Request]); 3] = [
        (Arc::new(semaphore.clone()), 1, &[Request::Multi, Request::GetChildren]),
        (Arc::new(semaphore.many(3).unwrap()), 3, &[Request::Multi, Request::GetChildren]),
        (Arc::new(shared), 1, &[Request::Multi, Request::GetChildren, Request::GetData]),
    ];
    stage.know(&semaphore).await;
    for (lock, permits, expected) in locks {
        stage.quiet().await;
        stage.proxy.set_traffic(Traffic::black_hole_to_client());
        let acquiring = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await }
        });
        until("all is sent before any reply", || stage.proxy.requests_seen() >= expected.len()).await;
        queue_of(&stage.zookeeper, LEASES, permits).await;
        let dates = dates_of_leases(&stage.zookeeper).await;
        // Old servers do not tell when the nodes were created; then that is asked for along with the others.
        let mut requests = stage.proxy.take_requests();
        requests.retain(|request| *request != Request::Exists);
        assert_eq!(requests, expected);
        let held = stage.proxy.intercept(Request::Delete, Fate::HoldReply);
        stage.proxy.set_traffic(Traffic::pass());
        let guard = within(acquiring).await.unwrap().unwrap();
        assert_eq!(guard.members().len().max(1), permits);
        assert!(dates.iter().all(|date| *date == guard.fencing_token()), "{dates:?}");
        // The node at the gate is removed without waiting for the reply.
        within(held.happened()).await;
        held.release();
        let mut requests = stage.proxy.take_requests();
        // If that took long.
        requests.retain(|request| *request != Request::Confirm);
        assert_eq!(requests, [Request::Delete]);
        guard.release().await.unwrap();
    }
    stage.nothing_left().await;
}

/// The first try fails as a whole. The next ones are made once the numbers have come as expected for a while.
#[tokio::test]
async fn a_client_that_is_not_alone_stops_to_try_for_a_while() {
    let stage = Stage::set().await;
    let [one, other] = [stage.client.clone(), connect(&stage.server).await]
        .map(|client| SemaphoreMutex::new(&client, PATH).unwrap());
    stage.know(&one).await;
    assert_eq!(stage.cycle(&one).await, (true, 1));
    let visit = async || other.acquire().await.unwrap().release().await.unwrap();
    visit().await;
    let before = stage.zookeeper.check_stat(LEASES).await.unwrap().unwrap().cversion;
    assert_eq!(stage.cycle(&one).await, (true, 2), "a try in vain, and then as usual");
    let after = stage.zookeeper.check_stat(LEASES).await.unwrap().unwrap().cversion;
    assert_eq!(after - before, 2, "the try has created nothing");
    visit().await;
    for expected in [false, false, false, true, true] {
        assert_eq!(stage.cycle(&one).await, (expected, 1));
    }
    stage.nothing_left().await;
}

#[tokio::test]
async fn permits_that_are_not_free_are_not_tried_for() {
    let stage = Stage::set().await;
    let semaphore = stage.semaphore(3);
    stage.know(&semaphore).await;
    let held = semaphore.many(2).unwrap().acquire().await.unwrap();
    stage.quiet().await;
    let before = stage.zookeeper.check_stat(LEASES).await.unwrap().unwrap().cversion;
    assert!(semaphore.many(2).unwrap().try_acquire().await.unwrap().is_none());
    assert!(!stage.proxy.take_requests().contains(&Request::Multi));
    assert_eq!(stage.zookeeper.check_stat(LEASES).await.unwrap().unwrap().cversion, before);
    held.release().await.unwrap();
    stage.nothing_left().await;
}
