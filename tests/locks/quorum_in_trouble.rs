//! `QuorumLock` where runtimes end, or where its sessions are those of the caller.

use crate::locks::quorum::{BRIEF, Contender, PATH, Zones, assert_empty, lock_of};
use crate::prelude::*;

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
    assert_eq!(state.get(), LockState::Held);
    runtime.shutdown_background();
    within(guard.members().next().unwrap().1.lost()).await;
    assert!(guard.is_valid());
    // Now the majority is lost as well.
    let (_, second) = guard.members().nth(1).unwrap();
    bystanders[1].delete(second.node_path(), None).await.unwrap();
    within(guard.lost()).await;
    assert!(!guard.is_valid());
    let seen = within(state.wait_for(|state| state.is_lost())).await;
    assert!(seen.is_some(), "{seen:?}");
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

/// Clients of the caller's sessions, and their lock.
fn adopting(sessions: &[zk::Client]) -> ([Client; 3], QuorumLock) {
    let clients = [0, 1, 2].map(|member| Client::from_zookeeper(sessions[member].clone()).unwrap());
    let lock = lock_of(&clients).with_response_timeout(BRIEF).unwrap();
    (clients, lock)
}

/// Sessions of the caller, which go on when the clients are closed.
#[tokio::test]
async fn adopted_sessions_keep_nothing() {
    let zones = Zones::new().await;
    let bystanders = zones.bystanders().await;
    let sessions = zones.bystanders().await;
    for closed in 0..3 {
        let (clients, lock) = adopting(&sessions);
        let guard = within(lock.acquire()).await.unwrap();
        clients[closed].close().await;
        assert!(guard.is_valid());
        within(guard.release()).await.unwrap();
        assert_empty(&bystanders).await;
    }
    let (clients, lock) = adopting(&sessions);
    let guard = within(lock.acquire()).await.unwrap();
    join_all(clients.iter().map(Client::close)).await;
    assert!(!guard.is_valid());
    drop(guard);
    assert_empty(&bystanders).await;
}

/// The task of a caller vanishes together with its runtime.
#[test]
fn a_runtime_that_ends_leaves_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_zones, bystanders, [contender]) = runtime.block_on(Zones::with_contenders());
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
    let lock = adopting(&sessions).1;
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
    let lock = adopting(&sessions).1;
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
        let connector = zk::Client::connector().with_session_timeout(secs(10));
        connector.connect(&proxy.connect_string()).await.unwrap()
    }))
    .await;
    let (clients, lock) = adopting(&sessions);
    proxies[..2].iter().for_each(cut_off);
    for client in &clients[..2] {
        within(client.watch_connection().wait_for(|state| !state.is_connected())).await.unwrap();
    }
    let tried = within(lock.try_acquire()).await;
    assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    for member in [0, 1] {
        zones.0[member].kill_session(sessions[member].session_id().0).await.unwrap();
        mend(&proxies[member]);
    }
    let ended = within(lock.acquire()).await;
    assert!(matches!(ended, Err(Error::SessionOver { .. })), "{ended:?}");
}
