//! Locks of every kind whose servers, sessions, nodes or replies are lost.

use super::*;

#[tokio::test]
async fn an_outage_longer_than_the_policy_is_an_error() {
    let mut server = empty_server().await;
    let client = Client::builder()
        .connection_timeout(Duration::from_millis(300))
        .retry_policy(RetryPolicy::one_time(Duration::from_millis(10)))
        .connect_lazily(&server.connect_string())
        .unwrap();
    state_is(&client, ConnectionState::Connected).await;
    server.kill().await.unwrap();
    state_is(&client, ConnectionState::Suspended).await;
    let outages = Kind::ALL.map(|kind| {
        let lock = kind.lock(&client);
        async move {
            let errors = [
                within(lock.acquire()).map(|acquired| acquired.unwrap_err()).boxed(),
                within(lock.try_acquire()).map(|tried| tried.unwrap_err()).boxed(),
                within(lock.is_locked()).map(|seen| seen.unwrap_err()).boxed(),
                within(lock.holder()).map(|seen| seen.unwrap_err()).boxed(),
            ];
            for error in join_all(errors).await {
                assert!(matches!(error, Error::NotConnected { .. }), "{kind:?}: {error}");
            }
        }
    });
    join_all(outages).await;
}

/// No outage ends it before that.
#[tokio::test]
async fn a_wait_ends_under_the_policy_when_its_session_is_over() {
    let mut server = empty_server().await;
    let holder = connect(&server).await;
    let builder = Client::builder()
        .session_timeout(Duration::from_secs(2))
        .connection_timeout(Duration::from_millis(300))
        .retry_policy(RetryPolicy::n_times(2, Duration::from_millis(10)));
    let client = connected(builder, &server.connect_string()).await;
    let mut waiters = Vec::new();
    for kind in Kind::ALL {
        let held = kind.occupy(&holder).await;
        let before = watches(&server).await;
        let lock = kind.lock(&client);
        let waiter = tokio::spawn(async move { lock.acquire().await });
        // It waits in its queue, and has the watches that wake it.
        eventually("it waits", || async { (watches(&server).await > before).then_some(()) }).await;
        waiters.push((kind, waiter, held));
    }
    // Its reply comes behind theirs.
    client.zookeeper().await.unwrap().sync("/").await.unwrap();
    server.kill().await.unwrap();
    state_is(&client, ConnectionState::Suspended).await;
    assert!(waiters.iter().all(|(_, waiter, _)| !waiter.is_finished()), "their session lives");
    for (kind, waiter, _held) in waiters {
        let error = within(waiter).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::NotConnected { .. }), "{kind:?}: {error}");
    }
}

async fn state_is(client: &Client, wanted: ConnectionState) {
    within(client.watch_connection().wait_for(|state| *state == wanted)).await.unwrap();
}

/// Waits for those who wait in this order, and sees that they get the lock in this order.
async fn granted_in_order(scene: &Scene, line: [(&Client, JoinHandle<Vec<LockGuard>>); 2]) {
    let [(client, first), (other, second)] = line;
    let guards = within(first).await.unwrap();
    scene.assert_holds(client, &guards).await;
    assert!(!second.is_finished());
    let token = guards[0].fencing_token();
    release(guards).await;
    let guards = within(second).await.unwrap();
    scene.assert_holds(other, &guards).await;
    assert!(guards[0].fencing_token() > token);
    release(guards).await;
}

#[tokio::test]
async fn a_waiter_keeps_its_place_over_a_restart_of_the_server() {
    let mut scene = Scene::with_long_sessions().await;
    let clients = scene.clients.clone();
    let [holder, second, third, ..] = &clients;
    let mut waiting = Vec::new();
    for kind in Kind::ALL {
        waiting.push((kind, kind.occupy(holder).await, tokio::spawn(take(kind.lock(second)))));
    }
    let in_line = Kind::ALL.len() as u64;
    scene.parked(in_line).await;
    let behind = Kind::ALL.map(|kind| tokio::spawn(kind.take_all(third.clone())));
    scene.parked(2 * in_line).await;
    let before = join_all(Kind::ALL.map(|kind| scene.nodes(kind))).await;
    scene.server.kill().await.unwrap();
    for client in [holder, second, third] {
        state_is(client, ConnectionState::Suspended).await;
    }
    scene.server.restart().await.unwrap();
    for (((kind, held, waiter), behind), before) in waiting.into_iter().zip(behind).zip(before) {
        println!("{kind:?}");
        assert_eq!(scene.nodes(kind).await, before);
        release(held).await;
        granted_in_order(&scene, [(second, waiter), (third, behind)]).await;
        scene.nodes_are(kind, &[]).await;
    }
    scene.parked(0).await;
}

#[tokio::test]
async fn a_release_while_the_server_is_down_is_done_when_it_is_back() {
    let mut scene = Scene::start().await;
    let client = scene.clients[0].clone();
    let session = session_id(&client).await;
    let mut guards = Vec::new();
    for kind in Kind::ALL {
        // One to be released, and one to be dropped.
        for path in [kind.path(), format!("{}/second", kind.root())] {
            guards.push(acquired(&kind.lock_at(&client, &path)).await);
        }
    }
    scene.server.kill().await.unwrap();
    state_is(&client, ConnectionState::Suspended).await;
    let mut releases = JoinSet::new();
    for (number, guard) in guards.into_iter().enumerate() {
        if number % 2 == 0 {
            releases.spawn(release([guard]));
        } else {
            drop(guard);
        }
    }
    scene.server.restart().await.unwrap();
    within(releases.join_all()).await;
    for kind in Kind::ALL {
        scene.nodes_are(kind, &[]).await;
    }
    assert_eq!(session_id(&client).await, session, "the session did not end instead");
}

#[tokio::test]
async fn a_waiter_whose_session_is_killed_queues_again_on_the_new_one() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, killed, third, ..] = &scene.clients;
        let held = kind.occupy(holder).await;
        let waiter = tokio::spawn(take(kind.lock(killed)));
        scene.parked(1).await;
        let behind = tokio::spawn(kind.take_all(third.clone()));
        scene.parked(2).await;
        let session = session_id(killed).await;
        kill_session(killed).await.unwrap();
        eventually("a new session", async || (session_id(killed).await != session).then_some(())).await;
        scene.nodes_of(kind, killed).await;
        release(held).await;
        granted_in_order(scene, [(third, behind), (killed, waiter)]).await;
    })
    .await;
}

#[tokio::test]
async fn a_holder_whose_session_is_killed_has_lost_the_lock() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [killed, other, ..] = &scene.clients;
        for waits in [true, false] {
            let guard = acquired(&kind.lock(killed)).await;
            let parts = parts(&guard).len();
            kill_session(killed).await.unwrap();
            let others = within(kind.take_all(other.clone())).await;
            assert!(others[0].fencing_token() > guard.fencing_token());
            if waits {
                eventually("the loss is known", async || guard.loss()).await;
            }
            assert_eq!(losses(guard).await, vec![LossReason::Expired; parts]);
            // Its client is free to wait for those who have it now.
            let again = waiter(kind.lock(killed));
            scene.parked(1).await;
            scene.assert_holds(other, &others).await;
            release(others).await;
            release([granted(again).await]).await;
        }
    })
    .await;
}

/// A server that comes back after a long outage gives old sessions their time again.
#[tokio::test]
async fn the_nodes_of_an_old_session_are_never_granted() {
    let mut scene = Scene::start().await;
    let short = Client::builder().session_timeout(Duration::from_secs(2));
    let client = short.connect(&scene.server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let mut old = Vec::new();
    for kind in Kind::ALL {
        old.push(acquired(&kind.lock(&client)).await);
    }
    scene.server.kill().await.unwrap();
    state_is(&client, ConnectionState::Lost).await;
    scene.server.restart().await.unwrap();
    let again = Kind::ALL.map(|kind| tokio::spawn(kind.take_all(client.clone())));
    for ((kind, old), again) in Kind::ALL.into_iter().zip(old).zip(again) {
        let guards = within(again).await.unwrap();
        let nodes = scene.nodes(kind).await;
        assert!(nodes.iter().all(|(_, owner)| *owner != session), "{kind:?}: {nodes:?}");
        scene.assert_holds(&client, &guards).await;
        assert!(guards[0].fencing_token() > old.fencing_token(), "{kind:?}");
        let parts = parts(&old).len();
        assert_eq!(losses(old).await, vec![LossReason::Expired; parts], "{kind:?}");
        release(guards).await;
        scene.nodes_are(kind, &[]).await;
    }
    scene.parked(0).await;
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_queues_again() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, evicted, third, ..] = &scene.clients;
        for deleted in 0.. {
            let held = kind.occupy(holder).await;
            let waiter = tokio::spawn(take(kind.lock(evicted)));
            scene.parked(1).await;
            let behind = tokio::spawn(kind.take_all(third.clone()));
            scene.parked(2).await;
            let nodes = scene.nodes_of(kind, evicted).await;
            let Some(node) = nodes.get(deleted) else {
                release(held).await;
                return granted_in_order(scene, [(evicted, waiter), (third, behind)]).await;
            };
            scene.evict(kind, evicted, node).await;
            release(held).await;
            let (waiter, behind) = ((evicted, waiter), (third, behind));
            // Who takes one member after the other keeps those it has, and queues again for the last.
            if kind == Kind::LastOfMixed && node.starts_with(&kind.last_path()) {
                granted_in_order(scene, [waiter, behind]).await;
            } else {
                granted_in_order(scene, [behind, waiter]).await;
            }
        }
    })
    .await;
}

/// More often than the retry policy allows in a row: each time it has waited in the queue again.
#[tokio::test]
async fn a_wait_goes_on_however_often_the_place_is_lost() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, evicted, ..] = &scene.clients;
        let held = scene.occupy(kind, holder).await;
        let waiter = waiter(kind.lock(evicted));
        for _ in 0..5 {
            scene.parked(1).await;
            let node = scene.nodes_of(kind, evicted).await.pop().unwrap();
            scene.evict(kind, evicted, &node).await;
            assert!(!waiter.is_finished(), "it has given up");
        }
        scene.parked(1).await;
        release(held).await;
        release([granted(waiter).await]).await;
    })
    .await;
}

/// Who is before somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// A holder of another client.
    Holder,
    /// The same, and one of a third client that waits.
    HolderAndWaiter,
    /// A holder of its own client.
    OwnHolder,
    /// A holder of another client, and one of its own that waits.
    HolderAndOwnWaiter,
}

impl Before {
    const ALL: [Self; 4] = [Self::Holder, Self::HolderAndWaiter, Self::OwnHolder, Self::HolderAndOwnWaiter];
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_is_not_overtaken_by_those_who_come_later() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [other, evicted, third, late, _] = &scene.clients;
        for before in Before::ALL {
            let holder = if before == Before::OwnHolder { evicted } else { other };
            let held = kind.occupy(holder).await;
            let first = match before {
                Before::Holder | Before::OwnHolder => None,
                Before::HolderAndWaiter => Some(third),
                Before::HolderAndOwnWaiter => Some(evicted),
            };
            let first = first.map(|client| (client, tokio::spawn(kind.take_all(client.clone()))));
            scene.parked(u64::from(first.is_some())).await;
            let others = scene.nodes(kind).await;
            let waiter = tokio::spawn(take(kind.lock(evicted)));
            scene.parked(u64::from(first.is_some()) + 1).await;
            let mut nodes = scene.nodes(kind).await.into_iter();
            let (node, _) = nodes.rfind(|node| !others.contains(node)).unwrap();
            scene.evict(kind, evicted, &node).await;
            let behind = tokio::spawn(kind.take_all(late.clone()));
            scene.parked(u64::from(first.is_some()) + 2).await;
            release(held).await;
            if let Some((client, first)) = first {
                let guards = within(first).await.unwrap();
                scene.assert_holds(client, &guards).await;
                release(guards).await;
            }
            granted_in_order(scene, [(evicted, waiter), (late, behind)]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_holder_whose_node_is_deleted_has_lost_the_lock() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, other, ..] = &scene.clients;
        let lock = kind.lock(holder);
        let guard = acquired(&lock).await;
        for part in parts(&guard) {
            scene.zookeeper.delete(part.node_path(), None).await.unwrap();
        }
        let others = within(kind.take_all(other.clone())).await;
        let parts_lost = vec![LossReason::Deleted; parts(&guard).len()];
        assert_eq!(losses(guard).await, parts_lost);
        scene.assert_holds(other, &others).await;
        release(others).await;
        // What is left of it is released.
        let guard = acquired(&lock).await;
        scene.zookeeper.delete(parts(&guard)[0].node_path(), None).await.unwrap();
        assert_eq!(losses(guard).await, [LossReason::Deleted]);
    })
    .await;
}

#[tokio::test]
async fn a_wait_goes_on_when_all_paths_are_deleted() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, client, ..] = &scene.clients;
        let held = kind.occupy(holder).await;
        let waiter = waiter(kind.lock(client));
        scene.parked(1).await;
        let mut nodes = nodes_below(&scene.zookeeper, &kind.root()).await;
        // From the back of the queue, so that the waiter does not have its turn for a moment.
        nodes.sort_by_key(|(path, stat)| (path.matches('/').count(), stat.czxid));
        let mut deletes = scene.zookeeper.new_multi_writer();
        for (path, _) in nodes.iter().rev() {
            deletes.add_delete(path, None).unwrap();
        }
        deletes.commit().await.unwrap();
        let guard = granted(waiter).await;
        scene.assert_holds(client, std::slice::from_ref(&guard)).await;
        for lost in held {
            assert_eq!(losses(lost).await.last(), Some(&LossReason::Deleted));
        }
        release([guard]).await;
    })
    .await;
}

#[tokio::test]
async fn paths_that_vanish_are_made_again() {
    let server = Server::builder();
    let server = server.container_check_interval(Duration::from_millis(20)).start().await.unwrap();
    let client = connect(&server).await;
    let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
    for kind in Kind::ALL {
        // While the server removes them all the time, and then when it has.
        for acquires in [20, 1] {
            for _ in 0..acquires {
                release(take(kind.lock(&client)).await).await;
            }
            eventually("the paths are gone", async || {
                nodes_below(&zookeeper, &kind.root()).await.is_empty().then_some(())
            })
            .await;
        }
    }
}

/// A client that tries again often enough, since it loses its connection often.
async fn connect_patiently_through(proxy: &FaultProxy) -> Client {
    Client::builder()
        .session_timeout(Duration::from_secs(10))
        .retry_policy(RetryPolicy::n_times(100, Duration::from_millis(5)))
        .connect(&proxy.connect_string())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_lost_reply_is_neither_doubled_nor_left_behind() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let proxy = FaultProxy::start(scene.server.connect_string()).await.unwrap();
        let client = connect_patiently_through(&proxy).await;
        let session = session_id(&client).await;
        let lock = kind.lock(&client);
        release([acquired(&lock).await]).await;
        for request in kind.creates() {
            // Nobody before it.
            let lost = proxy.intercept(*request, Fate::LoseReply);
            let guard = acquired(&lock).await;
            within(lost.happened()).await;
            scene.only_holds(kind, &client, std::slice::from_ref(&guard)).await;
            release([guard]).await;

            // Behind another.
            let held = kind.occupy(&scene.clients[0]).await;
            let lost = proxy.intercept(*request, Fate::LoseReply);
            let waiting = waiter(lock.clone());
            scene.parked(1).await;
            release(held).await;
            let guard = granted(waiting).await;
            within(lost.happened()).await;
            scene.assert_holds(&client, std::slice::from_ref(&guard)).await;
            release([guard]).await;

            // Given up with the reply still lost.
            let lost = proxy.intercept(*request, Fate::LoseReply);
            let waiting = waiter(lock.clone());
            within(lost.happened()).await;
            waiting.abort();
            drop(waiting.await);
            scene.assert_nothing_left(kind).await;
        }
        // Of the release, awaited or not.
        for awaited in [true, false] {
            let guard = acquired(&lock).await;
            scene.only_holds(kind, &client, std::slice::from_ref(&guard)).await;
            let lost = proxy.intercept(kind.delete(), Fate::LoseReply);
            if awaited {
                release([guard]).await;
            } else {
                drop(guard);
            }
            within(lost.happened()).await;
            scene.assert_nothing_left(kind).await;
        }
        assert_eq!(session_id(&client).await, session, "the session must have lived all the time");
    })
    .await;
}
