//! Locks of several paths: all or none, in one order, without deadlock.

use super::prelude::*;

const A: &str = "/multi/a";
const B: &str = "/multi/b";
const C: &str = "/multi/c";
const PATHS: [&str; 3] = [A, B, C];

fn paths(client: &Client) -> MultiLock {
    MultiLock::new(client, PATHS).unwrap()
}

/// The same of locks that exist.
fn existing(client: &Client) -> MultiLock {
    MultiLock::of(PATHS.map(|path| lock_at(client, path))).unwrap()
}

/// Locks of three kinds, each seen through a client of its own.
fn mixed(clients: &[Client; 3]) -> [Lock; 3] {
    let write = ReadWriteLock::new(&clients[1], B).unwrap().write().clone();
    let semaphore_mutex = SemaphoreMutex::new(&clients[2], C).unwrap();
    [lock_at(&clients[0], A), Arc::new(write), Arc::new(semaphore_mutex)]
}

fn lengths(stage: &Stage) -> [usize; 3] {
    PATHS.map(|path| queue(stage, path))
}

/// Waits for a moment, until the queues are as long as that.
async fn are(stage: &Stage, expected: [usize; 3]) {
    sleep(A_MOMENT).await;
    assert_eq!(lengths(stage), expected);
}

fn would_deadlock<T: std::fmt::Debug>(outcome: Result<T>, path: &str) {
    assert_eq!(outcome.unwrap_err(), Error::WouldDeadlock { path: path.to_owned(), cycle: Vec::new() });
}

/// All members hold, in the order of their paths, each with its own token.
fn holds(stage: &Stage, guard: &LockGuard) {
    let tokens = guard.members().iter().zip(PATHS).map(|(member, path)| {
        assert!(member.node_path().starts_with(path) && member.members().is_empty(), "{member:?}");
        assert_eq!(stage.servers().node(member.node_path()).unwrap().czxid, member.fencing_token());
        member.fencing_token()
    });
    assert_eq!(tokens.max(), Some(guard.fencing_token()));
    assert_eq!((guard.members().len(), guard.node_path()), (3, guard.members()[0].node_path()));
}

#[history]
async fn whoever_waits_for_one_has_those_before_it_and_has_left_the_later_ones(stage: Stage) {
    let own = stage.clients::<3>().await;
    let theirs = stage.clients::<3>().await;
    let [at_a, at_b, at_c] = mixed(&own);
    let mutexes = PATHS.map(|path| lock_at(&theirs[0], path));
    for (lock, others) in
        [(paths(&own[0]), mutexes), (MultiLock::of([at_c, at_a, at_b]).unwrap(), mixed(&theirs))]
    {
        assert_eq!(lock.paths(), PATHS);
        for (held, other) in others.iter().enumerate() {
            let guard = other.acquire().await.unwrap();
            let waiting = acquiring(&lock);
            sleep(A_MOMENT).await;
            // Those before it are taken, those after it are free.
            for (number, other) in others.iter().enumerate() {
                let free = other.owned_by(&Owner::new()).try_acquire().await.unwrap();
                assert_eq!(free.is_some(), number > held, "{number} while {held} is held");
            }
            guard.release().await.unwrap();
            let guard = granted(waiting).await;
            for other in &others {
                assert!(other.try_acquire().await.unwrap().is_none());
            }
            assert!(lock.is_acquired_in_this_process());
            guard.release().await.unwrap();
            assert!(!lock.is_acquired_in_this_process());
            // A confirmed release is that of all.
            assert_eq!(ephemerals(stage.servers(), "/multi"), [""; 0]);
        }
    }
}

#[history]
async fn waiting_for_oneself_is_refused(stage: Stage) {
    let [client, other] = stage.clients().await;
    let owner = Owner::new();
    let own = |path| mutex_at(&client, path).owned_by(&owner);
    let lock = paths(&client).owned_by(&owner);
    for (held, path) in PATHS.into_iter().enumerate() {
        let guard = own(path).acquire().await.unwrap();
        for lock in [&lock, &existing(&client).owned_by(&owner)] {
            would_deadlock(within(lock.acquire()).await, path);
            would_deadlock(within(lock.try_acquire()).await, path);
            for time in [Duration::ZERO, secs(600)] {
                would_deadlock(took(Duration::ZERO, lock.try_acquire_for(time)).await, path);
            }
        }
        are(&stage, [0, 1, 2].map(|number| usize::from(number == held))).await;
        // Another owner may wait.
        let waiting = acquiring(&paths(&client));
        sleep(A_MOMENT).await;
        guard.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
    }
    let all = lock.acquire().await.unwrap();
    would_deadlock(within(paths(&client).owned_by(&owner).acquire()).await, A);
    let overlaps = MultiLock::new(&client, [C, "/multi/d"]).unwrap().owned_by(&owner);
    would_deadlock(within(overlaps.acquire()).await, C);
    for path in PATHS {
        would_deadlock(within(own(path).acquire()).await, path);
    }
    are(&stage, [1; 3]).await;
    all.release().await.unwrap();
    // What its owner comes to hold while it waits is known when the turn of that path has come; the earlier ones are given
    // back.
    let first = mutex_at(&other, A).acquire().await.unwrap();
    let waiting = acquiring(&lock);
    are(&stage, [2, 0, 0]).await;
    let guard = own(C).acquire().await.unwrap();
    first.release().await.unwrap();
    would_deadlock(within(waiting).await.unwrap(), C);
    are(&stage, [0, 0, 1]).await;
    guard.release().await.unwrap();
}

/// As an operator may create by hand, or a restored backup bring back.
#[history]
async fn whoever_must_wait_again_for_an_earlier_path_leaves_the_later_ones_and_does_not_ask_again_and_again(
    stage: Stage,
) {
    let (proxy, client, other) = stage.far_and_near(session).await;
    // The first number is used up.
    once(&mutex_at(&other, A)).await;
    let held = mutex_at(&other, B).acquire().await.unwrap();
    let waiting = acquiring(&paths(&client));
    are(&stage, [1, 2, 0]).await;
    let place = nodes(stage.servers(), A).remove(0);
    let earlier = format!("{}0000000000", &place[..place.len() - 10]);
    assert!(stage.servers().create(&earlier, b"", false));
    proxy.take_requests();
    held.release().await.unwrap();
    are(&stage, [2, 0, 0]).await;
    assert!(!waiting.is_finished());
    let requests = proxy.take_requests();
    // Its turn in B, a transaction for C, a look at each path, two deletes and a watch.
    assert!(requests.len() <= 12, "{requests:?}");
    for path in [B, C] {
        let guard = mutex_at(&other, path).try_acquire().await.unwrap();
        guard.expect("it is free").release().await.unwrap();
    }
    assert!(stage.servers().delete(&earlier));
    let guard = granted(waiting).await;
    holds(&stage, &guard);
    guard.release().await.unwrap();
}

#[history((false, false), (false, true), (true, false), (true, true))]
async fn a_member_that_is_lost_while_waiting_for_a_later_one_is_acquired_again(
    stage: Stage,
    exists: bool,
    is_killed: bool,
) {
    let [own, holder, next] = connect_all(&stage).await;
    let lock = if exists { existing(&own) } else { paths(&own) };
    let held = mutex_at(&holder, B).acquire().await.unwrap();
    let waiting = acquiring(&lock);
    are(&stage, [1, 2, 0]).await;
    let lost = nodes(stage.servers(), A).remove(0);
    let next = waiter(&mutex_at(&next, A)).await;
    if is_killed {
        assert!(stage.servers().end_session(session_id(&own).await));
    } else {
        assert!(stage.servers().delete(&lost));
    }
    let next = granted(next).await;
    sleep(SOON).await;
    assert_eq!(lengths(&stage), [2, 1, 0], "it has heard of its loss");
    held.release().await.unwrap();
    // Now it could have the others. It waits for what it has lost, and keeps none of them.
    sleep(SOON).await;
    assert_eq!(lengths(&stage), [2, 0, 0]);
    assert!(!waiting.is_finished());
    let token = next.fencing_token();
    next.release().await.unwrap();
    let guard = granted(waiting).await;
    holds(&stage, &guard);
    assert!(guard.members()[0].fencing_token() > token);
    guard.release().await.unwrap();
    assert_eq!(lengths(&stage), [0; 3]);
}

/// The reply that tells of its turn in the last queue comes while it is not polled, and its place in the first one is lost.
#[history]
async fn a_caller_that_is_polled_late_has_all_or_none(stage: Stage) {
    let [own, other] = stage.clients().await;
    let held = mutex_at(&other, C).acquire().await.unwrap();
    let lock = MultiLock::new(&own, [A, C]).unwrap();
    let mut late = Box::pin(lock.acquire());
    assert!(timeout(A_MOMENT, &mut late).await.is_err());
    held.release().await.unwrap();
    are(&stage, [1, 0, 1]).await;
    assert!(poll_once(&mut late).is_pending());
    sleep(A_MOMENT).await;
    assert!(stage.servers().delete(&nodes(stage.servers(), A)[0]));
    let next = mutex_at(&other, A).acquire().await.unwrap();
    are(&stage, [1, 0, 1]).await;
    assert!(timeout(SOON, &mut late).await.is_err(), "granted without the first");
    assert_eq!(lengths(&stage), [2, 0, 0]);
    next.release().await.unwrap();
    within(late).await.unwrap().release().await.unwrap();
}

#[history]
async fn the_end_of_the_session_while_the_rest_is_entered_costs_all_places(stage: Stage) {
    let (proxy, own, other) = stage.far_and_near(session).await;
    let held = mutex_at(&other, B).acquire().await.unwrap();
    let waiting = acquiring(&paths(&own));
    are(&stage, [1, 2, 0]).await;
    let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
    held.release().await.unwrap();
    within(lost.happened()).await;
    assert!(stage.servers().end_session(session_id(&own).await));
    let guard = granted(waiting).await;
    holds(&stage, &guard);
    guard.release().await.unwrap();
}

/// While it waits; and one of those to be given back is lost, of which nothing was heard before.
#[history(false, true)]
async fn locks_of_all_kinds_are_given_back_when_one_fails(stage: Stage, is_timed: bool) {
    let (proxy, first, other) = stage.far_and_near(session).await;
    let own = [first, stage.client(0).await, stage.client(0).await];
    let lock = MultiLock::of(mixed(&own)).unwrap();
    let held = SemaphoreMutex::new(&other, C).unwrap().acquire().await.unwrap();
    let waiting = spawn_local(async move {
        if is_timed { lock.try_acquire_for(BOUND).await } else { lock.acquire().await.map(Some) }
    });
    sleep(A_MOMENT).await;
    let path = nodes(stage.servers(), A).remove(0);
    proxy.set_traffic(Traffic::black_hole_to_client());
    proxy.take_requests();
    assert!(stage.servers().delete(&path));
    own[2].close().await;
    sleep(A_MOMENT).await;
    assert!(proxy.take_requests().contains(&Request::Delete), "it gives the first one back");
    proxy.set_traffic(Traffic::pass());
    let lost = Error::LockLost { path, reason: LossReason::Deleted };
    let several = Error::Several { first: Box::new(Error::Closed), others: vec![lost] };
    assert_eq!(within(waiting).await.unwrap().unwrap_err(), several);
    sleep(A_MOMENT).await;
    assert_eq!(ephemerals(stage.servers(), "/multi"), [held.node_path()]);
    held.release().await.unwrap();
}

/// To acquire again what is lost at once would be a storm, and never end.
#[history]
async fn locks_that_are_lost_at_once_fail_the_acquire(stage: Stage) {
    let client = stage.client(0).await;
    let options = LockOptions::new().max_hold(Duration::from_nanos(1));
    let locks =
        [A, B].map(|path| Arc::new(mutex_at(&client, path).with_options(options.clone()).unwrap()) as Lock);
    let lock = MultiLock::of(locks).unwrap();
    for outcome in [
        within(lock.acquire()).await.map(Some),
        within(lock.try_acquire()).await,
        within(lock.try_acquire_for(SOON)).await,
    ] {
        assert!(matches!(outcome, Err(Error::LockLost { reason: LossReason::Deadline, .. })), "{outcome:?}");
    }
    are(&stage, [0; 3]).await;
}

/// Two calls of one owner for existing locks: the loss of a lock that both have does not end the wait, nor does the end of
/// one call that of the other.
#[history(None, Some(0), Some(1))]
async fn a_lock_lost_while_two_calls_of_one_owner_wait_is_acquired_again(stage: Stage, ends: Option<usize>) {
    let [holder, client] = [stage.client(1).await, stage.client(0).await];
    let lock = existing(&client).owned_by(&Owner::new());
    let held = lock_at(&holder, B).acquire().await.unwrap();
    let mut calls = Vec::from([(); 2].map(|()| acquiring(&lock)));
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, B), 3);
    let [node] = &stage.servers().children(A).unwrap()[..] else { panic!("one has it") };
    // Both watch it.
    sleep(SESSION).await;
    assert!(stage.servers().delete(&format!("{A}/{node}")));
    sleep(SESSION / 10).await;
    let again = stage.servers().children(A).unwrap();
    assert!(again.len() == 1 && again[0] != *node, "{again:?}");
    assert!(calls.iter().all(|call| !call.is_finished()));
    if let Some(call) = ends {
        calls.remove(call).abort();
        are(&stage, [1, 2, 0]).await;
    }
    held.release().await.unwrap();
    for call in calls {
        drop(granted(call).await);
    }
    are(&stage, [0; 3]).await;
}
