//! What acquires promise where it is easily broken: by time, silence, and what one owner does twice.

use std::future::poll_fn;

use zk_recipes_simulation::machine::Machine;

use super::prelude::*;

const ROOT: &str = "/pitfalls";
const A: &str = "/pitfalls/a";
const B: &str = "/pitfalls/b";
const C: &str = "/pitfalls/c";
const D: &str = "/pitfalls/d";
const E: &str = "/pitfalls/e";

const SECOND: Duration = secs(1);
/// Much longer than anything takes whose turn has come.
const LONG: Duration = secs(15);
/// What comes after a lost packet, and the connection with it, comes within this time.
const SOON: Duration = secs(2);

/// A multi-lock of existing locks.
fn existing<const N: usize>(locks: [(&Client, &str); N]) -> MultiLock {
    MultiLock::of(locks.map(|(client, path)| lock_at(client, path))).unwrap()
}

async fn know(lock: &dyn InterProcessLock) {
    for _ in 0..3 {
        once(lock).await;
    }
}

fn acquiring(
    machine: &Machine,
    lock: impl InterProcessLock + 'static,
) -> JoinHandle<Option<Result<LockGuard>>> {
    machine.spawn(async move { lock.acquire().await })
}

async fn delete_only_child(servers: &MemoryEnsemble, path: &str) {
    let node = queue_of(servers, path, 1).await.remove(0);
    assert!(servers.delete(&format!("{path}/{node}")));
}

fn places(servers: &MemoryEnsemble) -> usize {
    servers.nodes_below(ROOT).iter().filter(|(_, node)| node.ephemeral_owner != 0).count()
}

// --- Deadlines ---

/// One deadline bounds the whole acquire, plus at most a few 100 ms.
#[history]
async fn one_deadline_bounds_multi_locks_in_a_multi_lock(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let inner = (0..50).map(|number| {
        let lock = lock_at(&client, &format!("{ROOT}/{number:02}"));
        Arc::new(MultiLock::of([lock]).unwrap()) as Lock
    });
    let lock = MultiLock::of(inner).unwrap();
    know(&lock).await;
    proxy.set_traffic(Traffic::pass().delay(ms(50)));
    for _ in 0..8 {
        let start = Instant::now();
        let outcome = within(lock.try_acquire_for(Duration::from_nanos(1))).await;
        assert!(start.elapsed() < ms(400), "{:?}: {outcome:?}", start.elapsed());
    }
    proxy.set_traffic(Traffic::pass());
    sleep(SECOND).await;
}

/// `None` means that somebody else has it; a queue that was not reached is an error.
#[history(ensembles = 2)]
async fn a_loss_shortly_before_the_deadline_does_not_hide_that_a_queue_was_not_reached(stage: Stage) {
    let one = stage.client(0).await;
    let proxy = stage.proxy(1).await;
    let two = proxy.client(usual).await;
    let lock = existing([(&one, A), (&two, B)]);
    know(&lock).await;
    for before in [50, 1].map(Duration::from_millis) {
        proxy.set_traffic(Traffic::black_hole_to_client());
        let (lock, start) = (lock.clone(), Instant::now());
        let trying = stage.machines()[0].spawn(async move { lock.try_acquire_for(2 * SECOND).await });
        let node = queue_of(stage.servers(), A, 1).await.remove(0);
        sleep_until(start + 2 * SECOND - before).await;
        assert!(stage.servers().node(&format!("{A}/{node}")).is_some());
        stage.servers().delete(&format!("{A}/{node}"));
        let outcome = match within(trying).await.unwrap().unwrap() {
            // What was lost could not be given back.
            Err(Error::Several { first, .. }) => Err(*first),
            outcome => outcome,
        };
        let is_told = matches!(outcome, Err(Error::NotConnected { .. }));
        assert!(is_told, "nobody else is there, {before:?} before: {outcome:?}");
        proxy.set_traffic(Traffic::pass());
        know(&*lock_at(&two, B)).await;
    }
}

/// A client that is closed while waiting is an error.
#[history]
async fn a_client_closed_shortly_before_the_deadline_is_an_error(stage: Stage) {
    let [two, holder] = stage.clients().await;
    let one = stage.client(0).await;
    let held = mutex_at(&holder, B).acquire().await.unwrap();
    let lock = existing([(&one, A), (&two, B)]);
    let start = Instant::now();
    let trying = stage.machines()[0].spawn(async move { lock.try_acquire_for(2 * SECOND).await });
    queue_of(stage.servers(), A, 1).await;
    sleep_until(start + ms(1950)).await;
    one.close().await;
    let outcome = within(trying).await.unwrap().unwrap();
    drop(held);
    assert_eq!(outcome.map(drop), Err(Error::Closed));
}

/// An error names the servers that did not answer.
#[history(ensembles = 2)]
async fn the_error_of_the_last_look_names_the_servers_that_were_silent(stage: Stage) {
    let one = stage.client(0).await;
    let proxy = stage.proxy(1).await;
    let two = proxy.client(usual).await;
    let lock = existing([(&one, A), (&two, B)]);
    know(&lock).await;
    let held = proxy.intercept(Request::Exists, Fate::HoldReply);
    let outcome = within(lock.try_acquire_for(2 * SECOND)).await;
    within(held.happened()).await;
    held.release();
    match outcome {
        Err(Error::NotConnected { hosts, .. }) => assert_eq!(hosts, proxy.address),
        other => panic!("{other:?}"),
    }
}

// --- What is lost ---

/// The owner itself has what is lost: nobody else is in the way, and waiting does not help. Others use the first lock,
/// each for a while, or not.
#[history]
async fn a_lost_hold_that_the_owner_keeps_is_reported(stage: Stage) {
    let [client, holder] = stage.clients().await;
    for (time, is_busy) in [(Some(3 * SECOND), false), (None, false), (None, true)] {
        let owner = Owner::new();
        let kept = mutex_at(&client, B);
        let locks: [Lock; 3] = [lock_at(&client, A), Arc::new(kept.clone()), lock_at(&client, C)];
        let lock = MultiLock::of(locks).unwrap().owned_by(&owner);
        let kept = kept.owned_by(&owner).acquire().await.unwrap();
        let held = mutex_at(&holder, C).acquire().await.unwrap();
        let trying = stage.machines()[0].spawn(async move {
            match time {
                Some(time) => lock.try_acquire_for(time).await,
                None => lock.acquire().await.map(Some),
            }
        });
        queue_of(stage.servers(), C, 2).await;
        sleep(SECOND / 4).await;
        delete_only_child(stage.servers(), B).await;
        within(kept.lost()).await;
        held.release().await.unwrap();
        let users: Vec<_> = (0..if is_busy { 2 } else { 0 })
            .map(|_| {
                let lock = mutex_at(&holder, A).owned_by(&Owner::new());
                stage.machines()[1].spawn(async move {
                    loop {
                        let guard = lock.acquire().await.unwrap();
                        sleep(SECOND * 7 / 10).await;
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        let outcome = timeout(LONG, trying).await;
        let is_told = matches!(outcome, Ok(Ok(Some(Err(Error::LockLost { .. })))));
        assert!(is_told, "{time:?}, busy: {is_busy}: {outcome:?}");
        users.iter().for_each(JoinHandle::abort);
        drop(kept);
        sleep(A_MOMENT).await;
    }
}

/// If one was lost, the acquire starts over.
#[history]
async fn existing_locks_are_looked_at_again_when_the_last_look_was_not_answered(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let other = stage.client(1).await;
    let client = proxy.client(usual).await;
    let lock = existing([(&client, A), (&client, B)]);
    know(&lock).await;
    for time in [Some(LONG), None] {
        // Its reply comes to B when A was acquired.
        let created = proxy.intercept_after(1, Fate::HoldReply);
        let looked = proxy.intercept(Request::Exists, Fate::LoseRequest);
        let lock = lock.clone();
        let acquiring = stage.machines()[0].spawn(async move {
            match time {
                Some(time) => lock.try_acquire_for(time).await.map(Option::unwrap),
                None => lock.acquire().await,
            }
        });
        within(created.happened()).await;
        delete_only_child(stage.servers(), A).await;
        let next = within(mutex_at(&other, A).acquire()).await.unwrap();
        created.release();
        within(looked.happened()).await;
        let outcome = timeout(5 * SECOND, acquiring).await;
        if let Ok(Ok(Some(Ok(guard)))) = outcome {
            let are_two = guard.is_valid() && next.is_valid();
            assert!(!are_two, "{time:?}: two hold {A}: {guard:?}, {next:?}");
        }
        drop(next);
        queue_of(stage.servers(), A, 0).await;
        queue_of(stage.servers(), B, 0).await;
    }
}

/// What is lost again and again fails the acquire, though each round takes a while.
#[history]
async fn slow_locks_that_are_lost_again_and_again_fail_a_try(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let paths: Vec<String> = (0..12).map(|number| format!("{ROOT}/{number:02}")).collect();
    let lock = MultiLock::of(paths.iter().map(|path| lock_at(&client, path))).unwrap();
    once(&lock).await;
    proxy.set_traffic(Traffic::pass().delay(ms(60)));
    let (first, servers) = (paths[0].clone(), stage.servers().clone());
    let deleting = stage.machines()[1].spawn(async move {
        loop {
            for node in servers.children(&first).unwrap() {
                // A round takes longer than that.
                sleep(ms(1150)).await;
                servers.delete(&format!("{first}/{node}"));
            }
            sleep(A_MOMENT).await;
        }
    });
    let outcome = timeout(3 * LONG, lock.try_acquire()).await;
    deleting.abort();
    proxy.set_traffic(Traffic::pass());
    assert!(matches!(outcome, Ok(Err(Error::PlaceLost { .. }))), "{outcome:?}");
}

// --- One owner, twice ---

/// An owner that would wait for itself is told.
#[history]
async fn a_writer_that_has_read_and_is_still_a_writer_does_not_wait_for_itself(stage: Stage) {
    let client = stage.client(0).await;
    let owner = Owner::new();
    let (one, other) = (ReadWriteLock::new(&client, A).unwrap(), ReadWriteLock::new(&client, A).unwrap());
    let writing = one.write().owned_by(&owner).acquire().await.unwrap();
    let is_told = async || {
        let outcome = timeout(A_MOMENT, other.write().owned_by(&owner).acquire()).await;
        matches!(outcome, Ok(Err(Error::WouldDeadlock { .. })))
    };
    assert!(is_told().await, "before it has read");
    let reading = one.read().owned_by(&owner).acquire().await.unwrap();
    assert!(is_told().await, "while it reads");
    reading.release().await.unwrap();
    assert!(writing.is_valid());
    assert!(is_told().await, "it waits for itself, forever");
}

/// No outage ends the wait of whoever waits in a queue while its session lives.
#[history]
async fn an_outage_does_not_end_the_wait_of_a_reader_whose_owner_comes_to_write(stage: Stage) {
    let holder = stage.client(1).await;
    let (proxy, client) =
        stage.far(tries(3 * SESSION, SECOND / 5, RetryPolicy::one_time(SECOND / 100))).await;
    let session = client.zookeeper().await.unwrap().session_id();
    let held = ReadWriteLock::new(&holder, A).unwrap().write().acquire().await.unwrap();
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let writing = acquiring(&stage.machines()[0], lock.write().owned_by(&owner));
    queue_of(stage.servers(), A, 2).await;
    let reading = acquiring(&stage.machines()[0], lock.read().owned_by(&owner));
    queue_of(stage.servers(), A, 3).await;
    sleep(A_MOMENT).await;
    let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
    proxy.refuse_connections(true);
    held.release().await.unwrap();
    let writing = within(writing).await.unwrap().unwrap().unwrap();
    within(lost.happened()).await;
    // Several times what the policy allows.
    sleep(2 * SECOND).await;
    proxy.refuse_connections(false);
    let outcome = within(reading).await.unwrap().unwrap();
    assert_eq!(client.zookeeper().await.unwrap().session_id(), session);
    assert!(writing.is_valid());
    assert!(outcome.is_ok(), "{outcome:?}");
}

// --- Two clients ---

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
