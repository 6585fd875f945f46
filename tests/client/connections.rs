//! Connections of a session that come and go: what is told of them, how soon there is another, and what it costs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::*;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::{Fate, FaultProxy, MemoryServer, Request, Traffic};
use zk_recipes::{
    Client, ConnectionState, InterProcessMutex, LeaderLatch, LeaderOptions, LockGuard, LockState, LossReason,
    Owner, Semaphore,
};
use zookeeper_client as zk;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn becomes(client: &Client, wanted: impl Fn(ConnectionState) -> bool) -> ConnectionState {
    let mut state = client.watch_connection();
    *within(state.wait_for(|state| wanted(*state))).await.unwrap()
}

/// As many locks, each held by an owner of its own.
async fn hold_many(client: &Client, count: usize, name_length: usize) -> Vec<LockGuard> {
    let root = "q".repeat(name_length);
    let mut guards = Vec::new();
    for chunk in (0..count).collect::<Vec<_>>().chunks(100) {
        let locks = chunk.iter().map(|i| {
            let mutex = InterProcessMutex::new(client, &format!("/{root}/{i}")).unwrap();
            async move { mutex.owned_by(&Owner::new()).acquire().await.unwrap() }
        });
        guards.extend(join_all(locks).await);
    }
    guards
}

// --- What is told ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_connected_sees_the_state_that_says_so() {
    let server = empty_server().await;
    for round in 0..200 {
        let client = connect(&server).await;
        assert_eq!(*client.watch_connection().borrow(), ConnectionState::Connected, "round {round}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_lazy_client_can_be_waited_for() {
    let mut server = empty_server().await;
    server.stop().await.unwrap();
    let builder = Client::builder().connection_timeout(ms(300));
    let client = builder.connect_lazily(&server.connect_string()).unwrap();
    let error = client.wait_connected().await.unwrap_err();
    assert!(matches!(error, zk_recipes::Error::NotConnected { .. }), "{error}");
    server.restart().await.unwrap();
    eventually("it connects", || async { client.wait_connected().await.ok() }).await;
    assert_eq!(*client.watch_connection().borrow(), ConnectionState::Connected);
    client.close().await;
    assert_eq!(client.wait_connected().await, Err(zk_recipes::Error::Closed));
}

#[tokio::test]
async fn each_state_is_told_once_and_the_first_one_is_the_present_one() {
    let mut server = empty_server().await;
    let client = connect(&server).await;
    let latch = LeaderLatch::start(&client, "/leaders/a", LeaderOptions::new()).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    for _ in 0..2 {
        let mut state = client.watch_connection();
        within(state.changed()).await.unwrap();
        assert!(state.borrow_and_update().is_connected());
        assert!(!state.has_changed().unwrap());
        for mut state in [guard.watch_state(), leadership.watch_state()] {
            within(state.changed()).await.unwrap();
            assert_eq!(*state.borrow_and_update(), LockState::Held);
        }
        let mut state = latch.watch_state();
        within(state.changed()).await.unwrap();
        assert!(matches!(*state.borrow_and_update(), zk_recipes::LeaderState::Leading(_)));
    }
    let mut states = client.watch_connection();
    let mut next = async || {
        within(states.changed()).await.unwrap();
        *states.borrow_and_update()
    };
    assert_eq!(next().await, ConnectionState::Connected);
    for _ in 0..3 {
        server.kill().await.unwrap();
        assert_eq!(next().await, ConnectionState::Suspended);
        server.restart().await.unwrap();
        assert_eq!(next().await, ConnectionState::Reconnected);
    }
    client.close().await;
    assert_eq!(next().await, ConnectionState::Closed);
}

/// It breaks with its first request.
#[tokio::test]
async fn a_connection_that_is_lost_as_soon_as_it_is_made_is_none() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let guard = mutex(&client).acquire().await.unwrap();
    for _ in 0..2 {
        let held = proxy.intercept(Request::Confirm, Fate::HoldReply);
        proxy.cut();
        within(held.happened()).await;
        proxy.refuse_connections(true).unwrap();
        proxy.cut();
        sleep(ms(300)).await;
        assert_eq!(*client.watch_connection().borrow(), ConnectionState::Suspended);
        let mut state = guard.watch_state();
        within(state.wait_for(|state| *state == LockState::Suspect)).await.unwrap();
        proxy.refuse_connections(false).unwrap();
        becomes(&client, ConnectionState::is_connected).await;
        within(state.wait_for(|state| *state == LockState::Held)).await.unwrap();
    }
    guard.release().await.unwrap();
}

/// Panics at the next change of a connection.
#[derive(Clone, Default)]
struct Bomb(Arc<AtomicBool>);

impl tracing::Subscriber for Bomb {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("zk_recipes::client")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let is_change = event.metadata().target().ends_with("link");
        assert!(!(is_change && self.0.swap(false, SeqCst)), "a subscriber that panics");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Whatever may panic there: a subscriber, the runtime, a defect.
#[tokio::test]
async fn a_panic_of_the_task_that_serves_a_client_closes_it() {
    let bomb = Bomb::default();
    let _subscriber = tracing::subscriber::set_default(bomb.clone());
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    // With a single one, `tracing` asks that of whichever thread is the first to log something whether it wants to hear it.
    let _another = tracing::Dispatch::new(bomb.clone());
    let holding = connect_here(&server).await;
    let here = tokio::runtime::Handle::current();
    let client = Client::builder().runtime(here).connect(&proxy.connect_string()).await.unwrap();
    let held = mutex(&holding).acquire().await.unwrap();
    let waiter = acquire_in_task(&mutex(&client));
    let own = InterProcessMutex::new(&client, "/locks/own").unwrap().acquire().await.unwrap();
    queue_of(&bystander(&server).await, "/locks/a", 2).await;
    bomb.0.store(true, SeqCst);
    proxy.cut();
    assert_eq!(within(waiter).await.unwrap().unwrap_err(), zk_recipes::Error::Closed);
    assert_eq!(within(own.lost()).await, LossReason::Closed);
    becomes(&client, |state| state == ConnectionState::Closed).await;
    assert!(client.is_closed());
    assert_eq!(mutex(&client).acquire().await.unwrap_err(), zk_recipes::Error::Closed);
    held.release().await.unwrap();
}

// --- How soon there is another ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_back_as_soon_as_a_server_is_however_long_that_was_away() {
    let server = empty_server().await;
    let outages = [(1, 300), (1, 3600), (1, 6500), (3, 2600), (3, 6500)];
    join_all(outages.map(|(endpoints, outage)| it_is_back_soon(&server, endpoints, outage))).await;
}

/// After so many milliseconds without any of so many servers.
async fn it_is_back_soon(server: &Server, endpoints: usize, outage: u64) {
    let proxies = join_all((0..endpoints).map(|_| FaultProxy::start(server.connect_string()))).await;
    let proxies: Vec<FaultProxy> = proxies.into_iter().map(Result::unwrap).collect();
    let hosts = proxies.iter().map(FaultProxy::connect_string).collect::<Vec<_>>().join(",");
    let client = Client::connect(&hosts).await.unwrap();
    let path = format!("/late/{endpoints}-{outage}");
    let guard = InterProcessMutex::new(&client, &path).unwrap().acquire().await.unwrap();
    for proxy in &proxies {
        proxy.refuse_connections(true).unwrap();
        proxy.cut();
    }
    becomes(&client, |state| !state.is_connected()).await;
    sleep(ms(outage)).await;
    for proxy in &proxies {
        proxy.refuse_connections(false).unwrap();
    }
    let back = Instant::now();
    becomes(&client, ConnectionState::is_connected).await;
    let late = back.elapsed();
    println!("{endpoints} servers away for {outage} ms: connected {late:?} after their return");
    // 200 ms, and more for a busy machine.
    assert!(late < ms(2000), "{late:?} after {outage} ms");
    assert!(guard.is_valid(), "{:?}", guard.loss());
    guard.release().await.unwrap();
}

/// A server that takes connections and says nothing costs no more than a part of what is left of the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_does_not_keep_it_from_the_others() {
    let server = empty_server().await;
    let (silent, other) = (
        FaultProxy::start(server.connect_string()).await.unwrap(),
        FaultProxy::start(server.connect_string()).await.unwrap(),
    );
    let hosts = format!("{},{}", silent.connect_string(), other.connect_string());
    let client = Client::connect(&hosts).await.unwrap();
    silent.set_traffic(Traffic::black_hole());
    for _ in 0..5 {
        let since = Instant::now();
        let mut state = client.watch_connection();
        state.borrow_and_update();
        other.cut();
        silent.cut();
        // It may be back before that is seen.
        within(state.changed()).await.unwrap();
        within(state.wait_for(|state| state.is_connected())).await.unwrap();
        assert!(since.elapsed() < ms(3000), "{:?}", since.elapsed());
    }
}

/// As a server that has just started, which may take a connection and never answer it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_silent_once_after_it_refused_does_not_cost_much_of_a_long_session() {
    const SESSION: Duration = Duration::from_secs(30);
    let server = Server::builder().session_timeout_bounds(ms(500), SESSION).start().await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = Client::builder().session_timeout(SESSION).connect(&proxy.connect_string()).await.unwrap();
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    becomes(&client, |state| !state.is_connected()).await;
    // Some attempts are refused.
    sleep(ms(1500)).await;
    let held = proxy.intercept(Request::Confirm, Fate::HoldReply);
    proxy.refuse_connections(false).unwrap();
    within(held.happened()).await;
    let silent = Instant::now();
    becomes(&client, ConnectionState::is_connected).await;
    assert!(silent.elapsed() < SESSION / 5, "{:?}", silent.elapsed());
}

#[tokio::test]
async fn after_an_outage_beyond_the_session_it_does_not_wait_for_its_own_old_session() {
    let mut server = empty_server().await;
    let client = Client::builder().session_timeout(ms(8000)).connect(&server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let waiting = acquire_in_task(&mutex(&client));
    server.kill().await.unwrap();
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    drop(guard);
    becomes(&client, |state| state == ConnectionState::Lost).await;
    server.restart().await.unwrap();
    let back = Instant::now();
    let next = within(waiting).await.unwrap().unwrap();
    let took = back.elapsed();
    assert_ne!(session_id(&client).await, session);
    assert!(took < ms(5000), "granted {took:?} after the return: {next:?}");
}

// --- What it costs ---

/// Also with more watches than fit into one packet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_holds_survive_a_cut_of_half_their_validity() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client =
        Client::builder().session_timeout(ms(15_000)).connect(&proxy.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let count = std::env::var("HOLDS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    let guards = hold_many(&client, count, 60).await;
    // They grow old enough to be watched.
    eventually("all are watched", || async {
        (server.watch_count().await.unwrap() >= count as u64).then_some(())
    })
    .await;
    proxy.refuse_connections(true).unwrap();
    let before = proxy.requests_seen();
    proxy.cut();
    becomes(&client, |state| !state.is_connected()).await;
    sleep(ms(5000)).await;
    proxy.refuse_connections(false).unwrap();
    let back = Instant::now();
    becomes(&client, ConnectionState::is_connected).await;
    let reconnected = back.elapsed();
    eventually("all are held again, and watched", || async {
        let held = guards.iter().all(|guard| guard.is_valid());
        (held && server.watch_count().await.unwrap() >= count as u64).then_some(())
    })
    .await;
    let requests = proxy.requests_seen() - before;
    println!(
        "{count} holds: connected {reconnected:?} after the return, all watched after {:?}, {requests} requests",
        back.elapsed()
    );
    assert_eq!(guards.iter().filter(|guard| !guard.is_valid()).count(), 0);
    assert!(requests < count + 100, "{requests}");
    assert_eq!(session_id(&client).await, session);
}

/// Each waiter sets its watch again, and only the first of its client looks at the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_do_not_all_list_the_queue_after_a_cut() {
    const WAITERS: usize = 200;
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let holder = mutex(&connect(&server).await).acquire().await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let lock = mutex(&client);
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let lock = lock.clone();
        waiters.spawn(async move {
            lock.owned_by(&Owner::new()).acquire().await.unwrap().release().await.unwrap()
        });
    }
    queue_of(&zookeeper, "/locks/a", WAITERS + 1).await;
    let watched = || async { (server.watch_count().await.unwrap() >= WAITERS as u64).then_some(()) };
    eventually("all wait", watched).await;
    proxy.take_requests();
    proxy.cut();
    becomes(&client, |state| state == ConnectionState::Reconnected).await;
    eventually("all wait again", watched).await;
    sleep(ms(300)).await;
    let requests = proxy.take_requests();
    let lists = requests.iter().filter(|request| **request == Request::GetChildren).count();
    println!("{} requests, {lists} lists", requests.len());
    assert!(requests.len() <= WAITERS + 20 && lists <= 2, "{} requests, {lists} lists", requests.len());
    holder.release().await.unwrap();
    within(async { while waiters.join_next().await.is_some_and(|done| done.is_ok()) {} }).await;
}

/// As the servers renegotiate it at each connection.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_shorter_session_timeout_is_heard_of() {
    let builder = Server::builder().session_timeout_bounds(ms(500), Duration::from_secs(30));
    let mut server = builder.start().await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client =
        Client::builder().session_timeout(ms(15_000)).connect(&proxy.connect_string()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    let cfg = server.real().data_dir().parent().unwrap().join("zoo.cfg");
    let text = std::fs::read_to_string(&cfg).unwrap();
    std::fs::write(&cfg, text.replace("maxSessionTimeout=30000", "maxSessionTimeout=2000")).unwrap();
    server.restart().await.unwrap();
    becomes(&client, |state| state == ConnectionState::Reconnected).await;
    sleep(ms(3000)).await;
    assert!(guard.is_valid(), "the same session goes on");
    let rival = Client::builder().session_timeout(ms(2000)).connect(&server.connect_string()).await.unwrap();
    let waiting = acquire_in_task(&mutex(&rival));
    sleep(ms(300)).await;
    proxy.set_traffic(Traffic::black_hole());
    let _rival = within(waiting).await.unwrap().unwrap();
    assert!(!guard.is_valid(), "two holders");
}

/// For that long, 20 times in each second.
async fn flap(proxy: &FaultProxy, seconds: u64) {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(seconds) {
        sleep(ms(50)).await;
        proxy.cut();
    }
}

fn flapping_for() -> u64 {
    std::env::var("FLAP_S").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(8)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_without_end_cost_no_waiter_its_place() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let calm = connect(&server).await;
    let holders = (mutex(&calm).acquire().await.unwrap(), Semaphore::new(&calm, "/locks/s", 1).unwrap());
    let holders = (holders.0, holders.1.acquire().await.unwrap());
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let (mut waiters, mut clients) = (JoinSet::new(), Vec::new());
    for _ in 0..4 {
        let client = connect_through(&proxy).await;
        for kind in 0..4 {
            let client = client.clone();
            waiters.spawn(async move {
                let guard = match kind {
                    0 => Semaphore::new(&client, "/locks/s", 1).unwrap().acquire().await,
                    _ => mutex(&client).owned_by(&Owner::new()).acquire().await,
                };
                guard.unwrap().release().await.unwrap();
            });
        }
        clients.push(client);
    }
    let queues = async || {
        let mutex = queue_of(&zookeeper, "/locks/a", 13).await;
        let mut nodes = [mutex, queue_of(&zookeeper, "/locks/s/locks", 4).await].concat();
        nodes.sort();
        nodes
    };
    let before = queues().await;
    flap(&proxy, flapping_for()).await;
    assert_eq!(queues().await, before);
    holders.0.release().await.unwrap();
    holders.1.release().await.unwrap();
    for _ in 0..16 {
        within(waiters.join_next()).await.unwrap().unwrap();
    }
    timeout(BOUND, watches_of(&server, 0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_under_cuts_without_end() {
    let seconds = flapping_for();
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let rounds = Arc::new(AtomicUsize::new(0));
    let errors = Arc::new(Mutex::new(Vec::new()));
    let (mut workers, mut sessions) = (JoinSet::new(), Vec::new());
    for _ in 0..4 {
        let client = connect_through(&proxy).await;
        sessions.push((session_id(&client).await, client.clone()));
        for kind in 0..4 {
            let (client, is_over) = (client.clone(), is_over.clone());
            let (rounds, errors) = (rounds.clone(), errors.clone());
            workers.spawn(async move {
                let semaphore = Semaphore::new(&client, "/flap/s", 2).unwrap();
                let mutex = InterProcessMutex::new(&client, "/flap/m").unwrap();
                while !is_over.load(SeqCst) {
                    let acquired = match kind {
                        0 => semaphore.acquire().await,
                        _ => mutex.owned_by(&Owner::new()).acquire().await,
                    };
                    match acquired {
                        Ok(guard) => {
                            sleep(ms(1)).await;
                            let _ = guard.release().await;
                            rounds.fetch_add(1, SeqCst);
                        }
                        Err(error) => errors.lock().unwrap().push(error.to_string()),
                    }
                }
            });
        }
    }
    flap(&proxy, seconds).await;
    is_over.store(true, SeqCst);
    within(async { while workers.join_next().await.is_some_and(|done| done.is_ok()) {} }).await;
    let (rounds, errors) = (rounds.load(SeqCst), errors.lock().unwrap().clone());
    println!("{rounds} rounds in {seconds} s, {} errors: {errors:?}", errors.len());
    assert!(rounds as u64 > seconds, "{rounds} rounds in {seconds} s");
    for (session, client) in sessions {
        assert_eq!(session_id(&client).await, session);
    }
    let zookeeper: zk::Client = bystander(&server).await;
    eventually("nothing is left", || async {
        ephemerals_below(&zookeeper, "/flap").await.is_empty().then_some(())
    })
    .await;
    timeout(BOUND, watches_of(&server, 0)).await.unwrap();
}

/// Or what stands before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_up_each_time_is_not_asked_as_fast_as_it_can_be() {
    let server = empty_server().await;
    let proxy = Arc::new(FaultProxy::start(server.connect_string()).await.unwrap());
    let client = connect_through(&proxy).await;
    let connections = Arc::new(AtomicUsize::new(0));
    let hanging_up = tokio::spawn({
        let (proxy, connections) = (proxy.clone(), connections.clone());
        let mut state = client.watch_connection();
        async move {
            while state.wait_for(|state| state.is_connected()).await.is_ok() {
                connections.fetch_add(1, SeqCst);
                proxy.cut();
                state.wait_for(|state| !state.is_connected()).await.unwrap();
            }
        }
    });
    sleep(ms(5000)).await;
    hanging_up.abort();
    // Without a pause there are some seventy in a second.
    let connections = connections.load(SeqCst);
    assert!((10..200).contains(&connections), "{connections}");
}

/// Cuts in the middle of acquires: none is stuck, or waits behind a node that somebody has forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acquires_come_through_cuts() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let connector = zk::Client::connector().with_session_timeout(Duration::from_secs(10));
    let adopted = connector.connect(&proxy.connect_string()).await.unwrap();
    for client in [connect_through(&proxy).await, Client::from_zookeeper(adopted.clone()).unwrap()] {
        let cuts = std::env::var("CUTS").map_or(100, |cuts| cuts.parse().unwrap());
        for _ in 0..cuts {
            proxy.cut();
            sleep(Duration::from_micros(fastrand::u64(0..3000))).await;
            if let Ok(guard) = within(mutex(&client).owned_by(&Owner::new()).acquire()).await {
                // Whether it is told of or not, it is done.
                drop(guard.release().await);
            }
        }
        queue_of(&zookeeper, "/locks/a", 0).await;
    }
}

// --- How it ends ---

/// A node that stays at the servers when the client has closed would be in the way until the session has expired.
async fn assert_nothing_held(zookeeper: &zk::Client, path: &str) {
    zookeeper.sync("/").await.unwrap();
    assert_eq!(ephemerals_below(zookeeper, path).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_that_nobody_polls_does_not_keep_a_session_from_being_closed() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    let held = InterProcessMutex::new(&client, "/locks/b").unwrap().acquire().await.unwrap();
    let mut acquiring = Box::pin(lock.acquire());
    // As `select!` does, with something else that is ready.
    assert!((&mut acquiring).now_or_never().is_none());
    client.close().await;
    assert_nothing_held(&zookeeper, "/locks").await;
    assert!(!held.is_valid());
    assert_eq!(acquiring.await.unwrap_err(), zk_recipes::Error::Closed);
}

/// They are caught where they happen, and would be seen by nobody.
fn panics_of_the_clients_thread() -> Arc<AtomicUsize> {
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, hook) = (panics.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let is_theirs = std::thread::current().name() == Some("zk-recipes");
        counted.fetch_add(usize::from(is_theirs), SeqCst);
        hook(panic);
    }));
    panics
}

/// The connection is lost with the request that ends the session, and there is no other.
#[tokio::test]
async fn a_client_that_is_closed_as_the_servers_go_is_not_waited_for() {
    let server = MemoryServer::start().unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let patient = Client::builder().session_timeout(BOUND * 5).connection_timeout(BOUND * 5);
    let client = patient.connect(&proxy.connect_string()).await.unwrap();
    proxy.refuse_connections(true).unwrap();
    let _lost = proxy.intercept(Request::Other(-11), Fate::LoseRequest);
    within(client.close()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_closed_soon_after_a_cut_ends_its_session() {
    let panics = panics_of_the_clients_thread();
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    for _ in 0..30 {
        let client = connect_through(&proxy).await;
        let _guard = mutex(&client).acquire().await.unwrap();
        proxy.cut();
        sleep(Duration::from_micros(fastrand::u64(0..12_000))).await;
        client.close().await;
        assert_nothing_held(&zookeeper, "/locks").await;
    }
    assert_eq!(panics.load(SeqCst), 0);
}

/// Also if the first connection for that breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_given_up_is_ended_when_the_servers_are_back() {
    let mut server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = Client::builder().session_timeout(ms(6000)).connect(&proxy.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let guard = mutex(&client).acquire().await.unwrap();
    server.kill().await.unwrap();
    within(guard.lost()).await;
    becomes(&client, |state| state == ConnectionState::Lost).await;
    const CLOSE_SESSION: Request = Request::Other(-11);
    let broken = proxy.intercept(CLOSE_SESSION, Fate::LoseRequest);
    server.restart().await.unwrap();
    within(broken.happened()).await;
    let again = proxy.intercept(CLOSE_SESSION, Fate::LoseReply);
    within(again.happened()).await;
    let zookeeper = bystander(&server).await;
    eventually("the old node is gone", async || {
        let nodes = ephemerals_below(&zookeeper, "/locks").await;
        (!nodes.iter().any(|(_, owner)| *owner == session)).then_some(())
    })
    .await;
    assert_ne!(session_id(&client).await, session);
}

#[test]
fn no_runtime_that_ends_during_cuts_leaves_anybody_waiting() {
    let outer = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (server, proxy) = outer.block_on(async {
        let server = empty_server().await;
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        (server, proxy)
    });
    for round in 0..30 {
        let inner = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let lock = |client: &Client| InterProcessMutex::new(client, &format!("/locks/{round}")).unwrap();
        let (client, guard) = inner.block_on(async {
            let builder = Client::builder().runtime(Handle::current());
            let client = builder.connect(&proxy.connect_string()).await.unwrap();
            let guard = lock(&client).acquire().await.unwrap();
            (client, guard)
        });
        let waiting = lock(&client);
        let waiting = outer.spawn(async move { waiting.owned_by(&Owner::new()).acquire().await.map(drop) });
        let mut state = guard.watch_state();
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..30_000)));
        if round % 3 > 0 {
            proxy.cut();
        }
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..10_000)));
        if fastrand::bool() {
            drop(inner);
        } else {
            inner.shutdown_background();
        }
        outer.block_on(async {
            assert_eq!(within(waiting).await.unwrap(), Err(zk_recipes::Error::Closed));
            within(guard.lost()).await;
            assert!(!guard.is_valid());
            let _ = within(guard.release()).await;
            // It is lost, or nobody tells any more.
            let _ = within(state.wait_for(|state| state.is_lost())).await;
            within(client.close()).await;
        });
    }
    outer.block_on(async move { drop((server, proxy)) });
}
