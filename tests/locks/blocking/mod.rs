//! The twins for threads.

mod leaders;
mod runtimes;

use crate::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Barrier, RwLock, mpsc};
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{LocalSet, block_in_place, spawn_blocking};
use zk_recipes::blocking::shared::SharedCount;
use zk_recipes::blocking::{
    Client, InterProcessMutex, LeaderLatch, LeaderObserver, LeaderSelector, LockGuard, Locks, MultiLock,
    ReadWriteLock, Semaphore, SemaphoreMutex, Ticket, operate,
};

const BRIEFLY: Duration = ms(20);

fn sandbox_with_client() -> (Sandbox, Client) {
    let sandbox = Sandbox::new();
    let client = sandbox.builder().connect_blocking(&servers()).unwrap();
    (sandbox, client)
}

fn lock(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, "/locks/a").unwrap()
}

fn caller() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Whether a try for a short time finds that another holds. A slow server may not let it into the queue in
/// that time: it is tried again.
pub(crate) fn is_in_vain<T>(attempt: impl Fn() -> Result<Option<T>>) -> bool {
    answered(async || attempt()).now_or_never().unwrap().is_none()
}

fn nothing_left(sandbox: &Sandbox) {
    caller().block_on(sandbox.assert_nothing_left());
}

/// On a signal, as the docs have it.
#[test]
fn who_works_ends_its_work_and_who_waits_is_told_of_the_end() {
    let (sandbox, client) = sandbox_with_client();
    let (mutex, ends) = (lock(&client), RwLock::new(false));
    let guard = mutex.acquire().unwrap();
    let works = ends.read().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| mutex.acquire().map(drop));
        let ending = scope.spawn(|| {
            *ends.write().unwrap() = true;
            client.close()
        });
        caller().block_on(async {
            queue_of(&bystander_of(&servers()).await, &sandbox.lock_path(), 2).await;
        });
        assert!(!ending.is_finished() && guard.is_valid());
        guard.release().unwrap();
        drop(works);
        ending.join().unwrap().unwrap();
        // It may have been granted meanwhile.
        assert!(matches!(waiting.join().unwrap(), Ok(()) | Err(Error::Closed)));
    });
    nothing_left(&sandbox);
}

/// Both threads have what the other one wants.
#[test]
fn one_of_two_threads_that_wait_for_each_other_is_told() {
    let (sandbox, client) = sandbox_with_client();
    let mutex = |name: &str| {
        let mutex = InterProcessMutex::new(&client, &format!("/locks/{name}")).unwrap();
        mutex.with_options(LockOptions::new().detect_deadlocks(true)).unwrap()
    };
    let both_hold = Barrier::new(2);
    let cross = &|first, second| {
        let held = mutex(first).acquire().unwrap();
        both_hold.wait();
        let refused = match mutex(second).acquire() {
            Ok(_) => false,
            Err(Error::WouldDeadlock { cycle, .. }) => {
                assert_eq!(cycle[0].owner, Owner::current());
                assert_eq!(cycle.len(), 2);
                true
            }
            Err(error) => panic!("{error}"),
        };
        held.release().unwrap();
        refused
    };
    let refused = thread::scope(|scope| {
        let threads = [("a", "b"), ("b", "a")].map(|(a, b)| scope.spawn(move || cross(a, b)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(refused[0] != refused[1]);
    nothing_left(&sandbox);
}

// --- Locks ---

/// A lock, by what all have in common.
type Acquire<'a> = &'a (dyn Fn() -> Result<LockGuard> + Sync);

/// Threads that count under a lock, with a look before and a write after a pause.
fn threads_count(acquire: Acquire<'_>) {
    const THREADS: usize = 8;
    const TIMES: usize = 5;
    let count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    let guard = acquire().unwrap();
                    let seen = count.load(SeqCst);
                    thread::yield_now();
                    count.store(seen + 1, SeqCst);
                    guard.release().unwrap();
                }
            });
        }
    });
    assert_eq!(count.into_inner(), THREADS * TIMES);
}

#[test]
fn threads_exclude_each_other_through_one_object_of_each_kind() {
    let (sandbox, client) = sandbox_with_client();
    let mutex = lock(&client);
    threads_count(&|| mutex.acquire());
    let write = ReadWriteLock::new(&client, "/locks/rw").unwrap().write();
    threads_count(&|| write.acquire());
    let plain = SemaphoreMutex::new(&client, "/locks/plain").unwrap();
    threads_count(&|| plain.acquire());
    let permit = Semaphore::new(&client, "/locks/permit", 1).unwrap();
    threads_count(&|| permit.acquire());
    let multi = MultiLock::new(&client, ["/locks/m1", "/locks/m2"]).unwrap();
    threads_count(&|| multi.acquire());
    drop(client);
    nothing_left(&sandbox);
}

#[test]
fn a_thread_enters_again_and_others_do_not() {
    let (sandbox, client) = sandbox_with_client();
    let mutex = lock(&client);
    let guard = mutex.acquire().unwrap();
    let again = mutex.acquire().unwrap();
    assert_eq!((guard.hold_count(), again.fencing_token()), (2, guard.fencing_token()));
    assert!(mutex.is_owned_by(&Owner::current()));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert!(!mutex.is_owned_by(&Owner::current()));
            assert!(mutex.is_acquired_in_this_process() && mutex.is_locked().unwrap());
            mutex.try_acquire().unwrap().is_none() && is_in_vain(|| mutex.try_acquire_for(BRIEFLY))
        });
        assert!(other.join().unwrap());
    });
    // Another owner on the same thread is another one, too.
    assert!(mutex.owned_by(&Owner::new()).try_acquire().unwrap().is_none());
    let other_object = lock(&client);
    assert!(matches!(other_object.acquire(), Err(Error::WouldDeadlock { .. })));
    guard.release().unwrap();
    assert!(mutex.is_owned_by(&Owner::current()));
    // A guard is released on whatever thread.
    thread::spawn(move || again.release().unwrap()).join().unwrap();
    assert!(!mutex.is_locked().unwrap());
    drop(client);
    nothing_left(&sandbox);
}

#[test]
fn a_try_ends_in_time() {
    let (_, client) = sandbox_with_client();
    let within = ms(200);
    let multi = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap();
    let permits = Semaphore::new(&client, "/locks/permits", 2).unwrap();
    let held = lock(&client).owned_by(&Owner::new()).acquire().unwrap();
    let one = permits.acquire().unwrap();
    let tries: [&dyn Fn() -> bool; 3] = [
        &|| is_in_vain(|| lock(&client).try_acquire_for(within)),
        &|| is_in_vain(|| multi.try_acquire_for(within)),
        &|| is_in_vain(|| permits.many(2).unwrap().try_acquire_for(within)),
    ];
    for failed_try in tries {
        let start = Instant::now();
        assert!(failed_try());
        assert!(start.elapsed() >= within && start.elapsed() < BOUND);
    }
    assert_eq!(permits.available_permits().unwrap(), 1);
    drop((held, one));
    assert_eq!(multi.try_acquire_for(BOUND).unwrap().unwrap().members().len(), 2);
    assert_eq!(permits.many(2).unwrap().try_acquire().unwrap().unwrap().members().len(), 2);
}

#[test]
fn a_writer_becomes_a_reader() {
    let (_, client) = sandbox_with_client();
    let lock = ReadWriteLock::new(&client, "/locks/a").unwrap();
    let writing = lock.write().acquire().unwrap();
    let reading = lock.read().acquire().unwrap();
    writing.release().unwrap();
    assert!(matches!(lock.write().acquire(), Err(Error::WouldDeadlock { .. })));
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(lock.write().try_acquire().unwrap().is_none());
            lock.read().acquire().unwrap().release().unwrap();
        });
    });
    reading.release().unwrap();
}

#[test]
fn tickets_are_granted_in_order() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let tickets: Vec<Ticket> = (0..3).map(|_| mutex.owned_by(&Owner::new()).enqueue().unwrap()).collect();
    assert_eq!(tickets.iter().map(|ticket| ticket.position().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    let mut positions = tickets[2].watch_position();
    assert_eq!(positions.blocking_changed().unwrap(), Some(2));
    thread::scope(|scope| {
        let (granted, grants) = mpsc::channel();
        for (n, ticket) in tickets.into_iter().enumerate().rev() {
            let granted = granted.clone();
            scope.spawn(move || {
                let guard = ticket.acquired().unwrap();
                granted.send(n).unwrap();
                guard.release().unwrap();
            });
        }
        drop(granted);
        assert_eq!(grants.iter().collect::<Vec<_>>(), [0, 1, 2]);
        while positions.blocking_changed_within(BOUND).unwrap().is_some() {}
        assert_eq!((positions.get(), positions.has_ended()), (0, true));
    });
}

#[test]
fn a_shared_count_limits_permits() {
    let (_, client) = sandbox_with_client();
    let count = SharedCount::new(&client, "/locks/count", 1).unwrap();
    let permits = Semaphore::with_shared_count(&client, "/locks/permits", &count).unwrap();
    let first = permits.acquire().unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| permits.acquire().unwrap());
        while permits.participants().unwrap().len() < 2 {}
        count.set(2).unwrap();
        second.join().unwrap().release().unwrap();
    });
    assert_eq!(count.get().unwrap(), 2);
    first.release().unwrap();
}

#[test]
fn a_path_exists_from_the_first_acquire_on() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let read_write = ReadWriteLock::new(&client, "/locks/rw").unwrap();
    let (read, write) = (read_write.read(), read_write.write());
    let plain = SemaphoreMutex::new(&client, "/locks/plain").unwrap();
    let permits = Semaphore::new(&client, "/locks/permits", 2).unwrap();
    let multi = MultiLock::new(&client, ["/locks/m1", "/locks/m2"]).unwrap();
    let observer = LeaderObserver::new(&client, "/locks/a").unwrap();
    let exist = || {
        [
            mutex.path_exists(),
            observer.path_exists(),
            read.path_exists(),
            write.path_exists(),
            plain.path_exists(),
            permits.path_exists(),
            multi.path_exists(),
        ]
        .map(Result::unwrap)
    };
    assert_eq!(exist(), [false; 7]);
    let _mutex = mutex.acquire().unwrap();
    assert_eq!(exist(), [true, true, false, false, false, false, false]);
    let _held = [write.acquire(), plain.acquire(), permits.acquire(), multi.acquire()].map(Result::unwrap);
    assert_eq!(exist(), [true; 7]);
}

#[test]
fn locks_of_one_key_are_one_lock() {
    let (_, client) = sandbox_with_client();
    let locks = Locks::new(&client, "/locks").unwrap();
    let guard = locks.mutex("a/b").unwrap().acquire().unwrap();
    // Through another object: one that was made by its path would be refused.
    let again = Locks::new(&client, "/locks").unwrap().mutex("a/b").unwrap().acquire().unwrap();
    assert_eq!(again.hold_count(), 2);
    let path = locks.path_of("a/b");
    assert_eq!(path, "/locks/a%2Fb");
    assert_eq!(operate::ask(&client, &path).unwrap().len(), 1);
    thread::scope(|scope| {
        let tries = || locks.mutex("a/b").unwrap().try_acquire().unwrap().is_none();
        assert!(scope.spawn(tries).join().unwrap());
    });
    drop((guard, again));
    let _held = [
        locks.read_write(1).unwrap().read().acquire(),
        locks.semaphore_mutex(2).unwrap().acquire(),
        locks.semaphore(3, 2).unwrap().acquire(),
    ]
    .map(Result::unwrap);
    let twin = locks.as_async();
    assert!(twin.read_write(1).unwrap().read().is_acquired_in_this_process());
    assert!(twin.semaphore_mutex(2).unwrap().is_acquired_in_this_process());
    assert!(twin.semaphore(3, 2).unwrap().is_acquired_in_this_process());
}

// --- What a holder hears ---

#[test]
fn a_holder_hears_of_the_loss_and_of_requests() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let guard = mutex.acquire().unwrap();
    assert!(guard.is_valid() && guard.valid_until() > Instant::now());
    assert_eq!(guard.lost_within(BRIEFLY).unwrap(), None);
    assert!(!guard.revoke_requested_within(BRIEFLY).unwrap());
    thread::scope(|scope| {
        let asked = scope.spawn(|| guard.revoke_requested());
        assert_eq!(operate::ask(&client, "/locks/a").unwrap().len(), 1);
        asked.join().unwrap().unwrap();
        let lost = scope.spawn(|| guard.lost());
        caller().block_on(kill_session(client.as_async())).unwrap();
        let reason = lost.join().unwrap().unwrap();
        assert_eq!(guard.loss(), Some(reason));
    });
    assert!(!guard.is_valid());
    assert!(matches!(guard.run(|| unreachable!()), Err::<(), _>(Error::LockLost { .. })));
    assert!(matches!(mutex.acquire(), Err(Error::LockLost { .. })));
    assert!(matches!(guard.release(), Err(Error::LockLost { .. })));
    // On the next session.
    mutex.acquire().unwrap().release().unwrap();
}

#[test]
fn a_lock_that_is_taken_away_ends_work_and_transactions() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let guard = mutex.acquire().unwrap();
    let data = guard.transaction().create("/data", "one", CreateMode::Persistent).commit().unwrap();
    assert_eq!(data.len(), 1);
    let done = guard.run(|| {
        let holder = mutex.holder().unwrap().unwrap();
        assert!(operate::force_release_participant(&client, &holder).unwrap());
        guard.lost()
    });
    assert!(matches!(done, Err(Error::LockLost { reason: LossReason::Deleted, .. })));
    let late = guard.transaction().set_data("/data", "two", None).delete("/data", 1).commit();
    assert!(matches!(late, Err(Error::LockLost { .. })));
    assert!(operate::force_release(&client, "/locks/a").unwrap().is_empty());
}

#[test]
fn a_hold_ends_with_its_time() {
    let (_, client) = sandbox_with_client();
    let options = LockOptions::new().max_hold(ms(100));
    let guard = lock(&client).with_options(options).unwrap().acquire().unwrap();
    assert_eq!(guard.lost_within(BOUND).unwrap(), Some(LossReason::Deadline));
}

// --- Ends ---

#[test]
fn closing_wakes_the_threads_that_wait() {
    let (sandbox, client) = sandbox_with_client();
    let mutex = lock(&client);
    let _held = mutex.acquire().unwrap();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(|| mutex.acquire())).collect();
        while mutex.participants().unwrap().len() < 9 {}
        client.close().unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap().unwrap_err(), Error::Closed);
        }
    });
    nothing_left(&sandbox);
}

#[test]
fn a_panic_gives_the_lock_back() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let panicked = thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let guard = mutex.acquire().unwrap();
            guard.run(|| panic!("as it is to be"))
        });
        holder.join().map(|never: Result<()>| never)
    });
    assert!(panicked.is_err());
    mutex.try_acquire_for(BOUND).unwrap().unwrap().release().unwrap();
    let latch = LeaderLatch::start(&client, "/leader", LeaderOptions::new()).unwrap();
    let leadership = latch.await_leadership().unwrap();
    let work = || leadership.run(|| panic!("as it is to be"));
    assert!(catch_unwind(AssertUnwindSafe(work)).map(|never: Result<()>| never).is_err());
    // It counts as ended.
    leadership.resign().unwrap();
}
