//! Elections in trouble: missing rights, lost connections and sessions, operators, and ends at any moment.

use tokio::sync::watch;

use super::prelude::*;

const PATH: &str = "/leaders/a";

fn latch(client: &Client) -> LeaderLatch {
    LeaderLatch::start(client, PATH, LeaderOptions::new()).unwrap()
}

async fn leads(state: &mut Watch<LeaderState>) -> Leadership {
    match &within(state.wait_for(LeaderState::is_leading)).await.unwrap() {
        LeaderState::Leading(leadership) => leadership.clone(),
        other => panic!("{other:?}"),
    }
}

async fn is_failing(state: &mut Watch<LeaderState>) -> Error {
    match &within(state.wait_for(|state| matches!(state, LeaderState::Failed(_)))).await.unwrap() {
        LeaderState::Failed(error) => error.clone(),
        other => panic!("{other:?}"),
    }
}

/// Waits until the candidate has this role.
async fn becomes(role: LeaderRole, now: impl Fn() -> LeaderRole) {
    let becomes = timeout(BOUND, async {
        while now() != role {
            sleep(ms(1)).await;
        }
    });
    becomes.await.unwrap_or_else(|_| panic!("{:?}, not {role:?}", now()));
}

fn candidates(stage: &Stage, path: &str) -> Vec<String> {
    stage.servers().children(path).unwrap_or_default()
}

/// Creates a node of which everybody has these rights, below one of which everybody has all.
async fn make(zookeeper: &zk::Client, path: &str, rights: Permission) {
    let everything = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.mkdir("/leaders", &everything).await.unwrap();
    let acl = [Acl::new(rights | Permission::ADMIN, AuthId::anyone())];
    zookeeper.create(path, b"", &zk::CreateMode::Persistent.with_acls(zk::Acls::new(&acl))).await.unwrap();
}

// CURATOR-15, -436: without a right, Curator's selector is dead, or asks two thousand times a second; its latch says
// nothing.
#[history]
async fn without_a_right_it_fails_for_all_to_see_and_recovers(stage: Stage) {
    let operator = stage.client(1).await;
    let zookeeper = operator.zookeeper().await.unwrap();
    let (proxy, client) = stage.far(usual).await;
    for (path, missing) in [("/leaders/1", Permission::CREATE), ("/leaders/2", Permission::READ)] {
        let all = [Permission::READ, Permission::WRITE, Permission::CREATE, Permission::DELETE];
        let rights = all.into_iter().filter(|right| *right != missing);
        make(&zookeeper, path, rights.fold(Permission::NONE, |rights, right| rights | right)).await;
        let latch = LeaderLatch::start(&client, path, LeaderOptions::new()).unwrap();
        let work = |_| async { Ok::<(), Error>(()) };
        let selector = LeaderSelector::start(&client, path, LeaderOptions::new(), work).unwrap();
        // Those who want one kind each are not on one path, as a rule; here none of them gets that far.
        for mut state in [latch.watch_state(), selector.watch_state()] {
            let error = is_failing(&mut state).await;
            assert!(matches!(&error, Error::ZooKeeper { source: zk::Error::NoAuth, .. }), "{error}");
        }
        let error = within(latch.await_leadership()).await.unwrap_err();
        assert!(matches!(&error, Error::ZooKeeper { source: zk::Error::NoAuth, .. }), "{error}");
        within(selector.close()).await.unwrap();

        proxy.take_requests();
        sleep(secs(2)).await;
        let requests = proxy.take_requests();
        assert!((1..20).contains(&requests.len()), "it goes on trying, but not too often: {requests:?}");

        let acl = [Acl::new(Permission::ALL, AuthId::anyone())];
        zookeeper.set_acl(path, &acl, None).await.unwrap();
        leads(&mut latch.watch_state()).await;
        within(latch.close(CloseMode::Silent)).await.unwrap();
        drop(latch);
        sleep(A_MOMENT).await;
        assert_eq!(candidates(&stage, path), Vec::<String>::new());
        assert_eq!(stage.servers().watch_count(), 0);
    }
}

#[history]
async fn an_observer_without_a_right_says_so_and_recovers(stage: Stage) {
    let [client, operator] = stage.clients().await;
    let zookeeper = operator.zookeeper().await.unwrap();
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
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

/// The leader goes, and the next one comes, while one may not see that.
#[history]
async fn an_observer_sees_what_changes_while_it_may_not_read(stage: Stage) {
    let (client, owner) = (stage.client(0).await, owning_client(&stage).await);
    let leading = latch(&owner);
    let leadership = within(leading.await_leadership()).await.unwrap();
    let mut seen = LeaderObserver::new(&client, PATH).unwrap().watch_leader();
    within(seen.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap();
    unseen(&owner, leadership.node_path(), async { leading.close(CloseMode::Silent).await.unwrap() }).await;
    within(seen.wait_for(|seen| *seen == Observation::Nobody)).await.unwrap();
    let mut next = None;
    let leads = async { within(next.insert(latch(&owner)).await_leadership()).await.unwrap() };
    unseen(&owner, PATH, leads).await;
    within(seen.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap();
}

// AURORA-1840: Curator's leaders step down at each lost connection.
#[history]
async fn a_lost_connection_costs_neither_the_leadership_nor_a_place(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let [leading, waiting] = [proxy.client(usual).await, proxy.client(usual).await];
    let first = latch(&leading);
    let leadership = within(first.await_leadership()).await.unwrap();
    let second = latch(&waiting);
    sleep(A_MOMENT).await;
    let nodes = candidates(&stage, PATH);
    assert_eq!(nodes.len(), 2);
    let mut state = first.watch_state();
    assert!(state.changed().await.is_some());
    for _ in 0..5 {
        proxy.cut();
        disconnected(&waiting).await;
        assert!(first.has_leadership() && !second.has_leadership());
        for client in [&leading, &waiting] {
            connected(client).await;
        }
    }
    // As far as both have heard of it by now.
    assert_eq!(first.participants().await.unwrap(), second.participants().await.unwrap());
    assert!(first.has_leadership() && leadership.is_valid());
    assert!(state.changed().now_or_never().is_none());
    assert_eq!(candidates(&stage, PATH), nodes, "no node was made again");
    leadership.resign().await.unwrap();
    leads(&mut second.watch_state()).await;
}

#[history]
async fn it_can_be_given_up_at_the_first_doubt(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let options = LeaderOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let latch = LeaderLatch::start(&client, PATH, options).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    proxy.cut_off();
    assert_eq!(timeout(A_MOMENT, leadership.lost()).await, Ok(LossReason::Suspect));
    assert!(!latch.has_leadership());
    proxy.refuse_connections(false);
    let again = within(latch.await_leadership()).await.unwrap();
    assert!(again.fencing_token() > leadership.fencing_token());
    latch.close(CloseMode::Silent).await.unwrap();
    assert_eq!(candidates(&stage, PATH), Vec::<String>::new());
}

// CURATOR-171: an operator who deletes the node of a Curator leader makes a second one. CURATOR-620, -652, -696: so do
// nodes of sessions that are over.
#[history]
async fn whoever_loses_its_node_or_session_is_the_last_of_the_candidates(stage: Stage) {
    let clients = [stage.client(0).await, stage.client(1).await];
    let latches = clients.each_ref().map(latch);
    let session = async |who: usize| clients[who].zookeeper().await.unwrap().session_id().0;
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
        sleep(secs(1)).await;
        assert_eq!(candidates(&stage, PATH).len(), 2);
        let leadership = latches[leading].leadership().expect("it leads");
        assert!(leadership.fencing_token() > last_token);
        last_token = leadership.fencing_token();
        let next = &latches[1 - leading];
        assert!(!next.has_leadership());
        let reason = if round % 3 == 0 {
            stage.servers().end_session(session(leading).await);
            LossReason::Expired
        } else {
            stage.servers().delete(leadership.node_path());
            LossReason::Deleted
        };
        assert_eq!(within(leadership.lost()).await, reason, "round {round}");
        let leadership = within(next.await_leadership()).await.unwrap();
        let node = stage.servers().node(leadership.node_path()).unwrap();
        assert_eq!(node.ephemeral_owner, session(1 - leading).await);
        assert_eq!(node.czxid, leadership.fencing_token());
    }
}

// CURATOR-3, -18: a latch that is closed while its node is created leaves it for ever.
#[history]
async fn closed_at_any_request_it_leaves_nothing(stage: Stage) {
    let proxy = stage.proxy(0).await;
    for fate in [Fate::HoldReply, Fate::LoseReply, Fate::LoseRequest] {
        for is_dropped in [false, true] {
            let mut happened = true;
            let mut number = 0;
            while happened {
                let policy = RetryPolicy::forever(ms(5));
                let client = proxy.client(|builder| usual(builder).retry_policy(policy)).await;
                let intercepted = proxy.intercept_after(number, fate);
                let latch = latch(&client);
                let mut state = latch.watch_state();
                happened = within(async {
                    tokio::select! {
                        () = intercepted.happened() => true,
                        // All its requests are answered.
                        () = watched_leader(&mut state, &stage) => false,
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
                within(async { while state.changed().await.is_some() {} }).await;
                assert!(matches!(state.get(), LeaderState::Closed));
                sleep(SESSION / 10).await;
                let at = format!("{fate:?}, request {number}, dropped: {is_dropped}");
                assert_eq!(candidates(&stage, PATH), Vec::<String>::new(), "{at}");
                assert_eq!(stage.servers().watch_count(), 0, "{at}");
                client.close().await;
                number += 1;
            }
            assert!(number > 3, "{fate:?}: it makes its path, itself, lists and watches");
        }
    }
}

/// Waits until it leads and watches its node.
async fn watched_leader(state: &mut Watch<LeaderState>, stage: &Stage) {
    state.wait_for(LeaderState::is_leading).await.unwrap();
    while stage.servers().watch_count() == 0 {
        sleep(A_MOMENT).await;
    }
}

#[history]
async fn it_starts_before_the_servers_and_is_closed_before_them(stage: Stage) {
    let proxy = stage.proxy(0).await;
    proxy.refuse_connections(true);
    let builder = stage.machines()[0].builder().connection_timeout(ms(300));
    let client = keep(builder.connect_lazily(&proxy.address).unwrap());
    let (early, patient) = (latch(&client), latch(&client));
    let work = |leadership: Leadership| async move {
        leadership.resign_requested().await;
        Ok::<(), Error>(())
    };
    let selector = LeaderSelector::start(&client, PATH, LeaderOptions::new(), work).unwrap();
    let observer = LeaderObserver::new(&client, PATH).unwrap();
    let mut seen = observer.watch_leader();
    let awaiting = tokio::spawn({
        let patient = patient.clone();
        async move { patient.await_leadership().await }
    });
    // That is seen, and yet no reason for those to give up who wait.
    let error = is_failing(&mut patient.watch_state()).await;
    assert!(matches!(error, Error::NotConnected { .. }), "{error}");
    let is_away = |seen: &Observation| matches!(seen, Observation::Unknown(Some(Error::NotConnected { .. })));
    within(seen.wait_for(is_away)).await.unwrap();
    within(early.close(CloseMode::Silent)).await.unwrap();
    within(selector.close()).await.unwrap();
    let closed = early.await_leadership().await.unwrap_err();
    assert_eq!(closed, Error::CandidateClosed { path: PATH.into() });
    sleep(SESSION).await;
    assert!(!awaiting.is_finished());

    proxy.refuse_connections(false);
    let leadership = within(awaiting).await.unwrap().unwrap();
    assert_eq!(candidates(&stage, PATH).len(), 1);
    let token = leadership.fencing_token();
    let is_seen = |seen: &Observation| matches!(seen, Observation::Leader(it) if it.fencing_token() == token);
    within(seen.wait_for(is_seen)).await.unwrap();
    patient.close(CloseMode::Silent).await.unwrap();
    within(seen.wait_for(|seen| *seen == Observation::Nobody)).await.unwrap();
    assert_eq!(candidates(&stage, PATH), Vec::<String>::new());
}

// CURATOR-3, -18 once more, of a latch that has lost its place.
#[history]
async fn closed_while_it_queues_again_it_leaves_nothing(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    let leader = latch(&other);
    let leadership = within(leader.await_leadership()).await.unwrap();
    let waiting = latch(&client);
    sleep(A_MOMENT).await;
    let mut nodes = candidates(&stage, PATH);
    nodes.retain(|node| !leadership.node_path().ends_with(node.as_str()));
    assert_eq!(nodes.len(), 1);
    let slow = proxy.intercept(Request::Create, Fate::HoldReply);
    stage.servers().delete(&format!("{PATH}/{}", nodes[0]));
    within(slow.happened()).await;
    let closing = tokio::spawn({
        let waiting = waiting.clone();
        async move { waiting.close(CloseMode::Silent).await }
    });
    // It cannot know yet whether there is a node.
    sleep(SESSION / 4).await;
    assert!(!closing.is_finished());
    slow.release();
    assert_eq!(timeout(A_MOMENT, closing).await.unwrap().unwrap(), Ok(()));
    assert_eq!(candidates(&stage, PATH).len(), 1);
    leadership.resign().await.unwrap();
    leads(&mut leader.watch_state()).await;
}

#[history]
async fn it_has_failed_since_the_first_of_its_consecutive_failures(stage: Stage) {
    let client = stage.client(0).await;
    // Fails but for the fourth time; so each failure can be seen before the next term.
    let terms = Arc::new(AtomicUsize::new(0));
    let counted = terms.clone();
    let selector = LeaderSelector::start(&client, PATH, LeaderOptions::new(), move |leadership| {
        let is_good = counted.fetch_add(1, SeqCst) == 3;
        async move {
            if is_good {
                leadership.resign_requested().await;
                return Ok(());
            }
            Err("no disk")
        }
    })
    .unwrap();
    let mut since = Vec::new();
    for term in 1..=5 {
        until(|| terms.load(SeqCst) >= term).await;
        assert_eq!(terms.load(SeqCst), term);
        if term == 4 {
            becomes(LeaderRole::Leader, || selector.health().role).await;
            selector.interrupt_leadership();
        } else {
            becomes(LeaderRole::Failed, || selector.health().role).await;
            since.push(selector.health().since);
        }
    }
    assert_eq!((since[0], since[0]), (since[1], since[2]));
    assert!(since[3] > since[2], "there was a term without a failure before");
}

#[history]
async fn who_fails_and_is_not_eligible_shows_that(stage: Stage) {
    let client = stage.client(0).await;
    let eligible = watch::Sender::new(true);
    let options = LeaderOptions::new().eligible_while(eligible.subscribe());
    // Nobody may enter: the pauses grow.
    make(&client.zookeeper().await.unwrap(), PATH, Permission::READ).await;
    let latch = LeaderLatch::start(&client, PATH, options).unwrap();
    for _ in 0..3 {
        becomes(LeaderRole::Failed, || latch.health().role).await;
        eligible.send_replace(false);
        becomes(LeaderRole::Ineligible, || latch.health().role).await;
        eligible.send_replace(true);
    }
    becomes(LeaderRole::Failed, || latch.health().role).await;
}

#[history]
async fn probes_see_the_connection(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let health = client.health();
    assert!(health.is_connected() && health.connection.is_connected(), "{health:?}");
    assert_eq!((health.disconnected_since, health.valid_for), (None, None));

    let latch = latch(&client);
    within(latch.await_leadership()).await.unwrap();
    let leads = latch.health();
    assert_eq!(leads.role, LeaderRole::Leader);
    let left = client.health().valid_for.expect("it holds something");
    assert!(Duration::ZERO < left && left <= SESSION, "{left:?}");

    proxy.cut_off();
    let mut connection = client.watch_connection();
    within(connection.wait_for(|state| !state.is_connected())).await.unwrap();
    let cut = client.health();
    assert!(!cut.is_connected());
    assert_eq!(cut.connection, ConnectionState::Suspended);
    assert!(cut.disconnected_since.unwrap() >= leads.since);
    within(latch.watch_state().wait_for(|state| !state.is_leading())).await.unwrap();
    assert_ne!(latch.health().role, LeaderRole::Leader);
    let lapsed = client.health();
    assert_eq!(lapsed.disconnected_since, cut.disconnected_since, "it is stuck since then");
    assert!(latch.health().since >= cut.disconnected_since.unwrap());

    proxy.refuse_connections(false);
    within(connection.wait_for(|state| state.is_connected())).await.unwrap();
    assert!(client.health().is_connected());
    within(latch.await_leadership()).await.unwrap();
    client.close().await;
    assert!(!client.health().is_connected());
    assert_eq!(client.health().connection, ConnectionState::Closed);
}

// --- Work ---

/// A latch that leads, and gives work so much time to end.
async fn leading(client: &Client, grace: Duration) -> (LeaderLatch, Leadership) {
    let latch = LeaderLatch::start(client, PATH, LeaderOptions::new().grace(grace)).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    (latch, leadership)
}

#[history]
async fn work_is_waited_for_and_then_stopped(stage: Stage) {
    const GRACE: Duration = secs(1);
    let client = stage.client(0).await;
    let (_latch, leadership) = leading(&client, GRACE).await;
    let [worker, polite] = [leadership.clone(), leadership.clone()];
    let endless = tokio::spawn(async move { worker.run(std::future::pending::<()>()).await });
    let polite = tokio::spawn(async move {
        let working = async {
            polite.resign_requested().await;
            assert!(polite.is_valid());
        };
        polite.run(working).await
    });
    sleep(A_MOMENT).await;
    took(GRACE, leadership.resign()).await.unwrap();
    within(polite).await.unwrap().unwrap();
    let stopped = within(endless).await.unwrap();
    assert!(matches!(stopped, Err(Error::LockLost { reason: LossReason::Resigned, .. })), "{stopped:?}");
    assert!(matches!(leadership.run(async {}).await, Err(Error::LockLost { .. })));
}

#[history]
async fn work_that_nobody_polls_does_not_keep_the_leadership(stage: Stage) {
    let client = stage.client(0).await;
    let (_latch, leadership) = leading(&client, ms(20)).await;
    let steps = Cell::new(0);
    let mut idle = Box::pin(leadership.run(std::future::poll_fn(|context| {
        steps.set(steps.get() + 1);
        context.waker().wake_by_ref();
        std::task::Poll::<()>::Pending
    })));
    assert!(poll_once(&mut idle).is_pending());
    within(leadership.resign()).await.unwrap();
    assert_eq!(leadership.loss(), Some(LossReason::Resigned));
    // It is not polled any more by whoever polls it late.
    assert!(matches!(within(&mut idle).await, Err(Error::LockLost { reason: LossReason::Resigned, .. })));
    drop(idle);
    assert_eq!(steps.get(), 1);
}

#[history]
async fn nothing_that_was_waited_for_is_lost(stage: Stage) {
    const MESSAGES: usize = 100;
    let client = stage.client(0).await;
    let latch = latch(&client);
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        for message in 0..MESSAGES {
            tell.send(message).await.unwrap();
            sleep(ms(1)).await;
        }
    });
    let (mut received, mut terms) = (Vec::new(), 0);
    while received.len() < MESSAGES {
        let leadership = within(latch.await_leadership()).await.unwrap();
        terms += 1;
        let term = leadership.clone();
        let resigning = tokio::spawn(async move {
            sleep(ms(10)).await;
            term.resign().await
        });
        let working = leadership.run(async {
            while let Some(Some(message)) = leadership.until_resigning(told.recv()).await {
                received.push(message);
                // A wait that is given up, and goes on later, loses nothing either.
                let endless = leadership.until_resigning(std::future::pending::<()>());
                let _ = timeout(Duration::ZERO, endless).await;
            }
        });
        working.await.unwrap();
        within(resigning).await.unwrap().unwrap();
    }
    assert!(terms > 2, "{terms}");
    assert_eq!(received, (0..MESSAGES).collect::<Vec<_>>());
}

#[history]
async fn a_resignation_that_nobody_waits_for_is_one_all_the_same(stage: Stage) {
    let [one, two] = stage.clients().await;
    let (_first, leadership) = leading(&one, SESSION).await;
    let second = latch(&two);
    sleep(A_MOMENT).await;
    assert!(poll_once(&mut Box::pin(leadership.resign())).is_pending());
    let next = within(second.await_leadership()).await.unwrap();
    // Who waits later hears the same.
    assert_eq!(within(leadership.resign()).await, Ok(()));
    // It lives on in the handles of a latch that is gone.
    drop(second);
    assert_eq!(within(next.lost()).await, LossReason::Resigned);
}
