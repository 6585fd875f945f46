//! Replies that are lost with their connections, and strangers that look like what is in doubt then.

use super::prelude::*;

#[history]
async fn a_lost_create_reply_is_found_again_and_not_doubled(stage: Stage) {
    let servers = stage.servers();
    let (proxy, client) = stage.far(session).await;
    let other = stage.connect(1, session).await;
    let session = session_id(&client).await;
    let lock = mutex(&client);
    visit(&lock).await;

    // Nobody else in the queue.
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let guard = within(lock.acquire()).await.unwrap();
    within(lost.happened()).await;
    assert_eq!(guard.fencing_token(), servers.node(guard.node_path()).unwrap().czxid);
    assert_eq!(nodes(servers, PATH), [guard.node_path()], "one node for one acquire");
    assert_eq!(number(guard.node_path()), 1, "created once, not deleted and created again");
    guard.release().await.unwrap();

    // Behind another.
    let held = mutex(&other).acquire().await.unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let waiting = waiter(&lock).await;
    within(lost.happened()).await;
    state_is(&client, ConnectionState::Reconnected).await;
    sleep(A_MOMENT).await;
    assert_eq!(nodes(servers, PATH).len(), 2);
    held.release().await.unwrap();
    let guard = granted(waiting).await;
    assert_eq!(number(guard.node_path()), 3);
    guard.release().await.unwrap();
    nothing_is_left(servers).await;
    assert_eq!(session_id(&client).await, session);
}

/// Servers that do not list the nodes of a session, and hang up on whoever asks for that. Among three, the refusal
/// overtakes the reply to what was written before.
async fn of_version_3_5(stage: &Stage, servers: usize) -> (MemoryEnsemble, Proxy) {
    apart(stage, MemoryEnsemble::builder().servers(servers).version(MemoryVersion::V3_5), "10.2.0.1:2181")
        .await
}

#[history(1, 3)]
async fn lost_replies_are_settled_on_zookeeper_3_5(stage: Stage, servers: usize) {
    let (servers, proxy) = of_version_3_5(&stage, servers).await;
    let client = proxy.client(session).await;
    let lock = mutex(&client);
    visit(&lock).await;
    for is_given_up in [false, true, false] {
        let lost = proxy.intercept(Request::Create, Fate::LoseReply);
        let waiting = waiter(&lock).await;
        within(lost.happened()).await;
        if is_given_up {
            waiting.abort();
            drop(waiting.await);
            sleep(SOON).await;
        } else {
            let guard = granted(waiting).await;
            assert_eq!(nodes(&servers, PATH), [guard.node_path()], "one node for one acquire");
            guard.release().await.unwrap();
        }
        nothing_is_left(&servers).await;
    }
}

/// One of two queues in which creates were given up may no longer be read.
#[history]
async fn a_queue_that_may_not_be_read_hides_no_lost_create_in_another_on_zookeeper_3_5(stage: Stage) {
    const PATHS: [&str; 2] = ["/locks/hidden", "/locks/open"];
    let (servers, proxy) = of_version_3_5(&stage, 1).await;
    let client = proxy.client(session).await;
    let locks = PATHS.map(|path| mutex_at(&client, path));
    for lock in &locks {
        visit(lock).await;
    }
    let create_only = Acl::new(Permission::CREATE, AuthId::anyone());
    client.zookeeper().await.unwrap().set_acl(PATHS[0], &[create_only], None).await.unwrap();
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiting = locks.each_ref().map(acquiring);
    for path in PATHS {
        queue_of(&servers, path, 1).await;
    }
    waiting.iter().for_each(JoinHandle::abort);
    proxy.cut();
    proxy.set_traffic(Traffic::pass());
    sleep(SOON).await;
    assert_eq!(PATHS.map(|path| ephemerals(&servers, path).len()), [1, 0]);
}

#[history]
async fn an_adopted_session_connects_again_on_zookeeper_3_5(stage: Stage) {
    let (servers, proxy) = of_version_3_5(&stage, 3).await;
    let client = keep(Client::from_zookeeper(own_session(&proxy.address).await).unwrap());
    let guard = mutex(&client).acquire().await.unwrap();
    for _ in 0..3 {
        proxy.cut();
        sleep(SOON).await;
        state_is(&client, ConnectionState::Reconnected).await;
        assert!(guard.is_valid());
    }
    guard.release().await.unwrap();
    nothing_is_left(&servers).await;
}

/// The list that tells the position may be lost like any other; it is tried again on the next connection.
#[history]
async fn a_position_is_followed_on_after_a_lost_reply(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let other = stage.connect(1, session).await;
    let theirs = mutex(&other);
    let held = theirs.owned_by(&Owner::new()).acquire().await.unwrap();
    let mut before = Vec::new();
    for _ in 0..4 {
        before.push(theirs.owned_by(&Owner::new()).enqueue().await.unwrap());
    }
    let ticket = mutex(&client).enqueue().await.unwrap();
    let mut positions = ticket.watch_position();
    let waiting = tokio::spawn(ticket.acquired());
    sleep(A_MOMENT).await;
    assert_eq!(positions.get(), 5);

    // Far enough before the waiter that only its position changes.
    let lost = proxy.intercept(Request::GetChildren, Fate::LoseReply);
    drop(before.remove(0));
    within(lost.happened()).await;
    within(positions.wait_for(|position| *position == 4)).await.unwrap();
    drop(before.remove(0));
    within(positions.wait_for(|position| *position == 3)).await.unwrap();
    drop((before, held));
    granted(waiting).await.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

/// It watches nothing but the list by which it follows its position, so only that can fail with the connection.
#[history]
async fn a_waiter_that_may_not_read_its_node_follows_its_position_on_the_next_connection(stage: Stage) {
    let hidden = Acl::new(Permission::WRITE | Permission::DELETE, AuthId::anyone());
    let of_path = move |path: &str| path.contains("/_c_").then(|| vec![hidden.clone()]);
    let (proxy, client) = stage.far(|builder| session(builder).acl_for_path(of_path)).await;
    let other = stage.connect(1, session).await;
    // The ticket waits for the holder of its own client, so it watches no other node either.
    let held = mutex(&client).owned_by(&Owner::new()).acquire().await.unwrap();
    let between = mutex(&other).enqueue().await.unwrap();
    let ticket = mutex(&client).owned_by(&Owner::new()).enqueue().await.unwrap();
    let mut positions = ticket.watch_position();
    let waiting = tokio::spawn(ticket.acquired());
    sleep(A_MOMENT).await;
    assert_eq!(positions.get(), 2);
    let lost = proxy.intercept(Request::GetChildren, Fate::LoseReply);
    drop(between);
    within(lost.happened()).await;
    within(positions.wait_for(|position| *position == 1)).await.unwrap();
    held.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

/// Creates nodes that anybody may create who knows the names of those in the queue: by them, an id is not enough to
/// tell whose node it is.
fn create_twins(servers: &MemoryEnsemble, victim: &str) -> Vec<String> {
    let id = &victim[..victim.len() - "lock-0000000000".len()];
    let numbers = (1..20).map(|number| format!("lock-{number}"));
    let suffixes = numbers.chain(["lock-0000000000".into()]);
    let twins: Vec<_> = suffixes.map(|suffix| format!("{id}{suffix}")).collect();
    for twin in &twins {
        servers.create(twin, b"", false);
    }
    twins
}

#[history]
async fn a_stranger_with_the_id_of_a_lost_create_is_not_taken_for_it(stage: Stage) {
    let servers = stage.servers();
    let (proxy, victim) = stage.far(session).await;
    let other = stage.connect(1, session).await;
    let holder = mutex(&other);
    visit(&holder).await;
    let held = holder.acquire().await.unwrap();
    let lost = proxy.intercept(Request::Create, Fate::HoldReply);
    let waiting = waiter(&mutex(&victim)).await;
    within(lost.happened()).await;
    let queue = nodes(servers, PATH);
    assert_eq!((queue.len(), &*queue[0]), (2, held.node_path()));
    let twins = create_twins(servers, &queue[1]);
    // The reply is lost when all of them are there.
    proxy.cut();
    drop(lost);
    // It has found its own node when it watches one. That may be a twin: one of them is before all others.
    sleep(SOON).await;
    let is_waiting = |node: &String| *node == queue[1] || twins.contains(node);
    assert!(watched(servers).await.iter().any(is_waiting), "it waits");
    assert!(!waiting.is_finished(), "it is not the first");
    held.release().await.unwrap();
    sleep(A_MOMENT).await;
    for twin in &twins {
        assert!(servers.node(twin).is_some(), "they are left alone");
        servers.delete(twin);
    }
    let guard = granted(waiting).await;
    assert_eq!(guard.node_path(), queue[1]);
    guard.release().await.unwrap();
    nothing_is_left(servers).await;
}

/// It is deleted, and its name given to a stranger, right after it was found.
#[history]
async fn a_stranger_with_the_name_of_a_lost_create_is_not_taken_for_it(stage: Stage) {
    const LIST_OWN_NODES: Request = Request::Other(103);
    let servers = stage.servers();
    let (proxy, victim) = stage.far(session).await;
    visit(&mutex(&victim)).await;
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let found = proxy.intercept(LIST_OWN_NODES, Fate::HoldReply);
    let waiting = waiter(&mutex(&victim)).await;
    within(lost.happened()).await;
    within(found.happened()).await;
    let [own] = <[String; 1]>::try_from(nodes(servers, PATH)).unwrap();
    servers.delete(&own);
    servers.create(&own, b"", false);
    found.release();
    // It creates another, behind the stranger.
    sleep(SOON).await;
    assert_eq!(nodes(servers, PATH).len(), 2);
    assert!(!waiting.is_finished(), "it is not the first");
    assert!(servers.node(&own).is_some(), "it is left alone");
    servers.delete(&own);
    let guard = granted(waiting).await;
    assert_ne!(guard.node_path(), own);
    guard.release().await.unwrap();
    nothing_is_left(servers).await;
}

#[history]
async fn a_lost_create_that_nobody_waits_for_is_removed_and_strangers_with_its_id_are_not(stage: Stage) {
    let servers = stage.servers();
    let (proxy, victim) = stage.far(session).await;
    // A late reply names the node; without one it is looked for.
    for comes in [true, false] {
        visit(&mutex(&victim)).await;
        let lost = proxy.intercept(Request::Create, Fate::HoldReply);
        let cancelled = waiter(&mutex(&victim)).await;
        within(lost.happened()).await;
        let [own] = <[String; 1]>::try_from(nodes(servers, PATH)).unwrap();
        let mut twins = create_twins(servers, &own);
        cancelled.abort();
        if comes {
            lost.release();
        } else {
            proxy.cut();
            drop(lost);
        }
        sleep(SOON).await;
        let mut left = nodes(servers, PATH);
        left.sort();
        twins.sort();
        assert_eq!(left, twins, "a reply comes: {comes}");
        servers.delete(PATH);
    }
}

#[history]
async fn what_was_taken_is_told_also_if_the_reply_was_lost(stage: Stage) {
    let (proxy, operator, holder) = stage.far_and_near(session).await;
    let guard = mutex(&holder).acquire().await.unwrap();
    let lost = proxy.intercept(Request::Delete, Fate::LoseReply);
    let taken = within(operate::force_release(&operator, PATH)).await.unwrap();
    within(lost.happened()).await;
    assert_eq!((taken.len(), taken[0].node_path(), taken[0].is_holder()), (1, guard.node_path(), true));
    let path = guard.node_path().to_owned();
    let message = format!("the lock {path} was lost: its node was deleted; acquire it again");
    let error = guard.release().await.unwrap_err();
    assert_eq!(error, Error::LockLost { path, reason: LossReason::Deleted });
    assert_eq!(error.to_string(), message);
}
