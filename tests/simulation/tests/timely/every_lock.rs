//! Calls of every kind of lock while servers are down or silent.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};
use zk_recipes::{Client, Error, LockGuard};
use zk_recipes_simulation::world::World;

use super::every_kind::{Kind, Lock, take};
use super::{A_MOMENT, SESSION, ends, play, poll_once, takes, within};

const TIME: Duration = Duration::from_secs(1);

async fn client(world: &World, machine: usize) -> Client {
    let machine = &world.machines()[machine];
    machine.connect(machine.builder().session_timeout(SESSION), &world.address_of(0)).await
}

async fn release(guards: impl IntoIterator<Item = LockGuard>) {
    for guard in guards {
        within(guard.release()).await.unwrap();
    }
}

/// All nodes by which locks are held or waited for.
fn nodes(world: &World) -> Vec<String> {
    let mut nodes = world.servers().nodes_below("/");
    nodes.retain(|(_, node)| node.ephemeral_owner != 0);
    nodes.into_iter().map(|(path, _)| path).collect()
}

/// Tries to acquire in this time, and sees that it takes as long and no longer. Who is not in the queue cannot say that
/// someone else had the lock.
async fn out_of_time(kind: Kind, lock: Lock, is_queued: bool) {
    let start = Instant::now();
    let outcome = lock.try_acquire_for(TIME).await;
    let took = start.elapsed();
    match outcome {
        Ok(None) if is_queued => {}
        Err(Error::NotConnected { waited, .. }) if !is_queued && waited == TIME => {}
        outcome => panic!("{kind:?}: {outcome:?}"),
    }
    // With some time for nodes to be taken back.
    assert!(took >= TIME && took < TIME + Duration::from_millis(100) + A_MOMENT, "{kind:?}: {took:?}");
}

#[test]
fn the_deadline_holds_while_the_server_is_down_or_silent() {
    play(async |world| {
        let client = client(&world, 0).await;
        for is_silent in [false, true] {
            for kind in Kind::ALL {
                release(take(kind.lock(&client)).await).await;
            }
            match is_silent {
                true => world.servers().set_paused(0, true),
                false => world.servers().stop(0),
            }
            join_all(Kind::ALL.map(|kind| out_of_time(kind, kind.lock(&client), false))).await;
            match is_silent {
                true => world.servers().set_paused(0, false),
                false => world.servers().start(0),
            }
            for kind in Kind::ALL {
                // What was tried comes to nothing when the server is back.
                release(within(kind.take_all(client.clone())).await).await;
            }
            sleep(A_MOMENT).await;
            assert_eq!(nodes(&world), Vec::<String>::new());
            assert_eq!(world.servers().watch_count(), 0);
        }
        ends(&world, [client]).await;
    });
}

#[test]
fn the_deadline_holds_while_another_holds_and_the_server_falls_silent() {
    play(async |world| {
        let [holder, other] = [client(&world, 1).await, client(&world, 0).await];
        let mut held = Vec::new();
        for kind in Kind::ALL {
            held.extend(kind.occupy(&holder).await);
        }
        sleep(A_MOMENT).await;
        let before = nodes(&world);
        let tries = join_all(Kind::ALL.map(|kind| out_of_time(kind, kind.lock(&other), true)));
        let tries = spawn_local(tries);
        sleep(A_MOMENT).await;
        world.servers().set_paused(0, true);
        within(tries).await.unwrap();
        world.servers().set_paused(0, false);
        sleep(A_MOMENT).await;
        assert_eq!(nodes(&world), before);
        release(held).await;
        ends(&world, [holder, other]).await;
    });
}

/// Long before the session is given up.
#[test]
fn close_wakes_waiters_while_the_server_is_silent() {
    play(async |world| {
        let [holder, closed] = [client(&world, 1).await, client(&world, 0).await];
        let held = join_all(Kind::ALL.map(|kind| kind.occupy(&holder))).await;
        let waiters = Kind::ALL.map(|kind| {
            let lock = kind.lock(&closed);
            (kind, spawn_local(async move { lock.acquire().await }))
        });
        sleep(A_MOMENT).await;
        world.servers().set_paused(0, true);
        // No one confirms it.
        assert!(poll_once(&mut Box::pin(closed.close())).is_pending());
        let start = Instant::now();
        for (kind, waiter) in waiters {
            let error = within(waiter).await.unwrap().unwrap_err();
            assert!(is_closed(&error), "{kind:?}: {error}");
        }
        takes(start, Duration::ZERO);
        world.servers().set_paused(0, false);
        release(held.into_iter().flatten()).await;
        ends(&world, [holder, closed]).await;
    });
}

fn is_closed(error: &Error) -> bool {
    match error {
        Error::Several { first, others } => is_closed(first) && others.iter().all(is_closed),
        error => *error == Error::Closed,
    }
}
