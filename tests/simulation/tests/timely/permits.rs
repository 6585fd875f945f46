//! Permits in trouble: lost replies, outages and callers that give up. Also the searches for nodes whose create has an
//! unknown outcome.

use super::prelude::*;

pub(super) const PATH: &str = "/semaphores/a";
pub(super) const GATE: &str = "/semaphores/a/locks";
pub(super) const LEASES: &str = "/semaphores/a/leases";

async fn know(servers: &MemoryEnsemble, lock: &dyn InterProcessLock) {
    for _ in 0..3 {
        once(lock).await;
    }
    nothing_left(servers).await;
}

pub(super) async fn nothing_left(servers: &MemoryEnsemble) {
    queue_of(servers, GATE, 0).await;
    queue_of(servers, LEASES, 0).await;
}

/// As `RetryPolicy` says: `r + 1` connection timeouts. The outage begins with such a write of an acquire: of a client that
/// takes permits at once, or goes the usual way since someone else was there.
#[history]
async fn an_outage_ends_an_acquire_as_soon_as_the_policy_says(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let writes = [(false, Request::Multi), (true, Request::Create), (true, Request::Multi)];
    for ((is_usual, write), (retries, pause)) in writes
        .into_iter()
        .flat_map(|write| [(1, ms(10)), (2, ms(200)), (3, ms(10))].map(|tries| (write, tries)))
    {
        let client = proxy.client(tries(secs(40), secs(1), RetryPolicy::n_times(retries, pause))).await;
        let semaphore = Semaphore::new(&client, PATH, 3).unwrap();
        know(stage.servers(), &semaphore).await;
        if is_usual {
            let other = stage.client(1).await;
            once(&Semaphore::new(&other, PATH, 3).unwrap()).await;
            other.close().await;
            once(&semaphore).await;
        }
        sleep(A_MOMENT).await;
        // The connection that exists stays until then.
        proxy.refuse_connections(true);
        let lost = proxy.intercept(write, Fate::LoseRequest);
        let start = Instant::now();
        let error = within(semaphore.acquire()).await.unwrap_err();
        within(lost.happened()).await;
        let promised = secs(1) * (retries + 1) + pause * retries;
        assert!(start.elapsed() <= promised + A_MOMENT, "{:?}, {retries} retries: {error}", start.elapsed());
        proxy.refuse_connections(false);
        client.close().await;
    }
}

#[history]
async fn a_lost_reply_costs_few_requests(stage: Stage) {
    for version in [MemoryVersion::V3_5, MemoryVersion::V3_6, MemoryVersion::V3_9] {
        let (servers, proxy) = apart(
            &stage,
            MemoryEnsemble::builder().servers(1).version(version),
            &format!("10.2.{version:?}:2181"),
        )
        .await;
        for permits in [10, 100] {
            for fate in [Fate::LoseRequest, Fate::LoseReply] {
                let client = proxy.client(plain).await;
                let semaphore = Semaphore::new(&client, PATH, permits).unwrap();
                know(&servers, &semaphore).await;
                proxy.take_requests();
                let _lost = proxy.intercept(Request::Multi, fate);
                let guard = within(semaphore.many(permits).unwrap().acquire()).await.unwrap();
                let mut requests = proxy.take_requests();
                // Pings.
                requests.retain(|request| *request != Request::Other(11));
                let each = permits as usize;
                let most = match version {
                    // Each lease is asked whose it is, and for its date.
                    MemoryVersion::V3_5 => 2 * each + 40,
                    // For its date.
                    MemoryVersion::V3_6 => each + 30,
                    _ => 16,
                };
                assert!(requests.len() <= most, "{permits} permits, {fate:?}: {requests:?}");
                guard.release().await.unwrap();
                nothing_left(&servers).await;
                client.close().await;
            }
        }
    }
}

/// A caller goes away at each request, whatever becomes of that.
#[history]
async fn whoever_goes_away_in_trouble_leaves_nothing(stage: Stage) {
    let (proxy, client) = stage.far(plain).await;
    let semaphore = Semaphore::new(&client, PATH, 3).unwrap();
    for fate in [Fate::LoseRequest, Fate::LoseReply, Fate::HoldReply] {
        for index in 0..14 {
            for later in [0, 200, 1_000, 3_000, 40_000].map(Duration::from_micros) {
                know(stage.servers(), &semaphore).await;
                let first = proxy.intercept(Request::Multi, Fate::LoseReply);
                let lost = proxy.intercept_after(index, fate);
                let lock = semaphore.many(2).unwrap();
                let waiter = stage.machines()[0].spawn(async move { lock.acquire().await });
                let _ = timeout(ms(400), lost.happened()).await;
                sleep(later).await;
                waiter.abort();
                drop(waiter.await);
                drop((first, lost));
                nothing_left(stage.servers()).await;
            }
        }
    }
    // Nobody sleeps.
    within(semaphore.many(3).unwrap().acquire()).await.unwrap().release().await.unwrap();
}

/// Nodes at many paths whose creates are given up in an outage; the searches fail midway.
async fn are_searched_for(stage: &Stage, proxy: &Proxy, paths: usize, kind: Request, fate: Fate) {
    let client = proxy.client(plain).await;
    let lock = |path| mutex_at(&client, &format!("/orders/{path}"));
    let locks: Vec<_> = (0..paths).map(lock).collect();
    for lock in &locks {
        once(lock).await;
    }
    proxy.set_traffic(Traffic::black_hole_to_client());
    let tasks: Vec<_> = locks
        .into_iter()
        .map(|lock| stage.machines()[0].spawn(async move { lock.acquire().await }))
        .collect();
    sleep(A_MOMENT).await;
    assert_eq!(ephemerals(stage.servers(), "/orders").len(), paths);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    drop(join_all(tasks).await);
    // Longer than the client completes them in the background.
    sleep(ms(1200)).await;
    let _lost = proxy.intercept(kind, fate);
    proxy.cut();
    proxy.set_traffic(Traffic::pass());
    proxy.take_requests();
    until(|| ephemerals(stage.servers(), "/orders").is_empty()).await;
    let requests = proxy.take_requests();
    assert!(requests.len() < 5 * paths + 40, "{paths} paths, {fate:?} at {kind:?}: {requests:?}");
    client.close().await;
}

#[history]
async fn searches_that_fail_midway_find_everything(stage: Stage) {
    let proxy = stage.proxy(0).await;
    for paths in [3, 30] {
        for (kind, fate) in [
            (Request::Other(103), Fate::LoseRequest),
            (Request::Other(103), Fate::LoseReply),
            (Request::Delete, Fate::LoseRequest),
            (Request::Delete, Fate::LoseReply),
            (Request::Confirm, Fate::LoseReply),
        ] {
            are_searched_for(&stage, &proxy, paths, kind, fate).await;
        }
    }
}

/// A try loses the reply to a request, and the connection for a while. Nobody else has the permit, and nobody else is at
/// the gate.
async fn tries_alone(stage: &Stage, proxy: &Proxy, is_usual: bool, request: Request, outage: Duration) {
    let client = proxy.client(tries(secs(40), ms(300), RetryPolicy::n_times(1, ms(10)))).await;
    let mutex = SemaphoreMutex::new(&client, PATH).unwrap();
    if request == Request::GetChildren {
        // Its leases are not known by their numbers yet.
        once(&mutex).await;
    } else {
        know(stage.servers(), &mutex).await;
    }
    if is_usual {
        // Its last create at the gate is not as it expects.
        let other = stage.client(1).await;
        once(&SemaphoreMutex::new(&other, PATH).unwrap()).await;
        other.close().await;
        once(&mutex).await;
        nothing_left(stage.servers()).await;
    }
    sleep(A_MOMENT).await;
    let lost = proxy.intercept(request, Fate::LoseReply);
    let trying = stage.machines()[0].spawn(async move { mutex.try_acquire().await });
    within(lost.happened()).await;
    proxy.refuse_connections(true);
    sleep(outage).await;
    proxy.refuse_connections(false);
    let outcome = within(trying).await.unwrap().unwrap();
    let is_none = matches!(outcome, Ok(None));
    assert!(!is_none, "usual: {is_usual}, {request:?}, {outage:?}");
    drop(outcome);
    nothing_left(stage.servers()).await;
    client.close().await;
}

#[history]
async fn none_is_said_only_if_others_have_it(stage: Stage) {
    let proxy = stage.proxy(0).await;
    for (is_usual, request) in [
        (false, Request::Multi),
        (false, Request::GetChildren),
        (true, Request::Create),
        (true, Request::Multi),
    ] {
        for outage in (200..=1700).step_by(100).map(Duration::from_millis) {
            tries_alone(&stage, &proxy, is_usual, request, outage).await;
        }
    }
}

/// A client tries in vain, since leases were created that it does not know of. The next client at the gate must not
/// count those of the try.
#[history]
async fn permits_differ_only_if_too_many_are_out(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let servers = stage.servers();
    let other = stage.client(1).await;
    for round in 0..10 {
        let client = proxy.client(plain).await;
        let semaphore = Semaphore::new(&client, PATH, 200).unwrap();
        know(servers, &semaphore).await;
        let strangers = || {
            (0..100)
                .map(|number| format!("{LEASES}/_c_00000000-0000-0000-0000-000000000000-lease-{number:010}"))
        };
        strangers().for_each(|lease| assert!(servers.create(&lease, b"", false)));
        let held = proxy.intercept(Request::Multi, Fate::HoldReply);
        let lock = semaphore.many(190).unwrap();
        let gone = stage.machines()[0].spawn(async move { lock.acquire().await });
        within(held.happened()).await;
        queue_of(servers, LEASES, 290).await;
        let waiting = Semaphore::new(&other, PATH, 200).unwrap();
        let waiter = stage.machines()[1].spawn(async move { waiting.acquire().await });
        queue_of(servers, GATE, 2).await;
        gone.abort();
        held.release();
        let guard = within(waiter).await.unwrap().unwrap();
        guard.unwrap_or_else(|error| panic!("round {round}: {error}")).release().await.unwrap();
        queue_of(servers, LEASES, 100).await;
        strangers().for_each(|lease| assert!(servers.delete(&lease)));
        client.close().await;
    }
}

#[history]
async fn a_thousand_callers_give_up(stage: Stage) {
    let (proxy, client) = stage.far(plain).await;
    let semaphore = Semaphore::new(&client, PATH, 50).unwrap();
    for delay in [0, 1, 5, 20].map(Duration::from_millis) {
        proxy.set_traffic(Traffic::pass());
        know(stage.servers(), &semaphore).await;
        proxy.set_traffic(Traffic::pass().delay(delay));
        proxy.take_requests();
        join_all((0..1000).map(|_| {
            let lock = semaphore.many(fastrand::u32(1..=20)).unwrap();
            let patience = Duration::from_micros(fastrand::u64(0..60_000));
            stage.machines()[0].spawn(async move { drop(timeout(patience, lock.acquire()).await) })
        }))
        .await;
        nothing_left(stage.servers()).await;
        let requests = proxy.take_requests().len();
        assert!(requests < 30_000, "{requests} requests, delayed by {delay:?}");
        // One after the other, each for less than a round trip.
        for _ in 0..200 {
            let lock = semaphore.many(20).unwrap();
            drop(timeout(Duration::from_micros(300), lock.acquire()).await);
        }
        nothing_left(stage.servers()).await;
        once(&semaphore).await;
    }
    proxy.set_traffic(Traffic::pass());
}

/// Whoever waits for more permits than the server takes in one request is told so, and those behind it go on.
#[history]
async fn a_take_that_is_never_accepted_ends_after_eleven(stage: Stage) {
    let (servers, proxy) =
        apart(&stage, MemoryEnsemble::builder().servers(1).max_request_size(8 * 1024), "10.3.0.1:2181").await;
    let [one, other] = [proxy.client(session).await, proxy.client(session).await];
    let semaphore = |client| Semaphore::new(client, PATH, 200).unwrap();
    let held = within(semaphore(&one).acquire()).await.unwrap();
    queue_of(&servers, GATE, 0).await;
    let all = semaphore(&other).many(200).unwrap();
    let all = stage.machines()[0].spawn(async move { all.acquire().await });
    queue_of(&servers, GATE, 1).await;
    let behind = semaphore(&one);
    let behind = stage.machines()[0].spawn(async move { behind.acquire().await });
    queue_of(&servers, GATE, 2).await;
    sleep(A_MOMENT).await;
    proxy.take_requests();
    held.release().await.unwrap();
    let error = within(all).await.unwrap().unwrap().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let takes = proxy.take_requests().iter().filter(|request| **request == Request::Multi).count();
    assert_eq!(takes, 11);
    within(behind).await.unwrap().unwrap().unwrap().release().await.unwrap();
    nothing_left(&servers).await;
}
