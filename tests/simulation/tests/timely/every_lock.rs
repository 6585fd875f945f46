//! Calls of every kind of lock, mostly while servers are down or silent.

use super::every_kind::{Kind, Lock, take};
use super::prelude::*;

const TIME: Duration = secs(1);

async fn release(guards: impl IntoIterator<Item = LockGuard>) {
    for guard in guards {
        within(guard.release()).await.unwrap();
    }
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
    assert!(took >= TIME && took < TIME + ms(100) + A_MOMENT, "{kind:?}: {took:?}");
}

#[history]
async fn the_deadline_holds_while_the_server_is_down_or_silent(stage: Stage) {
    let client = stage.connect(0, session).await;
    for is_silent in [false, true] {
        for kind in Kind::ALL {
            release(take(kind.lock(&client)).await).await;
        }
        match is_silent {
            true => stage.servers().set_paused(0, true),
            false => stage.servers().stop(0),
        }
        join_all(Kind::ALL.map(|kind| out_of_time(kind, kind.lock(&client), false))).await;
        match is_silent {
            true => stage.servers().set_paused(0, false),
            false => stage.servers().start(0),
        }
        for kind in Kind::ALL {
            // What was tried comes to nothing when the server is back.
            release(within(kind.take_all(client.clone())).await).await;
        }
        sleep(A_MOMENT).await;
        assert_eq!(ephemerals(stage.servers(), "/"), Vec::<String>::new());
        assert_eq!(stage.servers().watch_count(), 0);
    }
}

#[history]
async fn the_deadline_holds_while_another_holds_and_the_server_falls_silent(stage: Stage) {
    let [holder, other] = [stage.connect(1, session).await, stage.connect(0, session).await];
    let mut held = Vec::new();
    for kind in Kind::ALL {
        held.extend(kind.occupy(&holder).await);
    }
    sleep(A_MOMENT).await;
    let before = ephemerals(stage.servers(), "/");
    let tries = join_all(Kind::ALL.map(|kind| out_of_time(kind, kind.lock(&other), true)));
    let tries = spawn_local(tries);
    sleep(A_MOMENT).await;
    stage.servers().set_paused(0, true);
    within(tries).await.unwrap();
    stage.servers().set_paused(0, false);
    sleep(A_MOMENT).await;
    assert_eq!(ephemerals(stage.servers(), "/"), before);
    release(held).await;
}

#[history]
async fn a_failed_try_is_out_of_the_queue_when_it_returns(stage: Stage) {
    let [holder, other] = stage.clients().await;
    for kind in Kind::ALL {
        let held = kind.take_all(holder.clone()).await;
        // And out of the gate of a semaphore.
        sleep(A_MOMENT).await;
        let before = ephemerals(stage.servers(), "/");
        for time in [Duration::ZERO, ms(200)] {
            let outcome = kind.lock(&other).try_acquire_for(time).await.unwrap();
            assert!(outcome.is_none(), "{kind:?} was taken");
            assert_eq!(ephemerals(stage.servers(), "/"), before, "{kind:?}, {time:?}");
        }
        release(held).await;
    }
}

/// Long before the session is given up.
#[history]
async fn close_wakes_waiters_while_the_server_is_silent(stage: Stage) {
    let [holder, closed] = [stage.connect(1, session).await, stage.connect(0, session).await];
    let held = join_all(Kind::ALL.map(|kind| kind.occupy(&holder))).await;
    let waiters = Kind::ALL.map(|kind| {
        let lock = kind.lock(&closed);
        (kind, spawn_local(async move { lock.acquire().await }))
    });
    sleep(A_MOMENT).await;
    stage.servers().set_paused(0, true);
    // No one confirms it.
    assert!(poll_once(&mut Box::pin(closed.close())).is_pending());
    let start = Instant::now();
    for (kind, waiter) in waiters {
        let error = within(waiter).await.unwrap().unwrap_err();
        assert!(is_closed(&error), "{kind:?}: {error}");
    }
    takes(start, Duration::ZERO);
    stage.servers().set_paused(0, false);
    release(held.into_iter().flatten()).await;
}

fn is_closed(error: &Error) -> bool {
    match error {
        Error::Several { first, others } => is_closed(first) && others.iter().all(is_closed),
        error => *error == Error::Closed,
    }
}
