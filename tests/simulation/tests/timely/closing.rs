//! Waits that end with their client, or are given up.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_recipes::testing::MemoryEnsemble;
use zk_recipes::{ConnectionState, Error, InterProcessMutex, LockGuard};

use super::kinds::{KINDS, in_task};
use super::queue::*;
use super::{A_MOMENT, BOUND, ends, play, within};

#[test]
fn close_wakes_everybody() {
    play(async |world| {
        let [client, other, _] = connect_all(&world).await;
        let (holder, shared) = (mutex(&other), mutex(&client));
        let other_path = InterProcessMutex::new(&client, "/locks/b").unwrap();
        let own = other_path.acquire().await.unwrap();
        let held = holder.acquire().await.unwrap();
        let mut waiters = Vec::new();
        for _ in 0..5 {
            waiters.push(waiter(&shared).await);
        }
        let timed = shared.clone();
        waiters.push(tokio::spawn(
            async move { timed.try_acquire_for(BOUND).await.map(|guard| guard.unwrap()) },
        ));
        let ticket = shared.enqueue().await.unwrap();
        waiters.push(tokio::spawn(ticket.acquired()));
        sleep(A_MOMENT).await;
        assert_eq!(nodes(world.servers(), PATH).len(), 8);
        let start = Instant::now();
        within(client.close()).await;
        assert!(client.is_closed());
        for waiter in waiters {
            assert_eq!(within(waiter).await.unwrap().unwrap_err(), Error::Closed);
        }
        assert!(start.elapsed() < A_MOMENT, "long before the session times out");
        // Its session has ended: also what it held is free, at once.
        assert_eq!(nodes(world.servers(), PATH), [held.node_path()]);
        assert_eq!(nodes(world.servers(), "/locks/b"), [""; 0]);
        assert_eq!(own.release().await, Err(Error::Closed));
        assert_eq!(shared.acquire().await.unwrap_err(), Error::Closed);
        assert_eq!(shared.try_acquire().await.unwrap_err(), Error::Closed);
        assert_eq!(shared.try_acquire_for(BOUND).await.unwrap_err(), Error::Closed);
        assert_eq!(shared.enqueue().await.unwrap_err(), Error::Closed);
        assert_eq!(shared.participants().await.unwrap_err(), Error::Closed);
        assert_eq!(client.zookeeper().await.unwrap_err(), Error::Closed);
        state_is(&client, ConnectionState::Closed).await;
        drop(held);
        nothing_is_left(world.servers()).await;
        ends(&world, [other]).await;
    });
}

/// The holder's own watch on its node would come after a second. This way it is there from the beginning.
async fn watched_with(held: &LockGuard, servers: &MemoryEnsemble) -> Vec<String> {
    drop(held.watch_state());
    sleep(A_MOMENT).await;
    watched(servers).await
}

/// GH-1277: a wait without a bound hangs when the client is closed.
#[test]
fn closing_ends_every_wait() {
    play(async |world| {
        let servers = world.servers();
        let holder = connect(&world, 0).await;
        for kind in KINDS {
            let held = kind.rival(&holder).acquire().await.unwrap();
            let before = watched_with(&held, servers).await;
            let client = connect(&world, 1).await;
            let lock = kind.unlimited(&client);
            let waiter = in_task(lock.clone());
            sleep(A_MOMENT).await;
            assert!(watched(servers).await.len() > before.len(), "{kind:?}");
            within(client.close()).await;
            assert_eq!(within(waiter).await.unwrap().unwrap_err(), Error::Closed, "{kind:?}");
            assert_eq!(within(lock.acquire()).await.unwrap_err(), Error::Closed, "{kind:?}");
            assert_eq!(watched(servers).await, before, "{kind:?}");
            held.release().await.unwrap();
            nothing_is_left(servers).await;
        }
        ends(&world, [holder]).await;
    });
}

/// CURATOR-478, -654, -14: a wait that was given up leaves its watch on the server.
#[test]
fn a_wait_that_was_given_up_leaves_no_watch() {
    const BRIEF: Duration = Duration::from_millis(200);
    play(async |world| {
        let servers = world.servers();
        let (holder, client) = (connect(&world, 0).await, connect(&world, 1).await);
        for kind in KINDS {
            let held = kind.rival(&holder).acquire().await.unwrap();
            let before = watched_with(&held, servers).await;
            let lock = kind.unlimited(&client);
            for _ in 0..5 {
                assert!(lock.try_acquire_for(BRIEF).await.unwrap().is_none(), "{kind:?}");
                let waiter = in_task(lock.clone());
                sleep(A_MOMENT).await;
                assert!(watched(servers).await.len() > before.len(), "{kind:?}");
                waiter.abort();
                sleep(A_MOMENT).await;
                assert_eq!(watched(servers).await, before, "{kind:?}");
            }
            held.release().await.unwrap();
        }
        nothing_is_left(servers).await;
        ends(&world, [holder, client]).await;
    });
}
