//! Requests that take permits, and get no answer.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use zk_recipes::testing::{Fate, Intercepted, MemoryEnsemble, MemoryVersion, Request, Traffic};
use zk_recipes::{Client, LockGuard, Result, RetryPolicy, Semaphore};
use zk_recipes_simulation::world::World;

use super::{A_MOMENT, Proxy, ends, play, queue_of, within};

const PATH: &str = "/semaphores/a";
const GATE: &str = "/semaphores/a/locks";
const LEASES: &str = "/semaphores/a/leases";

/// So many in a row end a wait.
const MOST: u32 = 11;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn client_with(world: &World, proxy: &Proxy, session: u64, policy: RetryPolicy) -> Client {
    proxy
        .client(world, |builder| {
            builder
                .session_timeout(Duration::from_secs(session))
                .connection_timeout(Duration::from_secs(60))
                .drop_timeout(Duration::ZERO)
                .retry_policy(policy)
        })
        .await
}

fn only(client: &Client) -> Semaphore {
    Semaphore::new(client, PATH, 1).unwrap()
}

/// One client waits for the only permit, which another one holds.
struct Waiting {
    client: Client,
    other: Client,
    held: LockGuard,
    waits: JoinHandle<Option<Result<LockGuard>>>,
}

impl Waiting {
    async fn behind(world: &World, proxy: &Proxy, session: u64, policy: RetryPolicy) -> Self {
        let client = client_with(world, proxy, session, policy).await;
        let other = world.machines()[1].client().await;
        let held = within(only(&other).acquire()).await.unwrap();
        queue_of(world.servers(), GATE, 0).await;
        let waits = only(&client);
        let waits = world.machines()[0].spawn(async move { waits.acquire().await });
        queue_of(world.servers(), GATE, 1).await;
        sleep(A_MOMENT).await;
        Self { client, other, held, waits }
    }
}

fn own(servers: &MemoryEnsemble, before: &[String]) -> String {
    let children = servers.children(GATE).unwrap();
    children.into_iter().find(|child| !before.contains(child)).unwrap()
}

/// As many takes in a row as do not end a wait, of which this is the first.
async fn all_but_one_are_lost(proxy: &Proxy, first: Intercepted) {
    let mut lost = first;
    for _ in 2..MOST {
        within(lost.happened()).await;
        lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
    }
    within(lost.happened()).await;
}

/// Many takes in doubt, then it waits anew at the gate for a minute, then as many again.
fn new_wait(is_session: bool) {
    play(async move |world| {
        let proxy = Proxy::before(&world, 0).await;
        let servers = world.servers();
        let client = client_with(&world, &proxy, 4, RetryPolicy::one_time(ms(50))).await;
        let other = world.machines()[1].client().await;
        let semaphore = |client: &Client| Semaphore::new(client, PATH, 2).unwrap();
        let held = within(semaphore(&other).acquire()).await.unwrap();
        let held_too = within(semaphore(&other).acquire()).await.unwrap();
        queue_of(servers, GATE, 0).await;
        let waits = semaphore(&client);
        let waits = world.machines()[0].spawn(async move { waits.acquire().await });
        queue_of(servers, GATE, 1).await;
        let name = own(servers, &[]);
        let both = semaphore(&other).many(2).unwrap();
        let both = world.machines()[1].spawn(async move { both.acquire().await });
        queue_of(servers, GATE, 2).await;
        sleep(A_MOMENT).await;
        let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
        held.release().await.unwrap();
        all_but_one_are_lost(&proxy, lost).await;
        if is_session {
            proxy.cut_off();
            sleep(Duration::from_secs(15)).await;
            proxy.refuse_connections(false);
        } else {
            assert!(servers.delete(&format!("{GATE}/{name}")));
        }
        // It has queued again, behind the one that wants both.
        sleep(Duration::from_secs(2)).await;
        let now = queue_of(servers, GATE, 2).await;
        assert!(!now.contains(&name));
        sleep(Duration::from_secs(60)).await;
        assert!(!waits.is_finished());
        let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
        both.abort();
        all_but_one_are_lost(&proxy, lost).await;
        let outcome = within(waits).await.unwrap();
        let guard = outcome.unwrap().expect("since it waited at the gate, there were not too many");
        guard.release().await.unwrap();
        held_too.release().await.unwrap();
        queue_of(servers, GATE, 0).await;
        ends(&world, [client, other]).await;
    });
}

#[test]
fn a_new_wait_at_the_gate_resets_the_count() {
    for is_session in [false, true] {
        new_wait(is_session);
    }
}

/// A waiter whose take is lost with the connection; the servers are away for a while; perhaps that happens again.
fn outage(policy: RetryPolicy, outages: u32, length: Duration) {
    play(async move |world| {
        let proxy = Proxy::before(&world, 0).await;
        let servers = world.servers();
        let waiting = Waiting::behind(&world, &proxy, 40, policy).await;
        let Waiting { client, other, held, waits } = waiting;
        sleep(Duration::from_secs(60)).await;
        let mut lost = proxy.intercept(Request::Multi, Fate::LoseReply);
        held.release().await.unwrap();
        for outage in 0..outages {
            within(lost.happened()).await;
            proxy.cut_off();
            sleep(length).await;
            assert!(!waits.is_finished(), "it has ended in outage {outage}: {:?}", waits.await);
            if outage + 1 < outages {
                lost = proxy.intercept(Request::Multi, Fate::LoseReply);
            }
            proxy.refuse_connections(false);
        }
        let outcome = within(waits).await.unwrap();
        outcome.unwrap().expect("no outage ends it").release().await.unwrap();
        queue_of(servers, GATE, 0).await;
        queue_of(servers, LEASES, 0).await;
        ends(&world, [client, other]).await;
    });
}

#[test]
fn no_outage_ends_a_wait_whatever_the_policy() {
    outage(RetryPolicy::n_times(0, ms(50)), 1, ms(1000));
    outage(RetryPolicy::until_elapsed(Duration::from_secs(5), ms(100)), 2, ms(8000));
    outage(RetryPolicy::default(), 4, ms(3000));
}

/// A take of an acquire that has not waited is lost, and the servers are gone from then on.
#[test]
fn a_lost_take_in_an_outage_ends_as_soon_as_the_policy_says() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let (retries, pause) = (2, ms(200));
        let client = proxy
            .client(&world, |builder| {
                builder
                    .session_timeout(Duration::from_secs(40))
                    .drop_timeout(Duration::ZERO)
                    .connection_timeout(Duration::from_secs(1))
                    .retry_policy(RetryPolicy::n_times(retries, pause))
            })
            .await;
        let other = world.machines()[1].client().await;
        let semaphore = |client: &Client| Semaphore::new(client, PATH, 3).unwrap();
        for _ in 0..3 {
            for client in [&client, &other, &client] {
                within(semaphore(client).acquire()).await.unwrap().release().await.unwrap();
            }
        }
        queue_of(world.servers(), GATE, 0).await;
        sleep(A_MOMENT).await;
        proxy.refuse_connections(true);
        let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
        let start = Instant::now();
        let error = within(semaphore(&client).acquire()).await.unwrap_err();
        within(lost.happened()).await;
        let took = start.elapsed();
        let promised = Duration::from_secs(u64::from(retries) + 1) + pause * retries;
        assert!(took <= promised + A_MOMENT, "{took:?}, not {promised:?}: {error}");
        proxy.refuse_connections(false);
        client.close().await;
        ends(&world, [other]).await;
    });
}

/// Takes of an acquire that has not waited are never accepted.
fn never_accepted(knows: bool) {
    play(async move |world| {
        let servers = MemoryEnsemble::builder().servers(1).max_request_size(8 * 1024).start().unwrap();
        let proxy = Proxy::before_server(servers.clone(), "10.3.0.1:2181").await;
        let retries = 3;
        let client = client_with(&world, &proxy, 10, RetryPolicy::n_times(retries, ms(50))).await;
        let semaphore = Semaphore::new(&client, PATH, 200).unwrap();
        if knows {
            for _ in 0..3 {
                within(semaphore.acquire()).await.unwrap().release().await.unwrap();
            }
            queue_of(&servers, GATE, 0).await;
        }
        sleep(A_MOMENT).await;
        proxy.take_requests();
        let error = within(semaphore.many(200).unwrap().acquire()).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let requests = proxy.take_requests();
        let takes = requests.iter().filter(|request| **request == Request::Multi).count();
        queue_of(&servers, GATE, 0).await;
        client.close().await;
        // The first makes a new path, or enters the gate as well.
        assert_eq!(takes, 1 + retries as usize + 1, "{requests:?}");
    });
}

#[test]
fn without_a_wait_there_are_as_many_takes_as_the_policy_says() {
    for knows in [false, true] {
        never_accepted(knows);
    }
}

/// Whoever is told that it gets no permits leaves the gate before its leases in doubt are gone: others are refused a
/// permit that nobody has, and that nobody waits for.
#[test]
fn leases_in_doubt_are_gone_before_the_gate_is_left() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let servers = world.servers();
        let waiting = Waiting::behind(&world, &proxy, 40, RetryPolicy::n_times(1, ms(50))).await;
        let Waiting { client, other, held, waits } = waiting;
        proxy.set_traffic(Traffic::pass().delay(ms(20)));
        let mut lost = proxy.intercept(Request::Multi, Fate::LoseReply);
        held.release().await.unwrap();
        for _ in 1..MOST {
            within(lost.happened()).await;
            lost = proxy.intercept(Request::Multi, Fate::LoseReply);
        }
        within(lost.happened()).await;
        proxy.cut_off();
        sleep(ms(500)).await;
        proxy.refuse_connections(false);
        queue_of(servers, GATE, 0).await;
        let left = servers.children(LEASES).unwrap();
        let tried = within(only(&other).try_acquire()).await.unwrap();
        assert!(within(waits).await.unwrap().unwrap().is_err());
        assert!(tried.is_some(), "{left:?}");
        tried.unwrap().release().await.unwrap();
        queue_of(servers, LEASES, 0).await;
        ends(&world, [client, other]).await;
    });
}

/// Parents that were missing, and are there again, do not count as takes in doubt.
#[test]
fn missing_parents_do_not_count() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let servers = world.servers();
        let waiting = Waiting::behind(&world, &proxy, 40, RetryPolicy::one_time(ms(50))).await;
        let Waiting { client, other, held, waits } = waiting;
        proxy.set_traffic(Traffic::pass().delay(ms(10)));
        let lease = servers.children(LEASES).unwrap().pop().unwrap();
        assert!(servers.delete(&format!("{LEASES}/{lease}")));
        assert!(servers.delete(LEASES));
        let there = async || {
            within(async {
                while servers.children(LEASES).is_none() {
                    sleep(ms(1)).await;
                }
            })
            .await;
        };
        there().await;
        assert_eq!(servers.children(LEASES).unwrap().len(), 0);
        assert!(servers.delete(LEASES));
        there().await;
        assert_eq!(servers.children(LEASES).unwrap().len(), 0);
        let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
        within(lost.happened()).await;
        let outcome = within(waits).await.unwrap();
        outcome.unwrap().expect("one take was in doubt").release().await.unwrap();
        drop(held);
        ends(&world, [client, other]).await;
    });
}

/// The session ends after a take, before the date of the lease is asked for: it queues again, as the policy is not about
/// that.
#[test]
fn the_end_of_a_session_is_no_take_in_doubt() {
    play(async |world| {
        let servers = MemoryEnsemble::builder().servers(1).version(MemoryVersion::V3_6).start().unwrap();
        let proxy = Proxy::before_server(servers.clone(), "10.3.0.2:2181").await;
        let client = client_with(&world, &proxy, 4, RetryPolicy::n_times(0, ms(50))).await;
        let other = client_with(&world, &proxy, 4, RetryPolicy::n_times(0, ms(50))).await;
        let lease = {
            let semaphore = Semaphore::new(&other, PATH, 1).unwrap();
            let held = within(semaphore.acquire()).await.unwrap();
            queue_of(&servers, GATE, 0).await;
            held
        };
        let semaphore = Semaphore::new(&client, PATH, 1).unwrap();
        let mut acquire = Box::pin(semaphore.acquire());
        assert!(tokio::time::timeout(ms(500), &mut acquire).await.is_err());
        let held = proxy.intercept(Request::Multi, Fate::HoldReply);
        lease.release().await.unwrap();
        tokio::select! {
            outcome = &mut acquire => panic!("{outcome:?}"),
            () = held.happened() => {}
        }
        // It is not polled for a while.
        held.release();
        sleep(A_MOMENT).await;
        proxy.cut_off();
        sleep(Duration::from_secs(15)).await;
        proxy.refuse_connections(false);
        within(client.watch_connection().wait_for(|state| state.is_connected())).await.unwrap();
        sleep(ms(500)).await;
        let guard = within(acquire).await.expect("its session has ended, so that it queues again");
        guard.release().await.unwrap();
        queue_of(&servers, GATE, 0).await;
        queue_of(&servers, LEASES, 0).await;
        world.ends([client, other]).await;
    });
}

/// The takes of a waiter are accepted, but what is to prove the session before a grant is lost each time.
#[test]
fn a_take_that_is_never_confirmed_ends() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let servers = world.servers();
        let waiting = Waiting::behind(&world, &proxy, 10, RetryPolicy::n_times(2, ms(50))).await;
        let Waiting { client, other, held: lease, waits } = waiting;
        let behind = only(&other);
        let behind = world.machines()[1].spawn(async move { behind.acquire().await });
        queue_of(servers, GATE, 2).await;
        let mut held = proxy.intercept(Request::Multi, Fate::HoldReply);
        lease.release().await.unwrap();
        for _ in 0..MOST {
            if tokio::time::timeout(Duration::from_secs(10), held.happened()).await.is_err() {
                break;
            }
            sleep(ms(3500)).await;
            let lost = proxy.intercept(Request::Confirm, Fate::LoseRequest);
            held.release();
            within(lost.happened()).await;
            held = proxy.intercept(Request::Multi, Fate::HoldReply);
        }
        drop(held);
        let error = within(waits).await.unwrap().unwrap().unwrap_err();
        assert!(error.is_retryable(), "{error}");
        within(behind).await.unwrap().unwrap().unwrap().release().await.unwrap();
        ends(&world, [client, other]).await;
    });
}

/// A waiter finds the parent of the leases missing, once, and the create of that is lost with the connection.
fn lost_parents(retries: u32) {
    play(async move |world| {
        let proxy = Proxy::before(&world, 0).await;
        let servers = world.servers();
        let waiting = Waiting::behind(&world, &proxy, 40, RetryPolicy::n_times(retries, ms(50))).await;
        let Waiting { client, other, held, waits } = waiting;
        let lost = proxy.intercept(Request::Create, Fate::LoseRequest);
        let lease = servers.children(LEASES).unwrap().pop().unwrap();
        assert!(servers.delete(&format!("{LEASES}/{lease}")));
        assert!(servers.delete(LEASES));
        within(lost.happened()).await;
        let outcome = within(waits).await.unwrap();
        outcome.unwrap().expect("no lost request ends it").release().await.unwrap();
        drop(held);
        ends(&world, [client, other]).await;
    });
}

#[test]
fn a_lost_create_of_the_parents_is_no_missing_node() {
    for retries in [0, 1] {
        lost_parents(retries);
    }
}
