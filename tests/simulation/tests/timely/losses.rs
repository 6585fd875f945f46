//! How holders hear that their lock is lost or in doubt: of each kind, by whatever they listen with.

use std::future::pending;

use futures_util::future::join4;
use tokio::time::advance;
use tokio_util::sync::CancellationToken;

use super::kinds::Kind;
use super::prelude::*;

/// A time to hold.
const BRIEF: Duration = secs(1);

/// Listens in all ways until the loss, which must be for this reason. Its work must have been dropped by then.
async fn hears(guard: &LockGuard, reason: LossReason) {
    let dropped = CancellationToken::new();
    let work = async {
        let _dropped = dropped.clone().drop_guard();
        pending::<()>().await;
    };
    let mut state = guard.watch_state();
    let ran = async {
        let ran = guard.run(work).await;
        assert!(dropped.is_cancelled(), "the work goes on");
        ran
    };
    let ended = state.wait_for(|state| state.is_lost());
    let (lost, ran, ended, asked) = join4(guard.lost(), ran, ended, guard.revoke_requested()).await;
    assert_eq!(lost, reason);
    assert_lost(&ran.unwrap_err(), reason);
    assert_lost(&asked.unwrap_err(), reason);
    assert!(guard.revoke_requested().await.is_err());
    assert_eq!(ended.unwrap(), LockState::Lost(reason));
    assert!(!guard.is_valid());
    assert!(guard.valid_until() <= Instant::now());
    let late = guard.run(async { panic!("work without the lock") });
    assert_lost(&late.await.unwrap_err(), reason);
}

/// It hears of that at once, when it has listened for a moment.
async fn hears_of(guard: &LockGuard, reason: LossReason, event: impl FnOnce()) {
    let happens = async {
        sleep(A_MOMENT).await;
        event();
        Instant::now()
    };
    let ((), happened) = within(join(hears(guard, reason), happens)).await;
    assert!(happened.elapsed() < A_MOMENT, "after {:?}", happened.elapsed());
}

/// Notes all states until it is lost or the guard is gone.
fn states(mut state: Watch<LockState>) -> JoinHandle<Vec<LockState>> {
    spawn_local(async move {
        let mut states = Vec::new();
        while let Some(state) = state.changed().await {
            states.push(state);
        }
        states
    })
}

/// Waits for the next change, which must be to this state.
async fn shows(seen: &mut Watch<LockState>, wanted: LockState) {
    assert_eq!(within(seen.changed()).await, Some(wanted));
}

fn on_suspect(policy: SuspectPolicy) -> LockOptions {
    LockOptions::new().suspect_policy(policy)
}

/// Someone else waits in the queue of a lock that is held.
async fn rival(kind: Kind, other: &Client, stage: &Stage) -> JoinHandle<zk_recipes::Result<LockGuard>> {
    let rival = in_task(kind.rival(other));
    sleep(A_MOMENT).await;
    assert_eq!(queue(stage, &kind.queue()), if kind == Kind::Permit { 1 } else { 2 });
    rival
}

#[history]
async fn a_killed_session_is_heard_of_at_once_and_for_what_it_is(stage: Stage) {
    let killed = stage.connect(0, |builder| builder.session_timeout(3 * SESSION)).await;
    let other = stage.client(1).await;
    for kind in KINDS {
        let lock = kind.unlimited(&killed);
        let guard = lock.acquire().await.unwrap();
        let rival = rival(kind, &other, &stage).await;
        let session = session_id(&killed).await;
        hears_of(&guard, LossReason::Expired, || {
            assert!(stage.servers().end_session(session));
        })
        .await;
        if kind != Kind::Permit {
            assert_lost(&lock.acquire().await.unwrap_err(), LossReason::Expired);
            assert_lost(&lock.try_acquire().await.unwrap_err(), LossReason::Expired);
        }
        assert_lost(&guard.transaction().commit().await.unwrap_err(), LossReason::Expired);
        let next = within(rival).await.unwrap().unwrap();
        assert!(next.fencing_token() > guard.fencing_token(), "{kind:?}");
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Expired);
        next.release().await.unwrap();
        // The lock object forgets the loss with the guard.
        within(lock.acquire()).await.unwrap().release().await.unwrap();
    }
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

/// Before the second after which a hold is watched to which no one listens.
#[history]
async fn a_deleted_node_is_heard_of_by_who_listens(stage: Stage) {
    let [holding, other] = stage.clients().await;
    for kind in KINDS {
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        hears_of(&guard, LossReason::Deleted, || {
            assert!(stage.servers().delete(kind.node(&guard)));
        })
        .await;
        let next = within(kind.rival(&other).acquire()).await;
        if kind == Kind::Multi {
            assert_eq!(guard.members()[0].loss(), None, "it is another member's node");
        }
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
        next.unwrap().release().await.unwrap();
    }
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

#[history]
async fn what_is_in_doubt_is_kept_or_given_up(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let [keeping, giving_up] = [proxy.client(session).await, proxy.client(session).await];
    let other = stage.client(1).await;
    let sessions = [session_id(&keeping).await, session_id(&giving_up).await];
    for kind in KINDS {
        // On paths of their own, so that no one waits for the one that is kept.
        let keeper = mutex_at(&keeping, "/kept");
        let keeper = keeper.with_options(on_suspect(SuspectPolicy::Keep)).unwrap();
        let kept = keeper.acquire().await.unwrap();
        let lock = kind.lock(&giving_up, on_suspect(SuspectPolicy::GiveUp)).unwrap();
        let given_up = lock.acquire().await.unwrap();
        let token = kept.fencing_token();
        let [mut seen, mut seen_of_given_up] = [&kept, &given_up].map(LockGuard::watch_state);
        shows(&mut seen, LockState::Held).await;
        shows(&mut seen_of_given_up, LockState::Held).await;
        let rival = rival(kind, &other, &stage).await;

        hears_of(&given_up, LossReason::Suspect, || proxy.cut_off()).await;
        shows(&mut seen, LockState::Suspect).await;
        shows(&mut seen_of_given_up, LockState::Lost(LossReason::Suspect)).await;
        assert!(kept.is_valid() && kept.loss().is_none(), "{kind:?}");
        // No one can be told yet.
        assert!(stage.servers().node(kind.node(&given_up)).is_some(), "{kind:?}");
        assert!(!rival.is_finished());

        proxy.refuse_connections(false);
        shows(&mut seen, LockState::Held).await;
        let next = within(rival).await.unwrap().unwrap();
        assert!(next.fencing_token() > given_up.fencing_token());
        assert_eq!(given_up.loss(), Some(LossReason::Suspect), "lost is lost");
        assert_lost(&given_up.release().await.unwrap_err(), LossReason::Suspect);
        assert_eq!(kept.fencing_token(), token);
        kept.release().await.unwrap();
        for mut seen in [seen, seen_of_given_up] {
            assert!(within(seen.changed()).await.is_none(), "{kind:?}: {:?}", seen.get());
        }
        next.release().await.unwrap();
        within(lock.acquire()).await.unwrap().release().await.unwrap();
    }
    for (client, session) in [&keeping, &giving_up].into_iter().zip(sessions) {
        assert_eq!(session_id(client).await, session, "the loss was not that of the session");
    }
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

#[history]
async fn the_states_of_the_members_are_one(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let [cut, direct] = [proxy.client(session).await, stage.client(1).await];
    let of_two = MultiLock::of([Kind::Mutex.unlimited(&cut), Kind::Write.unlimited(&direct)]).unwrap();
    let of_one = MultiLock::new(&cut, ["/locks/x", "/locks/y"]).unwrap();
    let guards = [of_two.acquire().await.unwrap(), of_one.acquire().await.unwrap()];
    let [seen, seen_of_other] = guards.each_ref().map(|guard| states(guard.watch_state()));
    let both_are = |wanted: LockState| {
        assert!(guards.iter().all(|guard| guard.watch_state().get() == wanted), "{guards:?}");
    };
    sleep(A_MOMENT).await;
    both_are(LockState::Held);
    proxy.cut_off();
    sleep(A_MOMENT).await;
    both_are(LockState::Suspect);
    proxy.refuse_connections(false);
    connected(&cut).await;
    sleep(A_MOMENT).await;
    both_are(LockState::Held);
    let [guard, other] = guards;
    // The loss of one member is that of all.
    let session = session_id(&direct).await;
    hears_of(&guard, LossReason::Expired, || {
        assert!(stage.servers().end_session(session));
    })
    .await;
    assert_eq!(guard.members()[0].loss(), None);
    assert_lost(&guard.release().await.unwrap_err(), LossReason::Expired);
    other.release().await.unwrap();
    let [seen, seen_of_other] = [within(seen).await.unwrap(), within(seen_of_other).await.unwrap()];
    let until_then = [LockState::Held, LockState::Suspect, LockState::Held];
    let (lost, before) = seen.split_last().unwrap();
    assert_eq!(*lost, LockState::Lost(LossReason::Expired));
    // It may have shown that it was suspect before.
    assert_eq!(before.strip_suffix(&[LockState::Suspect]).unwrap_or(before), until_then);
    assert_eq!(seen_of_other, until_then);
}

#[history]
async fn the_lock_is_valid_until_the_first_end_of_all(stage: Stage) {
    let (proxy, short) = stage.far(session).await;
    let long = proxy.client(|builder| builder.session_timeout(3 * SESSION)).await;
    let left = |guard: &LockGuard| guard.valid_until() - Instant::now();
    let is_by_session = |guard: &LockGuard| {
        let left = left(guard);
        assert!(left <= SESSION * 2 / 3 && left > SESSION * 2 / 3 - A_MOMENT, "{left:?}");
    };
    for kind in KINDS {
        let guard = kind.unlimited(&short).acquire().await.unwrap();
        is_by_session(&guard);
        guard.release().await.unwrap();

        let guard = kind.limited(&short, BRIEF).acquire().await.unwrap();
        assert!(left(&guard) <= BRIEF, "{kind:?}");
        // With more time than the session, it is the session that counts.
        guard.extend(3 * SESSION).unwrap();
        is_by_session(&guard);
        guard.release().await.unwrap();
    }
    let of_two = MultiLock::of([Kind::Mutex.unlimited(&long), Kind::Write.unlimited(&short)]).unwrap();
    let guard = of_two.acquire().await.unwrap();
    let members = guard.members().iter().map(LockGuard::valid_until);
    assert_eq!(guard.valid_until(), members.min().unwrap());
    assert!(left(&guard.members()[0]) > SESSION, "{guard:?}");
    is_by_session(&guard);
    guard.release().await.unwrap();
}

/// Nobody asks anything, and yet the session stays confirmed, for longer than one answer vouches for it.
#[history]
async fn a_hold_at_rest_stays_valid(stage: Stage) {
    let client = stage.client(0).await;
    let guards = join_all(KINDS.map(async |kind| kind.unlimited(&client).acquire().await.unwrap()));
    let guards = guards.await;
    let first = guards[0].valid_until();
    while Instant::now() < first + SESSION {
        sleep(A_MOMENT).await;
        for guard in &guards {
            assert_eq!(guard.loss(), None);
            assert!(guard.valid_until() > Instant::now());
        }
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[history]
async fn the_time_is_over_also_while_it_is_in_doubt(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let session = session_id(&client).await;
    let mut guards = Vec::new();
    for kind in KINDS {
        guards.push(kind.limited(&client, 3 * SESSION).acquire().await.unwrap());
    }
    proxy.cut_off();
    sleep(A_MOMENT).await;
    within(join_all(guards.iter().map(async |guard| {
        assert_eq!(guard.watch_state().get(), LockState::Suspect);
        let start = Instant::now();
        guard.extend(BRIEF).unwrap();
        assert!(guard.is_valid() && guard.valid_until() <= start + BRIEF);
        hears(guard, LossReason::Deadline).await;
        assert!(start.elapsed() < BRIEF + A_MOMENT, "{:?}", start.elapsed());
    })))
    .await;
    proxy.refuse_connections(false);
    connected(&client).await;
    sleep(A_MOMENT).await;
    for (kind, guard) in KINDS.into_iter().zip(guards) {
        assert_eq!(queue(&stage, &kind.queue()), 0, "{kind:?}");
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deadline);
    }
    assert_eq!(session_id(&client).await, session);
}

#[history]
async fn work_that_is_done_in_time_has_its_result(stage: Stage) {
    let client = stage.client(0).await;
    for kind in KINDS {
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        let work = async {
            client.zookeeper().await.unwrap().sync("/").await.unwrap();
            kind
        };
        assert_eq!(guard.run(work).await, Ok(kind));
        guard.release().await.unwrap();
        // Work that does not await is not stopped by the loss, but it is not told as done.
        let guard = kind.limited(&client, BRIEF).acquire().await.unwrap();
        let blocks = async { assert!(poll_once(&mut Box::pin(advance(BRIEF + A_MOMENT))).is_pending()) };
        assert_lost(&guard.run(blocks).await.unwrap_err(), LossReason::Deadline);
    }
}

/// Whoever listens hears the end of the node, and then its absence, before the release is confirmed.
#[history]
async fn a_release_is_no_loss_however_long_it_takes(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    for kind in [Kind::Mutex, Kind::Read, Kind::Write, Kind::Permit] {
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        let node = guard.node_path().to_owned();
        let seen = states(guard.watch_state());
        sleep(A_MOMENT).await;
        assert_eq!(stage.servers().watch_count(), 1, "{kind:?}");
        let lost = proxy.intercept(Request::Delete, Fate::LoseReply);
        let releasing = spawn_local(guard.release());
        within(lost.happened()).await;
        assert!(stage.servers().node(&node).is_none(), "{kind:?}: it is free");
        assert_eq!(within(releasing).await.unwrap(), Ok(()), "{kind:?}");
        let seen = within(seen).await.unwrap();
        assert!(seen.iter().all(|state| !state.is_lost()), "{kind:?}: {seen:?}");
        sleep(A_MOMENT).await;
        assert_eq!(stage.servers().watch_count(), 0, "{kind:?}");
    }
}
