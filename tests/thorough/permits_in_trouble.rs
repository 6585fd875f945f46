//! Permits in trouble: lost replies, outages, callers that give up and operators that delete nodes. Also the searches
//! for nodes whose create has an unknown outcome.

#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use support::*;
use zk_recipes::testing::{Fate, FaultProxy, Request, Traffic};
use zk_recipes::{
    Client, Error, InterProcessLock, InterProcessMutex, RetryPolicy, Semaphore, SemaphoreMutex,
};
use zookeeper_client as zk;

const PATH: &str = "/semaphores/a";
const GATE: &str = "/semaphores/a/locks";
const LEASES: &str = "/semaphores/a/leases";

async fn know(zookeeper: &zk::Client, lock: &dyn InterProcessLock) {
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    queue_of(zookeeper, GATE, 0).await;
    queue_of(zookeeper, LEASES, 0).await;
}

async fn nothing_left(zookeeper: &zk::Client) {
    queue_of(zookeeper, GATE, 0).await;
    queue_of(zookeeper, LEASES, 0).await;
}

/// How long an acquire takes to fail in an outage that begins with its first write.
async fn time_to_fail(knows: bool, request: Request, policy: &RetryPolicy) -> (Duration, Error) {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let builder = Client::builder().session_timeout(Duration::from_secs(40)).drop_timeout(Duration::ZERO);
    let builder = builder.connection_timeout(Duration::from_secs(1)).retry_policy(policy.clone());
    let client = connected(builder, &proxy.connect_string()).await;
    let semaphore = Semaphore::new(&client, PATH, 3).unwrap();
    know(&zookeeper, &semaphore).await;
    if !knows {
        // Somebody else passes, and the client learns of that by a try in vain.
        let other = connect(&server).await;
        Semaphore::new(&other, PATH, 3).unwrap().acquire().await.unwrap().release().await.unwrap();
        semaphore.acquire().await.unwrap().release().await.unwrap();
    }
    client.zookeeper().await.unwrap().sync("/").await.unwrap();
    proxy.take_requests();
    // The connection that exists stays until then.
    proxy.refuse_connections(true).unwrap();
    let lost = proxy.intercept(request, Fate::LoseRequest);
    let start = Instant::now();
    let acquiring = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await.map(drop) }
    });
    within(lost.happened()).await;
    let error = within(acquiring).await.unwrap().unwrap_err();
    (start.elapsed(), error)
}

/// As `RetryPolicy` says: `r + 1` connection timeouts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_ends_an_acquire_as_soon_as_the_policy_says() {
    for retries in if is_thorough() { vec![1, 3] } else { vec![1] } {
        let policy = RetryPolicy::n_times(retries, Duration::from_millis(10));
        let (usual, at_once) = tokio::join!(
            time_to_fail(false, Request::Create, &policy),
            time_to_fail(true, Request::Multi, &policy)
        );
        let promised = Duration::from_secs(u64::from(retries) + 1);
        for (time, error) in [usual, at_once] {
            assert!(time < promised * 2, "{time:?}: {error}");
        }
    }
}

/// What a lost reply costs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_costs_few_requests() {
    let mut costs = Vec::new();
    for permits in [10, 100] {
        for fate in [Fate::LoseRequest, Fate::LoseReply] {
            let server = empty_server().await;
            let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
            let zookeeper = bystander(&server).await;
            let client = connect_through(&proxy).await;
            let semaphore = Semaphore::new(&client, PATH, permits).unwrap();
            know(&zookeeper, &semaphore).await;
            proxy.take_requests();
            let lost = proxy.intercept(Request::Multi, fate);
            let guard = within(semaphore.many(permits).unwrap().acquire()).await.unwrap();
            drop(lost);
            let mut requests = proxy.take_requests();
            // Pings.
            requests.retain(|request| *request != Request::Other(11));
            costs.push((permits, requests.len()));
            guard.release().await.unwrap();
            nothing_left(&zookeeper).await;
        }
    }
    for (permits, cost) in costs {
        // Some servers do not tell the dates of nodes that are created together, which are then asked for.
        assert!(cost <= permits as usize + 30, "{permits} permits: {cost} requests");
    }
}

/// A caller goes away at each request, whatever becomes of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_away_in_trouble_leaves_nothing() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_through(&proxy).await;
    let semaphore = Semaphore::new(&client, PATH, 3).unwrap();
    for fate in [Fate::LoseRequest, Fate::LoseReply, Fate::HoldReply] {
        for index in 0..14 {
            for later in [0, 1, 3, 40]
                .into_iter()
                .skip(if is_thorough() { 0 } else { index % 4 })
                .step_by(if is_thorough() { 1 } else { 4 })
            {
                know(&zookeeper, &semaphore).await;
                let first = proxy.intercept(Request::Multi, Fate::LoseReply);
                let lost = proxy.intercept_after(index, fate);
                let waiter = tokio::spawn({
                    let lock = semaphore.many(2).unwrap();
                    async move { lock.acquire().await }
                });
                let _ = tokio::time::timeout(Duration::from_millis(400), lost.happened()).await;
                tokio::time::sleep(Duration::from_millis(later)).await;
                waiter.abort();
                if let Ok(Ok(guard)) = waiter.await {
                    drop(guard);
                }
                drop((first, lost));
                nothing_left(&zookeeper).await;
            }
        }
    }
    // Nobody sleeps.
    let _last = within(semaphore.many(3).unwrap().acquire()).await.unwrap();
}

/// Everything at once: aborts, time-outs, cuts, a gate that is deleted with all in it, clients that visit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_too_many_holders() {
    const LIMIT: i64 = 3;
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxies: Vec<FaultProxy> =
        join_all((0..3).map(|_| async { FaultProxy::start(server.connect_string()).await.unwrap() })).await;
    let clients = join_all(proxies.iter().map(async |proxy| {
        Client::builder()
            .session_timeout(Duration::from_secs(20))
            .drop_timeout(Duration::ZERO)
            .connect(&proxy.connect_string())
            .await
            .unwrap()
    }))
    .await;
    let held = Arc::new(AtomicI64::new(0));
    let most = Arc::new(AtomicI64::new(0));
    let grants = Arc::new(AtomicUsize::new(0));
    let differ = Arc::new(AtomicUsize::new(0));
    let wrong = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for client in &clients {
        for _ in 0..4 {
            let client = client.clone();
            let (held, most, grants, over) = (held.clone(), most.clone(), grants.clone(), over.clone());
            let (differ, wrong) = (differ.clone(), wrong.clone());
            tasks.push(tokio::spawn(async move {
                let semaphore = Semaphore::new(&client, PATH, LIMIT as u32).unwrap();
                while !over.load(SeqCst) {
                    let wanted = fastrand::u32(1..=3);
                    let lock = semaphore.many(wanted).unwrap();
                    let within = Duration::from_micros(fastrand::u64(100..30_000));
                    let outcome = match fastrand::u32(0..4) {
                        0 => match tokio::time::timeout(within, lock.acquire()).await {
                            Ok(outcome) => outcome.map(Some),
                            Err(_) => continue,
                        },
                        1 => lock.try_acquire().await,
                        2 => lock.try_acquire_for(within).await,
                        _ => lock.acquire().await.map(Some),
                    };
                    match outcome {
                        Ok(Some(guard)) => {
                            let now = held.fetch_add(i64::from(wanted), SeqCst) + i64::from(wanted);
                            most.fetch_max(now, SeqCst);
                            if now > LIMIT {
                                wrong.fetch_add(1, SeqCst);
                            }
                            grants.fetch_add(1, SeqCst);
                            if fastrand::bool() {
                                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..3000))).await;
                            }
                            held.fetch_sub(i64::from(wanted), SeqCst);
                            if fastrand::bool() { drop(guard) } else { drop(guard.release().await) }
                        }
                        Ok(None) | Err(Error::NotConnected { .. } | Error::ZooKeeper { .. }) => {}
                        Err(Error::PermitsDiffer { .. }) => {
                            differ.fetch_add(1, SeqCst);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    if fastrand::u32(0..6) == 0 {
                        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..60))).await;
                    }
                }
            }));
        }
    }
    let start = Instant::now();
    let time = Duration::from_secs(if is_thorough() { 120 } else { 10 });
    let mut last = (0, Instant::now());
    while start.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(5..120))).await;
        match fastrand::u32(0..6) {
            0 => proxies[fastrand::usize(0..3)].cut(),
            1 => {
                // As `deleteall` does.
                for child in children(&zookeeper, GATE).await {
                    let _ = zookeeper.delete(&format!("{GATE}/{child}"), None).await;
                }
                let _ = zookeeper.delete(GATE, None).await;
            }
            2 => drop(zookeeper.delete(LEASES, None).await),
            3 => {
                let proxy = &proxies[fastrand::usize(0..3)];
                let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
                let _ = tokio::time::timeout(Duration::from_millis(100), lost.happened()).await;
            }
            4 => {
                let delay = Duration::from_millis(fastrand::u64(0..6));
                proxies[fastrand::usize(0..3)].set_traffic(Traffic::pass().delay(delay));
            }
            _ => {}
        }
        let now = grants.load(SeqCst);
        if now != last.0 {
            last = (now, Instant::now());
        }
        assert!(last.1.elapsed() < Duration::from_secs(15), "nobody is granted anything");
    }
    over.store(true, SeqCst);
    for proxy in &proxies {
        proxy.set_traffic(Traffic::pass());
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    nothing_left(&zookeeper).await;
    assert_eq!(wrong.load(SeqCst), 0);
    assert_eq!(differ.load(SeqCst), 0, "PermitsDiffer");
}

/// Nodes at many paths whose creates are given up in an outage; the searches fail midway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_that_fail_midway_find_everything() {
    for paths in if is_thorough() { vec![3, 30] } else { vec![30] } {
        for (kind, fate) in [
            (Request::Other(103), Fate::LoseRequest),
            (Request::Other(103), Fate::LoseReply),
            (Request::Delete, Fate::LoseRequest),
            (Request::Delete, Fate::LoseReply),
            (Request::Confirm, Fate::LoseReply),
        ] {
            let server = empty_server().await;
            let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
            let zookeeper = bystander(&server).await;
            let client = connect_through(&proxy).await;
            let locks: Vec<_> = (0..paths)
                .map(|path| InterProcessMutex::new(&client, &format!("/orders/{path}")).unwrap())
                .collect();
            for lock in &locks {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
            proxy.set_traffic(Traffic::black_hole_to_client());
            let tasks: Vec<_> = locks.iter().map(acquire_in_task).collect();
            eventually("all are in", || async {
                (ephemerals_below(&zookeeper, "/orders").await.len() == paths).then_some(())
            })
            .await;
            for task in &tasks {
                task.abort();
            }
            drop(join_all(tasks).await);
            // Longer than the client completes them in the background.
            tokio::time::sleep(Duration::from_millis(1200)).await;
            let lost = proxy.intercept(kind, fate);
            proxy.cut();
            proxy.set_traffic(Traffic::pass());
            proxy.take_requests();
            eventually("nothing is left", || async {
                ephemerals_below(&zookeeper, "/orders").await.is_empty().then_some(())
            })
            .await;
            let requests = proxy.take_requests();
            drop(lost);
            assert!(requests.len() < 5 * paths + 40, "{requests:?}");
        }
    }
}

/// A client of short patience, behind a proxy.
async fn impatient(proxy: &FaultProxy) -> Client {
    let builder = Client::builder().session_timeout(Duration::from_secs(40)).drop_timeout(Duration::ZERO);
    let builder = builder.connection_timeout(Duration::from_millis(300));
    let builder = builder.retry_policy(RetryPolicy::n_times(1, Duration::from_millis(10)));
    connected(builder, &proxy.connect_string()).await
}

/// Nobody but this client was ever there: nobody has the permit, and nobody else is at the gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_is_said_only_if_others_have_it() {
    let mut wrong = Vec::new();
    for request in [Request::Multi, Request::GetChildren] {
        for millis in outages() {
            let scene = Try::new().await;
            if let Ok(None) = scene.loses_its_reply(request, millis).await {
                wrong.push((request, millis));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The same for a client whose last create at the gate was not as expected, so that it goes the usual way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_the_usual_way() {
    let mut wrong = Vec::new();
    for request in [Request::Create, Request::Multi] {
        for millis in outages() {
            let scene = Try::new().await;
            let other = SemaphoreMutex::new(&connect(&scene.server).await, PATH).unwrap();
            other.acquire().await.unwrap().release().await.unwrap();
            scene.mutex.acquire().await.unwrap().release().await.unwrap();
            nothing_left(&scene.zookeeper).await;
            if let Ok(None) = scene.loses_its_reply(request, millis).await {
                wrong.push((request, millis));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// How long outages last, in milliseconds.
fn outages() -> impl Iterator<Item = u64> {
    (200..=1700).step_by(if is_thorough() { 100 } else { 500 })
}

/// A client that knows the gate, and is about to try.
struct Try {
    server: PooledServer,
    proxy: FaultProxy,
    zookeeper: zk::Client,
    client: Client,
    mutex: SemaphoreMutex,
}

impl Try {
    async fn new() -> Self {
        let server = empty_server().await;
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let zookeeper = bystander(&server).await;
        let client = impatient(&proxy).await;
        let mutex = SemaphoreMutex::new(&client, PATH).unwrap();
        know(&zookeeper, &mutex).await;
        Self { server, proxy, zookeeper, client, mutex }
    }

    /// Returns the outcome of a try that loses the reply to that request, and the connection for a while.
    async fn loses_its_reply(self, request: Request, millis: u64) -> zk_recipes::Result<Option<()>> {
        self.client.zookeeper().await.unwrap().sync("/").await.unwrap();
        let lost = self.proxy.intercept(request, Fate::LoseReply);
        let mutex = self.mutex.clone();
        let trying = tokio::spawn(async move { mutex.try_acquire().await });
        within(lost.happened()).await;
        self.proxy.refuse_connections(true).unwrap();
        tokio::time::sleep(Duration::from_millis(millis)).await;
        self.proxy.refuse_connections(false).unwrap();
        let outcome = within(trying).await.unwrap().map(|guard| guard.map(drop));
        nothing_left(&self.zookeeper).await;
        outcome
    }
}

/// A client tries in vain, since leases were created that it does not know of. The next client at the gate must not
/// count those of the try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_differ_only_if_too_many_are_out() {
    for _ in 0..repeats(30) {
        let server = empty_server().await;
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let zookeeper = bystander(&server).await;
        let client = connect_through(&proxy).await;
        let semaphore = Semaphore::new(&client, PATH, 200).unwrap();
        know(&zookeeper, &semaphore).await;
        let mode = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
        let prefix = format!("{LEASES}/_c_00000000-0000-0000-0000-000000000000-lease-");
        for _ in 0..100 {
            zookeeper.create(&prefix, b"", &mode).await.unwrap();
        }
        let held = proxy.intercept(Request::Multi, Fate::HoldReply);
        let gone = tokio::spawn({
            let lock = semaphore.many(190).unwrap();
            async move { lock.acquire().await }
        });
        within(held.happened()).await;
        queue_of(&zookeeper, LEASES, 290).await;
        let other = Semaphore::new(&connect(&server).await, PATH, 200).unwrap();
        let waiter = tokio::spawn(async move { other.acquire().await });
        queue_of(&zookeeper, GATE, 2).await;
        gone.abort();
        held.release();
        within(waiter).await.unwrap().unwrap().release().await.unwrap();
        queue_of(&zookeeper, LEASES, 100).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_callers_give_up() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_through(&proxy).await;
    let semaphore = Semaphore::new(&client, PATH, 50).unwrap();
    for delay in if is_thorough() { vec![0, 1, 5, 20] } else { vec![1, 20] } {
        proxy.set_traffic(Traffic::pass());
        know(&zookeeper, &semaphore).await;
        proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(delay)));
        proxy.take_requests();
        let tasks: Vec<_> = (0..1000)
            .map(|_| {
                let lock = semaphore.many(fastrand::u32(1..=20)).unwrap();
                tokio::spawn(async move {
                    let within = Duration::from_millis(fastrand::u64(0..60));
                    drop(tokio::time::timeout(within, lock.acquire()).await);
                })
            })
            .collect();
        drop(join_all(tasks).await);
        let sent = proxy.take_requests().len();
        nothing_left(&zookeeper).await;
        let cleaned = proxy.take_requests().len();
        assert!(sent + cleaned < 30_000);
        // One after the other, each for less than a round trip.
        for _ in 0..200 {
            let lock = semaphore.many(20).unwrap();
            drop(tokio::time::timeout(Duration::from_micros(300), lock.acquire()).await);
        }
        nothing_left(&zookeeper).await;
        within(semaphore.acquire()).await.unwrap().release().await.unwrap();
    }
}

/// Two or three clients at one mutex; the gate is made again all the time, while they hear of it late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_and_nobody_is_there_twice() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxies: Vec<FaultProxy> =
        join_all((0..3).map(|_| async { FaultProxy::start(server.connect_string()).await.unwrap() })).await;
    let clients = join_all(proxies.iter().map(connect_through)).await;
    let inside = Arc::new(std::sync::Mutex::new((0, 0_i64)));
    let over = Arc::new(AtomicBool::new(false));
    let (grants, wrong) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = clients
        .iter()
        .map(|client| {
            let (inside, over, client) = (inside.clone(), over.clone(), client.clone());
            let (grants, wrong) = (grants.clone(), wrong.clone());
            tokio::spawn(async move {
                let mutex = SemaphoreMutex::new(&client, PATH).unwrap();
                while !over.load(SeqCst) {
                    for _ in 0..fastrand::usize(1..6) {
                        let guard = match fastrand::u32(0..3) {
                            0 => mutex.try_acquire().await,
                            _ => mutex.acquire().await.map(Some),
                        };
                        let Ok(Some(guard)) = guard else { continue };
                        {
                            let mut inside = inside.lock().unwrap();
                            let token = guard.fencing_token();
                            if inside.0 > 0 || token <= inside.1 {
                                wrong.fetch_add(1, SeqCst);
                            }
                            *inside = (inside.0 + 1, token);
                        }
                        grants.fetch_add(1, SeqCst);
                        if fastrand::u32(0..3) == 0 {
                            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..4))).await;
                        }
                        inside.lock().unwrap().0 -= 1;
                        if fastrand::bool() { drop(guard) } else { drop(guard.release().await) }
                    }
                    if fastrand::bool() {
                        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..40))).await;
                    }
                }
            })
        })
        .collect();
    let start = Instant::now();
    let time = Duration::from_secs(if is_thorough() { 120 } else { 10 });
    while start.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(5..60))).await;
        let delay = Duration::from_millis(fastrand::u64(0..12));
        let late = Traffic::pass().delay(delay).delay_to_server(Duration::ZERO);
        proxies[fastrand::usize(0..3)].set_traffic(late);
        if fastrand::u32(0..3) > 0 {
            if fastrand::bool() {
                for child in children(&zookeeper, GATE).await {
                    let _ = zookeeper.delete(&format!("{GATE}/{child}"), None).await;
                }
            }
            if zookeeper.delete(GATE, None).await.is_ok() && fastrand::bool() {
                let acls = zk::Acls::anyone_all();
                let container = zk::CreateMode::Container.with_acls(acls);
                let _ = zookeeper.create(GATE, b"", &container).await;
                // The numbers come near to those that the clients expect.
                for _ in 0..fastrand::usize(0..8) {
                    let mode = zk::CreateMode::EphemeralSequential.with_acls(acls);
                    let prefix = format!("{GATE}/_c_00000000-0000-0000-0000-000000000000-lock-");
                    if let Ok((_, number)) = zookeeper.create(&prefix, b"", &mode).await {
                        let _ = zookeeper.delete(&format!("{prefix}{number}"), None).await;
                    }
                }
            }
        }
    }
    over.store(true, SeqCst);
    for proxy in &proxies {
        proxy.set_traffic(Traffic::pass());
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    nothing_left(&zookeeper).await;
    assert_eq!(wrong.load(SeqCst), 0);
}
