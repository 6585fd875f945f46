//! The twins for threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{LocalSet, block_in_place, spawn_blocking};
use zk_recipes::blocking::shared::SharedCount;
use zk_recipes::blocking::{
    Client, InterProcessMutex, LeaderLatch, LeaderObserver, LeaderSelector, LockGuard, Locks, MultiLock,
    ReadWriteLock, Semaphore, SemaphoreMutex, Ticket, operate,
};
use zk_recipes::testing::kill_session;
use zk_recipes::{
    CloseMode, CreateMode, Error, LeaderOptions, LeaderState, LockOptions, LossReason, Observation, Owner,
    Result,
};

use crate::support::*;

const BRIEFLY: Duration = Duration::from_millis(20);

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
    let within = Duration::from_millis(200);
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
    let options = LockOptions::new().max_hold(Duration::from_millis(100));
    let guard = lock(&client).with_options(options).unwrap().acquire().unwrap();
    assert_eq!(guard.lost_within(BOUND).unwrap(), Some(LossReason::Deadline));
}

// --- Leaders ---

#[test]
fn latches_lead_one_after_the_other() {
    let (_, client) = sandbox_with_client();
    let options = LeaderOptions::new().grace(Duration::ZERO);
    let start = |id| LeaderLatch::start(&client, "/leader", options.clone().id(id)).unwrap();
    let first = start("first");
    let leadership = first.await_leadership().unwrap();
    let second = start("second");
    assert!(second.await_leadership_within(BRIEFLY).unwrap().is_none());
    while second.participants().unwrap().len() < 2 {}
    let mut seen = LeaderObserver::new(&client, "/leader").unwrap().watch_leader();
    while !matches!(seen.blocking_changed().unwrap(), Some(Observation::Leader(leader)) if leader.id() == "first")
    {
    }
    // A resignation waits for the work, since that cannot be dropped at the end of the grace: also for longer than the
    // second that work has to be dropped.
    let (begins, begun) = mpsc::channel();
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            leadership.run(|| {
                begins.send(()).unwrap();
                leadership.resign_requested().unwrap();
                assert_eq!(leadership.lost_within(Duration::from_millis(1500)).unwrap(), None);
                assert!(leadership.is_valid() && !second.has_leadership());
                leadership.fencing_token()
            })
        });
        begun.recv().unwrap();
        leadership.resign().unwrap();
        assert_eq!(work.join().unwrap().unwrap(), leadership.fencing_token());
    });
    assert_eq!(leadership.loss(), Some(LossReason::Resigned));
    assert!(leadership.run(|| ()).is_err());
    let next = second.await_leadership().unwrap();
    assert!(next.fencing_token() > leadership.fencing_token());
    while !matches!(seen.blocking_changed().unwrap(), Some(Observation::Leader(leader)) if leader.id() == "second")
    {
    }
    second.close(CloseMode::Silent).unwrap();
    assert!(matches!(second.await_leadership(), Err(Error::CandidateClosed { .. })));
    first.close(CloseMode::Silent).unwrap();
}

#[test]
fn a_selector_calls_its_work_on_a_thread_until_it_is_asked_to_end() {
    let (_, client) = sandbox_with_client();
    let (works, working) = mpsc::channel();
    let at_work = lock(&client);
    let selector = LeaderSelector::start(&client, "/leader", LeaderOptions::new(), move |leadership| {
        // It may block.
        assert!(Handle::try_current().is_err());
        let guard = at_work.acquire()?;
        works.send(leadership.fencing_token()).unwrap();
        while !leadership.resign_requested_within(BRIEFLY)? {}
        guard.release()
    })
    .unwrap();
    let first = working.recv().unwrap();
    assert!(selector.has_leadership());
    selector.interrupt_leadership();
    assert!(working.recv().unwrap() > first);
    selector.close().unwrap();
    assert!(working.try_recv().is_err());
    assert!(!lock(&client).is_locked().unwrap());
    let mut states = selector.watch_state();
    while !matches!(states.get(), LeaderState::Closed) {
        states.blocking_changed().unwrap().expect("it has not ended in this state");
    }
}

#[test]
fn what_becomes_of_work_on_a_thread_is_seen() {
    let (_, client) = sandbox_with_client();
    let mut calls = 0;
    let selector = LeaderSelector::start_once(&client, "/leader", LeaderOptions::new(), move |_| {
        calls += 1;
        match calls {
            1 => Ok(()),
            2 => Err("as it is to be"),
            _ => panic!("as it is to be"),
        }
    })
    .unwrap();
    let mut states = selector.watch_state();
    while !matches!(states.blocking_changed().unwrap().unwrap(), LeaderState::Idle) {}
    for said in ["as it is to be", "it panicked: as it is to be"] {
        assert!(selector.requeue());
        loop {
            if let LeaderState::Failed(error) = states.blocking_changed().unwrap().unwrap() {
                let Error::WorkFailed { source, .. } = error else { panic!("{error}") };
                assert_eq!(source.to_string(), said);
                break;
            }
        }
    }
    assert!(matches!(selector.close(), Err(Error::WorkFailed { .. })));
}

/// Its thread goes on, but nothing begins beside it.
#[test]
fn work_that_goes_on_after_a_loss_is_not_begun_again_beside_itself() {
    let (_, client) = sandbox_with_client();
    let (works, working) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let selector = LeaderSelector::start(&client, "/leader", LeaderOptions::new(), move |leadership| {
        works.send(leadership).unwrap();
        let _ = may_go_on.recv();
        Ok::<(), Error>(())
    })
    .unwrap();
    let leadership = working.recv().unwrap();
    caller().block_on(kill_session(client.as_async())).unwrap();
    leadership.lost().unwrap();
    let other = LeaderLatch::start(&client, "/leader-of-others", LeaderOptions::new()).unwrap();
    other.await_leadership().unwrap();
    assert!(working.recv_timeout(Duration::from_millis(300)).is_err());
    assert!(selector.participants().unwrap().is_empty());
    go_on.send(()).unwrap();
    assert!(working.recv().unwrap().is_valid());
    drop(go_on);
    selector.close().unwrap();
}

// --- Where it may block ---

/// Something that blocks, and what comes of it.
fn asks(mutex: &InterProcessMutex) -> bool {
    match mutex.try_acquire_for(BOUND) {
        Ok(guard) => {
            guard.unwrap().release().unwrap();
            true
        }
        Err(Error::WithinRuntime) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Asks when it is dropped.
struct AsksAtLast(InterProcessMutex, mpsc::Sender<bool>);

impl Drop for AsksAtLast {
    fn drop(&mut self) {
        self.1.send(asks(&self.0)).unwrap();
    }
}

#[test]
fn a_thread_of_a_runtime_is_not_blocked() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let (workers, caller) = (workers(), caller());
    let own = || mutex.clone();
    for runtime in [&workers, &caller] {
        let (in_future, in_task) = (own(), own());
        let refused = runtime.block_on(async move {
            let task = tokio::spawn(async move {
                let before = asks(&in_task);
                tokio::task::yield_now().await;
                before || asks(&in_task)
            });
            asks(&in_future) || task.await.unwrap()
        });
        assert!(!refused);
        let (dropped, drops) = mpsc::channel();
        let at_last = AsksAtLast(own(), dropped);
        runtime.block_on(async move {
            let task = tokio::spawn(async move {
                let _at_last = at_last;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
            task.abort();
            task.await.unwrap_err()
        });
        assert!(!drops.recv().unwrap(), "in a drop");
    }
    let local = LocalSet::new();
    let in_local = own();
    assert!(!local.block_on(&caller, async move {
        tokio::task::spawn_local(async move { asks(&in_local) }).await.unwrap()
    }));
    let in_local = own();
    assert!(!workers.block_on(async move {
        let local = LocalSet::new();
        local.run_until(async move { asks(&in_local) }).await
    }));
    // As has a task that has done a lot already.
    let busy = own();
    assert!(!caller.block_on(async move {
        for _ in 0..100 {
            tokio::task::coop::consume_budget().await;
        }
        asks(&busy)
    }));
    // What is refused has no effect.
    caller.block_on(async {
        assert_eq!(client.close(), Err(Error::WithinRuntime));
        assert!(!client.is_closed());
        let guard = LockGuard::from(mutex.as_async().acquire().await.unwrap());
        assert_eq!(guard.release(), Err(Error::WithinRuntime));
        eventually("released in the background", async || {
            (!mutex.as_async().is_locked().await.unwrap()).then_some(())
        })
        .await;
        assert!(matches!(Client::connect(&servers()), Err(Error::WithinRuntime)));
    });
}

#[test]
fn a_thread_that_may_block_is_let() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let (workers, caller) = (workers(), caller());
    let own = || mutex.clone();
    assert!(asks(&mutex), "on the test's thread");
    for runtime in [&workers, &caller] {
        let mutex = own();
        assert!(runtime.block_on(async move { spawn_blocking(move || asks(&mutex)).await.unwrap() }));
    }
    let in_place = own();
    assert!(workers.block_on(async move {
        tokio::spawn(async move { block_in_place(|| asks(&in_place)) }).await.unwrap()
    }));
    assert!(asks(&mutex), "after block_on");
    let entered = caller.enter();
    assert!(asks(&mutex), "within the context");
    drop(entered);
    assert!(futures_executor::block_on(async { asks(&mutex) }), "another executor");
    // Here it cannot be told, and is no panic.
    assert!(caller.block_on(tokio::task::unconstrained(async { asks(&mutex) })));
}

#[test]
fn threads_and_tasks_share_a_client() {
    let sandbox = Sandbox::new();
    let workers = workers();
    let client = Client::from(workers.block_on(sandbox.client()));
    let mutex = lock(&client);
    let held = workers.block_on(mutex.as_async().owned_by(&Owner::new()).acquire()).unwrap();
    assert!(mutex.try_acquire().unwrap().is_none());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| mutex.acquire().unwrap());
        while mutex.participants().unwrap().len() < 2 {}
        workers.block_on(held.release()).unwrap();
        let guard = waiter.join().unwrap();
        // Here and there.
        workers.block_on(zk_recipes::LockGuard::from(guard).release()).unwrap();
    });
    // Between two `block_on`, and in one, the owner is the thread.
    let guard = mutex.acquire().unwrap();
    let again = workers.block_on(mutex.as_async().acquire()).unwrap();
    assert_eq!(guard.hold_count(), 2);
    drop((guard, again));
    client.close().unwrap();
    assert_eq!(mutex.acquire().unwrap_err(), Error::Closed);
}

#[test]
fn a_client_on_a_given_runtime_can_be_used_from_threads() {
    let sandbox = Sandbox::new();
    let workers = workers();
    let builder = sandbox.builder().runtime(workers.handle().clone());
    let client = builder.connect_blocking(&servers()).unwrap();
    let mutex = lock(&client);
    let held = mutex.acquire().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| assert!(is_in_vain(|| mutex.try_acquire_for(BRIEFLY))));
    });
    assert_eq!(held.lost_within(BRIEFLY).unwrap(), None);
    // Its end is no panic.
    workers.shutdown_background();
    assert!(held.lost_within(BOUND).unwrap().is_some());
    assert!(mutex.try_acquire_for(BRIEFLY).is_err());
    assert!(held.release().is_err());
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
