//! How holders hear that their lock is lost or in doubt: of each kind, by whatever they listen with.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::kinds::*;
use crate::support::*;
use futures_util::future::{join, join_all, join3};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zk_recipes::testing::{Fate, FaultProxy, Request, kill_session};
use zk_recipes::{
    Client, InterProcessMutex, LockGuard, LockOptions, LockState, LossReason, MultiLock, SuspectPolicy,
};

/// Sooner than by the clock alone: two thirds of the ten seconds of a session.
const PROMPT: Duration = Duration::from_secs(4);

/// From this on, a hold is watched to which nobody listens.
const BRIEF: Duration = Duration::from_secs(1);

/// Listens in all ways until the loss, which must be for this reason. Its work must have been dropped by then.
async fn hears(guard: &LockGuard, reason: LossReason) {
    let dropped = Arc::new(AtomicBool::new(false));
    let work = async {
        let _dropped = Dropped(dropped.clone());
        pending::<()>().await;
    };
    let mut state = guard.watch_state();
    let ran = async {
        let ran = guard.run(work).await;
        assert!(dropped.load(SeqCst), "the work goes on");
        ran
    };
    let ended = state.wait_for(|state| state.is_lost());
    let (lost, ran, ended) = join3(guard.lost(), ran, ended).await;
    assert_eq!(lost, reason);
    assert_lost(&ran.unwrap_err(), reason);
    assert_eq!(*ended.unwrap(), LockState::Lost(reason));
    assert!(!guard.is_valid());
    assert!(guard.valid_until() <= Instant::now().into());
    let late = guard.run(async { panic!("work without the lock") });
    assert_lost(&late.await.unwrap_err(), reason);
}

/// Notes all states until it is lost or the guard is gone.
fn states(mut state: watch::Receiver<LockState>) -> JoinHandle<Vec<LockState>> {
    tokio::spawn(async move {
        let mut states = vec![*state.borrow_and_update()];
        while state.changed().await.is_ok() {
            states.push(*state.borrow_and_update());
        }
        states
    })
}

/// Waits for the next change, which must be to this state. What is watched twice need not show a short state twice.
async fn shows(seen: &mut watch::Receiver<LockState>, wanted: LockState) {
    within(seen.changed()).await.unwrap();
    assert_eq!(*seen.borrow_and_update(), wanted);
}

fn on_suspect(policy: SuspectPolicy) -> LockOptions {
    LockOptions::new().suspect_policy(policy)
}

/// Waits for a state of all guards.
async fn all_are(guards: &[LockGuard], wanted: LockState) {
    let waiting = guards.iter().map(async |guard| {
        guard.watch_state().wait_for(|state| *state == wanted).await.map(|_| ()).unwrap();
    });
    within(join_all(waiting)).await;
}

#[tokio::test]
async fn a_killed_session_is_heard_of_at_once_and_for_what_it_is() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let long = Client::builder().session_timeout(Duration::from_secs(30));
    let killed = long.connect(&server.connect_string()).await.unwrap();
    let other = connect(&server).await;
    for kind in KINDS {
        let lock = kind.unlimited(&killed);
        let guard = lock.acquire().await.unwrap();
        let rival = in_task(kind.rival(&other));
        queue_of(&zookeeper, &kind.queue(), if kind == Kind::Permit { 1 } else { 2 }).await;
        let killing = async {
            // One of them is the rival's.
            watches_with_holders(&server, kind.nodes() as u64 + 1).await;
            kill_session(&killed).await.unwrap();
            Instant::now()
        };
        let ((), killed_at) = within(join(hears(&guard, LossReason::Expired), killing)).await;
        // By the clock alone it would be heard of later. (A server may leave a client that connects while its session
        // ends without an answer; then it takes a while.)
        assert!(killed_at.elapsed() < Duration::from_secs(15), "{kind:?}: after {:?}", killed_at.elapsed());
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
    watches_with_holders(&server, 0).await;
}

#[tokio::test]
async fn a_deleted_node_is_heard_of_by_who_listens() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [holding, other] = connect_many(&server).await;
    for kind in KINDS {
        // A machine that is busy may need more than one attempt to be quicker than the second after which it would
        // be heard of anyway.
        for attempt in 1.. {
            let start = Instant::now();
            let guard = kind.unlimited(&holding).acquire().await.unwrap();
            let deleting = async {
                watches_with_holders(&server, kind.nodes() as u64).await;
                zookeeper.delete(kind.node(&guard), None).await.unwrap();
            };
            within(join(hears(&guard, LossReason::Deleted), deleting)).await;
            let elapsed = start.elapsed();
            let next = within(kind.rival(&other).acquire()).await;
            if kind == Kind::Multi {
                assert_eq!(guard.members()[0].loss(), None, "it is another member's node");
            }
            assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
            next.unwrap().release().await.unwrap();
            if elapsed < BRIEF {
                break;
            }
            assert!(attempt < 5, "{kind:?}: heard after {elapsed:?}");
        }
    }
    watches_with_holders(&server, 0).await;
}

#[tokio::test]
async fn a_transaction_finds_out_that_the_node_was_deleted() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [holding, other] = connect_many(&server).await;
    for kind in KINDS {
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        zookeeper.delete(kind.node(&guard), None).await.unwrap();
        let next = within(kind.rival(&other).acquire()).await.unwrap();
        // Whatever this process believes: nothing is written by it.
        let write =
            guard.transaction().create("/written", "by a former holder", zk_recipes::CreateMode::Persistent);
        assert_lost(&write.commit().await.unwrap_err(), LossReason::Deleted);
        assert_eq!(zookeeper.check_stat("/written").await.unwrap(), None, "{kind:?}");
        assert_eq!(guard.loss(), Some(LossReason::Deleted), "{kind:?}");
        assert_eq!(next.transaction().commit().await.map(|results| results.len()), Ok(0));
        drop(guard);
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_in_doubt_is_kept_or_given_up() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let [keeping, other] = [connect_through(&proxy).await, connect(&server).await];
    let giving_up = connect_through(&proxy).await;
    let sessions = [session_id(&keeping).await, session_id(&giving_up).await];
    for kind in KINDS {
        // On paths of their own, so that nobody waits for the one that is kept.
        let keeper = InterProcessMutex::new(&keeping, "/kept").unwrap();
        let kept = keeper.with_options(on_suspect(SuspectPolicy::Keep)).unwrap().acquire().await.unwrap();
        let lock = kind.lock(&giving_up, on_suspect(SuspectPolicy::GiveUp)).unwrap();
        let given_up = lock.acquire().await.unwrap();
        let token = kept.fencing_token();
        let [mut seen, mut seen_of_given_up] = [&kept, &given_up].map(LockGuard::watch_state);
        shows(&mut seen, LockState::Held).await;
        shows(&mut seen_of_given_up, LockState::Held).await;
        let rival = in_task(kind.rival(&other));
        queue_of(&zookeeper, &kind.queue(), if kind == Kind::Permit { 1 } else { 2 }).await;

        proxy.refuse_connections(true).unwrap();
        let cutting = async {
            proxy.cut();
            Instant::now()
        };
        let ((), cut_at) = within(join(hears(&given_up, LossReason::Suspect), cutting)).await;
        assert!(cut_at.elapsed() < PROMPT, "{kind:?}: after {:?}", cut_at.elapsed());
        shows(&mut seen, LockState::Suspect).await;
        shows(&mut seen_of_given_up, LockState::Lost(LossReason::Suspect)).await;
        assert!(kept.is_valid() && kept.loss().is_none(), "{kind:?}");
        // Nobody can be told yet.
        assert!(zookeeper.check_stat(kind.node(&given_up)).await.unwrap().is_some(), "{kind:?}");
        assert!(!rival.is_finished());

        proxy.refuse_connections(false).unwrap();
        shows(&mut seen, LockState::Held).await;
        let next = within(rival).await.unwrap().unwrap();
        assert!(next.fencing_token() > given_up.fencing_token());
        assert_eq!(given_up.loss(), Some(LossReason::Suspect), "lost is lost");
        assert_lost(&given_up.release().await.unwrap_err(), LossReason::Suspect);
        assert_eq!(kept.fencing_token(), token);
        kept.release().await.unwrap();
        for mut seen in [seen, seen_of_given_up] {
            assert!(within(seen.changed()).await.is_err(), "{kind:?}: {:?}", *seen.borrow());
        }
        next.release().await.unwrap();
        within(lock.acquire()).await.unwrap().release().await.unwrap();
    }
    for (client, session) in [&keeping, &giving_up].into_iter().zip(sessions) {
        assert_eq!(session_id(client).await, session, "the loss was not that of the session");
    }
    watches_with_holders(&server, 0).await;
}

#[tokio::test]
async fn the_states_of_the_members_are_one() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let [cut, direct] = [connect_through(&proxy).await, connect(&server).await];
    let of_two = MultiLock::of([Kind::Mutex.unlimited(&cut), Kind::Write.unlimited(&direct)]).unwrap();
    let of_one = MultiLock::new(&cut, ["/locks/x", "/locks/y"]).unwrap();
    let guards = [of_two.acquire().await.unwrap(), of_one.acquire().await.unwrap()];
    let [mut seen, mut seen_of_other] = guards.each_ref().map(LockGuard::watch_state);
    let mut both_show = async |wanted: LockState| {
        shows(&mut seen, wanted).await;
        shows(&mut seen_of_other, wanted).await;
    };
    both_show(LockState::Held).await;
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    both_show(LockState::Suspect).await;
    proxy.refuse_connections(false).unwrap();
    both_show(LockState::Held).await;
    let [guard, other] = guards;
    // The loss of one member is that of all.
    within(join(hears(&guard, LossReason::Expired), async { kill_session(&direct).await.unwrap() })).await;
    assert_eq!(guard.members()[0].loss(), None);
    assert_lost(&guard.release().await.unwrap_err(), LossReason::Expired);
    other.release().await.unwrap();
    // It may have shown that it was suspect before.
    let mut last = None;
    while within(seen.changed()).await.is_ok() {
        assert_eq!(last.filter(|state: &LockState| state.is_lost()), None, "it was lost before");
        last = Some(*seen.borrow_and_update());
    }
    assert_eq!(last, Some(LockState::Lost(LossReason::Expired)));
    assert!(within(seen_of_other.changed()).await.is_err(), "{:?}", *seen_of_other.borrow());
}

#[tokio::test]
async fn the_lock_is_valid_until_the_first_end_of_all() {
    let server = empty_server().await;
    let [ten, thirty] = [Duration::from_secs(10), Duration::from_secs(30)];
    let client = async |timeout| {
        Client::builder().session_timeout(timeout).connect(&server.connect_string()).await.unwrap()
    };
    let [short, long] = [client(ten).await, client(thirty).await];
    let left = |guard: &LockGuard| guard.valid_until().saturating_duration_since(Instant::now().into());
    for kind in KINDS {
        let guard = kind.unlimited(&short).acquire().await.unwrap();
        let by_session = left(&guard);
        assert!(by_session <= ten * 2 / 3 && by_session > ten / 3, "{kind:?}: {by_session:?}");
        guard.release().await.unwrap();

        let guard = kind.limited(&short, Duration::from_secs(2)).acquire().await.unwrap();
        assert!(left(&guard) <= Duration::from_secs(2), "{kind:?}");
        // With more time than the session, it is the session that counts.
        guard.extend(thirty).unwrap();
        let by_session = left(&guard);
        assert!(by_session <= ten * 2 / 3 && by_session > ten / 3, "{kind:?}: {by_session:?}");
        guard.release().await.unwrap();
    }
    let of_two = MultiLock::of([Kind::Mutex.unlimited(&long), Kind::Write.unlimited(&short)]).unwrap();
    let guard = of_two.acquire().await.unwrap();
    assert_eq!(guard.valid_until(), guard.members().iter().map(LockGuard::valid_until).min().unwrap());
    assert!(left(&guard.members()[0]) > ten, "{guard:?}");
    assert!(left(&guard) <= ten * 2 / 3);
    guard.release().await.unwrap();
}

/// Nobody asks anything, and yet the session stays confirmed, for longer than one answer vouches for it.
#[tokio::test]
async fn a_hold_at_rest_stays_valid() {
    let server = empty_server().await;
    let short = Client::builder().session_timeout(Duration::from_secs(3));
    let client = short.connect(&server.connect_string()).await.unwrap();
    let guards = join_all(KINDS.map(async |kind| kind.unlimited(&client).acquire().await.unwrap())).await;
    let first = guards[0].valid_until();
    while Instant::now() < (first + BRIEF).into() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        for guard in &guards {
            assert_eq!(guard.loss(), None);
            assert!(guard.valid_until() > Instant::now().into());
        }
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_time_is_over_also_while_it_is_in_doubt() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    // In doubt for longer than the test.
    let patient = Client::builder().session_timeout(2 * BOUND);
    let client = patient.connect(&proxy.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let mut guards = Vec::new();
    for kind in KINDS {
        guards.push(kind.limited(&client, BOUND).acquire().await.unwrap());
    }
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    all_are(&guards, LockState::Suspect).await;
    within(join_all(guards.iter().map(async |guard| {
        guard.extend(BRIEF).unwrap();
        assert!(guard.is_valid() && guard.valid_until() <= (Instant::now() + BRIEF).into());
        hears(guard, LossReason::Deadline).await;
    })))
    .await;
    proxy.refuse_connections(false).unwrap();
    for (kind, guard) in KINDS.into_iter().zip(guards) {
        queue_of(&zookeeper, &kind.queue(), 0).await;
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deadline);
    }
    assert_eq!(session_id(&client).await, session);
}

#[tokio::test]
async fn work_that_is_done_in_time_has_its_result() {
    let sandbox = Sandbox::new();
    let client = sandbox.client().await;
    for kind in KINDS {
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        let work = async {
            client.zookeeper().await.unwrap().sync("/").await.unwrap();
            kind
        };
        assert_eq!(guard.run(work).await, Ok(kind));
        guard.release().await.unwrap();
        // Work that does not await is not stopped by the loss, but it is not told as done.
        let guard = kind.limited(&client, Duration::from_millis(200)).acquire().await.unwrap();
        let ran = guard.run(async { std::thread::sleep(Duration::from_millis(300)) }).await;
        assert_lost(&ran.unwrap_err(), LossReason::Deadline);
    }
    sandbox.assert_nothing_left().await;
}

/// Whoever listens hears the end of the node, and then its absence, before the release is confirmed.
#[tokio::test]
async fn a_release_is_no_loss_however_long_it_takes() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    for kind in [Kind::Mutex, Kind::Read, Kind::Write, Kind::Permit] {
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        let node = guard.node_path().to_owned();
        let seen = states(guard.watch_state());
        watches_with_holders(&server, 1).await;
        let lost = proxy.intercept(Request::Delete, Fate::LoseReply);
        let releasing = tokio::spawn(guard.release());
        within(lost.happened()).await;
        assert_eq!(zookeeper.check_stat(&node).await.unwrap(), None, "{kind:?}: it is free");
        assert_eq!(within(releasing).await.unwrap(), Ok(()), "{kind:?}");
        let seen = within(seen).await.unwrap();
        assert!(seen.iter().all(|state| !state.is_lost()), "{kind:?}: {seen:?}");
        watches_with_holders(&server, 0).await;
    }
}
