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

/// Nor does it count as a waiter. Behind a holder, and behind one that waits.
#[history(false, true)]
async fn a_failed_try_leaves_the_queue_as_it_was(stage: Stage, is_waited_for: bool) {
    let [holder, other, next] = connect_all(&stage).await;
    for kind in Kind::ALL {
        let held = kind.occupy(&holder).await;
        let waiting = kind.lock(&next);
        let waiting = is_waited_for.then(|| spawn_local(async move { waiting.acquire().await }));
        // Out of the gate of a semaphore, and watched.
        sleep(SOON).await;
        let now = || (ephemerals(stage.servers(), "/"), stage.servers().watch_count());
        let before = now();
        for time in [None, Some(Duration::ZERO), Some(ms(200))] {
            let lock = kind.lock(&other);
            let outcome = match time {
                None => lock.try_acquire().await,
                Some(time) => lock.try_acquire_for(time).await,
            };
            assert!(outcome.unwrap().is_none(), "{kind:?} was taken");
            assert_eq!(now().0, before.0, "{kind:?}, {time:?}");
        }
        // In this time it does not even get in. Then the background sees to it.
        let outcome = kind.lock(&other).try_acquire_for(Duration::from_micros(1)).await;
        assert!(matches!(outcome, Err(Error::NotConnected { .. })), "{kind:?}: {outcome:?}");
        sleep(A_MOMENT).await;
        assert_eq!(now(), before, "{kind:?}");
        release(held).await;
        if let Some(waiting) = waiting {
            granted(waiting).await.release().await.unwrap();
        }
    }
}

#[history]
async fn a_dropped_guard_is_out_of_the_way_of_the_next_request(stage: Stage) {
    let client = stage.client(0).await;
    for kind in Kind::ALL {
        let lock = kind.lock(&client);
        for _ in 0..5 {
            drop(kind.occupy(&client).await);
            drop(lock.try_acquire().await.unwrap().expect("nobody has it"));
        }
    }
}

#[history]
async fn first_come_first_served(stage: Stage) {
    for kind in Kind::ALL {
        let clients = connect_all(&stage).await;
        let held = kind.occupy(&clients[0]).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut waiters = Vec::new();
        for number in 0..6 {
            let (client, order) = (clients[(number + 1) % 3].clone(), order.clone());
            waiters.push(spawn_local(async move {
                // Those who would get in together have one between them who keeps the next one out.
                let keeps_out = matches!(kind, Kind::Reader | Kind::Permit) && number % 2 == 1;
                let guards =
                    if keeps_out { kind.take_all(client).await } else { take(kind.lock(&client)).await };
                order.borrow_mut().push(number);
                release(guards).await;
            }));
            sleep(A_MOMENT).await;
        }
        release(held).await;
        for waiter in waiters {
            within(waiter).await.unwrap();
        }
        assert_eq!(*order.borrow(), Vec::from_iter(0..6), "{kind:?}");
        join_all(clients.iter().map(Client::close)).await;
    }
}

/// No outage ends it before that.
#[history]
async fn a_wait_ends_under_the_policy_when_its_session_is_over(stage: Stage) {
    let holder = stage.client(1).await;
    let (proxy, client) = stage.far(tries(SESSION, SESSION / 10, RetryPolicy::n_times(2, ms(10)))).await;
    let mut waiters = Vec::new();
    for kind in Kind::ALL {
        let (held, lock) = (kind.occupy(&holder).await, kind.lock(&client));
        waiters.push((kind, held, spawn_local(async move { lock.acquire().await })));
    }
    sleep(A_MOMENT).await;
    proxy.cut_off();
    sleep(SESSION / 2).await;
    assert!(waiters.iter().all(|(_, _, waiter)| !waiter.is_finished()), "their session lives");
    for (kind, _held, waiter) in waiters {
        let error = within(waiter).await.unwrap().unwrap_err();
        // And some locks that it had cannot be given back.
        let first = if let Error::Several { first, .. } = &error { first } else { &error };
        assert!(first.is_retryable(), "{kind:?}: {error}");
    }
    proxy.refuse_connections(false);
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

pub(super) fn is_closed(error: &Error) -> bool {
    match error {
        Error::Several { first, others } => is_closed(first) && others.iter().all(is_closed),
        error => *error == Error::Closed,
    }
}
