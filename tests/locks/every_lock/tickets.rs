//! Tickets of each kind of lock that has them.

use super::*;

/// The kinds that have tickets.
const WITH_TICKETS: [Kind; 3] = [Kind::Mutex, Kind::Writer, Kind::Reader];

async fn each_kind_with_tickets(behaviour: impl AsyncFn(&Scene, Kind)) {
    each_kind(async |scene, kind| {
        if WITH_TICKETS.contains(&kind) {
            behaviour(scene, kind).await;
        }
    })
    .await;
}

async fn ticket_of(kind: Kind, client: &Client) -> Ticket {
    let path = kind.path();
    let read_write = || ReadWriteLock::new(client, &path).unwrap();
    let ticket = match kind {
        Kind::Mutex => within(InterProcessMutex::new(client, &path).unwrap().enqueue()).await,
        Kind::Writer => within(read_write().write().enqueue()).await,
        Kind::Reader => within(read_write().read().enqueue()).await,
        other => panic!("{other:?} has no tickets"),
    };
    ticket.unwrap()
}

#[tokio::test]
async fn a_ticket_keeps_its_place_while_nobody_awaits_it() {
    each_kind_with_tickets(async |scene, kind| {
        let [holder, one, two, ..] = &scene.clients;
        let held = scene.occupy(kind, holder).await;
        let ticket = ticket_of(kind, one).await;
        let behind = waiter(kind.lock(two));
        scene.nodes_of(kind, two).await;
        release(held).await;
        within(async { while within(ticket.position()).await.unwrap() > 0 {} }).await;
        let mut position = ticket.watch_position();
        let guard = within(ticket.acquired()).await.unwrap();
        assert_eq!(position.changed().await, Some(0));
        assert_eq!(position.changed().await, None, "nobody waits any more");
        scene.assert_holds(one, std::slice::from_ref(&guard)).await;
        if kind.is_shared() {
            release([granted(behind).await]).await;
            release([guard]).await;
        } else {
            let token = guard.fencing_token();
            assert!(!behind.is_finished());
            release([guard]).await;
            let next = granted(behind).await;
            assert!(next.fencing_token() > token);
            release([next]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_ticket_whose_nodes_or_session_are_gone_gets_another_turn() {
    each_kind_with_tickets(async |scene, kind| {
        let [holder, one, ..] = &scene.clients;
        for is_free in [true, false] {
            for is_killed in [false, true] {
                let held = if is_free { Vec::new() } else { scene.occupy(kind, holder).await };
                let ticket = ticket_of(kind, one).await;
                let nodes = scene.nodes_of(kind, one).await;
                if is_killed {
                    kill_session(one).await.unwrap();
                    eventually("the nodes of the session are gone", async || {
                        let now = scene.nodes(kind).await;
                        nodes.iter().all(|node| !now.iter().any(|(path, _)| path == node)).then_some(())
                    })
                    .await;
                } else {
                    for node in nodes {
                        scene.zookeeper.delete(&node, None).await.unwrap();
                    }
                }
                release(held).await;
                let guard = within(ticket.acquired()).await.unwrap();
                scene.assert_holds(one, std::slice::from_ref(&guard)).await;
                release([guard]).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_idle_ticket_whose_nodes_are_deleted_is_in_nobodys_way() {
    each_kind_with_tickets(async |scene, kind| {
        let [holder, one, ..] = &scene.clients;
        let held = scene.occupy(kind, holder).await;
        let ticket = ticket_of(kind, one).await;
        let nodes = scene.nodes_of(kind, one).await;
        // It stands behind the ticket in the same client, and watches nothing but that.
        let behind = waiter(kind.lock(one));
        eventually("it waits", async || (scene.nodes_of(kind, one).await.len() > nodes.len()).then_some(()))
            .await;
        for node in nodes {
            let _ = scene.zookeeper.delete(&node, None).await;
        }
        release(held).await;
        let guard = granted(behind).await;
        drop(ticket);
        release([guard]).await;
    })
    .await;
}
