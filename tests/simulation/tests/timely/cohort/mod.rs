//! Cohorts in time, and in outages.

mod line;

use std::pin::Pin;

use super::prelude::*;

const LONG: Duration = secs(600);
/// A time to wait, to hold or to hand on.
const TIME: Duration = secs(1);

fn with(client: &Client, options: LockOptions) -> InterProcessMutex {
    mutex_at(client, PATH).with_options(options.cohort(u32::MAX)).unwrap()
}

/// A cohort that keeps others out for ever.
fn selfish(client: &Client) -> InterProcessMutex {
    with(client, LockOptions::new().cohort_time(LONG))
}

/// Acquires, and lists the queue.
async fn alone(mutex: &InterProcessMutex) -> LockGuard {
    let guard = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
    sleep(A_MOMENT).await;
    guard
}

/// An acquire of an owner of its own that stands in line.
fn in_line(mutex: &InterProcessMutex) -> Pin<Box<dyn Future<Output = Result<LockGuard>>>> {
    let mutex = mutex.owned_by(&Owner::new());
    let mut acquire = Box::pin(async move { mutex.acquire().await });
    assert!(poll_once(&mut acquire).is_pending());
    acquire
}

/// A hold is given up as suspect while others are in line, and its guard is kept or not.
#[history(true, false)]
async fn suspicion_while_handing_on(stage: Stage, is_held: bool) {
    let (proxy, client, other) = stage.far_and_near(session).await;
    let options = LockOptions::new().cohort(u32::MAX).cohort_time(LONG).suspect_policy(SuspectPolicy::GiveUp);
    let mutex = mutex_at(&client, PATH).with_options(options).unwrap();
    let guard = alone(&mutex).await;
    let node = guard.node_path().to_owned();
    let mut line: Vec<_> = (0..5).map(|_| in_line(&mutex)).collect();
    let stranger = mutex_at(&other, PATH);
    let stranger = stage.machines()[1].spawn(async move { stranger.acquire().await });
    let guard = if is_held {
        Some(guard)
    } else {
        guard.release().await.unwrap();
        None
    };
    proxy.set_traffic(Traffic::black_hole());
    sleep(SESSION * 2 / 3 - A_MOMENT).await;
    match &guard {
        Some(guard) => assert_eq!(guard.loss(), Some(LossReason::Suspect)),
        None => assert!(poll_once(&mut line[0]).is_pending(), "granted while silent"),
    }
    proxy.set_traffic(Traffic::pass());
    let stranger = within(stranger).await.unwrap().unwrap().unwrap();
    assert!(stranger.is_valid());
    stranger.release().await.unwrap();
    for got in within(join_all(line.into_iter().map(async |acquire| {
        let got = acquire.await?;
        assert_ne!(got.node_path(), node);
        got.release().await
    })))
    .await
    {
        got.unwrap();
    }
}

/// "No outage ends it while its session lives", says the retry policy of an acquire that waits in its queue.
#[history(LockOptions::new(), LockOptions::new().cohort(1_000))]
async fn an_outage_ends_no_wait_in_line_while_the_session_lives(stage: Stage, options: LockOptions) {
    let (proxy, client) =
        stage.far(tries(3 * SESSION, SESSION / 10, RetryPolicy::n_times(0, Duration::ZERO))).await;
    let mutex = mutex_at(&client, PATH).with_options(options).unwrap();
    let guard = mutex.acquire().await.unwrap();
    let waiting = in_line(&mutex);
    let waiting = stage.machines()[0].spawn(waiting);
    sleep(A_MOMENT).await;
    proxy.cut_off();
    sleep(SESSION).await;
    assert!(!waiting.is_finished());
    proxy.refuse_connections(false);
    connected(&client).await;
    assert!(guard.is_valid(), "the session has lived on");
    guard.release().await.unwrap();
    within(waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

#[history]
async fn who_is_next_and_is_not_polled_keeps_others_out_for_the_time_only(stage: Stage) {
    let [client, other] = stage.clients().await;
    let mutex = with(&client, LockOptions::new().cohort_time(TIME));
    for comes_late in [false, true] {
        let mut guard = Some(alone(&mutex).await);
        let mut unpolled = in_line(&mutex);
        let mut second = in_line(&mutex);
        if comes_late {
            guard.take().unwrap().release().await.unwrap();
            // No one else is there.
            sleep(2 * TIME).await;
            assert_eq!(queue(&stage, PATH), 1);
        }
        let start = Instant::now();
        let stranger = acquiring(&mutex_at(&other, PATH));
        if let Some(guard) = guard {
            sleep(A_MOMENT / 2).await;
            assert_eq!(queue(&stage, PATH), 2);
            guard.release().await.unwrap();
        }
        let stranger = within(stranger).await.unwrap().unwrap();
        takes(start, TIME);
        // It is next all the same, and behind the stranger.
        assert!(poll_once(&mut second).is_pending());
        assert!(poll_once(&mut unpolled).is_pending());
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 2);
        stranger.release().await.unwrap();
        within(unpolled).await.unwrap().release().await.unwrap();
        within(second).await.unwrap().release().await.unwrap();
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 0);
    }
}

#[history]
async fn after_its_time_it_is_handed_on_no_more(stage: Stage) {
    let [client, other] = stage.clients().await;
    let mutex = with(&client, LockOptions::new().cohort_time(TIME));
    let guard = alone(&mutex).await;
    let stranger = acquiring(&mutex_at(&other, PATH));
    sleep(A_MOMENT).await;
    let local = spawn_local(in_line(&mutex));
    sleep(TIME).await;
    guard.release().await.unwrap();
    let stranger = within(stranger).await.unwrap().unwrap();
    sleep(TIME).await;
    assert!(!local.is_finished());
    stranger.release().await.unwrap();
    within(local).await.unwrap().unwrap().release().await.unwrap();
}

#[history]
async fn waiting_in_line_for_a_time_ends_without_the_lock(stage: Stage) {
    let [client, other] = stage.clients().await;
    let mutex = selfish(&client);
    let tries = mutex.owned_by(&Owner::new());
    for held in [selfish(&client), mutex_at(&other, PATH)] {
        let guard = held.owned_by(&Owner::new()).acquire().await.unwrap();
        let first = acquiring(&mutex);
        sleep(A_MOMENT).await;
        let start = Instant::now();
        assert!(tries.try_acquire_for(TIME).await.unwrap().is_none());
        takes(start, TIME);
        guard.release().await.unwrap();
        let first = within(first).await.unwrap().unwrap();
        let waits = tries.clone();
        let waiting = spawn_local(async move { waits.try_acquire_for(TIME).await });
        sleep(TIME / 2).await;
        first.release().await.unwrap();
        within(waiting).await.unwrap().unwrap().expect("it was released").release().await.unwrap();
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 0);
    }
}

#[history]
async fn who_waits_for_silent_servers_is_told(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let mutex = selfish(&client);
    let tries = mutex.owned_by(&Owner::new());
    let is_told = async |tries: &InterProcessMutex| {
        let tried = took(TIME, tries.try_acquire_for(TIME)).await;
        assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    };
    proxy.set_traffic(Traffic::black_hole());
    // The first in line does not reach the queue.
    let first = in_line(&mutex);
    is_told(&tries).await;
    is_told(&mutex).await;
    // Nor does the next, if the first gives up.
    drop(first);
    is_told(&tries).await;
    proxy.set_traffic(Traffic::pass());
    let guard = within(mutex.acquire()).await.unwrap();
    // Whoever waits for a holder waits for it, be the servers silent or not.
    proxy.set_traffic(Traffic::black_hole());
    let tried = within(tries.try_acquire_for(TIME)).await;
    assert!(matches!(tried, Ok(None)), "{tried:?}");
    proxy.set_traffic(Traffic::pass());
    drop(guard);
    within(tries.acquire()).await.unwrap().release().await.unwrap();
}

/// All at once, and not one after the other.
#[history]
async fn all_in_line_learn_of_an_outage_under_the_policy(stage: Stage) {
    let (proxy, client) = stage.far(tries(SESSION, TIME, RetryPolicy::n_times(0, A_MOMENT))).await;
    let mutex = selfish(&client);
    let guard = mutex.acquire().await.unwrap();
    let waiting: Vec<_> = (0..20).map(|_| spawn_local(in_line(&mutex))).collect();
    sleep(A_MOMENT).await;
    proxy.set_traffic(Traffic::black_hole());
    proxy.cut();
    let start = Instant::now();
    for waiting in waiting {
        let error = within(waiting).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::NotConnected { .. } | Error::ZooKeeper { .. }), "{error}");
        // They wait on while the session lives.
        let took = start.elapsed();
        assert!(took > SESSION / 2 && took < SESSION + TIME + A_MOMENT, "{took:?}");
    }
    drop(guard);
    proxy.set_traffic(Traffic::pass());
}

#[history]
async fn lingering_ends_in_time(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = with(&client, LockOptions::new().cohort_time(LONG).linger(TIME));
    for gives_up in [false, true] {
        let guard = mutex.acquire().await.unwrap();
        let last = in_line(&mutex);
        guard.release().await.unwrap();
        // It is handed on, and no one else is there: that has no limit.
        sleep(2 * TIME).await;
        assert_eq!(queue(&stage, PATH), 1);
        if gives_up {
            drop(last);
        } else {
            within(last).await.unwrap().release().await.unwrap();
        }
        sleep(TIME + A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 0);
    }
}

#[history]
async fn each_hold_has_the_whole_time(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = with(&client, LockOptions::new().cohort_time(LONG).max_hold(TIME));
    let guard = mutex.acquire().await.unwrap();
    let [next, last] = [in_line(&mutex), in_line(&mutex)];
    sleep(TIME / 2).await;
    guard.release().await.unwrap();
    // Nothing is over while the next in line is not polled.
    sleep(2 * TIME).await;
    let next = within(next).await.unwrap();
    assert_eq!(next.remaining_hold(), Some(TIME));
    // A hold that is over does not stop the line.
    let last = took(TIME, within(last)).await.unwrap();
    assert!(!next.is_valid());
    assert_ne!(last.node_path(), next.node_path());
}

/// The time of a hold elapses, and its guard is kept.
#[history]
async fn a_hold_that_is_over_ends_the_cohort_for_no_one(stage: Stage) {
    let [client, other] = stage.clients().await;
    let mutex = with(&client, LockOptions::new().cohort_time(LONG).max_hold(LONG));
    let mut kept = vec![alone(&mutex).await];
    let line: Vec<_> = (0..10).map(|_| in_line(&mutex)).collect();
    let stranger = mutex_at(&other, PATH);
    let stranger = spawn_local(async move { stranger.acquire().await.unwrap().release().await });
    // The stranger is behind the cohort before the first hold is over.
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 2);
    kept[0].extend(TIME).unwrap();
    let mut last = (0, 0);
    for acquire in line {
        let guard = within(acquire).await.unwrap();
        guard.extend(TIME).unwrap();
        assert!(kept.iter().all(|kept| !kept.is_valid()));
        assert!((guard.fencing_token(), guard.turn()) > last);
        last = (guard.fencing_token(), guard.turn());
        // Some are released in time, and the others are kept.
        if kept.len() % 3 == 2 {
            drop(kept.remove(0));
            guard.release().await.unwrap();
        } else {
            kept.push(guard);
        }
    }
    within(stranger).await.unwrap().unwrap();
    drop(kept);
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 0);
}

/// Its machine stands still when a node is handed on, until the session is in doubt, or may have expired.
#[history((SuspectPolicy::GiveUp, SESSION / 2), (SuspectPolicy::Keep, SESSION * 5 / 6), (SuspectPolicy::Keep, SESSION * 2))]
async fn a_machine_that_stands_still_when_a_node_is_handed_on_stops_no_one(
    stage: Stage,
    suspect_policy: SuspectPolicy,
    time: Duration,
) {
    let machine = &stage.machines()[0];
    let client = stage.connect(0, session).await;
    let mutex = with(&client, LockOptions::new().cohort_time(LONG).suspect_policy(suspect_policy));
    let guard = mutex.acquire().await.unwrap();
    let mut next = in_line(&mutex);
    let third = in_line(&mutex);
    guard.release().await.unwrap();
    assert!(poll_once(&mut next).is_pending());
    machine.stand_still(time);
    let [next, third] = [next, third].map(|acquire| machine.spawn(acquire));
    for acquire in [next, third] {
        drop(within(acquire).await.unwrap().unwrap().unwrap());
    }
    sleep(SESSION).await;
}

#[history]
async fn there_is_no_limit_while_no_one_else_comes(stage: Stage) {
    let client = stage.client(0).await;
    let hold = ms(1);
    let options = LockOptions::new().cohort(1).cohort_time(hold);
    let mutex = mutex_at(&client, PATH).with_options(options).unwrap();
    let guard = alone(&mutex).await;
    let line: Vec<_> = (0..64).map(|_| in_line(&mutex)).collect();
    guard.release().await.unwrap();
    let served = RefCell::new(Vec::new());
    let visits = line.into_iter().enumerate().map(async |(number, acquire)| {
        let guard = acquire.await.unwrap();
        served.borrow_mut().push(number);
        sleep(hold).await;
        let node = guard.node_path().to_owned();
        guard.release().await.unwrap();
        node
    });
    let mut nodes = within(join_all(visits)).await;
    nodes.dedup();
    // The answer may have arrived, and not have been heard yet.
    assert!(nodes.len() <= 3, "{nodes:?}");
    assert_eq!(served.into_inner(), Vec::from_iter(0..64));
}
