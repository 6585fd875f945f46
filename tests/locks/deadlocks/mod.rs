//! Owners of one client that wait for each other: which deadlocks are found, and that nothing else is taken for one.

mod chaos;

use crate::prelude::*;
use std::collections::HashMap;
use std::sync::Mutex;

/// Longer than any test.
const LONG: Duration = secs(600);

const BRIEFLY: Duration = ms(200);

fn detecting() -> LockOptions {
    LockOptions::new().detect_deadlocks(true)
}

/// A mutex that takes part.
fn lock(client: &Client, name: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, &format!("/locks/{name}")).unwrap().with_options(detecting()).unwrap()
}

async fn hold(lock: &dyn InterProcessLock, owner: &Owner) -> LockGuard {
    within(lock.owned_by(owner).acquire()).await.unwrap()
}

/// Acquires in a task.
fn acquire(lock: &dyn InterProcessLock, owner: &Owner) -> JoinHandle<Result<LockGuard>> {
    let lock = lock.owned_by(owner);
    tokio::spawn(async move { lock.acquire().await })
}

/// The same, once it is known to wait: then it watches its own node, or those who hold permits.
async fn park(server: &Server, lock: &dyn InterProcessLock, owner: &Owner) -> JoinHandle<Result<LockGuard>> {
    // Some of these may just have been granted.
    let (before, permits) = waiting(server).await;
    let acquiring = acquire(lock, owner);
    eventually("it waits", || async {
        let (now, wanted) = waiting(server).await;
        (!now.is_subset(&before) || wanted > permits).then_some(())
    })
    .await;
    // In the session's order, the client hears of that before this answer.
    within(lock.participants()).await.unwrap();
    acquiring
}

async fn granted(waiting: JoinHandle<Result<LockGuard>>) -> LockGuard {
    within(waiting).await.unwrap().unwrap()
}

/// The cycle of a deadlock that an acquire was told of.
fn cycle(refused: Result<LockGuard>) -> Vec<(Owner, String)> {
    match refused {
        Err(Error::WouldDeadlock { path, cycle }) => {
            assert_eq!(path, cycle[0].path);
            cycle.into_iter().map(|waits| (waits.owner, waits.path)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn waits<const N: usize>(expected: [(&Owner, &str); N]) -> Vec<(Owner, String)> {
    expected.map(|(owner, path)| (owner.clone(), path.to_owned())).to_vec()
}

/// Sees to it that an acquire goes on waiting, for a while.
async fn waits_on(waiting: &mut JoinHandle<Result<LockGuard>>) {
    let outcome = timeout(BRIEFLY, waiting).await;
    assert!(outcome.is_err(), "{outcome:?}");
}

#[tokio::test]
async fn the_acquire_that_closes_a_cycle_is_told_and_leaves() {
    let (server, zookeeper, [client]) = server_with_clients().await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (a, b) = (lock(&client, "a"), lock(&client, "b"));
    let first = hold(&a, &one).await;
    let held = hold(&b, &two).await;
    let waiting = park(&server, &b, &one).await;
    let refused = within(a.owned_by(&two).acquire()).await;
    let message = refused.as_ref().unwrap_err().to_string();
    assert!(message.contains(&format!("{two} waits for /locks/a, held or awaited by {one}")), "{message}");
    assert_eq!(cycle(refused), waits([(&two, "/locks/a"), (&one, "/locks/b")]));
    queue_of(&zookeeper, "/locks/a", 1).await;
    // It may wait for what closes no cycle, and the other one goes on.
    drop(hold(&lock(&client, "c"), &two).await);
    held.release().await.unwrap();
    drop(granted(waiting).await);
    drop(first);
    drop(hold(&a, &two).await);
    assert_nothing_left(&server, &zookeeper, "/locks/a").await;
}

#[tokio::test]
async fn three_in_a_ring_and_those_behind_them() {
    let (server, _, [client]) = server_with_clients().await;
    let owners = [Owner::new(), Owner::new(), Owner::new()];
    let locks = ["a", "b", "c"].map(|name| lock(&client, name));
    let mut held = Vec::new();
    for (lock, owner) in locks.iter().zip(&owners) {
        held.push(hold(lock, owner).await);
    }
    // Behind the ring, and no part of it.
    let bystander = park(&server, &locks[0], &Owner::new()).await;
    let first = park(&server, &locks[1], &owners[0]).await;
    let second = park(&server, &locks[2], &owners[1]).await;
    let refused = within(locks[0].owned_by(&owners[2]).acquire()).await;
    let [one, two, three] = &owners;
    // The bystander is ahead of the one that closes the ring.
    let found = cycle(refused);
    assert_eq!(found[0], (three.clone(), "/locks/a".to_owned()));
    let rest = waits([(one, "/locks/b"), (two, "/locks/c")]);
    assert_eq!(found[found.len() - 2..], rest, "{found:?}");
    drop(held.pop());
    drop(granted(second).await);
    drop(held.pop());
    drop(granted(first).await);
    drop(held.pop());
    drop(granted(bystander).await);
}

#[tokio::test]
async fn a_ticket_and_a_member_of_a_cohort_are_told() {
    let (server, _, [client]) = server_with_clients().await;
    let [one, two, three] = [Owner::new(), Owner::new(), Owner::new()];
    let a = lock(&client, "a").with_options(detecting().cohort(10).cohort_time(LONG)).unwrap();
    let b = lock(&client, "b");
    let first = hold(&a, &one).await;
    let second = hold(&b, &two).await;
    let waiting = park(&server, &b, &one).await;
    // In line, and in the queue.
    let expected = waits([(&two, "/locks/a"), (&one, "/locks/b")]);
    assert_eq!(cycle(within(a.owned_by(&two).acquire()).await), expected);
    let ticket = within(a.owned_by(&two).enqueue()).await.unwrap();
    assert_eq!(cycle(within(ticket.acquired()).await), expected);
    // One in line that waits for the holder, and is waited for itself.
    let third = hold(&lock(&client, "c"), &three).await;
    let in_line = acquire(&a, &three);
    let mut others = acquire(&lock(&client, "c"), &Owner::new());
    waits_on(&mut others).await;
    drop(second);
    drop(granted(waiting).await);
    drop(first);
    drop((granted(in_line).await, third));
    drop(granted(others).await);
}

#[tokio::test]
async fn readers_and_writers() {
    let (server, _, [client]) = server_with_clients().await;
    let [one, two, three] = [Owner::new(), Owner::new(), Owner::new()];
    let rw = ReadWriteLock::new(&client, "/rw").unwrap().with_options(detecting()).unwrap();
    let a = lock(&client, "a");

    // A writer waits for all readers: one that waits for it is enough.
    let readers = [hold(rw.read(), &one).await, hold(rw.read(), &three).await];
    let held = hold(&a, &two).await;
    let waiting = park(&server, &a, &one).await;
    let refused = within(rw.write().owned_by(&two).acquire()).await;
    assert_eq!(cycle(refused), waits([(&two, "/rw"), (&one, "/locks/a")]));
    // Another reader waits for no reader.
    drop(within(rw.read().owned_by(&two).acquire()).await.unwrap());
    // Unless a writer is in between, who waits for the readers and holds nothing.
    let writer = Owner::new();
    let mut writing = park(&server, rw.write(), &writer).await;
    let refused = within(rw.read().owned_by(&two).acquire()).await;
    assert_eq!(cycle(refused), waits([(&two, "/rw"), (&writer, "/rw"), (&one, "/locks/a")]));
    waits_on(&mut writing).await;
    drop(held);
    drop((granted(waiting).await, readers));
    drop(granted(writing).await);
}

#[tokio::test]
async fn permits_are_lacking_only_if_all_that_could_be_given_back_are_stuck() {
    let (server, _, [client]) = server_with_clients().await;
    let [one, two, three] = [Owner::new(), Owner::new(), Owner::new()];
    let a = lock(&client, "a");
    let permits = Semaphore::new(&client, "/permits", 3).unwrap();
    let permits = permits.with_options(detecting()).unwrap();
    let mut held = Vec::new();
    for owner in [&one, &two, &two] {
        held.push(hold(&permits, owner).await);
    }
    let guard = hold(&a, &three).await;
    let first = park(&server, &a, &one).await;
    // The other permits may come back.
    let mut waiting = park(&server, &permits, &three).await;
    waits_on(&mut waiting).await;
    // Unless their owner waits as well. This time, the one that closes the cycle waits for the mutex.
    let refused = within(a.owned_by(&two).acquire()).await;
    let found = cycle(refused);
    assert_eq!(found[0], (two.clone(), "/locks/a".to_owned()));
    assert_eq!(found.last().unwrap(), &(three.clone(), "/permits".to_owned()));
    drop(held.pop());
    // It has one permit, and two of three are stuck: those of `one`, and its own.
    let third = granted(waiting).await;
    let both = permits.many(2).unwrap();
    let refused = within(both.owned_by(&three).acquire()).await;
    assert!(!cycle(refused).is_empty());
    drop((third, guard));
    drop(granted(first).await);
}

/// As permits are mostly used: one task acquires them, and others give them back.
#[tokio::test]
async fn permits_and_guards_that_are_moved_to_other_tasks() {
    let (server, _, [client]) = server_with_clients().await;
    let dispatcher = |permits: Arc<dyn InterProcessLock>, other: InterProcessMutex| async move {
        let mut tasks = Vec::new();
        for _ in 0..20 {
            let permit = permits.acquire().await.unwrap();
            let other = other.clone();
            tasks.push(tokio::spawn(async move {
                let guard = other.acquire().await.unwrap();
                drop(guard);
                drop(permit);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    };
    let permits: Arc<dyn InterProcessLock> = Arc::new(Semaphore::new(&client, "/permits", 2).unwrap());
    let single: Arc<dyn InterProcessLock> = Arc::new(SemaphoreMutex::new(&client, "/single").unwrap());
    let a = lock(&client, "a");
    let tasks = [&permits, &permits, &single, &single]
        .map(|permits| tokio::spawn(dispatcher(permits.clone(), a.clone())));
    for task in tasks {
        within(task).await.unwrap();
    }
    // A guard whose owner does not wait.
    let [one, two] = [Owner::new(), Owner::new()];
    let (held, other) = (hold(&a, &one).await, hold(&lock(&client, "b"), &two).await);
    let mut waiting = park(&server, &a, &two).await;
    waits_on(&mut waiting).await;
    tokio::spawn(async move { drop(held) });
    drop((granted(waiting).await, other));
}

#[tokio::test]
async fn multi_locks_hold_what_they_have_while_they_wait() {
    let (server, zookeeper, [client]) = server_with_clients().await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (a, b) = (lock(&client, "a"), lock(&client, "b"));
    let both = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap().with_options(detecting()).unwrap();
    let other: Arc<dyn InterProcessLock> = Arc::new(
        MultiLock::of([Arc::new(a.clone()) as Arc<dyn InterProcessLock>, Arc::new(b.clone())]).unwrap(),
    );
    for multi in [&both as &dyn InterProcessLock, &*other] {
        // In the wrong order: it has `b`, and wants `a`.
        let held = hold(&b, &one).await;
        let waiting = park(&server, multi, &two).await;
        let refused = within(a.owned_by(&one).acquire()).await;
        assert_eq!(cycle(refused), waits([(&one, "/locks/a"), (&two, "/locks/b")]));
        drop(held);
        drop(granted(waiting).await);

        // The multi-lock closes the cycle, and keeps none of its places.
        let c = hold(&lock(&client, "c"), &two).await;
        let held = hold(&b, &one).await;
        let waiting = park(&server, &lock(&client, "c"), &one).await;
        let refused = within(multi.owned_by(&two).acquire()).await;
        assert_eq!(cycle(refused), waits([(&two, "/locks/b"), (&one, "/locks/c")]));
        queue_of(&zookeeper, "/locks/a", 0).await;
        queue_of(&zookeeper, "/locks/b", 1).await;
        drop(c);
        drop((granted(waiting).await, held));
    }
}

#[tokio::test]
async fn what_ends_by_itself_is_no_deadlock() {
    let (server, _, [client]) = server_with_clients().await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (a, b) = (lock(&client, "a"), lock(&client, "b"));
    let first = hold(&a, &one).await;
    let second = hold(&b, &two).await;

    // A wait with a deadline.
    let before = watches(&server).await;
    let timed = {
        let b = b.owned_by(&one);
        tokio::spawn(async move { b.try_acquire_for(LONG).await })
    };
    eventually("it waits", || async { (watches(&server).await > before).then_some(()) }).await;
    let mut waiting = park(&server, &a, &two).await;
    waits_on(&mut waiting).await;
    timed.abort();
    // The one that closes the cycle has a deadline itself.
    let timed_out = within(answered(async || b.owned_by(&one).try_acquire_for(BRIEFLY).await)).await;
    assert!(timed_out.is_none());
    assert!(b.owned_by(&one).try_acquire().await.unwrap().is_none());
    assert_eq!(
        cycle(within(b.owned_by(&one).acquire()).await),
        waits([(&one, "/locks/b"), (&two, "/locks/a")])
    );
    drop(first);
    drop((granted(waiting).await, second));

    // A hold with a maximum time.
    let brief = a.with_options(detecting().max_hold(secs(2))).unwrap();
    let _first = hold(&brief, &one).await;
    let second = hold(&b, &two).await;
    let waiting = park(&server, &b, &one).await;
    drop((within(a.owned_by(&two).acquire()).await.unwrap(), second));
    drop(granted(waiting).await);
}

#[tokio::test]
async fn waits_and_holds_that_are_over_do_not_count() {
    let (server, zookeeper, [client]) = server_with_clients().await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (a, b) = (lock(&client, "a"), lock(&client, "b"));

    // A wait that was cancelled.
    let (first, second) = (hold(&a, &one).await, hold(&b, &two).await);
    let cancelled = park(&server, &b, &one).await;
    cancelled.abort();
    let _ = cancelled.await;
    let waiting = park(&server, &a, &two).await;
    drop(first);
    drop(granted(waiting).await);

    // A guard that was dropped, and re-entered ones.
    let first = hold(&a, &one).await;
    let again = hold(&a, &one).await;
    drop(first);
    let mut waiting = park(&server, &a, &two).await;
    drop(again);
    let third = within(&mut waiting).await.unwrap().unwrap();
    let waiting = park(&server, &b, &one).await;
    drop(hold(&a, &two).await);
    drop((third, second));
    drop(granted(waiting).await);

    // A hold that was lost.
    let (first, second) = (hold(&a, &one).await, hold(&b, &two).await);
    let waiting = park(&server, &b, &one).await;
    zookeeper.delete(first.node_path(), None).await.unwrap();
    within(first.lost()).await;
    drop((hold(&a, &two).await, second));
    drop(granted(waiting).await);

    drop(first);

    // Whose hold was lost waits like any other.
    let (first, second) = (hold(&a, &one).await, hold(&b, &two).await);
    zookeeper.delete(first.node_path(), None).await.unwrap();
    within(first.lost()).await;
    let rival = hold(&a, &two).await;
    let other = hold(&lock(&client, "c"), &one).await;
    let waiting = park(&server, &lock(&client, "c"), &two).await;
    assert_eq!(
        cycle(within(lock(&client, "a").owned_by(&one).acquire()).await),
        waits([(&one, "/locks/a"), (&two, "/locks/c")])
    );
    drop(other);
    drop((granted(waiting).await, rival, second));
}

#[tokio::test]
async fn the_search_ends_at_other_clients() {
    let (server, _, [client, foreign]) = server_with_clients().await;
    let [one, two] = [Owner::new(), Owner::new()];
    let first = hold(&lock(&client, "a"), &one).await;
    let second = hold(&lock(&foreign, "b"), &two).await;
    let mut waiting =
        [park(&server, &lock(&client, "b"), &one).await, park(&server, &lock(&foreign, "a"), &two).await];
    for waiting in &mut waiting {
        waits_on(waiting).await;
    }
    // Others of this client in the queues change nothing.
    let mut others = park(&server, &lock(&client, "b"), &Owner::new()).await;
    waits_on(&mut others).await;
    drop(second);
    let [mine, theirs] = waiting;
    drop((granted(mine).await, first));
    drop(granted(theirs).await);
    drop(granted(others).await);
}

#[tokio::test]
async fn locks_that_take_no_part() {
    let (server, _, [client]) = server_with_clients().await;
    let [one, two] = [Owner::new(), Owner::new()];
    let silent = |name| lock(&client, name).with_options(LockOptions::new()).unwrap();
    // The waits, then the holds.
    for (holds, waits) in [(lock(&client, "a"), silent("a")), (silent("a"), lock(&client, "a"))] {
        let (first, second) = (hold(&holds, &one).await, hold(&lock(&client, "b"), &two).await);
        let waiting = park(&server, &lock(&client, "b"), &one).await;
        let mut closing = park(&server, &waits, &two).await;
        waits_on(&mut closing).await;
        waiting.abort();
        drop(first);
        drop((granted(closing).await, second));
    }
}

/// Whose place at the gate of a semaphore waits for one that is ahead there.
#[tokio::test]
async fn whoever_takes_over_a_place_at_the_gate_hears_of_a_deadlock() {
    let (server, _, [client]) = server_with_clients().await;
    let permits = Semaphore::new(&client, "/locks/permits", 1).unwrap().with_options(detecting()).unwrap();
    let owner = Owner::new();
    let held = permits.owned_by(&owner).acquire().await.unwrap();
    let ahead = acquire(&permits, &Owner::new());
    eventually("it waits", async || (watches_on_children(&server).await > 0).then_some(())).await;
    let early = permits.owned_by(&Owner::new());
    let mut early = Box::pin(early.acquire());
    let before = server.watch_count().await.unwrap();
    eventually("it waits behind that one", || {
        assert!(poll_once(&mut early).is_pending());
        async { (server.watch_count().await.unwrap() > before).then_some(()) }
    })
    .await;
    // Its place is kept for a moment.
    drop(early);
    let refused = within(permits.owned_by(&owner).acquire()).await;
    assert!(matches!(refused, Err(Error::WouldDeadlock { .. })), "{refused:?}");
    held.release().await.unwrap();
    within(ahead).await.unwrap().unwrap().release().await.unwrap();
}

/// Whose other acquire it would have entered again, before it was lost.
#[tokio::test]
async fn a_wait_beside_a_hold_that_is_lost_hears_of_a_deadlock() {
    for is_lost_first in [true, false] {
        let server = empty_server().await;
        let zookeeper = bystander(&server).await;
        let [client, foreign] = connect_many(&server).await;
        let [one, two] = [Owner::new(), Owner::new()];
        let rw = |client| ReadWriteLock::new(client, "/locks/rw").unwrap().with_options(detecting()).unwrap();
        let (own, other) = (rw(&client), lock(&client, "z"));
        let held = hold(&other, &one).await;
        let writer = hold(rw(&foreign).write(), &Owner::new()).await;
        let mut readers = Vec::new();
        for (owner, count) in [(&one, 2), (&two, 3)] {
            readers.push(acquire(own.read(), owner));
            queue_of(&zookeeper, "/locks/rw", count).await;
        }
        let writing = own.write().owned_by(&one);
        let mut writing = pin!(writing.acquire());
        assert!(timeout(BRIEFLY, &mut writing).await.is_err());
        queue_of(&zookeeper, "/locks/rw", 4).await;
        // It is not polled for a while.
        drop(writer);
        let readers = join_all(readers.into_iter().map(granted)).await;
        let lose = async || {
            zookeeper.delete(readers[0].node_path(), None).await.unwrap();
            within(readers[0].lost()).await;
        };
        if is_lost_first {
            lose().await;
        }
        let mut waiting = acquire(&other, &two);
        if !is_lost_first {
            queue_of(&zookeeper, "/locks/z", 2).await;
            waits_on(&mut waiting).await;
            lose().await;
        }
        let outcome = async {
            tokio::select! {
                outcome = &mut writing => outcome,
                outcome = &mut waiting => outcome.unwrap(),
            }
        };
        let error = within(outcome).await.unwrap_err();
        assert!(matches!(&error, Error::WouldDeadlock { cycle, .. } if cycle.len() == 2), "{error}");
        drop((held, readers));
    }
}
