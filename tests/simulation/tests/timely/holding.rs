//! When holders hear that their time is over, or that their lock is lost: of each kind.

use super::kinds::{Kind, losses};
use super::prelude::*;

/// From this on, a hold is watched to which no one listens.
const UNWATCHED: Duration = secs(1);
/// A time to hold.
const TIME: Duration = secs(3);
const LONG: Duration = secs(60);

#[history]
async fn when_its_time_is_over_the_next_has_the_lock(stage: Stage) {
    let [holding, other] = stage.clients().await;
    for kind in KINDS {
        let lock = kind.limited(&holding, TIME);
        let guard = lock.acquire().await.unwrap();
        let next = took(TIME, in_task(kind.rival(&other))).await.unwrap().unwrap();

        assert_eq!(guard.loss(), Some(LossReason::Deadline), "{kind:?}");
        assert_eq!(guard.remaining_hold(), Some(Duration::ZERO));
        assert_lost(&guard.extend(LONG).unwrap_err(), LossReason::Deadline);
        if kind != Kind::Permit {
            // Entering again is not acquiring again.
            assert_lost(&lock.acquire().await.unwrap_err(), LossReason::Deadline);
            assert_lost(&lock.try_acquire().await.unwrap_err(), LossReason::Deadline);
        }
        let members = if guard.members().is_empty() { std::slice::from_ref(&guard) } else { guard.members() };
        let mut nodes: Vec<_> = members.iter().map(|member| member.node_path().to_owned()).collect();
        let error = guard.release().await.unwrap_err();
        let mut lost = losses(&error);
        nodes.sort();
        lost.sort_by_key(|loss| loss.0);
        let all = nodes.iter().map(|node| (&**node, LossReason::Deadline));
        assert!(lost.into_iter().eq(all), "{error}");
        next.release().await.unwrap();
        // Nothing of the loss stays.
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

#[history]
async fn the_time_that_is_left_counts_down(stage: Stage) {
    let client = stage.client(0).await;
    for kind in KINDS {
        let lock = kind.limited(&client, LONG);
        let guard = lock.acquire().await.unwrap();
        let left = guard.remaining_hold().unwrap();
        assert!(left <= LONG && left > LONG - A_MOMENT, "{kind:?}: {left:?}");
        sleep(TIME).await;
        assert_eq!(guard.remaining_hold(), Some(left - TIME), "{kind:?}");
        if kind != Kind::Permit {
            let again = lock.acquire().await.unwrap();
            assert_eq!(again.hold_count(), 2);
            assert_eq!(again.remaining_hold(), Some(left - TIME), "entering again prolongs nothing");
        }
        guard.extend(2 * LONG).unwrap();
        assert_eq!(guard.remaining_hold(), Some(2 * LONG), "{kind:?}");
        // Beyond what the clock can tell.
        guard.extend(Duration::MAX).unwrap();
        assert!(guard.remaining_hold().is_none_or(|left| left > 1000 * LONG), "{kind:?}");
        guard.extend(TIME).unwrap();
        assert_eq!(guard.remaining_hold(), Some(TIME), "{kind:?}");
        guard.release().await.unwrap();

        let guard = kind.unlimited(&client).acquire().await.unwrap();
        assert_eq!(guard.remaining_hold(), None);
        guard.extend(Duration::from_nanos(1)).unwrap();
        assert_eq!((guard.remaining_hold(), guard.loss()), (None, None), "without a limit it stays so");
        guard.release().await.unwrap();
    }
}

#[history]
async fn the_time_can_be_prolonged_and_shortened(stage: Stage) {
    let [holding, other] = stage.clients().await;
    for kind in KINDS {
        let rival = kind.rival(&other);
        let guard = kind.limited(&holding, TIME).acquire().await.unwrap();
        guard.extend(LONG).unwrap();
        assert!(rival.try_acquire_for(2 * TIME).await.unwrap().is_none(), "{kind:?}");
        assert_eq!(guard.loss(), None, "{kind:?}");

        let waiter = in_task(rival);
        let start = Instant::now();
        guard.extend(TIME).unwrap();
        let next = waiter.await.unwrap().unwrap();
        takes(start, TIME);
        assert_eq!(guard.loss(), Some(LossReason::Deadline));
        next.release().await.unwrap();

        let guard = kind.limited(&other, LONG).acquire().await.unwrap();
        // Whether it counts as extended or as lost.
        if let Err(error) = guard.extend(Duration::ZERO) {
            assert_lost(&error, LossReason::Deadline);
        }
        assert_eq!(guard.loss(), Some(LossReason::Deadline), "{kind:?}: at once");
    }
}

#[history]
async fn each_permit_has_a_time_of_its_own(stage: Stage) {
    let clients = stage.clients().await;
    let [semaphore, other] =
        clients.each_ref().map(|client| Semaphore::new(client, Kind::Permit.path(), 2).unwrap());
    let brief = semaphore.with_options(LockOptions::new().max_hold(TIME)).unwrap();
    let guards = brief.many(2).unwrap().acquire().await.unwrap().into_permits();
    let start = Instant::now();
    guards[1].extend(LONG).unwrap();
    let next = within(other.acquire()).await.unwrap();
    takes(start, TIME);
    assert_eq!([guards[0].loss(), guards[1].loss()], [Some(LossReason::Deadline), None]);
    assert!(other.try_acquire().await.unwrap().is_none(), "the other one is held");
    drop(guards);
    next.release().await.unwrap();
}

/// Asking does not count as listening: it is the watch after a second that tells.
#[history]
async fn a_deleted_node_is_heard_of_also_if_no_one_listens(stage: Stage) {
    let client = stage.client(0).await;
    for kind in KINDS {
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        assert!(stage.servers().delete(kind.node(&guard)));
        sleep(UNWATCHED - A_MOMENT).await;
        assert!(guard.is_valid());
        sleep(2 * A_MOMENT).await;
        assert_eq!(guard.loss(), Some(LossReason::Deleted), "{kind:?}");
        assert!(guard.valid_until() <= Instant::now());
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
    }
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

/// A waiter asks nothing for so long that its session is in doubt, without need.
#[history]
async fn a_grant_after_a_long_wait_is_in_no_doubt(stage: Stage) {
    let (proxy, waiter, holder) = stage.far_and_near(session).await;
    let options = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    for kind in KINDS {
        for delay in [0, 300].map(Duration::from_millis) {
            let held = kind.rival(&holder).acquire().await.unwrap();
            let waiting = in_task(kind.lock(&waiter, options.clone()).unwrap());
            sleep(A_MOMENT).await;
            proxy.set_traffic(Traffic::pass().delay(delay));
            sleep(SESSION / 2).await;
            held.release().await.unwrap();
            let guard = within(waiting).await.unwrap().unwrap();
            assert_eq!(guard.loss(), None, "{kind:?}, {delay:?}");
            let valid_for = guard.valid_until() - Instant::now();
            assert!(valid_for > SESSION / 4, "{kind:?}, {delay:?}: only for {valid_for:?}");
            guard.release().await.unwrap();
            proxy.set_traffic(Traffic::pass());
        }
    }
}

/// Without a connection, only the clock can tell.
#[history]
async fn without_contact_the_lock_is_lost_before_the_session_ends(stage: Stage) {
    let (proxy, cut_off, other) = stage.far_and_near(session).await;
    let guards = KINDS.map(async |kind| kind.unlimited(&cut_off).acquire().await.unwrap());
    let guards = join_all(guards).await;
    proxy.set_traffic(Traffic::black_hole());
    within(join_all(KINDS.into_iter().zip(guards).map(async |(kind, guard)| {
        let waiting = async {
            let next = kind.rival(&other).acquire().await.unwrap();
            assert!(!guard.is_valid(), "{kind:?}: two holders");
            let granted = Instant::now();
            next.release().await.unwrap();
            granted
        };
        let listening = async {
            let mut state = guard.watch_state();
            state.wait_for(|state| *state == LockState::Suspect).await.unwrap();
            assert!(guard.is_valid(), "{kind:?}");
            assert_eq!(guard.lost().await, LossReason::Expired);
            Instant::now()
        };
        let (granted, lost) = join(waiting, listening).await;
        assert!(lost < granted, "{kind:?}: heard {:?} too late", lost - granted);
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Expired);
    })))
    .await;
    proxy.set_traffic(Traffic::pass());
}

/// What is answered late was asked long ago, and vouches for no more than that.
#[history]
async fn a_late_answer_does_not_prolong_the_validity(stage: Stage) {
    const DELAY: Duration = secs(1);
    let (proxy, client) = stage.far(session).await;
    let guard = Kind::Mutex.unlimited(&client).acquire().await.unwrap();
    let before = guard.valid_until();
    proxy.set_traffic(Traffic::pass().delay_to_client(DELAY));
    for _ in 0..3 {
        assert_eq!(guard.transaction().commit().await.map(|results| results.len()), Ok(0));
        let left = guard.valid_until() - Instant::now();
        assert!(left <= SESSION * 2 / 3 - DELAY, "{left:?}");
    }
    assert!(guard.valid_until() > before, "but it does for that");
    proxy.set_traffic(Traffic::pass());
    guard.release().await.unwrap();
}

/// Their watches are set up a few at once, so that they do not keep other requests waiting.
#[history]
async fn many_locks_are_watched_a_few_at_once(stage: Stage) {
    const LOCKS: usize = 1_000;
    let (proxy, client) = stage.far(session).await;
    let acquires = (0..LOCKS).map(|n| {
        let mutex = mutex_at(&client, &format!("/locks/{n}"));
        async move { mutex.acquire().await.unwrap() }
    });
    let guards = within(join_all(acquires)).await;
    proxy.take_requests();
    proxy.set_traffic(Traffic::black_hole_to_client());
    let states: Vec<_> = guards.iter().map(LockGuard::watch_state).collect();
    sleep(A_MOMENT).await;
    // Its request follows those that were sent before.
    let other = client.clone();
    let asking = stage.machines()[0].spawn(async move { mutex_at(&other, "/other").is_locked().await });
    sleep(A_MOMENT).await;
    let requests = proxy.take_requests();
    assert!(requests.contains(&Request::GetChildren), "{requests:?}");
    let watches = requests.iter().filter(|request| **request == Request::GetData).count();
    assert!((100..=200).contains(&watches), "{watches} at once");
    proxy.set_traffic(Traffic::pass());
    proxy.cut();
    sleep(UNWATCHED).await;
    assert!(stage.servers().watch_count() >= LOCKS, "{} watches", stage.servers().watch_count());
    within(asking).await.unwrap().unwrap().unwrap();
    assert!(guards.iter().all(LockGuard::is_valid));
    assert!(states.iter().all(|state| state.get() == LockState::Held));
    within(join_all(guards.into_iter().map(LockGuard::release))).await;
}

#[history]
async fn every_release_of_a_lost_hold_says_so(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = Kind::Mutex.limited(&client, TIME);
    let (outer, inner, sound) = {
        let outer = mutex.acquire().await.unwrap();
        (mutex.acquire().await.unwrap(), mutex.acquire().await.unwrap(), outer)
    };
    sound.release().await.unwrap();
    let start = Instant::now();
    outer.extend(TIME).unwrap();
    assert_eq!(outer.lost().await, LossReason::Deadline);
    takes(start, TIME);
    assert_lost(&inner.release().await.unwrap_err(), LossReason::Deadline);
    assert_lost(&outer.release().await.unwrap_err(), LossReason::Deadline);
}

#[history]
async fn a_hold_that_has_ended_is_ended_once(stage: Stage) {
    let (proxy, client) = stage.far(plain).await;
    let nodes: usize = KINDS.into_iter().map(Kind::nodes).sum();
    let acquire_all = async |max_hold: Option<Duration>| {
        let lock = |kind: Kind| match max_hold {
            Some(max_hold) => kind.limited(&client, max_hold),
            None => kind.unlimited(&client),
        };
        let guards = join_all(KINDS.map(async |kind| lock(kind).acquire().await.unwrap())).await;
        sleep(A_MOMENT).await;
        proxy.take_requests();
        guards
    };
    // Of the requests since the last call.
    let sent = || {
        let requests = proxy.take_requests();
        [Request::Multi, Request::Delete]
            .map(|kind| requests.iter().filter(|request| **request == kind).count())
    };
    // By its guard, before its time is over.
    for confirmed in [true, false] {
        let guards = acquire_all(Some(TIME)).await;
        if confirmed {
            for outcome in join_all(guards.into_iter().map(LockGuard::release)).await {
                outcome.unwrap();
            }
        } else {
            drop(guards);
            sleep(A_MOMENT).await;
        }
        // The nodes of the multi-lock are deleted in one transaction.
        assert_eq!(sent(), [1, KINDS.len() - 1]);
        // The next hold is not meant.
        let guards = acquire_all(None).await;
        sleep(2 * TIME).await;
        assert_eq!(sent(), [0, 0]);
        for guard in guards {
            assert_eq!(guard.loss(), None);
            guard.release().await.unwrap();
        }
    }
    // By the end of its time.
    let guards = acquire_all(Some(TIME)).await;
    sleep(TIME).await;
    assert!(guards.iter().all(|guard| guard.loss() == Some(LossReason::Deadline)));
    assert_eq!(sent(), [0, nodes]);
    for guard in guards {
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deadline);
    }
    assert_eq!(sent(), [0, 0]);
}

#[history]
async fn the_time_is_over_also_while_the_server_is_silent(stage: Stage) {
    let client = stage.connect(0, session).await;
    let session = session_id(&client).await;
    for is_watching in [true, false] {
        let guard = Kind::Mutex.limited(&client, LONG).acquire().await.unwrap();
        let pausing = async {
            if is_watching {
                sleep(A_MOMENT).await;
            }
            stage.servers().set_paused(0, true);
            guard.extend(TIME).unwrap();
            Instant::now()
        };
        let (start, asked) = if is_watching {
            let (asked, start) = within(join(guard.revoke_requested(), pausing)).await;
            (start, asked)
        } else {
            (pausing.await, within(guard.revoke_requested()).await)
        };
        assert_lost(&asked.unwrap_err(), LossReason::Deadline);
        takes(start, TIME);
        assert_eq!(guard.loss(), Some(LossReason::Deadline));
        assert_lost(&within(guard.release()).await.unwrap_err(), LossReason::Deadline);
        stage.servers().set_paused(0, false);
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, Kind::Mutex.path()), 0);
        assert_eq!(session_id(&client).await, session, "it did not end with the session");
    }
}
