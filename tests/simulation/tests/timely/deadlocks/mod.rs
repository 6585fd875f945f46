//! Owners of one client that wait for each other: which deadlocks are found, and that nothing else is taken for one.

mod by_chance;

use std::collections::HashMap;

use super::prelude::*;

const LONG: Duration = secs(600);

type Waiting = JoinHandle<Result<LockGuard>>;

fn detecting() -> LockOptions {
    LockOptions::new().detect_deadlocks(true)
}

/// A mutex that takes part.
fn lock(client: &Client, name: &str) -> InterProcessMutex {
    mutex_at(client, &format!("/locks/{name}")).with_options(detecting()).unwrap()
}

fn read_write(client: &Client) -> ReadWriteLock {
    ReadWriteLock::new(client, "/locks/rw").unwrap().with_options(detecting()).unwrap()
}

async fn hold(lock: &dyn InterProcessLock, owner: &Owner) -> LockGuard {
    within(lock.owned_by(owner).acquire()).await.unwrap()
}

/// Acquires in a task, and lets it wait.
async fn park(lock: &dyn InterProcessLock, owner: &Owner) -> Waiting {
    let waiting = in_task(lock.owned_by(owner));
    sleep(A_MOMENT).await;
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    waiting
}

/// What closes a cycle is told so.
async fn refused(lock: &dyn InterProcessLock, owner: &Owner) -> Vec<(Owner, String)> {
    cycle(within(lock.owned_by(owner).acquire()).await)
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

/// It goes on waiting.
async fn waits_on(waiting: &Waiting) {
    sleep(SESSION).await;
    assert!(!waiting.is_finished());
}

#[history]
async fn the_acquire_that_closes_a_cycle_is_told_and_leaves(stage: Stage) {
    let client = stage.client(0).await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (a, b) = (lock(&client, "a"), lock(&client, "b"));
    let (first, held) = (hold(&a, &one).await, hold(&b, &two).await);
    let waiting = park(&b, &one).await;
    let refused = within(a.owned_by(&two).acquire()).await;
    let message = refused.as_ref().unwrap_err().to_string();
    assert!(message.contains(&format!("{two} waits for /locks/a, held or awaited by {one}")), "{message}");
    assert_eq!(cycle(refused), waits([(&two, "/locks/a"), (&one, "/locks/b")]));
    queue_of(stage.servers(), "/locks/a", 1).await;
    // It may wait for what closes no cycle, and the other one goes on.
    drop(hold(&lock(&client, "c"), &two).await);
    held.release().await.unwrap();
    drop(granted(waiting).await);
    drop(first);
    drop(hold(&a, &two).await);
    nothing_is_left(stage.servers()).await;
}

#[history]
async fn three_in_a_ring_and_those_behind_them(stage: Stage) {
    let client = stage.client(0).await;
    let owners = [Owner::new(), Owner::new(), Owner::new()];
    let [one, two, three] = &owners;
    let locks = ["a", "b", "c"].map(|name| lock(&client, name));
    let mut held =
        join_all(locks.iter().zip(&owners).map(async |(lock, owner)| hold(lock, owner).await)).await;
    // Behind the ring, and no part of it.
    let bystander = park(&locks[0], &Owner::new()).await;
    let (first, second) = (park(&locks[1], one).await, park(&locks[2], two).await);
    // The bystander is ahead of the one that closes the ring.
    let found = refused(&locks[0], three).await;
    assert_eq!(found[0], (three.clone(), "/locks/a".to_owned()));
    assert_eq!(found[found.len() - 2..], waits([(one, "/locks/b"), (two, "/locks/c")]), "{found:?}");
    for waiting in [second, first, bystander] {
        drop(held.pop());
        drop(granted(waiting).await);
    }
}

#[history]
async fn a_ticket_and_a_member_of_a_cohort_are_told(stage: Stage) {
    let client = stage.client(0).await;
    let [one, two, three] = [Owner::new(), Owner::new(), Owner::new()];
    let a = lock(&client, "a").with_options(detecting().cohort(10).cohort_time(LONG)).unwrap();
    let b = lock(&client, "b");
    let (first, second) = (hold(&a, &one).await, hold(&b, &two).await);
    let waiting = park(&b, &one).await;
    // In line, and in the queue.
    let expected = waits([(&two, "/locks/a"), (&one, "/locks/b")]);
    assert_eq!(refused(&a, &two).await, expected);
    let ticket = within(a.owned_by(&two).enqueue()).await.unwrap();
    assert_eq!(cycle(within(ticket.acquired()).await), expected);
    // One in line that waits for the holder, and is waited for itself.
    let third = hold(&lock(&client, "c"), &three).await;
    let in_line = park(&a, &three).await;
    let others = park(&lock(&client, "c"), &Owner::new()).await;
    waits_on(&others).await;
    drop(second);
    drop(granted(waiting).await);
    drop(first);
    drop((granted(in_line).await, third));
    drop(granted(others).await);
}

#[history]
async fn readers_and_writers(stage: Stage) {
    const RW: &str = "/locks/rw";
    let client = stage.client(0).await;
    let [one, two, three, writer] = [(); 4].map(|()| Owner::new());
    let (rw, a) = (read_write(&client), lock(&client, "a"));
    // A writer waits for all readers: one that waits for it is enough.
    let readers = [hold(rw.read(), &one).await, hold(rw.read(), &three).await];
    let held = hold(&a, &two).await;
    let waiting = park(&a, &one).await;
    assert_eq!(refused(rw.write(), &two).await, waits([(&two, RW), (&one, "/locks/a")]));
    // Another reader waits for no reader.
    drop(hold(rw.read(), &two).await);
    // Unless a writer is in between, who waits for the readers and holds nothing.
    let writing = park(rw.write(), &writer).await;
    let expected = waits([(&two, RW), (&writer, RW), (&one, "/locks/a")]);
    assert_eq!(refused(rw.read(), &two).await, expected);
    waits_on(&writing).await;
    drop(held);
    drop((granted(waiting).await, readers));
    drop(granted(writing).await);
}

#[history]
async fn permits_are_lacking_only_if_all_that_could_be_given_back_are_stuck(stage: Stage) {
    let client = stage.client(0).await;
    let [one, two, three] = [Owner::new(), Owner::new(), Owner::new()];
    let a = lock(&client, "a");
    let permits = Semaphore::new(&client, "/locks/s", 3).unwrap().with_options(detecting()).unwrap();
    let mut held = Vec::new();
    for owner in [&one, &two, &two] {
        held.push(hold(&permits, owner).await);
    }
    let guard = hold(&a, &three).await;
    let first = park(&a, &one).await;
    // The other permits may come back.
    let waiting = park(&permits, &three).await;
    waits_on(&waiting).await;
    // Unless their owner waits as well. This time, the one that closes the cycle waits for the mutex.
    let found = refused(&a, &two).await;
    assert_eq!(found[0], (two.clone(), "/locks/a".to_owned()));
    assert_eq!(*found.last().unwrap(), (three.clone(), "/locks/s".to_owned()));
    drop(held.pop());
    // It has one permit, and two of three are stuck: those of `one`, and its own.
    let third = granted(waiting).await;
    assert!(!refused(&permits.many(2).unwrap(), &three).await.is_empty());
    drop((third, guard));
    drop(granted(first).await);
}

/// As permits are mostly used: one task acquires them, and others give them back.
#[history]
async fn permits_and_guards_that_are_moved_to_other_tasks(stage: Stage) {
    let client = stage.client(0).await;
    let a = lock(&client, "a");
    let permits: Lock = Arc::new(Semaphore::new(&client, "/locks/s", 2).unwrap());
    let single: Lock = Arc::new(SemaphoreMutex::new(&client, "/locks/single").unwrap());
    let dispatchers = [&permits, &permits, &single, &single].map(|permits| {
        let (permits, a) = (permits.clone(), a.clone());
        spawn_local(async move {
            let mut tasks = Vec::new();
            for _ in 0..20 {
                let (permit, a) = (permits.acquire().await.unwrap(), a.clone());
                tasks.push(spawn_local(async move { drop((a.acquire().await.unwrap(), permit)) }));
            }
            join_all(tasks).await.into_iter().for_each(Result::unwrap);
        })
    });
    for dispatcher in dispatchers {
        within(dispatcher).await.unwrap();
    }
    // A guard whose owner does not wait.
    let [one, two] = [Owner::new(), Owner::new()];
    let (held, other) = (hold(&a, &one).await, hold(&lock(&client, "b"), &two).await);
    let waiting = park(&a, &two).await;
    waits_on(&waiting).await;
    spawn_local(async move { drop(held) });
    drop((granted(waiting).await, other));
}

#[history]
async fn multi_locks_hold_what_they_have_while_they_wait(stage: Stage) {
    let client = stage.client(0).await;
    let [one, two] = [Owner::new(), Owner::new()];
    let [a, b, c] = ["a", "b", "c"].map(|name| lock(&client, name));
    let paths = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap().with_options(detecting()).unwrap();
    let existing = MultiLock::of([Arc::new(a.clone()) as Lock, Arc::new(b.clone())]).unwrap();
    for multi in [paths, existing] {
        // In the wrong order: it has `b`, and wants `a`.
        let held = hold(&b, &one).await;
        let waiting = park(&multi, &two).await;
        assert_eq!(refused(&a, &one).await, waits([(&one, "/locks/a"), (&two, "/locks/b")]));
        drop(held);
        drop(granted(waiting).await);
        // The multi-lock closes the cycle, and keeps none of its places.
        let (held_too, held) = (hold(&c, &two).await, hold(&b, &one).await);
        let waiting = park(&c, &one).await;
        assert_eq!(refused(&multi, &two).await, waits([(&two, "/locks/b"), (&one, "/locks/c")]));
        sleep(A_MOMENT).await;
        assert_eq!(["/locks/a", "/locks/b"].map(|path| queue(&stage, path)), [0, 1]);
        drop(held_too);
        drop((granted(waiting).await, held));
    }
}

#[history]
async fn what_ends_by_itself_is_no_deadlock(stage: Stage) {
    let client = stage.client(0).await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (a, b) = (lock(&client, "a"), lock(&client, "b"));
    let (first, second) = (hold(&a, &one).await, hold(&b, &two).await);
    // A wait with a deadline.
    let timed = b.owned_by(&one);
    let timed = spawn_local(async move { timed.try_acquire_for(LONG).await });
    sleep(A_MOMENT).await;
    let waiting = park(&a, &two).await;
    waits_on(&waiting).await;
    timed.abort();
    // The one that closes the cycle has a deadline itself.
    assert!(b.owned_by(&one).try_acquire_for(SOON).await.unwrap().is_none());
    assert!(b.owned_by(&one).try_acquire().await.unwrap().is_none());
    assert_eq!(refused(&b, &one).await, waits([(&one, "/locks/b"), (&two, "/locks/a")]));
    drop(first);
    drop((granted(waiting).await, second));
    // A hold with a maximum time.
    let brief = a.with_options(detecting().max_hold(SOON)).unwrap();
    let (_first, second) = (hold(&brief, &one).await, hold(&b, &two).await);
    let waiting = park(&b, &one).await;
    drop((hold(&a, &two).await, second));
    drop(granted(waiting).await);
}

#[history]
async fn waits_and_holds_that_are_over_do_not_count(stage: Stage) {
    let client = stage.client(0).await;
    let [one, two] = [Owner::new(), Owner::new()];
    let [a, b, c] = ["a", "b", "c"].map(|name| lock(&client, name));
    let loses = async |guard: &LockGuard| {
        assert!(stage.servers().delete(guard.node_path()));
        within(guard.lost()).await;
    };
    // A wait that was cancelled.
    let (first, second) = (hold(&a, &one).await, hold(&b, &two).await);
    let cancelled = park(&b, &one).await;
    cancelled.abort();
    let _ = cancelled.await;
    let waiting = park(&a, &two).await;
    drop(first);
    drop(granted(waiting).await);
    // A guard that was dropped, and re-entered ones.
    let first = hold(&a, &one).await;
    let again = hold(&a, &one).await;
    drop(first);
    let waiting = park(&a, &two).await;
    drop(again);
    let third = granted(waiting).await;
    let waiting = park(&b, &one).await;
    drop(hold(&a, &two).await);
    drop((third, second));
    drop(granted(waiting).await);
    // A hold that was lost.
    let (first, second) = (hold(&a, &one).await, hold(&b, &two).await);
    let waiting = park(&b, &one).await;
    loses(&first).await;
    drop((hold(&a, &two).await, second));
    drop(granted(waiting).await);
    drop(first);
    // Whose hold was lost waits like any other.
    let (first, second) = (hold(&a, &one).await, hold(&b, &two).await);
    loses(&first).await;
    let rival = hold(&a, &two).await;
    let other = hold(&c, &one).await;
    let waiting = park(&c, &two).await;
    let found = refused(&lock(&client, "a"), &one).await;
    assert_eq!(found, waits([(&one, "/locks/a"), (&two, "/locks/c")]));
    drop(other);
    drop((granted(waiting).await, rival, second));
}

#[history]
async fn the_search_ends_at_other_clients(stage: Stage) {
    let [client, foreign] = stage.clients().await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (first, second) = (hold(&lock(&client, "a"), &one).await, hold(&lock(&foreign, "b"), &two).await);
    let [mine, theirs] = [park(&lock(&client, "b"), &one).await, park(&lock(&foreign, "a"), &two).await];
    // Others of this client in the queues change nothing.
    let others = park(&lock(&client, "b"), &Owner::new()).await;
    for waiting in [&mine, &theirs, &others] {
        waits_on(waiting).await;
    }
    drop(second);
    drop((granted(mine).await, first));
    drop(granted(theirs).await);
    drop(granted(others).await);
}

#[history]
async fn locks_that_take_no_part(stage: Stage) {
    let client = stage.client(0).await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (takes_part, silent) = (lock(&client, "a"), mutex_at(&client, "/locks/a"));
    // The waits, then the holds.
    for (holds, waits) in [(&takes_part, &silent), (&silent, &takes_part)] {
        let (first, second) = (hold(holds, &one).await, hold(&lock(&client, "b"), &two).await);
        let waiting = park(&lock(&client, "b"), &one).await;
        let closing = park(waits, &two).await;
        waits_on(&closing).await;
        waiting.abort();
        drop(first);
        drop((granted(closing).await, second));
    }
}

/// Whose place at the gate of a semaphore waits for one that is ahead there.
#[history]
async fn whoever_takes_over_a_place_at_the_gate_hears_of_a_deadlock(stage: Stage) {
    let client = stage.client(0).await;
    let permits = Semaphore::new(&client, "/locks/s", 1).unwrap().with_options(detecting()).unwrap();
    let owner = Owner::new();
    let held = hold(&permits, &owner).await;
    let ahead = park(&permits, &Owner::new()).await;
    let early = permits.owned_by(&Owner::new());
    assert!(timeout(A_MOMENT, early.acquire()).await.is_err());
    // Its place is kept for a moment.
    assert!(!refused(&permits, &owner).await.is_empty());
    held.release().await.unwrap();
    granted(ahead).await.release().await.unwrap();
}

/// Whose other acquire it would have entered again, before it was lost.
#[history(true, false)]
async fn a_wait_beside_a_hold_that_is_lost_hears_of_a_deadlock(stage: Stage, is_lost_first: bool) {
    let [client, foreign] = stage.clients().await;
    let [one, two] = [Owner::new(), Owner::new()];
    let (own, other) = (read_write(&client), lock(&client, "z"));
    let held = hold(&other, &one).await;
    let writer = hold(read_write(&foreign).write(), &Owner::new()).await;
    let readers = [park(own.read(), &one).await, park(own.read(), &two).await];
    let writing = own.write().owned_by(&one);
    let mut writing = Box::pin(writing.acquire());
    assert!(timeout(A_MOMENT, &mut writing).await.is_err());
    // It is not polled for a while.
    drop(writer);
    let readers = join_all(readers.map(granted)).await;
    let lose = async || {
        assert!(stage.servers().delete(readers[0].node_path()));
        within(readers[0].lost()).await;
    };
    if is_lost_first {
        lose().await;
    }
    let waiting = acquiring(&other.owned_by(&two));
    if !is_lost_first {
        waits_on(&waiting).await;
        lose().await;
    }
    let outcome = async {
        tokio::select! {
            outcome = &mut writing => outcome,
            outcome = waiting => outcome.unwrap(),
        }
    };
    assert_eq!(cycle(within(outcome).await).len(), 2);
    drop((held, readers));
}
