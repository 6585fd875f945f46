//! Requests that take permits, and get no answer.

use super::permits::{GATE, LEASES, PATH, nothing_left};
use super::prelude::*;

/// So many in a row end a wait.
const MOST: u32 = 11;

/// For a client that waits long for a connection.
fn patient(session: u64, policy: RetryPolicy) -> impl FnOnce(ClientBuilder) -> ClientBuilder {
    tries(secs(session), secs(60), policy)
}

fn only(client: &Client) -> Semaphore {
    Semaphore::new(client, PATH, 1).unwrap()
}

type Waiting = JoinHandle<Result<LockGuard>>;

/// One client waits for the only permit, which another one holds.
async fn wait(
    stage: &Stage,
    with: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> (Proxy, Client, LockGuard, Waiting) {
    let (proxy, client, other) = stage.far_and_near(with).await;
    let held = within(only(&other).acquire()).await.unwrap();
    queue_of(stage.servers(), GATE, 0).await;
    let waits = acquiring(&only(&client));
    queue_of(stage.servers(), GATE, 1).await;
    sleep(A_MOMENT).await;
    (proxy, other, held, waits)
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
#[history(false, true)]
async fn a_new_wait_at_the_gate_resets_the_count(stage: Stage, is_session: bool) {
    let proxy = stage.proxy(0).await;
    let servers = stage.servers();
    let client = proxy.client(patient(4, RetryPolicy::one_time(ms(50)))).await;
    let other = stage.client(1).await;
    let semaphore = |client: &Client| Semaphore::new(client, PATH, 2).unwrap();
    let held = within(semaphore(&other).acquire()).await.unwrap();
    let held_too = within(semaphore(&other).acquire()).await.unwrap();
    queue_of(servers, GATE, 0).await;
    let waits = acquiring(&semaphore(&client));
    queue_of(servers, GATE, 1).await;
    let name = own(servers, &[]);
    let both = acquiring(&semaphore(&other).many(2).unwrap());
    queue_of(servers, GATE, 2).await;
    sleep(A_MOMENT).await;
    let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
    held.release().await.unwrap();
    all_but_one_are_lost(&proxy, lost).await;
    if is_session {
        proxy.cut_off();
        sleep(secs(15)).await;
        proxy.refuse_connections(false);
    } else {
        assert!(servers.delete(&format!("{GATE}/{name}")));
    }
    // It has queued again, behind the one that wants both.
    sleep(secs(2)).await;
    let now = queue_of(servers, GATE, 2).await;
    assert!(!now.contains(&name));
    sleep(secs(60)).await;
    assert!(!waits.is_finished());
    let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
    both.abort();
    all_but_one_are_lost(&proxy, lost).await;
    let outcome = within(waits).await.unwrap();
    let guard = outcome.expect("since it waited at the gate, there were not too many");
    guard.release().await.unwrap();
    held_too.release().await.unwrap();
    queue_of(servers, GATE, 0).await;
}

/// A waiter whose take is lost with the connection; the servers are away for a while; perhaps that happens again.
#[history(
    (RetryPolicy::n_times(0, ms(50)), 1, ms(1000)),
    (RetryPolicy::until_elapsed(ms(5000), ms(100)), 2, ms(8000)),
    (RetryPolicy::default(), 4, ms(3000)),
)]
async fn no_outage_ends_a_wait_whatever_the_policy(
    stage: Stage,
    policy: RetryPolicy,
    outages: u32,
    length: Duration,
) {
    let servers = stage.servers();
    let (proxy, _, held, waits) = wait(&stage, patient(40, policy)).await;
    sleep(secs(60)).await;
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
    outcome.expect("no outage ends it").release().await.unwrap();
    nothing_left(servers).await;
}

/// Takes of an acquire that has not waited are never accepted.
#[history(false, true)]
async fn without_a_wait_there_are_as_many_takes_as_the_policy_says(stage: Stage, knows: bool) {
    let (servers, proxy) =
        apart(&stage, MemoryEnsemble::builder().servers(1).max_request_size(8 * 1024), "10.3.0.1:2181").await;
    let retries = 3;
    let client = proxy.client(patient(10, RetryPolicy::n_times(retries, ms(50)))).await;
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
}

/// Whoever is told that it gets no permits leaves the gate before its leases in doubt are gone: others are refused a
/// permit that nobody has, and that nobody waits for.
#[history]
async fn leases_in_doubt_are_gone_before_the_gate_is_left(stage: Stage) {
    let servers = stage.servers();
    let (proxy, other, held, waits) = wait(&stage, patient(40, RetryPolicy::n_times(1, ms(50)))).await;
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
    assert!(within(waits).await.unwrap().is_err());
    assert!(tried.is_some(), "{left:?}");
    tried.unwrap().release().await.unwrap();
    queue_of(servers, LEASES, 0).await;
}

/// Parents that were missing, and are there again, do not count as takes in doubt.
#[history]
async fn missing_parents_do_not_count(stage: Stage) {
    let servers = stage.servers();
    let (proxy, _, _held, waits) = wait(&stage, patient(40, RetryPolicy::one_time(ms(50)))).await;
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    let lease = servers.children(LEASES).unwrap().pop().unwrap();
    assert!(servers.delete(&format!("{LEASES}/{lease}")));
    assert!(servers.delete(LEASES));
    for is_deleted_again in [true, false] {
        until(|| servers.children(LEASES).is_some()).await;
        assert_eq!(servers.children(LEASES).unwrap().len(), 0);
        if is_deleted_again {
            assert!(servers.delete(LEASES));
        }
    }
    let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
    within(lost.happened()).await;
    let outcome = within(waits).await.unwrap();
    outcome.expect("one take was in doubt").release().await.unwrap();
}

/// The session ends after a take, before the date of the lease is asked for: it queues again, as the policy is not about
/// that.
#[history]
async fn the_end_of_a_session_is_no_take_in_doubt(stage: Stage) {
    let (servers, proxy) =
        apart(&stage, MemoryEnsemble::builder().servers(1).version(MemoryVersion::V3_6), "10.3.0.2:2181")
            .await;
    let client = proxy.client(patient(4, RetryPolicy::n_times(0, ms(50)))).await;
    let other = proxy.client(patient(4, RetryPolicy::n_times(0, ms(50)))).await;
    let lease = {
        let semaphore = Semaphore::new(&other, PATH, 1).unwrap();
        let held = within(semaphore.acquire()).await.unwrap();
        queue_of(&servers, GATE, 0).await;
        held
    };
    let semaphore = Semaphore::new(&client, PATH, 1).unwrap();
    let mut acquire = Box::pin(semaphore.acquire());
    assert!(timeout(ms(500), &mut acquire).await.is_err());
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
    sleep(secs(15)).await;
    proxy.refuse_connections(false);
    connected(&client).await;
    sleep(ms(500)).await;
    let guard = within(acquire).await.expect("its session has ended, so that it queues again");
    guard.release().await.unwrap();
    nothing_left(&servers).await;
}

/// The takes of a waiter are accepted, but what is to prove the session before a grant is lost each time.
#[history]
async fn a_take_that_is_never_confirmed_ends(stage: Stage) {
    let servers = stage.servers();
    let (proxy, other, lease, waits) = wait(&stage, patient(10, RetryPolicy::n_times(2, ms(50)))).await;
    let behind = acquiring(&only(&other));
    queue_of(servers, GATE, 2).await;
    let mut held = proxy.intercept(Request::Multi, Fate::HoldReply);
    lease.release().await.unwrap();
    for _ in 0..MOST {
        if timeout(secs(10), held.happened()).await.is_err() {
            break;
        }
        sleep(ms(3500)).await;
        let lost = proxy.intercept(Request::Confirm, Fate::LoseRequest);
        held.release();
        within(lost.happened()).await;
        held = proxy.intercept(Request::Multi, Fate::HoldReply);
    }
    drop(held);
    let error = within(waits).await.unwrap().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    granted(behind).await.release().await.unwrap();
}

/// A waiter finds the parent of the leases missing, once, and the create of that is lost with the connection.
#[history(0, 1)]
async fn a_lost_create_of_the_parents_is_no_missing_node(stage: Stage, retries: u32) {
    let servers = stage.servers();
    let (proxy, _, _held, waits) = wait(&stage, patient(40, RetryPolicy::n_times(retries, ms(50)))).await;
    let lost = proxy.intercept(Request::Create, Fate::LoseRequest);
    let lease = servers.children(LEASES).unwrap().pop().unwrap();
    assert!(servers.delete(&format!("{LEASES}/{lease}")));
    assert!(servers.delete(LEASES));
    within(lost.happened()).await;
    let outcome = within(waits).await.unwrap();
    outcome.expect("no lost request ends it").release().await.unwrap();
}
