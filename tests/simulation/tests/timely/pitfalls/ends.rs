//! Clients that are closed, and packets that are lost, while several locks are acquired.

use super::*;

/// Two multi-locks cannot deadlock, however their clients are connected.
#[history]
async fn locks_below_a_chroot_are_acquired_in_the_order_of_everybody_else(stage: Stage) {
    assert!(stage.servers().create("/z", b"", false));
    let [one, two] = stage.clients().await;
    let below = stage.connect_to(0, plain, &format!("{}/z", stage.address_of(0))).await;
    // What is /z/a to everybody else, and /m.
    let mixed = existing([(&below, "/a"), (&one, "/m")]);
    let plain = existing([(&two, "/m"), (&two, "/z/a")]);
    let turns = async |lock: MultiLock| {
        for _ in 0..300 {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    };
    assert!(timeout(LONG, join(turns(mixed), turns(plain))).await.is_ok(), "each waits for the other");
}

/// Whoever vanishes at any await of an acquire of existing locks leaves nothing.
#[history]
async fn a_cancelled_acquire_of_nested_existing_locks_leaves_nothing(stage: Stage) {
    let [one, holder] = stage.clients().await;
    let two = stage.client(0).await;
    let lock = MultiLock::of([
        Arc::new(existing([(&one, A), (&two, B)])) as Lock,
        Arc::new(Semaphore::new(&two, C, 1).unwrap()),
        Arc::new(MultiLock::new(&one, [D, E]).unwrap()),
    ])
    .unwrap();
    for path in [None, Some(B), Some(E)] {
        let held = match path {
            Some(path) => Some(mutex_at(&holder, path).acquire().await.unwrap()),
            None => None,
        };
        for polls in 1..25 {
            let polling = async {
                match polls % 3 {
                    0 => drop(poll_times(lock.acquire(), polls).await),
                    1 => drop(poll_times(lock.try_acquire(), polls).await),
                    _ => drop(poll_times(lock.try_acquire_for(SECOND), polls).await),
                }
            };
            // Who waits is not polled that often.
            let _ = timeout(SECOND / 4, polling).await;
            if polls % 5 == 0 {
                sleep(A_MOMENT).await;
                assert_eq!(places(stage.servers()), usize::from(held.is_some()), "{path:?}, {polls}");
            }
        }
        // After watches were set as well.
        let cancelled = timeout(SECOND / 4, lock.acquire()).await;
        assert!(cancelled.is_err() || held.is_none());
        drop(cancelled);
        sleep(A_MOMENT).await;
        assert_eq!(places(stage.servers()), usize::from(held.is_some()), "{path:?}");
        if let Some(held) = held {
            held.release().await.unwrap();
        }
        // Lock objects watch their paths.
        sleep(A_MOMENT).await;
        assert!(stage.servers().watch_count() <= 6, "{} watches", stage.servers().watch_count());
    }
}

/// What is lost by closing an adopted client is removed when the acquire ends.
#[history]
async fn an_acquire_that_ends_because_one_of_its_clients_is_closed_leaves_nothing(stage: Stage) {
    let [two, holder] = stage.clients().await;
    let session = stage.client(0).await;
    for is_adopted in [false, true] {
        let one = if is_adopted {
            let builder = stage.machines()[0].builder();
            builder.from_zookeeper(session.zookeeper().await.unwrap()).unwrap()
        } else {
            stage.client(0).await
        };
        let held = mutex_at(&holder, B).acquire().await.unwrap();
        let lock = existing([(&one, A), (&two, B), (&one, C)]);
        let waiting = acquiring(&stage.machines()[0], lock);
        queue_of(stage.servers(), A, 1).await;
        queue_of(stage.servers(), B, 2).await;
        sleep(SECOND / 5).await;
        one.close().await;
        let outcome = within(waiting).await.unwrap().unwrap();
        assert_eq!(outcome.map(drop), Err(Error::Closed));
        sleep(A_MOMENT).await;
        let left = |path| stage.servers().children(path).unwrap().len();
        assert_eq!([left(A), left(B)], [0, 1], "adopted: {is_adopted}");
        held.release().await.unwrap();
    }
}

/// Closing a client wakes every waiter, whoever has taken the first lock meanwhile.
#[history]
async fn a_closed_client_ends_the_wait_when_others_take_the_first_lock(stage: Stage) {
    let [one, holder] = stage.clients().await;
    let two = stage.client(0).await;
    let _held = mutex_at(&holder, C).acquire().await.unwrap();
    let waiting = acquiring(&stage.machines()[0], existing([(&one, A), (&two, B), (&one, C)]));
    queue_of(stage.servers(), A, 1).await;
    queue_of(stage.servers(), C, 2).await;
    let next = acquiring(&stage.machines()[1], mutex_at(&holder, A));
    queue_of(stage.servers(), A, 2).await;
    sleep(SECOND / 4).await;
    two.close().await;
    let outcome = timeout(SECOND, waiting).await;
    let next = within(next).await.unwrap().unwrap().unwrap();
    assert!(next.is_valid());
    assert!(matches!(outcome, Ok(Ok(Some(Err(Error::Closed))))), "{outcome:?}");
}

// --- Connections that end ---

/// A lost connection does not end the wait.
#[history]
async fn a_connection_that_comes_and_goes_does_not_end_the_wait_for_existing_locks(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let holder = stage.client(1).await;
    let client = proxy.client(usual).await;
    let options = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let at = |path| mutex_at(&client, path).with_options(options.clone()).unwrap();
    let held = mutex_at(&holder, B).acquire().await.unwrap();
    let lock = MultiLock::of([Arc::new(at(A)) as Lock, Arc::new(at(B))]).unwrap();
    let plain = acquiring(&stage.machines()[0], at(B).owned_by(&Owner::new()));
    let waiting = acquiring(&stage.machines()[0], lock.owned_by(&Owner::new()));
    let start = Instant::now();
    while start.elapsed() < secs(25) {
        sleep(SECOND * 3 / 10).await;
        proxy.cut();
        assert!(!plain.is_finished(), "{:?}", plain.await);
        assert!(!waiting.is_finished(), "after {:?}: {:?}", start.elapsed(), waiting.await);
    }
    held.release().await.unwrap();
    within(plain).await.unwrap().unwrap().unwrap().release().await.unwrap();
    within(waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

/// What a try gives up itself is in nobody's way.
#[history]
async fn a_try_of_locks_that_are_given_up_in_doubt_does_not_say_that_somebody_has_them(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let options = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let at = |path| Arc::new(mutex_at(&client, path).with_options(options.clone()).unwrap()) as Lock;
    let permit = Arc::new(Semaphore::new(&client, C, 1).unwrap());
    let lock = MultiLock::of([at(A), at(B), permit]).unwrap();
    know(&lock).await;
    for round in 0..40 {
        let fate = if round % 2 == 0 { Fate::LoseReply } else { Fate::LoseRequest };
        let _lost = proxy.intercept(Request::Exists, fate);
        match timeout(SOON, lock.try_acquire()).await {
            Ok(Ok(Some(guard))) => drop(guard.release().await),
            other => panic!("nobody else is there, {fate:?}: {other:?}"),
        }
    }
}

fn packets(count: usize) -> impl Iterator<Item = (usize, Fate)> {
    (0..count).flat_map(|index| [(index, Fate::LoseRequest), (index, Fate::LoseReply)])
}

/// A try that nobody else is in the way of does not say that somebody is, whatever one packet does.
#[history]
async fn one_lost_packet_does_not_make_free_locks_taken(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let subjects: [(&str, Lock); 5] = [
        ("mutex", lock_at(&client, C)),
        ("existing", Arc::new(existing([(&client, A), (&client, B)]))),
        ("paths", Arc::new(MultiLock::new(&client, [D, E]).unwrap())),
        ("permits", Arc::new(Semaphore::new(&client, "/pitfalls/s", 3).unwrap().many(2).unwrap())),
        ("reading", Arc::new(ReadWriteLock::new(&client, "/pitfalls/r").unwrap().read().clone())),
    ];
    for (kind, lock) in subjects {
        know(&*lock).await;
        for (index, fate) in packets(8) {
            for is_timed in [false, true] {
                let lock = lock.owned_by(&Owner::new());
                let _lost = proxy.intercept_after(index, fate);
                let trying = async {
                    if is_timed { lock.try_acquire_for(LONG).await } else { lock.try_acquire().await }
                };
                match timeout(SOON, trying).await {
                    Ok(Ok(Some(guard))) => drop(guard.release().await),
                    other => panic!("{kind}, timed {is_timed}, {fate:?} {index}: {other:?}"),
                }
            }
        }
    }
    sleep(SECOND).await;
}

/// Waits until the calls of one owner have ended, which does not take long once others have released.
async fn all_of(what: &str, calls: Vec<JoinHandle<Option<Result<LockGuard>>>>) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for (number, call) in calls.into_iter().enumerate() {
        match timeout(SOON, call).await {
            Ok(Ok(Some(Ok(guard)))) => guards.push(guard),
            other => panic!("{what}, call {number}: {other:?}"),
        }
    }
    guards
}

/// One request or reply is lost while an owner's write and reads wait together.
#[history]
async fn one_lost_packet_keeps_no_call_of_one_owner_waiting(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let holder = stage.client(1).await;
    let client = proxy.client(usual).await;
    let outside = ReadWriteLock::new(&holder, A).unwrap();
    for (index, fate) in packets(14) {
        let what = format!("{fate:?} {index}");
        let owner = Owner::new();
        let lock = ReadWriteLock::new(&client, A).unwrap();
        let held = outside.write().acquire().await.unwrap();
        let mut calls = Vec::new();
        for number in 0..3 {
            let machine = &stage.machines()[0];
            calls.push(match number {
                0 => acquiring(machine, lock.write().owned_by(&owner)),
                _ => acquiring(machine, lock.read().owned_by(&owner)),
            });
            queue_of(stage.servers(), A, 2 + number).await;
        }
        sleep(A_MOMENT).await;
        let lost = proxy.intercept_after(index, fate);
        held.release().await.unwrap();
        let mut guards = all_of(&what, calls).await;
        drop(lost);
        fastrand::shuffle(&mut guards);
        while let Some(guard) = guards.pop() {
            assert!(guard.is_valid(), "{what}: {guard:?}");
            assert!(outside.write().try_acquire().await.unwrap().is_none(), "{what}: not held: {guard:?}");
            if fastrand::bool() { drop(guard) } else { drop(guard.release().await) }
        }
        within(outside.write().acquire()).await.unwrap().release().await.unwrap();
        queue_of(stage.servers(), A, 0).await;
    }
}

/// The same for two calls for existing locks, with members on two clients.
#[history]
async fn one_lost_packet_keeps_no_call_for_existing_locks_waiting(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let holder = stage.client(1).await;
    let (one, two) = (proxy.client(usual).await, proxy.client(usual).await);
    for (index, fate) in packets(14) {
        let what = format!("{fate:?} {index}");
        let policy = if index % 2 == 0 { SuspectPolicy::GiveUp } else { SuspectPolicy::Keep };
        let options = LockOptions::new().suspect_policy(policy);
        let at_a = mutex_at(&one, A).with_options(options).unwrap();
        let locks: [Lock; 3] =
            [Arc::new(at_a), lock_at(&two, B), Arc::new(Semaphore::new(&one, C, 2).unwrap())];
        let lock = MultiLock::of(locks).unwrap().owned_by(&Owner::new());
        let held = mutex_at(&holder, B).acquire().await.unwrap();
        let mut calls = Vec::new();
        for number in 0..2 {
            let lock = lock.clone();
            calls.push(stage.machines()[0].spawn(async move {
                match number {
                    0 => lock.acquire().await,
                    _ => lock.try_acquire_for(LONG).await.map(Option::unwrap),
                }
            }));
            queue_of(stage.servers(), B, 2 + number).await;
        }
        // Whether A is watched by then differs.
        sleep(Duration::from_millis(fastrand::u64(0..250))).await;
        let lost = proxy.intercept_after(index, fate);
        held.release().await.unwrap();
        drop(all_of(&what, calls).await);
        drop(lost);
        for path in [A, B, "/pitfalls/c/leases", "/pitfalls/c/locks"] {
            queue_of(stage.servers(), path, 0).await;
        }
    }
}

/// It has a place in the first queue, whose node has been written to, and cannot watch it anew.
#[history]
async fn a_waiter_of_a_multi_lock_rests_while_there_is_no_connection(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let client = proxy.client(|builder| builder.session_timeout(6 * SESSION).connection_timeout(LONG));
    let (client, other) = (client.await, stage.client(1).await);
    let held = mutex_at(&other, B).acquire().await.unwrap();
    let lock = MultiLock::new(&client, [A, B]).unwrap();
    let mut acquiring = Box::pin(async move { lock.acquire().await.map(drop) });
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let acquiring = tokio::spawn(poll_fn(move |cx| {
        counted.fetch_add(1, SeqCst);
        acquiring.as_mut().poll(cx)
    }));
    let [place] = queue_of(stage.servers(), A, 1).await.try_into().unwrap();
    sleep(A_MOMENT).await;
    let lost = proxy.intercept(Request::GetData, Fate::LoseRequest);
    assert!(stage.servers().set_data(&format!("{A}/{place}"), b"changed"));
    within(lost.happened()).await;
    proxy.cut_off();
    sleep(A_MOMENT).await;
    let before = polls.load(SeqCst);
    sleep(SECOND).await;
    assert_eq!(polls.load(SeqCst) - before, 0);
    proxy.refuse_connections(false);
    held.release().await.unwrap();
    within(acquiring).await.unwrap().unwrap();
}
