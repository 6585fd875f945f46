//! Connections of a session that come and go: what is told of them, how soon there is another, and what it costs.

use super::kinds::Kind;
use super::prelude::*;

/// By which a session is ended.
const CLOSE_SESSION: Request = Request::Other(-11);

// --- What is told ---

#[history]
async fn a_lazy_client_can_be_waited_for(stage: Stage) {
    const TIMEOUT: Duration = ms(300);
    let proxy = stage.proxy(0).await;
    proxy.refuse_connections(true);
    let builder = stage.machines()[0].builder().connection_timeout(TIMEOUT);
    let client = builder.connect_lazily(&proxy.address).unwrap();
    assert_eq!(client.watch_connection().get(), ConnectionState::Suspended);
    let start = Instant::now();
    let error = client.wait_connected().await.unwrap_err();
    assert!(matches!(error, Error::NotConnected { .. }), "{error}");
    assert!(start.elapsed() >= TIMEOUT && start.elapsed() < TIMEOUT + A_MOMENT, "{:?}", start.elapsed());
    proxy.refuse_connections(false);
    client.wait_connected().await.unwrap();
    assert_eq!(client.watch_connection().get(), ConnectionState::Connected);
    client.close().await;
    assert_eq!(client.wait_connected().await, Err(Error::Closed));
}

#[history]
async fn each_state_is_told_once_and_the_first_one_is_the_present_one(stage: Stage) {
    let client = stage.connect(0, usual).await;
    let latch = LeaderLatch::start(&client, "/leaders/a", LeaderOptions::new()).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    for _ in 0..2 {
        let mut state = client.watch_connection();
        within(state.changed()).await.unwrap();
        assert!(state.get().is_connected());
        assert!(state.changed().now_or_never().is_none());
        for mut state in [guard.watch_state(), leadership.watch_state()] {
            within(state.changed()).await.unwrap();
            assert_eq!(state.get(), LockState::Held);
        }
        let mut state = latch.watch_state();
        within(state.changed()).await.unwrap();
        assert!(matches!(state.get(), LeaderState::Leading(_)));
    }
    let mut states = client.watch_connection();
    let mut next = async || within(states.changed()).await.unwrap();
    assert_eq!(next().await, ConnectionState::Connected);
    for _ in 0..3 {
        stage.servers().stop(0);
        assert_eq!(next().await, ConnectionState::Suspended);
        stage.servers().start(0);
        assert_eq!(next().await, ConnectionState::Reconnected);
    }
    client.close().await;
    assert_eq!(next().await, ConnectionState::Closed);
}

/// It breaks with its first request.
#[history]
async fn a_connection_that_is_lost_as_soon_as_it_is_made_is_none(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let guard = mutex(&client).acquire().await.unwrap();
    for _ in 0..2 {
        let held = proxy.intercept(Request::Confirm, Fate::HoldReply);
        proxy.cut();
        within(held.happened()).await;
        proxy.cut_off();
        sleep(ms(300)).await;
        assert_eq!(client.watch_connection().get(), ConnectionState::Suspended);
        let mut state = guard.watch_state();
        within(state.wait_for(|state| *state == LockState::Suspect)).await.unwrap();
        proxy.refuse_connections(false);
        connected(&client).await;
        within(state.wait_for(|state| *state == LockState::Held)).await.unwrap();
    }
    guard.release().await.unwrap();
}

// --- How soon there is another ---

#[history]
async fn it_is_back_as_soon_as_a_server_is_however_long_that_was_away(stage: Stage) {
    let proxies = join_all((1..=3).map(|number| stage.proxy_of(0, number))).await;
    for (endpoints, outage) in [(1, 300), (1, 3600), (1, 6500), (3, 2600), (3, 6500)] {
        let proxies = &proxies[..endpoints];
        let hosts: Vec<_> = proxies.iter().map(|proxy| &*proxy.address).collect();
        let longer = |builder: ClientBuilder| builder.session_timeout(SESSION * 3 / 2);
        let client = stage.connect_to(0, longer, &hosts.join(",")).await;
        let guard = mutex(&client).acquire().await.unwrap();
        for proxy in proxies {
            proxy.cut_off();
        }
        disconnected(&client).await;
        sleep(ms(outage)).await;
        for proxy in proxies {
            proxy.refuse_connections(false);
        }
        let back = Instant::now();
        connected(&client).await;
        let late = back.elapsed();
        assert!(late < ms(200) + A_MOMENT, "{late:?} after {outage} ms");
        assert!(guard.is_valid(), "{:?}", guard.loss());
        guard.release().await.unwrap();
        client.close().await;
    }
}

/// A server that takes connections and says nothing costs no more than a tenth of the session.
#[history]
async fn a_silent_server_does_not_keep_it_from_the_others(stage: Stage) {
    const LONG: Duration = secs(15);
    let (silent, other) = (stage.proxy_of(0, 1).await, stage.proxy_of(0, 2).await);
    let hosts = format!("{},{}", silent.address, other.address);
    let client = stage.connect_to(0, |builder| builder.session_timeout(LONG), &hosts).await;
    silent.set_traffic(Traffic::black_hole());
    for _ in 0..5 {
        let since = Instant::now();
        let mut state = client.watch_connection();
        assert!(state.changed().await.is_some());
        other.cut();
        silent.cut();
        // It may be back before that is seen.
        within(state.changed()).await.unwrap();
        within(state.wait_for(|state| state.is_connected())).await.unwrap();
        assert!(since.elapsed() < LONG / 10 + ms(300), "{:?}", since.elapsed());
    }
    silent.set_traffic(Traffic::pass());
}

/// As a server that has just started, which may take a connection and never answer it.
#[history]
async fn a_server_that_is_silent_once_after_it_refused_does_not_cost_much_of_a_long_session(stage: Stage) {
    const LONG: Duration = secs(30);
    let (proxy, client) = stage.far(|builder| builder.session_timeout(LONG)).await;
    proxy.cut_off();
    disconnected(&client).await;
    // Some attempts are refused.
    sleep(ms(1500)).await;
    let held = proxy.intercept(Request::Confirm, Fate::HoldReply);
    proxy.refuse_connections(false);
    within(held.happened()).await;
    let silent = Instant::now();
    connected(&client).await;
    assert!(silent.elapsed() < LONG / 10, "{:?}", silent.elapsed());
}

#[history]
async fn after_an_outage_beyond_the_session_it_does_not_wait_for_its_own_old_session(stage: Stage) {
    let client = stage.connect(0, usual).await;
    let session = session_id(&client).await;
    let lock = Kind::Mutex.unlimited(&client);
    let guard = lock.acquire().await.unwrap();
    let waiting = in_task(Kind::Mutex.unlimited(&client));
    stage.servers().stop(0);
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    drop(guard);
    state_is(&client, ConnectionState::Lost).await;
    stage.servers().start(0);
    let back = Instant::now();
    let next = within(waiting).await.unwrap().unwrap();
    let took = back.elapsed();
    assert_ne!(session_id(&client).await, session);
    assert!(took < ms(200), "granted {took:?} after the return: {next:?}");
}

// --- What it costs ---

/// Also with more watches than fit into one packet.
#[history]
async fn thousands_of_holds_survive_a_cut_of_half_their_validity(stage: Stage) {
    const HOLDS: usize = 3000;
    let (proxy, client) = stage.far(|builder| builder.session_timeout(SESSION * 3 / 2)).await;
    let session = session_id(&client).await;
    let root = "q".repeat(60);
    let holds = (0..HOLDS).map(|hold| {
        let mutex = mutex_at(&client, &format!("/{root}/{hold}"));
        async move { mutex.acquire().await }
    });
    let guards: Vec<LockGuard> = try_join_all(holds).await.unwrap();
    // They grow old enough to be watched.
    sleep(ms(1500)).await;
    assert!(stage.servers().watch_count() >= HOLDS, "{}", stage.servers().watch_count());
    proxy.refuse_connections(true);
    let before = proxy.requests_seen();
    proxy.cut();
    disconnected(&client).await;
    sleep(ms(5000)).await;
    proxy.refuse_connections(false);
    connected(&client).await;
    sleep(ms(1000)).await;
    assert!(stage.servers().watch_count() >= HOLDS, "{}", stage.servers().watch_count());
    let requests = proxy.requests_seen() - before;
    assert_eq!(guards.iter().filter(|guard| !guard.is_valid()).count(), 0);
    assert!(requests < HOLDS + 100, "{requests}");
    assert_eq!(session_id(&client).await, session);
    within(try_join_all(guards.into_iter().map(LockGuard::release))).await.unwrap();
}

/// Each waiter sets its watch again, and only the first of its client looks at the queue.
#[history]
async fn waiters_do_not_all_list_the_queue_after_a_cut(stage: Stage) {
    const WAITERS: usize = 200;
    let calm = stage.client(1).await;
    let holder = mutex(&calm).acquire().await.unwrap();
    let (proxy, client) = stage.far(usual).await;
    let lock = mutex(&client);
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = lock.owned_by(&Owner::new());
            tokio::spawn(async move { lock.acquire().await?.release().await })
        })
        .collect();
    sleep(ms(300)).await;
    assert_eq!(queue(&stage, PATH), WAITERS + 1);
    assert!(stage.servers().watch_count() >= WAITERS);
    proxy.take_requests();
    proxy.cut();
    state_is(&client, ConnectionState::Reconnected).await;
    sleep(ms(300)).await;
    assert!(stage.servers().watch_count() >= WAITERS, "all wait again");
    let requests = proxy.take_requests();
    let lists = requests.iter().filter(|request| **request == Request::GetChildren).count();
    assert!(requests.len() <= WAITERS + 20 && lists <= 2, "{} requests, {lists} lists", requests.len());
    holder.release().await.unwrap();
    for waiter in waiters {
        within(waiter).await.unwrap().unwrap();
    }
}

/// For that long, 20 times in each second.
async fn flap(proxy: &Proxy, time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        sleep(ms(50)).await;
        proxy.cut();
    }
}

const FLAPPING: Duration = secs(8);

#[history]
async fn cuts_without_end_cost_no_waiter_its_place(stage: Stage) {
    let calm = stage.client(1).await;
    let holder = mutex(&calm).acquire().await.unwrap();
    let permit = Semaphore::new(&calm, "/locks/s", 1).unwrap().acquire().await.unwrap();
    let proxy = stage.proxy(0).await;
    let (mut waiters, mut clients) = (Vec::new(), vec![calm]);
    for _ in 0..4 {
        let client = proxy.client(usual).await;
        for kind in 0..4 {
            let client = client.clone();
            waiters.push(tokio::spawn(async move {
                let guard = match kind {
                    0 => Semaphore::new(&client, "/locks/s", 1).unwrap().acquire().await,
                    _ => mutex(&client).owned_by(&Owner::new()).acquire().await,
                };
                guard.unwrap().release().await.unwrap();
            }));
        }
        clients.push(client);
    }
    sleep(ms(300)).await;
    let queues = || [PATH, "/locks/s/locks"].map(|path| nodes(stage.servers(), path));
    let before = queues();
    assert_eq!(before.each_ref().map(Vec::len), [13, 4]);
    flap(&proxy, FLAPPING).await;
    assert_eq!(queues(), before);
    holder.release().await.unwrap();
    permit.release().await.unwrap();
    for waiter in waiters {
        within(waiter).await.unwrap();
    }
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

#[history]
async fn work_goes_on_under_cuts_without_end(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let end = Instant::now() + FLAPPING;
    let (mut workers, mut sessions) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let client = proxy.client(usual).await;
        sessions.push((session_id(&client).await, client.clone()));
        for kind in 0..4 {
            let client = client.clone();
            workers.push(tokio::spawn(async move {
                let semaphore = Semaphore::new(&client, "/flap/s", 2).unwrap();
                let mutex = mutex_at(&client, "/flap/m");
                let mut rounds = 0;
                while Instant::now() < end {
                    let acquired = match kind {
                        0 => semaphore.acquire().await,
                        _ => mutex.owned_by(&Owner::new()).acquire().await,
                    };
                    if let Ok(guard) = acquired {
                        sleep(ms(1)).await;
                        let _ = guard.release().await;
                        rounds += 1;
                    }
                }
                rounds
            }));
        }
    }
    flap(&proxy, FLAPPING).await;
    let rounds: u64 = within(try_join_all(workers)).await.unwrap().into_iter().sum();
    assert!(rounds > FLAPPING.as_secs(), "{rounds} rounds in {FLAPPING:?}");
    for (session, client) in &sessions {
        assert_eq!(session_id(client).await, *session);
    }
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

/// Or what stands before it.
#[history]
async fn a_server_that_hangs_up_each_time_is_not_asked_as_fast_as_it_can_be(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let mut connections = 0;
    let hanging_up = async {
        let mut state = client.watch_connection();
        while state.wait_for(|state| state.is_connected()).await.is_some() {
            connections += 1;
            proxy.cut();
            state.wait_for(|state| !state.is_connected()).await.unwrap();
        }
    };
    assert!(tokio::time::timeout(ms(5000), hanging_up).await.is_err());
    // Without a pause there are some hundreds in a second.
    assert!((10..200).contains(&connections), "{connections}");
}

/// Cuts in the middle of acquires: none is stuck, or waits behind a node that somebody has forgotten.
#[history]
async fn acquires_come_through_cuts(stage: Stage) {
    let (proxy, own) = stage.far(usual).await;
    let connector = zk::Client::connector().with_session_timeout(SESSION);
    let adopted = keep(Client::from_zookeeper(connector.connect(&proxy.address).await.unwrap()).unwrap());
    for client in [&own, &adopted] {
        for _ in 0..200 {
            proxy.cut();
            sleep(Duration::from_micros(fastrand::u64(0..5000))).await;
            if let Ok(guard) = within(mutex(client).owned_by(&Owner::new()).acquire()).await {
                // Whether it is told of or not, it is done.
                drop(guard.release().await);
            }
        }
        sleep(SESSION).await;
        assert_eq!(queue(&stage, PATH), 0);
    }
}

// --- How it ends ---

/// Counts the panics of this thread: they are caught where they happen, and would be seen by nobody.
fn panics_here() -> Arc<AtomicUsize> {
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, here, hook) = (panics.clone(), std::thread::current().id(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        counted.fetch_add(usize::from(std::thread::current().id() == here), SeqCst);
        hook(panic);
    }));
    panics
}

/// The connection is lost with the request that ends the session, and there is no other.
#[history]
async fn a_client_that_is_closed_as_the_servers_go_is_not_waited_for(stage: Stage) {
    const LONG: Duration = secs(300);
    let proxy = stage.proxy(0).await;
    let patient = |builder: ClientBuilder| builder.session_timeout(LONG).connection_timeout(LONG);
    let client = proxy.client(patient).await;
    proxy.refuse_connections(true);
    let _lost = proxy.intercept(CLOSE_SESSION, Fate::LoseRequest);
    let start = Instant::now();
    client.close().await;
    assert!(start.elapsed() < ms(300), "{:?}", start.elapsed());
    sleep(LONG).await;
}

/// A node that stays at the servers when the client has closed would be in the way until the session has expired.
#[history]
async fn a_client_that_is_closed_soon_after_a_cut_ends_its_session(stage: Stage) {
    let panics = panics_here();
    let proxy = stage.proxy(0).await;
    for round in 0..120 {
        let client = proxy.client(usual).await;
        let _guard = mutex(&client).acquire().await.unwrap();
        proxy.cut();
        sleep(ms(round / 4)).await;
        client.close().await;
        assert_eq!(ephemerals(stage.servers(), "/"), [""; 0], "round {round}");
    }
    assert_eq!(panics.load(SeqCst), 0);
}

/// Also if the first connection for that breaks.
#[history]
async fn a_session_that_was_given_up_is_ended_when_the_servers_are_back(stage: Stage) {
    let (proxy, client) = stage.far(|builder| builder.session_timeout(ms(6000))).await;
    let session = session_id(&client).await;
    let guard = mutex(&client).acquire().await.unwrap();
    stage.servers().stop(0);
    within(guard.lost()).await;
    state_is(&client, ConnectionState::Lost).await;
    let broken = proxy.intercept(CLOSE_SESSION, Fate::LoseRequest);
    stage.servers().start(0);
    within(broken.happened()).await;
    let again = proxy.intercept(CLOSE_SESSION, Fate::LoseReply);
    within(again.happened()).await;
    sleep(A_MOMENT).await;
    assert_eq!(ephemerals(stage.servers(), "/"), [""; 0], "the old node is gone");
    assert_ne!(session_id(&client).await, session);
}
