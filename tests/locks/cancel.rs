//! What is dropped before it was polled or before the server did it: no node and no watch stays, while the session
//! lives. Each await of each operation is in `cancel_matrix`.

use std::time::Duration;

use crate::support::*;
use zk_recipes::{Client, InterProcessMutex, Owner};
use zookeeper_client as zk;

/// A server, a client that is cancelled, one that holds, and a bystander who looks.
struct Scene {
    server: PooledServer,
    cancelled: Client,
    holder: Client,
    bystander: zk::Client,
}

async fn scene() -> Scene {
    let server = empty_server().await;
    let cancelled = connect(&server).await;
    let holder = connect(&server).await;
    let bystander = zk::Client::connect(&server.connect_string()).await.unwrap();
    Scene { server, cancelled, holder, bystander }
}

impl Scene {
    fn mutex_at(&self, path: &str) -> InterProcessMutex {
        InterProcessMutex::new(&self.cancelled, path).unwrap()
    }

    async fn assert_nothing_left(&self, path: &str) {
        assert_nothing_left(&self.server, &self.bystander, path).await;
    }

    /// The session must have lived all the time: otherwise its end did the work.
    async fn assert_session_lives(&self, session: i64) {
        assert_eq!(session_id(&self.cancelled).await, session);
    }
}

#[tokio::test]
async fn requests_under_way_when_dropped_are_undone() {
    let scene = scene().await;
    let session = session_id(&scene.cancelled).await;
    let mutex = scene.mutex_at("/locks/a");
    mutex.acquire().await.unwrap().release().await.unwrap();
    // The server answers nothing, but what was sent before it fell silent is done when it wakes.
    for round in 0..3 {
        scene.server.pause().unwrap();
        match round {
            0 => assert!(poll_times(mutex.acquire(), 1).await.is_none()),
            1 => assert!(poll_times(mutex.enqueue(), 1).await.is_none()),
            _ => assert!(poll_times(mutex.try_acquire(), 1).await.is_none()),
        }
        scene.server.resume().unwrap();
        // The bystander's list is answered after the creates that came before it.
        eventually("the create was carried out and undone", || async {
            let (children, stat) = scene.bystander.get_children("/locks/a").await.unwrap();
            (children.is_empty() && stat.cversion > 2 + 2 * round).then_some(())
        })
        .await;
        scene.assert_nothing_left("/locks/a").await;
    }
    scene.assert_session_lives(session).await;
}

#[tokio::test]
async fn tickets_and_guards_dropped_and_releases_cancelled() {
    let scene = scene().await;
    let session = session_id(&scene.cancelled).await;
    let mutex = scene.mutex_at("/locks/a");

    drop(mutex.enqueue().await.unwrap());
    scene.assert_nothing_left("/locks/a").await;

    drop(mutex.acquire().await.unwrap());
    scene.assert_nothing_left("/locks/a").await;

    let guard = mutex.acquire().await.unwrap();
    assert!(poll_times(guard.release(), 1).await.is_none(), "it takes a round trip");
    scene.assert_nothing_left("/locks/a").await;

    // Never polled: nothing was sent, and the guard inside is dropped.
    let guard = mutex.acquire().await.unwrap();
    drop(guard.release());
    scene.assert_nothing_left("/locks/a").await;

    let held = crate::support::mutex(&scene.holder).acquire().await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    let followed = ticket.watch_position();
    assert!(tokio::time::timeout(Duration::from_millis(100), ticket.acquired()).await.is_err());
    queue_of(&scene.bystander, "/locks/a", 1).await;
    drop((held, followed));
    scene.assert_nothing_left("/locks/a").await;
    scene.assert_session_lives(session).await;
}

/// Those behind it in the line watch nothing but the line.
#[tokio::test]
async fn an_acquire_that_is_polled_no_more_and_deleted_keeps_nobody_waiting() {
    let scene = scene().await;
    let mutex = scene.mutex_at("/locks/a");
    let held = crate::support::mutex(&scene.holder).acquire().await.unwrap();
    let owner = Owner::new();
    let of_owner = mutex.owned_by(&owner);
    let mut forgotten = Box::pin(of_owner.acquire());
    let entering = tokio::time::timeout(BOUND, async {
        tokio::select! {
            _ = &mut forgotten => panic!("it is held"),
            () = watches_of(&scene.server, 1) => {}
        }
    });
    entering.await.unwrap();
    let nodes = queue_of(&scene.bystander, "/locks/a", 2).await;
    let node = nodes.into_iter().find(|node| !held.node_path().ends_with(node)).unwrap();
    let behind = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.owned_by(&Owner::new()).acquire().await }
    });
    watches_of(&scene.server, 2).await;
    scene.bystander.delete(&format!("/locks/a/{node}"), None).await.unwrap();
    held.release().await.unwrap();
    let guard = tokio::time::timeout(Duration::from_secs(10), behind).await.expect("it waits in vain");
    let guard = guard.unwrap().unwrap();
    assert!(guard.is_valid());
    // Polled again, it waits for its turn at the end of the queue.
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut forgotten).await.is_err());
    queue_of(&scene.bystander, "/locks/a", 2).await;
    guard.release().await.unwrap();
    drop(within(forgotten).await.unwrap());
    scene.assert_nothing_left("/locks/a").await;
}
