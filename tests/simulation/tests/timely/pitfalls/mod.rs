//! What acquires promise where it is easily broken: by time, silence, and what one owner does twice.

mod ends;

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
