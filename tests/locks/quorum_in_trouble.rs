//! `QuorumLock` where clients are closed, runtimes end, time is short, and ensembles become silent in between.

use std::time::{Duration, Instant};

use crate::quorum::{BRIEF, Contender, PATH, PATIENT, Zones, assert_empty, lock_of};
use crate::support::*;
use futures_util::future::join_all;
use zk_recipes::testing::{Fate, FaultProxy, Request, Traffic};
use zk_recipes::{Client, Error, LockOptions, LockState, SuspectPolicy};
use zookeeper_client as zk;

fn take_down(proxies: &[FaultProxy]) {
    for proxy in proxies {
        proxy.refuse_connections(true).unwrap();
        proxy.cut();
    }
}

#[tokio::test]
async fn closing_the_clients_ends_an_acquire_that_finds_no_majority() {
    let zones = Zones::new().await;
    let proxies = zones.proxies().await;
    let contender = Contender::through(&proxies, BRIEF).await;
    take_down(&proxies[..2]);
    let tried = within(contender.lock.try_acquire()).await;
    assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    let waiting = contender.acquiring();
    tokio::time::sleep(BRIEF).await;
    for client in &contender.clients {
        client.close().await;
    }
    let ended = within(waiting).await.unwrap();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    let tried = within(contender.lock.try_acquire()).await;
    assert!(matches!(tried, Err(Error::Closed)), "{tried:?}");
}

/// Whether that member is already held or was not tried yet.
#[tokio::test]
async fn closing_the_client_of_another_member_ends_a_wait() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    let other = zones.contender(PATIENT).await;
    for closed in [0, 2] {
        let contender = zones.contender(BRIEF).await;
        let second = other.mutex(1).acquire().await.unwrap();
        let waiting = contender.acquiring();
        queue_of(&bystanders[1], PATH, 2).await;
        contender.clients[closed].close().await;
        let ended = within(waiting).await.unwrap();
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
        second.release().await.unwrap();
        assert_empty(&bystanders).await;
    }
}

/// As on a busy machine.
#[tokio::test]
async fn a_caller_that_is_polled_late_is_not_told_that_others_have_a_free_lock() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    let proxies = zones.proxies().await;
    let contender = Contender::through(&proxies, PATIENT).await;
    // Afterwards, a round trip is enough.
    contender.lock.acquire().await.unwrap().release().await.unwrap();
    assert_empty(&bystanders).await;
    // The reply comes while nobody polls.
    proxies[0].set_traffic(Traffic::pass().delay_to_client(BRIEF / 2));
    let mut trying = Box::pin(contender.lock.try_acquire_for(BRIEF));
    eventually("it has entered the first queue", || {
        assert!(poll_once(&mut trying.as_mut()).is_pending());
        async { (!children(&bystanders[0], PATH).await.is_empty()).then_some(()) }
    })
    .await;
    tokio::time::sleep(2 * BRIEF).await;
    let tried = within(trying).await;
    assert!(!matches!(tried, Ok(None)), "{tried:?}");
}

#[tokio::test]
async fn a_caller_without_time_is_not_told_that_others_have_a_free_lock() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    let proxies = zones.proxies().await;
    let contender = Contender::through(&proxies, PATIENT).await;
    for nanos in [1, 1_000, 10_000, 100_000, 300_000, 1_000_000, 2_000_000, 3_000_000] {
        let tried = contender.lock.try_acquire_for(Duration::from_nanos(nanos)).await;
        match &tried {
            Ok(Some(_)) => {}
            Err(Error::NotConnected { hosts, .. }) => assert!(!hosts.is_empty(), "{nanos} ns"),
            _ => panic!("{nanos} ns: {tried:?}"),
        }
        drop(tried);
        contender.has_left(&bystanders).await;
    }
    proxies.iter().for_each(|proxy| proxy.set_traffic(Traffic::black_hole()));
    for nanos in [1_000_000, 1_000, 1] {
        let tried = contender.lock.try_acquire_for(Duration::from_nanos(nanos)).await;
        assert!(matches!(tried, Err(Error::NotConnected { .. })), "{nanos} ns: {tried:?}");
    }
}

/// It knows that the first is not available, and loses the reply to its next request there.
#[tokio::test]
async fn a_try_is_not_kept_by_an_ensemble_that_becomes_silent_in_between() {
    let zones = Zones::new().await;
    let proxies = zones.proxies().await;
    let (contender, other) = (Contender::through(&proxies, BRIEF).await, zones.contender(PATIENT).await);
    let first = other.mutex(0).acquire().await.unwrap();
    let held = proxies[0].intercept(Request::Delete, Fate::HoldReply);
    let tried = within(contender.lock.try_acquire()).await;
    let guard = tried.unwrap().expect("it has the others");
    drop(held);
    guard.release().await.unwrap();
    first.release().await.unwrap();
    assert_empty(&zones.bystanders().await).await;
}

/// A contender whose first client runs on a runtime of its own, which is to end.
async fn on_two_runtimes(proxies: &[FaultProxy; 3]) -> (tokio::runtime::Runtime, Contender) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let builders = [builder().runtime(runtime.handle().clone()), builder(), builder()];
    let mut servers = proxies.iter().map(FaultProxy::connect_string);
    let members = builders.map(|builder| (builder, servers.next().unwrap()));
    let contender = Contender::with(members, BRIEF).await;
    (runtime, contender)
}

#[tokio::test]
async fn the_end_of_the_first_runtime_costs_only_its_member() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    let proxies = zones.proxies().await;
    let (runtime, contender) = on_two_runtimes(&proxies).await;
    let guard = contender.lock.acquire().await.unwrap();
    let mut state = guard.watch_state();
    assert_eq!(*state.borrow_and_update(), LockState::Held);
    runtime.shutdown_background();
    within(guard.members().next().unwrap().1.lost()).await;
    assert!(guard.is_valid());
    // Now the majority is lost as well.
    let (_, second) = guard.members().nth(1).unwrap();
    bystanders[1].delete(second.node_path(), None).await.unwrap();
    within(guard.lost()).await;
    assert!(!guard.is_valid());
    let seen = within(state.wait_for(|state| state.is_lost())).await.map(|state| *state);
    assert!(seen.is_ok(), "{seen:?}");
    // The rest is given up.
    queue_of(&bystanders[2], PATH, 0).await;
    let released = guard.release().await;
    assert!(matches!(released, Err(Error::LockLost { .. } | Error::Closed)), "{released:?}");
}

#[tokio::test]
async fn a_release_survives_the_end_of_the_first_runtime() {
    let zones = Zones::new().await;
    let proxies = zones.proxies().await;
    let (runtime, contender) = on_two_runtimes(&proxies).await;
    let guard = contender.lock.acquire().await.unwrap();
    runtime.shutdown_background();
    within(guard.members().next().unwrap().1.lost()).await;
    within(guard.release()).await.unwrap();
    assert_empty(&zones.bystanders().await).await;
    let again = within(contender.lock.acquire()).await;
    assert!(matches!(again, Err(Error::Closed)), "{again:?}");
}

#[tokio::test]
async fn a_hold_survives_one_closed_client() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    for closed in 0..3 {
        let contender = zones.contender(BRIEF).await;
        let guard = contender.lock.acquire().await.unwrap();
        let mut state = guard.watch_state();
        contender.clients[closed].close().await;
        within(guard.members().nth(closed).unwrap().1.lost()).await;
        assert!(guard.is_valid());
        contender.clients[(closed + 1) % 3].close().await;
        within(guard.lost()).await;
        within(state.wait_for(|state| state.is_lost())).await.unwrap();
        assert_empty(&bystanders).await;
        assert!(guard.release().await.is_err());
    }
}

/// Sessions of the caller, which go on when the clients are closed.
#[tokio::test]
async fn adopted_sessions_keep_nothing() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    let sessions = zones.bystanders().await;
    let adopt = || [0, 1, 2].map(|member| Client::from_zookeeper(sessions[member].clone()).unwrap());
    for closed in 0..3 {
        let clients = adopt();
        let guard = within(lock_of(&clients).acquire()).await.unwrap();
        clients[closed].close().await;
        assert!(guard.is_valid());
        within(guard.release()).await.unwrap();
        assert_empty(&bystanders).await;
    }
    let clients = adopt();
    let guard = within(lock_of(&clients).acquire()).await.unwrap();
    join_all(clients.iter().map(Client::close)).await;
    assert!(!guard.is_valid());
    drop(guard);
    assert_empty(&bystanders).await;
}

#[tokio::test]
async fn members_that_give_up_when_in_doubt_are_lost_one_by_one() {
    let zones = Zones::new().await;
    let proxies = zones.proxies().await;
    let contender = Contender::through(&proxies, BRIEF).await;
    let options = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let guard = contender.lock.with_options(options).unwrap().acquire().await.unwrap();
    proxies[0].cut();
    within(guard.members().next().unwrap().1.lost()).await;
    assert!(guard.is_valid());
    proxies[1].cut();
    within(guard.lost()).await;
    assert_empty(&zones.bystanders().await).await;
}

/// It is granted a member while nobody polls it, and loses all of its sessions.
#[tokio::test]
async fn a_caller_that_is_polled_late_does_not_believe_to_hold() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    let (contender, other) = (zones.contender(BRIEF).await, zones.contender(PATIENT).await);
    for blocked in 0..3 {
        let blocker = other.mutex(blocked).acquire().await.unwrap();
        let mut acquiring = Box::pin(contender.lock.acquire());
        eventually("it waits", || {
            assert!(poll_once(&mut acquiring.as_mut()).is_pending());
            async { (children(&bystanders[blocked], PATH).await.len() == 2).then_some(()) }
        })
        .await;
        blocker.release().await.unwrap();
        queue_of(&bystanders[blocked], PATH, 1).await;
        for (server, client) in zones.0.iter().zip(&contender.clients) {
            server.kill_session(session_id(client).await).await.unwrap();
        }
        assert_empty(&bystanders).await;
        let theirs = within(other.lock.acquire()).await.unwrap();
        let late = tokio::time::timeout(2 * BRIEF, acquiring.as_mut()).await;
        assert!(late.is_err(), "granted beside another: {late:?}");
        theirs.release().await.unwrap();
        let guard = within(acquiring).await.unwrap();
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        assert_empty(&bystanders).await;
    }
}

/// The sessions go on, so nothing but the client itself releases the lock.
#[tokio::test]
async fn what_is_dropped_while_no_ensemble_answers_is_released_afterwards() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    let proxies = zones.proxies().await;
    let contender = Contender::through(&proxies, BRIEF).await;
    for traffic in [Traffic::black_hole(), Traffic::black_hole_to_client()] {
        for is_dropped in [true, false] {
            let guard = within(contender.lock.acquire()).await.unwrap();
            proxies.iter().for_each(|proxy| proxy.set_traffic(traffic));
            if is_dropped {
                drop(guard);
            } else {
                let start = Instant::now();
                assert!(within(guard.release()).await.is_err());
                assert!(start.elapsed() >= BRIEF);
            }
            proxies.iter().for_each(|proxy| proxy.set_traffic(Traffic::pass()));
            assert_empty(&bystanders).await;
        }
    }
}

/// The task of a caller vanishes together with its runtime.
#[test]
fn a_runtime_that_ends_leaves_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_zones, bystanders, contender) = runtime.block_on(async {
        let zones = Zones::new().await;
        let bystanders = zones.bystanders().await;
        let contender = zones.contender(PATIENT).await;
        (zones, bystanders, contender)
    });
    for micros in [0, 200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 200_000] {
        let callers = tokio::runtime::Runtime::new().unwrap();
        let lock = contender.lock.clone();
        callers.spawn(async move { lock.acquire().await });
        std::thread::sleep(Duration::from_micros(micros));
        callers.shutdown_background();
        runtime.block_on(assert_empty(&bystanders));
    }
}

/// One of three adopted sessions is over for good: its ensemble is as good as down. "That an ensemble cannot be reached is
/// no error."
#[tokio::test]
async fn an_adopted_session_that_is_over_costs_only_its_member() {
    let zones = Zones::new().await;
    let sessions = zones.bystanders().await;
    let clients = [0, 1, 2].map(|member| Client::from_zookeeper(sessions[member].clone()).unwrap());
    let lock = lock_of(&clients).with_response_timeout(BRIEF).unwrap();
    let guard = within(lock.acquire()).await.unwrap();
    zones.0[1].kill_session(sessions[1].session_id().0).await.unwrap();
    within(guard.members().nth(1).unwrap().1.lost()).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    let again = within(lock.acquire()).await;
    assert!(again.is_ok(), "{again:?}");
}

/// Of sessions that are over for good, no majority will ever be held.
#[tokio::test]
async fn adopted_sessions_that_are_over_end_the_wait_if_the_others_are_no_majority() {
    let zones = Zones::new().await;
    let sessions = zones.bystanders().await;
    let clients = [0, 1, 2].map(|member| Client::from_zookeeper(sessions[member].clone()).unwrap());
    let lock = lock_of(&clients).with_response_timeout(BRIEF).unwrap();
    let guard = within(lock.acquire()).await.unwrap();
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    for member in [0, 1] {
        zones.0[member].kill_session(sessions[member].session_id().0).await.unwrap();
    }
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::SessionOver { .. }), "{error}");
    assert!(!guard.is_valid());
}

/// That they did not answer before does not matter.
#[tokio::test]
async fn adopted_sessions_that_were_silent_before_they_ended_end_the_wait() {
    let zones = Zones::new().await;
    let proxies = zones.proxies().await;
    let sessions = join_all(proxies.iter().map(async |proxy| {
        let connector = zk::Client::connector().with_session_timeout(Duration::from_secs(10));
        connector.connect(&proxy.connect_string()).await.unwrap()
    }))
    .await;
    let clients = [0, 1, 2].map(|member| Client::from_zookeeper(sessions[member].clone()).unwrap());
    let lock = lock_of(&clients).with_response_timeout(BRIEF).unwrap();
    take_down(&proxies[..2]);
    for client in &clients[..2] {
        within(client.watch_connection().wait_for(|state| !state.is_connected())).await.unwrap();
    }
    let tried = within(lock.try_acquire()).await;
    assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    for member in [0, 1] {
        zones.0[member].kill_session(sessions[member].session_id().0).await.unwrap();
        proxies[member].refuse_connections(false).unwrap();
    }
    let ended = within(lock.acquire()).await;
    assert!(matches!(ended, Err(Error::SessionOver { .. })), "{ended:?}");
}
