//! Whatever is dropped at whichever await: no node and no watch stays, while the session lives.

mod support;

use std::time::Duration;

use support::*;
use zk_recipes::testing::TestingServer;
use zk_recipes::{Client, InterProcessMutex};
use zookeeper_client as zk;

/// A server, a client that is cancelled, one that holds, and a bystander who looks.
struct Scene {
    server: TestingServer,
    cancelled: Client,
    holder: Client,
    bystander: zk::Client,
}

async fn scene() -> Scene {
    let server = TestingServer::start().await.unwrap();
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

/// Drops an acquire at its first await, the next one at its second, until one is done before it is dropped.
/// Answers how many awaits there were.
async fn drop_at_each_await(scene: &Scene, path: impl Fn(usize) -> String) -> usize {
    let session = session_id(&scene.cancelled).await;
    let mut awaits = 0;
    loop {
        awaits += 1;
        let path = path(awaits);
        let mutex = scene.mutex_at(&path);
        let acquired = poll_times(mutex.acquire(), awaits).await;
        let done = acquired.is_some();
        drop(acquired);
        scene.assert_nothing_left(&path).await;
        let next = within(mutex.acquire()).await.unwrap();
        next.release().await.unwrap();
        if done {
            scene.assert_session_lives(session).await;
            return awaits;
        }
    }
}

#[tokio::test]
async fn acquire_dropped_at_each_await_on_a_new_path() {
    // Each time the parents are missing, too.
    let awaits = drop_at_each_await(&scene().await, |awaits| format!("/new/{awaits}/a")).await;
    assert!(awaits > 2, "{awaits} awaits");
}

#[tokio::test]
async fn acquire_dropped_at_each_await_on_a_used_path() {
    let scene = scene().await;
    scene.mutex_at("/locks/a").acquire().await.unwrap().release().await.unwrap();
    let awaits = drop_at_each_await(&scene, |_| "/locks/a".to_owned()).await;
    assert!(awaits > 1, "{awaits} awaits");
}

#[tokio::test]
async fn acquire_dropped_while_another_holds() {
    let scene = scene().await;
    let session = session_id(&scene.cancelled).await;
    let held = support::mutex(&scene.holder).acquire().await.unwrap();
    let mutex = scene.mutex_at("/locks/a");
    for awaits in 1.. {
        let is_parked = tokio::select! {
            biased;
            granted = poll_times(mutex.acquire(), awaits) => {
                assert!(granted.is_none(), "another holds it");
                false
            }
            () = watches_of(&scene.server, 1) => true,
        };
        queue_of(&scene.bystander, "/locks/a", 1).await;
        watches_of(&scene.server, 0).await;
        if is_parked {
            assert!(awaits > 2, "{awaits} awaits");
            break;
        }
    }
    // Parked for certain, and then aborted with its task.
    let waiter = acquire_in_task(&mutex);
    watches_of(&scene.server, 1).await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    queue_of(&scene.bystander, "/locks/a", 1).await;
    // Dropped at the very moment of the grant.
    let waiter = acquire_in_task(&mutex);
    watches_of(&scene.server, 1).await;
    drop(held);
    waiter.abort();
    drop(waiter.await);
    scene.assert_nothing_left("/locks/a").await;
    scene.assert_session_lives(session).await;
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

    let held = support::mutex(&scene.holder).acquire().await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    let followed = ticket.watch_position();
    assert!(tokio::time::timeout(Duration::from_millis(100), ticket.acquired()).await.is_err());
    queue_of(&scene.bystander, "/locks/a", 1).await;
    drop((held, followed));
    scene.assert_nothing_left("/locks/a").await;
    scene.assert_session_lives(session).await;
}
