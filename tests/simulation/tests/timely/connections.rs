//! Connections of a session that come and go: what is told of them, how soon there is another, and what it costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join_all, try_join_all};
use tokio::time::{Instant, sleep};
use zk_recipes::testing::{Fate, Request, Traffic};
use zk_recipes::zookeeper_client as zk;
use zk_recipes::{
    Client, ClientBuilder, ConnectionState, Error, InterProcessMutex, LeaderLatch, LeaderOptions,
    LeaderState, LockGuard, LockState, LossReason, Owner, Semaphore,
};
use zk_recipes_simulation::world::World;

use super::kinds::{Kind, in_task};
use super::{A_MOMENT, Proxy, SESSION, ends, play, session_id, usual, within};
/// By which a session is ended.
const CLOSE_SESSION: Request = Request::Other(-11);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn becomes(client: &Client, wanted: impl Fn(ConnectionState) -> bool) -> ConnectionState {
    let mut state = client.watch_connection();
    within(state.wait_for(|state| wanted(*state))).await.unwrap()
}

fn mutex(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap()
}

fn queue(world: &World, path: &str) -> Vec<String> {
    world.servers().children(path).unwrap_or_default()
}

/// Those by which locks are held or waited for.
fn ephemerals(world: &World) -> Vec<i64> {
    let owners = world.servers().nodes_below("/").into_iter().map(|(_, node)| node.ephemeral_owner);
    owners.filter(|owner| *owner != 0).collect()
}

// --- What is told ---

#[test]
fn a_lazy_client_can_be_waited_for() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        proxy.refuse_connections(true);
        let builder = world.machines()[0].builder().connection_timeout(TIMEOUT);
        let client = builder.connect_lazily(&proxy.address).unwrap();
        let start = Instant::now();
        let error = client.wait_connected().await.unwrap_err();
        assert!(matches!(error, Error::NotConnected { .. }), "{error}");
        assert!(start.elapsed() >= TIMEOUT && start.elapsed() < TIMEOUT + A_MOMENT, "{:?}", start.elapsed());
        proxy.refuse_connections(false);
        client.wait_connected().await.unwrap();
        assert_eq!(client.watch_connection().get(), ConnectionState::Connected);
        client.close().await;
        assert_eq!(client.wait_connected().await, Err(Error::Closed));
        ends(&world, []).await;
    });
}

#[test]
fn each_state_is_told_once_and_the_first_one_is_the_present_one() {
    play(async |world| {
        let client =
            world.machines()[0].connect(usual(world.machines()[0].builder()), &world.address_of(0)).await;
        let latch = LeaderLatch::start(&client, "/leaders/a", LeaderOptions::new()).unwrap();
        let leadership = within(latch.await_leadership()).await.unwrap();
        let guard = mutex(&client, "/locks/a").acquire().await.unwrap();
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
            world.servers().stop(0);
            assert_eq!(next().await, ConnectionState::Suspended);
            world.servers().start(0);
            assert_eq!(next().await, ConnectionState::Reconnected);
        }
        client.close().await;
        assert_eq!(next().await, ConnectionState::Closed);
        ends(&world, []).await;
    });
}

/// It breaks with its first request.
#[test]
fn a_connection_that_is_lost_as_soon_as_it_is_made_is_none() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, usual).await;
        let guard = mutex(&client, "/locks/a").acquire().await.unwrap();
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
            becomes(&client, ConnectionState::is_connected).await;
            within(state.wait_for(|state| *state == LockState::Held)).await.unwrap();
        }
        guard.release().await.unwrap();
        ends(&world, [client]).await;
    });
}

// --- How soon there is another ---

#[test]
fn it_is_back_as_soon_as_a_server_is_however_long_that_was_away() {
    play(async |world| {
        let proxies = join_all((1..=3).map(|number| Proxy::one_of(&world, 0, number))).await;
        for (endpoints, outage) in [(1, 300), (1, 3600), (1, 6500), (3, 2600), (3, 6500)] {
            let proxies = &proxies[..endpoints];
            let hosts: Vec<_> = proxies.iter().map(|proxy| &*proxy.address).collect();
            let builder = world.machines()[0].builder().session_timeout(SESSION * 3 / 2);
            let client = world.machines()[0].connect(builder, &hosts.join(",")).await;
            let guard = mutex(&client, "/locks/a").acquire().await.unwrap();
            for proxy in proxies {
                proxy.cut_off();
            }
            becomes(&client, |state| !state.is_connected()).await;
            sleep(ms(outage)).await;
            for proxy in proxies {
                proxy.refuse_connections(false);
            }
            let back = Instant::now();
            becomes(&client, ConnectionState::is_connected).await;
            let late = back.elapsed();
            assert!(late < ms(200) + A_MOMENT, "{late:?} after {outage} ms");
            assert!(guard.is_valid(), "{:?}", guard.loss());
            guard.release().await.unwrap();
            client.close().await;
        }
        ends(&world, []).await;
    });
}

/// A server that takes connections and says nothing costs no more than a tenth of the session.
#[test]
fn a_silent_server_does_not_keep_it_from_the_others() {
    const LONG: Duration = Duration::from_secs(15);
    play(async |world| {
        let (silent, other) = (Proxy::one_of(&world, 0, 1).await, Proxy::one_of(&world, 0, 2).await);
        let builder = world.machines()[0].builder().session_timeout(LONG);
        let hosts = format!("{},{}", silent.address, other.address);
        let client = world.machines()[0].connect(builder, &hosts).await;
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
        ends(&world, [client]).await;
    });
}

/// As a server that has just started, which may take a connection and never answer it.
#[test]
fn a_server_that_is_silent_once_after_it_refused_does_not_cost_much_of_a_long_session() {
    const LONG: Duration = Duration::from_secs(30);
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, |builder| builder.session_timeout(LONG)).await;
        proxy.cut_off();
        becomes(&client, |state| !state.is_connected()).await;
        // Some attempts are refused.
        sleep(ms(1500)).await;
        let held = proxy.intercept(Request::Confirm, Fate::HoldReply);
        proxy.refuse_connections(false);
        within(held.happened()).await;
        let silent = Instant::now();
        becomes(&client, ConnectionState::is_connected).await;
        assert!(silent.elapsed() < LONG / 10, "{:?}", silent.elapsed());
        ends(&world, [client]).await;
    });
}

#[test]
fn after_an_outage_beyond_the_session_it_does_not_wait_for_its_own_old_session() {
    play(async |world| {
        let client =
            world.machines()[0].connect(usual(world.machines()[0].builder()), &world.address_of(0)).await;
        let session = session_id(&client).await;
        let lock = Kind::Mutex.unlimited(&client);
        let guard = lock.acquire().await.unwrap();
        let waiting = in_task(Kind::Mutex.unlimited(&client));
        world.servers().stop(0);
        assert_eq!(within(guard.lost()).await, LossReason::Expired);
        drop(guard);
        becomes(&client, |state| state == ConnectionState::Lost).await;
        world.servers().start(0);
        let back = Instant::now();
        let next = within(waiting).await.unwrap().unwrap();
        let took = back.elapsed();
        assert_ne!(session_id(&client).await, session);
        assert!(took < ms(200), "granted {took:?} after the return: {next:?}");
        drop(next);
        ends(&world, [client]).await;
    });
}

// --- What it costs ---

/// Also with more watches than fit into one packet.
#[test]
fn thousands_of_holds_survive_a_cut_of_half_their_validity() {
    const HOLDS: usize = 3000;
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, |builder| builder.session_timeout(SESSION * 3 / 2)).await;
        let session = session_id(&client).await;
        let root = "q".repeat(60);
        let holds = (0..HOLDS).map(|hold| {
            let mutex = mutex(&client, &format!("/{root}/{hold}"));
            async move { mutex.acquire().await }
        });
        let guards: Vec<LockGuard> = try_join_all(holds).await.unwrap();
        // They grow old enough to be watched.
        sleep(ms(1500)).await;
        assert!(world.servers().watch_count() >= HOLDS, "{}", world.servers().watch_count());
        proxy.refuse_connections(true);
        let before = proxy.requests_seen();
        proxy.cut();
        becomes(&client, |state| !state.is_connected()).await;
        sleep(ms(5000)).await;
        proxy.refuse_connections(false);
        becomes(&client, ConnectionState::is_connected).await;
        sleep(ms(1000)).await;
        assert!(world.servers().watch_count() >= HOLDS, "{}", world.servers().watch_count());
        let requests = proxy.requests_seen() - before;
        assert_eq!(guards.iter().filter(|guard| !guard.is_valid()).count(), 0);
        assert!(requests < HOLDS + 100, "{requests}");
        assert_eq!(session_id(&client).await, session);
        within(try_join_all(guards.into_iter().map(LockGuard::release))).await.unwrap();
        ends(&world, [client]).await;
    });
}

/// Each waiter sets its watch again, and only the first of its client looks at the queue.
#[test]
fn waiters_do_not_all_list_the_queue_after_a_cut() {
    const WAITERS: usize = 200;
    play(async |world| {
        let calm = world.machines()[1].client().await;
        let holder = mutex(&calm, "/locks/a").acquire().await.unwrap();
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, usual).await;
        let lock = mutex(&client, "/locks/a");
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                let lock = lock.owned_by(&Owner::new());
                tokio::spawn(async move { lock.acquire().await?.release().await })
            })
            .collect();
        sleep(ms(300)).await;
        assert_eq!(queue(&world, "/locks/a").len(), WAITERS + 1);
        assert!(world.servers().watch_count() >= WAITERS);
        proxy.take_requests();
        proxy.cut();
        becomes(&client, |state| state == ConnectionState::Reconnected).await;
        sleep(ms(300)).await;
        assert!(world.servers().watch_count() >= WAITERS, "all wait again");
        let requests = proxy.take_requests();
        let lists = requests.iter().filter(|request| **request == Request::GetChildren).count();
        assert!(requests.len() <= WAITERS + 20 && lists <= 2, "{} requests, {lists} lists", requests.len());
        holder.release().await.unwrap();
        for waiter in waiters {
            within(waiter).await.unwrap().unwrap();
        }
        ends(&world, [client, calm]).await;
    });
}

/// For that long, 20 times in each second.
async fn flap(proxy: &Proxy, time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        sleep(ms(50)).await;
        proxy.cut();
    }
}

const FLAPPING: Duration = Duration::from_secs(8);

#[test]
fn cuts_without_end_cost_no_waiter_its_place() {
    play(async |world| {
        let calm = world.machines()[1].client().await;
        let holder = mutex(&calm, "/locks/a").acquire().await.unwrap();
        let permit = Semaphore::new(&calm, "/locks/s", 1).unwrap().acquire().await.unwrap();
        let proxy = Proxy::before(&world, 0).await;
        let (mut waiters, mut clients) = (Vec::new(), vec![calm]);
        for _ in 0..4 {
            let client = proxy.client(&world, usual).await;
            for kind in 0..4 {
                let client = client.clone();
                waiters.push(tokio::spawn(async move {
                    let guard = match kind {
                        0 => Semaphore::new(&client, "/locks/s", 1).unwrap().acquire().await,
                        _ => mutex(&client, "/locks/a").owned_by(&Owner::new()).acquire().await,
                    };
                    guard.unwrap().release().await.unwrap();
                }));
            }
            clients.push(client);
        }
        sleep(ms(300)).await;
        let queues = || ["/locks/a", "/locks/s/locks"].map(|path| queue(&world, path));
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
        assert_eq!(world.servers().watch_count(), 0);
        ends(&world, clients).await;
    });
}

#[test]
fn work_goes_on_under_cuts_without_end() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let end = Instant::now() + FLAPPING;
        let (mut workers, mut sessions) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let client = proxy.client(&world, usual).await;
            sessions.push((session_id(&client).await, client.clone()));
            for kind in 0..4 {
                let client = client.clone();
                workers.push(tokio::spawn(async move {
                    let semaphore = Semaphore::new(&client, "/flap/s", 2).unwrap();
                    let mutex = mutex(&client, "/flap/m");
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
        assert_eq!(world.servers().watch_count(), 0);
        ends(&world, sessions.into_iter().map(|(_, client)| client)).await;
    });
}

/// Or what stands before it.
#[test]
fn a_server_that_hangs_up_each_time_is_not_asked_as_fast_as_it_can_be() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, usual).await;
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
        ends(&world, [client]).await;
    });
}

/// Cuts in the middle of acquires: none is stuck, or waits behind a node that somebody has forgotten.
#[test]
fn acquires_come_through_cuts() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let own = proxy.client(&world, usual).await;
        let connector = zk::Client::connector().with_session_timeout(SESSION);
        let adopted = Client::from_zookeeper(connector.connect(&proxy.address).await.unwrap()).unwrap();
        for client in [&own, &adopted] {
            for _ in 0..200 {
                proxy.cut();
                sleep(Duration::from_micros(fastrand::u64(0..5000))).await;
                if let Ok(guard) = within(mutex(client, "/locks/a").owned_by(&Owner::new()).acquire()).await {
                    // Whether it is told of or not, it is done.
                    drop(guard.release().await);
                }
            }
            sleep(SESSION).await;
            assert_eq!(queue(&world, "/locks/a"), Vec::<String>::new());
        }
        ends(&world, [adopted, own]).await;
    });
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
#[test]
fn a_client_that_is_closed_as_the_servers_go_is_not_waited_for() {
    const LONG: Duration = Duration::from_secs(300);
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let patient = |builder: ClientBuilder| builder.session_timeout(LONG).connection_timeout(LONG);
        let client = proxy.client(&world, patient).await;
        proxy.refuse_connections(true);
        let _lost = proxy.intercept(CLOSE_SESSION, Fate::LoseRequest);
        let start = Instant::now();
        client.close().await;
        assert!(start.elapsed() < ms(300), "{:?}", start.elapsed());
        sleep(LONG).await;
        ends(&world, []).await;
    });
}

/// A node that stays at the servers when the client has closed would be in the way until the session has expired.
#[test]
fn a_client_that_is_closed_soon_after_a_cut_ends_its_session() {
    play(async |world| {
        let panics = panics_here();
        let proxy = Proxy::before(&world, 0).await;
        for round in 0..120 {
            let client = proxy.client(&world, usual).await;
            let _guard = mutex(&client, "/locks/a").acquire().await.unwrap();
            proxy.cut();
            sleep(ms(round / 4)).await;
            client.close().await;
            assert_eq!(ephemerals(&world), Vec::<i64>::new(), "round {round}");
        }
        assert_eq!(panics.load(SeqCst), 0);
        ends(&world, []).await;
    });
}

/// Also if the first connection for that breaks.
#[test]
fn a_session_that_was_given_up_is_ended_when_the_servers_are_back() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, |builder| builder.session_timeout(ms(6000))).await;
        let session = session_id(&client).await;
        let guard = mutex(&client, "/locks/a").acquire().await.unwrap();
        world.servers().stop(0);
        within(guard.lost()).await;
        becomes(&client, |state| state == ConnectionState::Lost).await;
        let broken = proxy.intercept(CLOSE_SESSION, Fate::LoseRequest);
        world.servers().start(0);
        within(broken.happened()).await;
        let again = proxy.intercept(CLOSE_SESSION, Fate::LoseReply);
        within(again.happened()).await;
        sleep(A_MOMENT).await;
        assert!(!ephemerals(&world).contains(&session), "the old node is gone");
        assert_ne!(session_id(&client).await, session);
        drop(guard);
        ends(&world, [client]).await;
    });
}
