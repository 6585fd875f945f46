//! Elections in trouble: missing rights, lost connections and sessions, operators, wiped servers, and ends at any moment.

use std::time::Duration;

use crate::support::*;
use tokio::sync::watch;
use zk_recipes::testing::{Fate, FaultProxy, Request};
use zk_recipes::{
    Acl, AuthId, Client, CloseMode, Error, LeaderLatch, LeaderObserver, LeaderOptions, LeaderSelector,
    LeaderState, Leadership, LossReason, Observation, Permission, RetryPolicy, SuspectPolicy,
};
use zookeeper_client as zk;

const PATH: &str = "/leaders/a";

fn latch(client: &Client) -> LeaderLatch {
    LeaderLatch::start(client, PATH, LeaderOptions::new()).unwrap()
}

/// One that leads until it is told otherwise.
fn selector(client: &Client) -> LeaderSelector {
    let work = |leadership: Leadership| async move {
        leadership.resign_requested().await;
        Ok::<(), Error>(())
    };
    LeaderSelector::start(client, PATH, LeaderOptions::new(), work).unwrap()
}

async fn leads(state: &mut watch::Receiver<LeaderState>) -> Leadership {
    match &*within(state.wait_for(LeaderState::is_leading)).await.unwrap() {
        LeaderState::Leading(leadership) => leadership.clone(),
        other => panic!("{other:?}"),
    }
}

async fn is_failing(state: &mut watch::Receiver<LeaderState>) -> Error {
    match &*within(state.wait_for(|state| matches!(state, LeaderState::Failed(_)))).await.unwrap() {
        LeaderState::Failed(error) => error.clone(),
        other => panic!("{other:?}"),
    }
}

/// A node of which everybody has these rights.
async fn make(zookeeper: &zk::Client, path: &str, rights: Permission) {
    let everything = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.mkdir("/leaders", &everything).await.unwrap();
    let acl = [Acl::new(rights | Permission::ADMIN, AuthId::anyone())];
    zookeeper.create(path, b"", &zk::CreateMode::Persistent.with_acls(zk::Acls::new(&acl))).await.unwrap();
}

// CURATOR-15, -436: without a right, Curator's selector is dead, or asks two thousand times a second; its latch says
// nothing.
#[tokio::test]
async fn without_a_right_it_fails_for_all_to_see_and_recovers() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    for (number, missing) in [Permission::CREATE, Permission::READ].into_iter().enumerate() {
        let path = format!("/leaders/{number}");
        let all = [Permission::READ, Permission::WRITE, Permission::CREATE, Permission::DELETE];
        let rights = all.into_iter().filter(|right| *right != missing);
        let rights = rights.fold(Permission::NONE, |rights, right| rights | right);
        make(&zookeeper, &path, rights).await;
        let latch = LeaderLatch::start(&client, &path, LeaderOptions::new()).unwrap();
        let selector = {
            let work = |_| async { Ok::<(), Error>(()) };
            LeaderSelector::start(&client, &path, LeaderOptions::new(), work).unwrap()
        };
        // Those who want one kind each are not on one path, as a rule; here none of them gets that far.
        for mut state in [latch.watch_state(), selector.watch_state()] {
            let error = is_failing(&mut state).await;
            assert!(matches!(&error, Error::ZooKeeper { source: zk::Error::NoAuth, .. }), "{error}");
        }
        let error = within(latch.await_leadership()).await.unwrap_err();
        assert!(matches!(&error, Error::ZooKeeper { source: zk::Error::NoAuth, .. }), "{error}");
        within(selector.close()).await.unwrap();

        proxy.take_requests();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let requests = proxy.take_requests();
        assert!((1..40).contains(&requests.len()), "it goes on trying, but not too often: {requests:?}");

        let acl = [Acl::new(Permission::ALL, AuthId::anyone())];
        zookeeper.set_acl(&path, &acl, None).await.unwrap();
        leads(&mut latch.watch_state()).await;
        within(latch.close(CloseMode::Silent)).await.unwrap();
        assert_nothing_left(&server, &zookeeper, &path).await;
    }
}

#[tokio::test]
async fn an_observer_without_a_right_says_so_and_recovers() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    make(&zookeeper, PATH, Permission::CREATE).await;
    let observer = LeaderObserver::new(&client, PATH).unwrap();
    let mut seen = observer.watch_leader();
    let is_refused = |seen: &Observation| {
        matches!(seen, Observation::Unknown(Some(Error::ZooKeeper { source: zk::Error::NoAuth, .. })))
    };
    within(seen.wait_for(is_refused)).await.unwrap();
    assert!(matches!(observer.leader().await, Err(Error::ZooKeeper { .. })));
    zookeeper.set_acl(PATH, &[Acl::new(Permission::ALL, AuthId::anyone())], None).await.unwrap();
    within(seen.wait_for(|seen| *seen == Observation::Nobody)).await.unwrap();
    drop(seen);
    watches_with_holders(&server, 0).await;
}

// AURORA-1840: Curator's leaders step down at each lost connection.
#[tokio::test]
async fn a_lost_connection_costs_neither_the_leadership_nor_a_place() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let [leading, waiting] = [connect_through(&proxy).await, connect_through(&proxy).await];
    let first = latch(&leading);
    let leadership = within(first.await_leadership()).await.unwrap();
    let second = latch(&waiting);
    let nodes = queue_of(&zookeeper, PATH, 2).await;
    let mut state = first.watch_state();
    state.mark_unchanged();
    for _ in 0..5 {
        proxy.cut();
        let mut connection = waiting.watch_connection();
        within(connection.wait_for(|state| !state.is_connected())).await.unwrap();
        assert!(first.has_leadership() && !second.has_leadership());
        for client in [&leading, &waiting] {
            within(client.watch_connection().wait_for(|state| state.is_connected())).await.unwrap();
        }
    }
    // As far as both have heard of it by now.
    assert_eq!(first.participants().await.unwrap(), second.participants().await.unwrap());
    assert!(first.has_leadership() && leadership.is_valid() && !state.has_changed().unwrap());
    let mut same = queue_of(&zookeeper, PATH, 2).await;
    same.sort();
    let mut nodes = nodes;
    nodes.sort();
    assert_eq!(same, nodes, "no node was made again");
    leadership.resign().await.unwrap();
    leads(&mut second.watch_state()).await;
}

#[tokio::test]
async fn it_can_be_given_up_at_the_first_doubt() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let options = LeaderOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let latch = LeaderLatch::start(&client, PATH, options).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    assert_eq!(within(leadership.lost()).await, LossReason::Suspect);
    assert!(!latch.has_leadership());
    proxy.refuse_connections(false).unwrap();
    let again = within(latch.await_leadership()).await.unwrap();
    assert!(again.fencing_token() > leadership.fencing_token());
    latch.close(CloseMode::Silent).await.unwrap();
    queue_of(&bystander(&server).await, PATH, 0).await;
}

// CURATOR-171: an operator who deletes the node of a Curator leader makes a second one. CURATOR-620, -652, -696: so do
// nodes of sessions that are over.
#[tokio::test]
async fn whoever_loses_its_node_or_session_is_the_last_of_the_candidates() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [one, two] = connect_many(&server).await;
    let latches = [latch(&one), latch(&two)];
    let clients = [one, two];
    let mut last_token = 0;
    for round in 0..20 {
        let leading = usize::from(
            within(async {
                tokio::select! {
                    _ = latches[0].await_leadership() => false,
                    _ = latches[1].await_leadership() => true,
                }
            })
            .await,
        );
        queue_of(&zookeeper, PATH, 2).await;
        let leadership = latches[leading].leadership().expect("it leads");
        assert!(leadership.fencing_token() > last_token);
        last_token = leadership.fencing_token();
        let next = &latches[1 - leading];
        assert!(!next.has_leadership());
        let reason = if round % 3 == 0 {
            zk_recipes::testing::kill_session(&clients[leading]).await.unwrap();
            LossReason::Expired
        } else {
            zookeeper.delete(leadership.node_path(), None).await.unwrap();
            LossReason::Deleted
        };
        assert_eq!(within(leadership.lost()).await, reason, "round {round}");
        let leadership = within(next.await_leadership()).await.unwrap();
        let (_, stat) = zookeeper.get_data(leadership.node_path()).await.unwrap();
        assert_eq!(stat.ephemeral_owner, session_id(&clients[1 - leading]).await);
        assert_eq!(stat.czxid, leadership.fencing_token());
    }
}

// CURATOR-724: after the path is gone, Curator's latch before 5.8 never leads again.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_wiped_server_has_a_leader_again() {
    let mut server = empty_server().await;
    let builder = Client::builder().session_timeout(Duration::from_secs(3));
    let clients = [
        builder.clone().connect(&server.connect_string()).await.unwrap(),
        builder.connect(&server.connect_string()).await.unwrap(),
    ];
    let first = latch(&clients[0]);
    let leadership = within(first.await_leadership()).await.unwrap();
    let second = latch(&clients[1]);
    let mut seen = LeaderObserver::new(&clients[1], PATH).unwrap().watch_leader();
    within(seen.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap();
    queue_of(&bystander(&server).await, PATH, 2).await;

    server.kill().await.unwrap();
    let data = server.real().data_dir().join("version-2");
    std::fs::remove_dir_all(&data).unwrap();
    server.restart().await.unwrap();

    assert_eq!(within(leadership.lost()).await, LossReason::Expired);
    let zookeeper = bystander(&server).await;
    queue_of(&zookeeper, PATH, 2).await;
    let is_leading = || [&first, &second].map(LeaderLatch::has_leadership);
    eventually("one leads", || async { (is_leading() != [false; 2]).then_some(()) }).await;
    assert_ne!(is_leading(), [true; 2]);
    let token = first.leader().await.unwrap().unwrap().fencing_token();
    let is_seen = |seen: &Observation| matches!(seen, Observation::Leader(it) if it.fencing_token() == token);
    within(seen.wait_for(is_seen)).await.unwrap();
    for latch in [&first, &second] {
        within(latch.close(CloseMode::Silent)).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 0).await;
}

// CURATOR-3, -18: a latch that is closed while its node is created leaves it for ever.
#[tokio::test]
async fn closed_at_any_request_it_leaves_nothing() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    for fate in [Fate::HoldReply, Fate::LoseReply, Fate::LoseRequest] {
        for is_dropped in [false, true] {
            let mut happened = true;
            let mut number = 0;
            while happened {
                let client = Client::builder()
                    .session_timeout(2 * BOUND)
                    .retry_policy(RetryPolicy::forever(Duration::from_millis(5)))
                    .connect(&proxy.connect_string())
                    .await
                    .unwrap();
                let intercepted = proxy.intercept_after(number, fate);
                let latch = latch(&client);
                let mut state = latch.watch_state();
                happened = within(async {
                    tokio::select! {
                        () = intercepted.happened() => true,
                        // All its requests are answered.
                        _ = watched_leader(&mut state, &server) => false,
                    }
                })
                .await;
                if is_dropped {
                    drop(latch);
                    intercepted.release();
                } else {
                    let closing = tokio::spawn(async move { latch.close(CloseMode::NotifyLeader).await });
                    within(state.wait_for(|state| !state.is_leading())).await.unwrap();
                    intercepted.release();
                    within(closing).await.unwrap().unwrap();
                }
                within(async { while state.changed().await.is_ok() {} }).await;
                assert!(matches!(*state.borrow(), LeaderState::Closed));
                queue_of(&zookeeper, PATH, 0).await;
                watches_with_holders(&server, 0).await;
                client.close().await;
                number += 1;
            }
            assert!(number > 3, "{fate:?}: it makes its path, itself, lists and watches");
        }
    }
}

/// Waits until it leads and watches its node.
async fn watched_leader(state: &mut watch::Receiver<LeaderState>, server: &Server) {
    state.wait_for(LeaderState::is_leading).await.unwrap();
    watches_with_holders(server, 1).await;
}

#[tokio::test]
async fn it_starts_before_the_servers_and_is_closed_before_them() {
    let mut server = empty_server().await;
    server.stop().await.unwrap();
    let builder = Client::builder().connection_timeout(Duration::from_millis(300));
    let client = builder.connect_lazily(&server.connect_string()).unwrap();
    let (early, patient) = (latch(&client), latch(&client));
    let selector = selector(&client);
    let observer = LeaderObserver::new(&client, PATH).unwrap();
    let mut seen = observer.watch_leader();
    let awaiting = tokio::spawn({
        let patient = patient.clone();
        async move { patient.await_leadership().await }
    });
    // That is seen, and yet no reason for those to give up who wait.
    let error = is_failing(&mut patient.watch_state()).await;
    assert!(matches!(error, Error::NotConnected { .. }), "{error}");
    within(seen.wait_for(|seen| matches!(seen, Observation::Unknown(Some(Error::NotConnected { .. })))))
        .await
        .unwrap();
    within(early.close(CloseMode::Silent)).await.unwrap();
    within(selector.close()).await.unwrap();
    assert_eq!(early.await_leadership().await.unwrap_err(), Error::CandidateClosed { path: PATH.into() });
    assert!(!awaiting.is_finished());

    server.restart().await.unwrap();
    let leadership = within(awaiting).await.unwrap().unwrap();
    let zookeeper = bystander(&server).await;
    queue_of(&zookeeper, PATH, 1).await;
    let is_seen = |seen: &Observation| matches!(seen, Observation::Leader(it) if it.fencing_token() == leadership.fencing_token());
    within(seen.wait_for(is_seen)).await.unwrap();
    patient.close(CloseMode::Silent).await.unwrap();
    within(seen.wait_for(|seen| *seen == Observation::Nobody)).await.unwrap();
    queue_of(&zookeeper, PATH, 0).await;
}

#[tokio::test]
async fn two_started_alike_are_two_candidates() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let same = || LeaderLatch::start(&client, PATH, LeaderOptions::new().id("same")).unwrap();
    let latches = [same(), same()];
    queue_of(&zookeeper, PATH, 2).await;
    for _ in 0..10 {
        let leading =
            eventually("one leads", || async { latches.iter().position(|latch| latch.has_leadership()) })
                .await;
        assert!(!latches[1 - leading].has_leadership());
        latches[leading].leadership().unwrap().resign().await.unwrap();
        within(latches[1 - leading].await_leadership()).await.unwrap();
    }
    let [first, second] = latches;
    within(first.close(CloseMode::Silent)).await.unwrap();
    within(second.await_leadership()).await.unwrap();
    drop(second);
    assert_nothing_left(&server, &zookeeper, PATH).await;
}

#[tokio::test]
async fn a_closed_client_ends_all() {
    let server = empty_server().await;
    let [one, two] = connect_many(&server).await;
    let leading = latch(&one);
    let leadership = within(leading.await_leadership()).await.unwrap();
    let waiting = latch(&two);
    let awaiting = tokio::spawn({
        let waiting = waiting.clone();
        async move { waiting.await_leadership().await }
    });
    let mut seen = LeaderObserver::new(&two, PATH).unwrap().watch_leader();
    queue_of(&bystander(&server).await, PATH, 2).await;
    two.close().await;
    assert_eq!(within(awaiting).await.unwrap().unwrap_err(), Error::Closed);
    within(async { while seen.changed().await.is_ok() {} }).await;
    one.close().await;
    assert_eq!(within(leadership.lost()).await, LossReason::Closed);
    assert!(!leading.has_leadership());
    assert_eq!(within(leadership.resign()).await, Err(Error::Closed));
    for latch in [leading, waiting] {
        let mut state = latch.watch_state();
        within(async { while state.changed().await.is_ok() {} }).await;
        assert!(matches!(*state.borrow(), LeaderState::Closed));
        let _ = within(latch.close(CloseMode::Silent)).await;
    }
}

// CURATOR-3, -18 once more, of a latch that has lost its place.
#[tokio::test]
async fn closed_while_it_queues_again_it_leaves_nothing() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let (client, other) = (connect_through(&proxy).await, connect(&server).await);
    let leader = latch(&other);
    let leadership = within(leader.await_leadership()).await.unwrap();
    let waiting = latch(&client);
    let nodes = queue_of(&zookeeper, PATH, 2).await;
    let node = nodes.iter().find(|node| !leadership.node_path().ends_with(node.as_str())).unwrap();
    watches_of(&server, 1).await;
    let slow = proxy.intercept(Request::Create, Fate::HoldReply);
    zookeeper.delete(&format!("{PATH}/{node}"), None).await.unwrap();
    within(slow.happened()).await;
    let closing = tokio::spawn({
        let waiting = waiting.clone();
        async move { waiting.close(CloseMode::Silent).await }
    });
    // It cannot know yet whether there is a node.
    assert!(
        tokio::time::timeout(Duration::from_millis(300), async {
            while !closing.is_finished() {
                tokio::task::yield_now().await
            }
        })
        .await
        .is_err()
    );
    slow.release();
    assert_eq!(within(closing).await.unwrap(), Ok(()));
    assert_eq!(children(&zookeeper, PATH).await.len(), 1);
    leadership.resign().await.unwrap();
    leads(&mut leader.watch_state()).await;
}

#[tokio::test]
async fn a_term_that_is_over_blocks_nobody_on_an_adopted_session() {
    let server = empty_server().await;
    let session = zk::Client::connect(&server.connect_string()).await.unwrap();
    let client = Client::from_zookeeper(session.clone()).unwrap();
    let other = connect(&server).await;
    let old = latch(&client);
    let leadership = within(old.await_leadership()).await.unwrap();
    let next = latch(&other);
    queue_of(&bystander(&server).await, PATH, 2).await;
    within(client.close()).await;
    within(next.await_leadership()).await.unwrap();
    assert_eq!(leadership.loss(), Some(LossReason::Closed));
}
