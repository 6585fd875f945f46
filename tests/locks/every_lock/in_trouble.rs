//! Locks of every kind whose servers, sessions, nodes or replies are lost.

use super::*;

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
