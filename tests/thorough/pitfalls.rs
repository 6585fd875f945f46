//! What acquires promise where it is easily broken: by time, silence, runtimes, and what one owner does twice.

#[path = "../support/mod.rs"]
mod support;

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use support::runtime::*;
use support::*;
use tokio::time::timeout;
use zk_recipes::testing::{Fate, FaultProxy, Request, Traffic};
use zk_recipes::{
    Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, MultiLock, Owner,
    ReadWriteLock, RetryPolicy, Semaphore, SuspectPolicy,
};
use zookeeper_client as zk;

const A: &str = "/pitfalls/a";
const B: &str = "/pitfalls/b";
const C: &str = "/pitfalls/c";

/// Much longer than anything takes whose turn has come.
const LONG: Duration = Duration::from_secs(15);

fn mutex_at(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap()
}

fn lock_at(client: &Client, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(mutex_at(client, path))
}

/// A multi-lock of two existing locks.
fn existing(client: &Client) -> MultiLock {
    MultiLock::of([lock_at(client, A), lock_at(client, B)]).unwrap()
}

async fn delete_only_child(zookeeper: &zk::Client, path: &str) {
    let node = queue_of(zookeeper, path, 1).await.remove(0);
    zookeeper.delete(&format!("{path}/{node}"), None).await.unwrap();
}

/// A client can be used from any runtime, or from none.
#[test]
fn a_lock_that_is_lost_while_a_thread_without_a_runtime_waits_for_the_next_is_no_panic() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    let [holder, client]: [Client; 2] = elsewhere.block_on(connect_many(&server));
    let held = block_on(mutex_at(&holder, B).acquire()).unwrap();
    let lock = existing(&client);
    let waiting = thread::spawn(move || block_on(lock.acquire()));
    elsewhere.block_on(queue_of(&zookeeper, B, 2));
    thread::sleep(Duration::from_millis(500));
    elsewhere.block_on(delete_only_child(&zookeeper, A));
    thread::sleep(Duration::from_millis(500));
    block_on(held.release()).unwrap();
    let outcome = waiting.join();
    assert!(matches!(outcome, Ok(Ok(_))), "{outcome:?}");
}

/// The same for a runtime of the caller that has no timers.
#[test]
fn a_runtime_without_timers_acquires_existing_locks() {
    let (elsewhere, server) = server_elsewhere();
    let client = elsewhere.block_on(connect(&server));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let subjects: [(&str, Arc<dyn InterProcessLock>); 3] = [
        ("mutex", lock_at(&client, C)),
        ("paths", Arc::new(MultiLock::new(&client, [A, B]).unwrap())),
        ("existing", Arc::new(existing(&client))),
    ];
    for (kind, lock) in subjects {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                lock.acquire().await.unwrap().release().await.unwrap();
                lock.try_acquire().await.unwrap().unwrap().release().await.unwrap();
                lock.try_acquire_for(LONG).await.unwrap().unwrap().release().await.unwrap();
            });
        }));
        assert!(outcome.is_ok(), "{kind} panics");
    }
}

/// One deadline bounds the whole acquire, plus at most a few 100 ms.
#[tokio::test]
async fn one_deadline_bounds_multi_locks_in_a_multi_lock() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let inner = (0..50).map(|number| {
        let lock = lock_at(&client, &format!("/pitfalls/{number:02}"));
        Arc::new(MultiLock::of([lock]).unwrap()) as Arc<dyn InterProcessLock>
    });
    let lock = MultiLock::of(inner).unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(50)));
    let mut longest = (Duration::ZERO, String::new());
    for _ in 0..8 {
        let start = Instant::now();
        let outcome = within(lock.try_acquire_for(Duration::from_nanos(1))).await;
        let elapsed = start.elapsed();
        longest = longest.max((elapsed, format!("{:?}", outcome.map(|guard| guard.is_some()))));
    }
    proxy.set_traffic(Traffic::pass());
    // Several times what is allowed, for a busy machine.
    assert!(longest.0 < Duration::from_millis(2500), "{longest:?}");
}

/// `None` means that somebody else has it; a queue that was not reached is an error.
#[tokio::test]
async fn a_loss_shortly_before_the_deadline_does_not_hide_that_a_queue_was_not_reached() {
    let server = empty_server().await;
    let silent = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(silent.connect_string()).await.unwrap();
    let one = connect(&server).await;
    let two = connect_through(&proxy).await;
    let lock = MultiLock::of([lock_at(&one, A), lock_at(&two, B)]).unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    proxy.set_traffic(Traffic::black_hole_to_client());
    let lock = Arc::new(lock);
    let outcome = loop {
        let (lock, start) = (lock.clone(), Instant::now());
        let trying = tokio::spawn(async move { lock.try_acquire_for(Duration::from_secs(2)).await });
        let node = format!("{A}/{}", queue_of(&zookeeper, A, 1).await.remove(0));
        tokio::time::sleep_until((start + Duration::from_millis(1950)).into()).await;
        let deleted = zookeeper.delete(&node, None).await;
        let outcome = within(trying).await.unwrap();
        match deleted {
            Ok(()) => break outcome,
            // This machine was too slow: the try was over.
            Err(zk::Error::NoNode) => {}
            Err(error) => panic!("{error}"),
        }
    };
    proxy.set_traffic(Traffic::pass());
    let outcome = match outcome {
        // What was lost could not be given back.
        Err(Error::Several { first, .. }) => Err(*first),
        outcome => outcome,
    };
    assert!(matches!(outcome, Err(Error::NotConnected { .. })), "nobody else is there: {outcome:?}");
}

/// A client that is closed while waiting is an error.
#[tokio::test]
async fn a_client_closed_shortly_before_the_deadline_is_an_error() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [one, two, holder]: [Client; 3] = connect_many(&server).await;
    let held = mutex_at(&holder, B).acquire().await.unwrap();
    let lock = MultiLock::of([lock_at(&one, A), lock_at(&two, B)]).unwrap();
    let start = Instant::now();
    let trying = tokio::spawn(async move { lock.try_acquire_for(Duration::from_secs(2)).await });
    queue_of(&zookeeper, A, 1).await;
    tokio::time::sleep_until((start + Duration::from_millis(1950)).into()).await;
    one.close().await;
    let outcome = within(trying).await.unwrap();
    drop(held);
    assert_eq!(outcome.map(drop), Err(Error::Closed));
}

/// The owner itself has what is lost: nobody else is in the way, and waiting does not help.
#[tokio::test]
async fn a_lost_hold_that_the_owner_keeps_is_reported() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [holder, client]: [Client; 2] = connect_many(&server).await;
    let owner = Owner::new();
    let mut wrong = Vec::new();
    for within_time in [Some(Duration::from_secs(3)), None] {
        let at_a = mutex_at(&client, A);
        let lock = MultiLock::of([Arc::new(at_a.clone()), lock_at(&client, B)]).unwrap().owned_by(&owner);
        let kept = at_a.owned_by(&owner).acquire().await.unwrap();
        let held = mutex_at(&holder, B).acquire().await.unwrap();
        let trying = tokio::spawn(async move {
            match within_time {
                Some(time) => lock.try_acquire_for(time).await,
                None => lock.acquire().await.map(Some),
            }
        });
        queue_of(&zookeeper, B, 2).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        delete_only_child(&zookeeper, A).await;
        within(kept.lost()).await;
        held.release().await.unwrap();
        let start = Instant::now();
        let outcome = within(trying).await.unwrap();
        if !matches!(outcome, Err(Error::LockLost { .. })) {
            wrong.push((within_time, start.elapsed(), outcome.map(|guard| guard.is_some())));
        }
        drop(kept);
    }
    assert!(wrong.is_empty(), "nobody else is there: {wrong:?}");
}

/// An owner that would wait for itself is told.
#[tokio::test]
async fn a_writer_that_has_read_and_is_still_a_writer_does_not_wait_for_itself() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let owner = Owner::new();
    let (one, other) = (ReadWriteLock::new(&client, A).unwrap(), ReadWriteLock::new(&client, A).unwrap());
    let writing = one.write().owned_by(&owner).acquire().await.unwrap();
    let is_told = async || {
        let outcome = timeout(Duration::from_secs(5), other.write().owned_by(&owner).acquire()).await;
        matches!(outcome, Ok(Err(Error::WouldDeadlock { .. })))
    };
    assert!(is_told().await, "before it has read");
    let reading = one.read().owned_by(&owner).acquire().await.unwrap();
    assert!(is_told().await, "while it reads");
    reading.release().await.unwrap();
    assert!(writing.is_valid());
    assert!(is_told().await, "it waits for itself, forever");
}

/// A release ends when the lock can no longer be known to be held, whoever does not poll what.
#[tokio::test]
async fn the_release_of_a_writer_does_not_wait_for_a_read_that_nobody_polls() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let reader = lock.read().owned_by(&owner);
    let mut reading = pin!(reader.acquire());
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(reading.as_mut().poll(&mut context), Poll::Pending));
    queue_of(&zookeeper, A, 2).await;
    let start = Instant::now();
    let released = timeout(LONG, writing.release()).await;
    assert!(released.is_ok(), "not within {:?}", start.elapsed());
}

/// If one was lost, the acquire starts over.
#[tokio::test]
async fn existing_locks_are_looked_at_again_when_the_last_look_was_not_answered() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let other = connect(&server).await;
    let client = connect_through(&proxy).await;
    let lock = existing(&client);
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    for within_time in [Some(LONG), None] {
        // Its reply comes to B when A was acquired.
        let created = proxy.intercept_after(1, Fate::HoldReply);
        let looked = proxy.intercept(Request::Exists, Fate::LoseRequest);
        let acquiring = {
            let lock = lock.clone();
            tokio::spawn(async move {
                match within_time {
                    Some(time) => lock.try_acquire_for(time).await.map(Option::unwrap),
                    None => lock.acquire().await,
                }
            })
        };
        within(created.happened()).await;
        delete_only_child(&zookeeper, A).await;
        let next = within(mutex_at(&other, A).acquire()).await.unwrap();
        created.release();
        within(looked.happened()).await;
        let outcome = timeout(Duration::from_secs(5), acquiring).await;
        if let Ok(Ok(Ok(guard))) = outcome {
            assert!(
                !(guard.is_valid() && next.is_valid()),
                "{within_time:?}: two hold {A}: {guard:?}, {next:?}"
            );
        }
        drop(next);
        queue_of(&zookeeper, A, 0).await;
        queue_of(&zookeeper, B, 0).await;
    }
}

/// Two multi-locks cannot deadlock, however their clients are connected.
#[tokio::test]
async fn locks_below_a_chroot_are_acquired_in_the_order_of_everybody_else() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/z", b"", &persistent).await.unwrap();
    let [one, two]: [Client; 2] = connect_many(&server).await;
    let below = builder()
        .session_timeout(Duration::from_secs(10))
        .connect(&format!("{}/z", server.connect_string()))
        .await
        .unwrap();
    // What is /z/a to everybody else, and /m.
    let mixed = MultiLock::of([lock_at(&below, "/a"), lock_at(&one, "/m")]).unwrap();
    let plain = MultiLock::of([lock_at(&two, "/m"), lock_at(&two, "/z/a")]).unwrap();
    let turns = async |lock: MultiLock| {
        for _ in 0..300 {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    };
    let both = futures_util::future::join(turns(mixed), turns(plain));
    assert!(timeout(Duration::from_secs(40), both).await.is_ok(), "each waits for the other");
}

/// An error names the servers that did not answer.
#[tokio::test]
async fn the_error_of_the_last_look_names_the_servers_that_were_silent() {
    let server = empty_server().await;
    let silent = empty_server().await;
    let proxy = FaultProxy::start(silent.connect_string()).await.unwrap();
    let one = connect(&server).await;
    let two = connect_through(&proxy).await;
    let lock = MultiLock::of([lock_at(&one, A), lock_at(&two, B)]).unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let held = proxy.intercept(Request::Exists, Fate::HoldReply);
    let outcome = within(lock.try_acquire_for(Duration::from_secs(2))).await;
    within(held.happened()).await;
    held.release();
    match outcome {
        Err(Error::NotConnected { hosts, .. }) => assert_eq!(hosts, proxy.connect_string()),
        other => panic!("{other:?}"),
    }
}

/// A future goes on elsewhere after the runtime that polled it first has ended.
#[test]
fn an_acquire_goes_on_when_the_runtime_that_began_it_has_ended() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    let [holder, client]: [Client; 2] = elsewhere.block_on(connect_many(&server));
    let owner = Owner::new();
    let subjects: [(&str, Arc<dyn InterProcessLock>); 3] = [
        ("mutex", lock_at(&client, B)),
        ("paths", Arc::new(MultiLock::new(&client, [A, B]).unwrap())),
        ("existing", Arc::new(existing(&client))),
    ];
    for (kind, lock) in subjects {
        let lock = lock.owned_by(&owner);
        let held = block_on(mutex_at(&holder, B).acquire()).unwrap();
        let mut acquiring = Box::pin(async move { lock.try_acquire_for(LONG).await });
        let begun = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        begun.block_on(async {
            tokio::select! {
                biased;
                early = &mut acquiring => panic!("{early:?}"),
                _ = queue_of(&zookeeper, B, 2) => {}
            }
        });
        drop(begun);
        let gone_on = thread::spawn(move || block_on(acquiring));
        thread::sleep(Duration::from_millis(500));
        block_on(held.release()).unwrap();
        let outcome = gone_on.join();
        assert!(matches!(outcome, Ok(Ok(Some(_)))), "{kind}: {outcome:?}");
    }
}

/// No outage ends the wait of whoever waits in a queue while its session lives.
#[tokio::test]
async fn an_outage_does_not_end_the_wait_of_a_reader_whose_owner_comes_to_write() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let holder = connect(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let builder = Client::builder()
        .session_timeout(Duration::from_secs(30))
        .connection_timeout(Duration::from_millis(200))
        .retry_policy(RetryPolicy::one_time(Duration::from_millis(10)))
        .drop_timeout(Duration::ZERO);
    let client = connected(builder, &proxy.connect_string()).await;
    let session = session_id(&client).await;
    let held = ReadWriteLock::new(&holder, A).unwrap().write().acquire().await.unwrap();
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let (write, read) = (lock.write().owned_by(&owner), lock.read().owned_by(&owner));
    let writing = tokio::spawn(async move { write.acquire().await });
    queue_of(&zookeeper, A, 2).await;
    let reading = tokio::spawn(async move { read.acquire().await });
    queue_of(&zookeeper, A, 3).await;
    watches_of(&server, 2).await;
    let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
    proxy.refuse_connections(true).unwrap();
    held.release().await.unwrap();
    let writing = within(writing).await.unwrap().unwrap();
    within(lost.happened()).await;
    // Several times what the policy allows.
    tokio::time::sleep(Duration::from_secs(2)).await;
    proxy.refuse_connections(false).unwrap();
    let outcome = within(reading).await.unwrap();
    assert_eq!(session_id(&client).await, session);
    assert!(writing.is_valid());
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// However long the time is.
#[tokio::test]
async fn the_longest_times_are_no_panic() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let locks = [
        lock_at(&client, C),
        Arc::new(MultiLock::new(&client, [A, B]).unwrap()),
        Arc::new(existing(&client)),
    ];
    for lock in locks {
        for short_of in [None, Some(Duration::from_millis(60))] {
            let (mut fits, mut not) = (Duration::ZERO, Duration::MAX);
            while not - fits > Duration::from_nanos(1) {
                let middle = fits + (not - fits) / 2;
                match Instant::now().checked_add(middle) {
                    Some(_) => fits = middle,
                    None => not = middle,
                }
            }
            let time = short_of.map_or(Duration::MAX, |short_of| fits - short_of);
            let lock = lock.clone();
            let outcome = tokio::spawn(async move { within(lock.try_acquire_for(time)).await }).await;
            assert!(matches!(outcome, Ok(Ok(Some(_)))), "{time:?}: {outcome:?}");
        }
    }
}

struct Rules {
    /// Guards of the one owner, and of anybody else.
    ours: AtomicUsize,
    theirs: AtomicUsize,
    broken: AtomicUsize,
}

/// Whatever one owner does on several threads: nobody else is let in meanwhile, nothing stays, and nobody hangs.
#[test]
fn one_owner_on_many_threads_keeps_the_rules() {
    keep_the_rules(5, 0);
}

/// The same with pauses, in which others are let in.
#[test]
fn one_owner_on_three_threads_among_others_keeps_the_rules() {
    keep_the_rules(3, 4000);
}

fn keep_the_rules(callers: usize, pause: u64) {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    let [ours, theirs]: [Client; 2] = elsewhere.block_on(connect_many(&server));
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&ours, A).unwrap();
    let (write, read) = (lock.write().owned_by(&owner), lock.read().owned_by(&owner));
    let rules = Arc::new(Rules { ours: 0.into(), theirs: 0.into(), broken: 0.into() });
    let end = Instant::now() + Duration::from_secs(25);
    let (done, all_done) = mpsc::channel();
    let (pass_on, passed_on) = mpsc::channel::<LockGuard>();
    let mut threads = 0;
    let errors = Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::<String, usize>::new()));
    for number in 0..callers {
        let (write, read, rules, done, pass_on, errors) =
            (write.clone(), read.clone(), rules.clone(), done.clone(), pass_on.clone(), errors.clone());
        threads += 1;
        thread::spawn(move || {
            let enter = |guard: &LockGuard| {
                rules.ours.fetch_add(1, SeqCst);
                if rules.theirs.load(SeqCst) > 0 && guard.is_valid() {
                    rules.broken.fetch_add(1, SeqCst);
                }
            };
            let mut count = 0;
            while Instant::now() < end {
                count += 1;
                thread::sleep(Duration::from_micros(fastrand::u64(0..=pause)));
                let dice = fastrand::u32(0..12);
                let polls = fastrand::usize(1..12);
                let outcome: Option<zk_recipes::Result<Option<LockGuard>>> = block_on(async {
                    match dice {
                        0 => poll_times(async { read.acquire().await.map(Some) }, polls).await,
                        1 => poll_times(async { write.acquire().await.map(Some) }, polls).await,
                        2 => Some(read.try_acquire().await),
                        3 => Some(write.try_acquire().await),
                        4 => Some(read.try_acquire_for(Duration::from_millis(3)).await),
                        5 => Some(write.try_acquire_for(Duration::from_millis(3)).await),
                        6..9 => Some(read.acquire().await.map(Some)),
                        _ => Some(write.acquire().await.map(Some)),
                    }
                });
                match outcome {
                    Some(Ok(Some(guard))) => {
                        enter(&guard);
                        let again = match fastrand::u32(0..4) {
                            0 => block_on(read.acquire()).ok(),
                            1 => block_on(poll_times(read.acquire(), polls)).and_then(Result::ok),
                            _ => None,
                        };
                        if let Some(again) = &again {
                            enter(again);
                        }
                        if fastrand::bool() {
                            thread::sleep(Duration::from_micros(fastrand::u64(0..800)));
                        }
                        for guard in [Some(guard), again].into_iter().flatten() {
                            if !guard.is_valid() {
                                rules.broken.fetch_add(1000, SeqCst);
                            }
                            match fastrand::u32(0..3) {
                                0 => {
                                    rules.ours.fetch_sub(1, SeqCst);
                                    drop(guard);
                                }
                                1 => {
                                    rules.ours.fetch_sub(1, SeqCst);
                                    if let Err(error) = block_on(guard.release()) {
                                        *errors
                                            .lock()
                                            .unwrap()
                                            .entry(format!("release {error}"))
                                            .or_default() += 1;
                                    }
                                }
                                _ => pass_on.send(guard).unwrap(),
                            }
                        }
                    }
                    Some(Ok(None)) | None => {}
                    Some(Err(error)) => {
                        *errors.lock().unwrap().entry(error.to_string()).or_default() += 1;
                    }
                }
            }
            drop(pass_on);
            done.send((number, count)).unwrap();
        });
    }
    drop(pass_on);
    // Drops guards on a thread of its own.
    let dropping = {
        let rules = rules.clone();
        thread::spawn(move || {
            for guard in passed_on {
                rules.ours.fetch_sub(1, SeqCst);
                drop(guard);
            }
        })
    };
    for number in callers..callers + 2 {
        let other = ReadWriteLock::new(&theirs, A).unwrap().write().clone();
        let (rules, done) = (rules.clone(), done.clone());
        threads += 1;
        thread::spawn(move || {
            let mut count = 0;
            while Instant::now() < end {
                count += 1;
                let guard = block_on(other.acquire()).unwrap();
                rules.theirs.fetch_add(1, SeqCst);
                if rules.ours.load(SeqCst) > 0 && guard.is_valid() {
                    rules.broken.fetch_add(1, SeqCst);
                }
                thread::sleep(Duration::from_micros(fastrand::u64(0..300)));
                rules.theirs.fetch_sub(1, SeqCst);
                block_on(guard.release()).unwrap();
            }
            done.send((number, count)).unwrap();
        });
    }
    let mut ended = Vec::new();
    for _ in 0..threads {
        match all_done.recv_timeout(Duration::from_secs(60)) {
            Ok(end) => ended.push(end),
            Err(_) => panic!("some hang; ended: {ended:?}, {:?}", errors.lock().unwrap()),
        }
    }
    dropping.join().unwrap();
    println!("{ended:?} {:#?}", errors.lock().unwrap());
    assert_eq!(rules.broken.load(SeqCst), 0);
    assert!(!write.is_owned_by(&owner) && !read.is_owned_by(&owner));
    elsewhere.block_on(assert_nothing_left(&server, &zookeeper, A));
    // What it has released it does not wait for.
    let other = ReadWriteLock::new(&ours, A).unwrap().write().owned_by(&owner);
    assert!(matches!(block_on(other.try_acquire()), Ok(Some(_))));
}

/// Whoever vanishes at any await of an acquire of existing locks leaves nothing.
#[tokio::test]
async fn a_cancelled_acquire_of_nested_existing_locks_leaves_nothing() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [one, two, holder]: [Client; 3] = connect_many(&server).await;
    let inner: Arc<dyn InterProcessLock> =
        Arc::new(MultiLock::of([lock_at(&one, A), lock_at(&two, B)]).unwrap());
    let lock = MultiLock::of([
        inner,
        Arc::new(Semaphore::new(&two, C, 1).unwrap()),
        Arc::new(MultiLock::new(&one, ["/pitfalls/d", "/pitfalls/e"]).unwrap()),
    ])
    .unwrap();
    let held = [None, Some(B), Some("/pitfalls/e")];
    for held in held {
        let held = match held {
            Some(path) => Some(mutex_at(&holder, path).acquire().await.unwrap()),
            None => None,
        };
        let count = usize::from(held.is_some());
        for polls in 1..25 {
            let polling = async {
                match polls % 3 {
                    0 => drop(poll_times(lock.acquire(), polls).await),
                    1 => drop(poll_times(lock.try_acquire(), polls).await),
                    _ => drop(poll_times(lock.try_acquire_for(Duration::from_secs(1)), polls).await),
                }
            };
            // Who waits is not polled that often.
            let _ = timeout(Duration::from_millis(300), polling).await;
            if polls % 5 == 0 {
                eventually("nothing is left", || async {
                    (ephemerals_below(&zookeeper, "/pitfalls").await.len() == count).then_some(())
                })
                .await;
            }
        }
        // After watches were set as well.
        let cancelled = timeout(Duration::from_millis(300), lock.acquire()).await;
        assert!(cancelled.is_err() || held.is_none());
        drop(cancelled);
        eventually("nothing is left", || async {
            (ephemerals_below(&zookeeper, "/pitfalls").await.len() == count).then_some(())
        })
        .await;
        if let Some(held) = held {
            held.release().await.unwrap();
        }
        watches_of(&server, 0).await;
    }
}

/// What is lost by closing an adopted client is removed when the acquire ends.
#[tokio::test]
async fn an_acquire_that_ends_because_one_of_its_clients_is_closed_leaves_nothing() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [two, holder]: [Client; 2] = connect_many(&server).await;
    for is_adopted in [false, true] {
        let session = bystander(&server).await;
        let one = if is_adopted {
            Client::from_zookeeper(session.clone()).unwrap()
        } else {
            connect(&server).await
        };
        let held = mutex_at(&holder, B).acquire().await.unwrap();
        let lock = MultiLock::of([lock_at(&one, A), lock_at(&two, B), lock_at(&one, C)]).unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        queue_of(&zookeeper, A, 1).await;
        queue_of(&zookeeper, B, 2).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        one.close().await;
        let outcome = within(waiting).await.unwrap();
        assert_eq!(outcome.map(drop), Err(Error::Closed));
        queue_of(&zookeeper, A, 0).await;
        queue_of(&zookeeper, B, 1).await;
        held.release().await.unwrap();
        drop(session);
    }
}

/// Members on two clients whose connections come and go: nobody is let in beside a valid guard, and all go on.
#[test]
fn existing_locks_on_bad_connections_keep_the_rules() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    let proxies: Vec<FaultProxy> =
        (0..3).map(|_| elsewhere.block_on(FaultProxy::start(server.connect_string())).unwrap()).collect();
    let clients: Vec<Client> = proxies
        .iter()
        .map(|proxy| {
            let builder =
                Client::builder().session_timeout(Duration::from_secs(4)).drop_timeout(Duration::ZERO);
            block_on(builder.connect(&proxy.connect_string())).unwrap()
        })
        .collect();
    let end = Instant::now() + Duration::from_secs(40);
    let holders: Arc<std::sync::Mutex<Vec<Arc<LockGuard>>>> = Arc::default();
    let errors = Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::<String, usize>::new()));
    let broken = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (done, all_done) = mpsc::channel();
    for number in 0..6 {
        let (first, second) = (clients[number % 3].clone(), clients[(number + 1) % 3].clone());
        let lock = match number % 2 {
            0 => MultiLock::of([lock_at(&first, A), lock_at(&second, B), lock_at(&first, C)]).unwrap(),
            _ => MultiLock::of([lock_at(&second, A), Arc::new(MultiLock::new(&first, [B, C]).unwrap())])
                .unwrap(),
        };
        let (holders, errors, broken, done) = (holders.clone(), errors.clone(), broken.clone(), done.clone());
        // On a runtime, as long as an acquire panics on none.
        elsewhere.spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                let time = Duration::from_millis(fastrand::u64(1..3000));
                let owned = lock.owned_by(&Owner::new());
                let start = Instant::now();
                let outcome = match fastrand::u32(0..6) {
                    0 => owned.try_acquire().await,
                    1 => match timeout(time, owned.acquire()).await {
                        Ok(acquired) => acquired.map(Some),
                        Err(_) => continue,
                    },
                    _ => {
                        let outcome = owned.try_acquire_for(time).await;
                        let late = start.elapsed().saturating_sub(time);
                        if late > Duration::from_millis(700) {
                            broken.lock().unwrap().push(format!("{late:?} late: {outcome:?}"));
                        }
                        outcome
                    }
                };
                match outcome {
                    Ok(Some(guard)) => {
                        count += 1;
                        let guard = Arc::new(guard);
                        {
                            let mut holders = holders.lock().unwrap();
                            let others: Vec<_> = holders.iter().filter(|other| other.is_valid()).collect();
                            if guard.is_valid()
                                && !others.is_empty()
                                && others.iter().all(|other| other.is_valid())
                            {
                                broken.lock().unwrap().push(format!("two hold: {others:?} and {guard:?}"));
                            }
                            holders.push(guard.clone());
                        }
                        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..20))).await;
                        holders.lock().unwrap().retain(|other| !Arc::ptr_eq(other, &guard));
                        let guard = Arc::try_unwrap(guard).unwrap();
                        if let Err(error) = guard.release().await {
                            let kind = format!("release {error:?}").chars().take(24).collect();
                            *errors.lock().unwrap().entry(kind).or_default() += 1;
                        }
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let kind = format!("{error:?}").chars().take(24).collect();
                        *errors.lock().unwrap().entry(kind).or_default() += 1;
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
            done.send((number, count)).unwrap();
        });
    }
    while Instant::now() + Duration::from_secs(3) < end {
        let proxy = &proxies[fastrand::usize(0..3)];
        match fastrand::u32(0..4) {
            0 | 1 => proxy.cut(),
            2 => {
                proxy.set_traffic(Traffic::black_hole());
                thread::sleep(Duration::from_millis(fastrand::u64(100..5000)));
                proxy.set_traffic(Traffic::pass());
                proxy.cut();
            }
            _ => {
                let lost = proxy.intercept_after(fastrand::usize(0..20), Fate::LoseReply);
                thread::sleep(Duration::from_millis(200));
                drop(lost);
            }
        }
        thread::sleep(Duration::from_millis(fastrand::u64(50..900)));
    }
    let mut ended = Vec::new();
    for _ in 0..6 {
        match all_done.recv_timeout(Duration::from_secs(60)) {
            Ok(end) => ended.push(end),
            Err(_) => panic!("some hang; ended: {ended:?}, {:?}", errors.lock().unwrap()),
        }
    }
    println!("{ended:?} {:#?}", errors.lock().unwrap());
    assert!(broken.lock().unwrap().is_empty(), "{:#?}", broken.lock().unwrap());
    elsewhere.block_on(async {
        for path in [A, B, C] {
            queue_of(&zookeeper, path, 0).await;
        }
    });
}

/// Waits until this owner's calls have ended, which must not take long once others have released.
async fn all_of<T: Send + 'static>(
    what: &str,
    calls: Vec<tokio::task::JoinHandle<zk_recipes::Result<T>>>,
    wrong: &mut Vec<String>,
) -> Vec<T> {
    let mut done = Vec::new();
    for (number, call) in calls.into_iter().enumerate() {
        match timeout(Duration::from_secs(25), call).await {
            Ok(Ok(Ok(guard))) => done.push(guard),
            Ok(other) => {
                wrong.push(format!("{what}, call {number}: {:?}", other.map(|outcome| outcome.map(drop))))
            }
            Err(_) => wrong.push(format!("{what}, call {number} hangs")),
        }
    }
    done
}

/// One request or reply is lost while an owner's write and reads wait together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lost_packet_keeps_no_call_of_one_owner_waiting() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let holder = connect(&server).await;
    let client = connect_through(&proxy).await;
    let outside = ReadWriteLock::new(&holder, A).unwrap();
    let mut wrong = Vec::new();
    for (index, fate) in (0..14).flat_map(|index| [(index, Fate::LoseRequest), (index, Fate::LoseReply)]) {
        let what = format!("{fate:?} {index}");
        let owner = Owner::new();
        let lock = ReadWriteLock::new(&client, A).unwrap();
        let (write, read) = (lock.write().owned_by(&owner), lock.read().owned_by(&owner));
        let held = outside.write().acquire().await.unwrap();
        let mut calls = Vec::new();
        for number in 0..3 {
            let (write, read) = (write.clone(), read.clone());
            calls.push(tokio::spawn(async move {
                if number == 0 { write.acquire().await } else { read.acquire().await }
            }));
            queue_of(&zookeeper, A, 2 + number).await;
        }
        watches_of(&server, 3).await;
        let lost = proxy.intercept_after(index, fate);
        held.release().await.unwrap();
        let mut guards = all_of(&what, calls, &mut wrong).await;
        drop(lost);
        fastrand::shuffle(&mut guards);
        while let Some(guard) = guards.pop() {
            if !guard.is_valid() || outside.write().try_acquire().await.unwrap().is_some() {
                wrong.push(format!("{what}: not held: {guard:?}"));
            }
            if fastrand::bool() { drop(guard) } else { drop(guard.release().await) }
        }
        let next = within(outside.write().acquire()).await.unwrap();
        next.release().await.unwrap();
        eventually("nothing is left", || async { children(&zookeeper, A).await.is_empty().then_some(()) })
            .await;
        if wrong.len() > 5 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The same for two calls for existing locks, with members on two clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lost_packet_keeps_no_call_for_existing_locks_waiting() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let holder = connect(&server).await;
    let (one, two) = (connect_through(&proxy).await, connect_through(&proxy).await);
    let mut wrong = Vec::new();
    for (index, fate) in (0..14).flat_map(|index| [(index, Fate::LoseRequest), (index, Fate::LoseReply)]) {
        let what = format!("{fate:?} {index}");
        let policy = if index % 2 == 0 { SuspectPolicy::GiveUp } else { SuspectPolicy::Keep };
        let options = LockOptions::new().suspect_policy(policy);
        let at_a = mutex_at(&one, A).with_options(options).unwrap();
        let locks: [Arc<dyn InterProcessLock>; 3] =
            [Arc::new(at_a), lock_at(&two, B), Arc::new(Semaphore::new(&one, C, 2).unwrap())];
        let lock = MultiLock::of(locks).unwrap().owned_by(&Owner::new());
        let held = mutex_at(&holder, B).acquire().await.unwrap();
        let mut calls = Vec::new();
        for number in 0..2 {
            let lock = lock.clone();
            calls.push(tokio::spawn(async move {
                match number {
                    0 => lock.acquire().await,
                    _ => lock.try_acquire_for(LONG).await.map(Option::unwrap),
                }
            }));
            queue_of(&zookeeper, B, 2 + number).await;
        }
        // Whether A is watched by then differs.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..250))).await;
        let lost = proxy.intercept_after(index, fate);
        held.release().await.unwrap();
        let guards = all_of(&what, calls, &mut wrong).await;
        drop(lost);
        for guard in guards {
            drop(guard);
        }
        for path in [A, B, "/pitfalls/c/leases", "/pitfalls/c/locks"] {
            eventually("nothing is left", || async {
                children(&zookeeper, path).await.is_empty().then_some(())
            })
            .await;
        }
        if wrong.len() > 5 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A try that nobody else is in the way of does not say that somebody is, whatever one packet does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lost_packet_does_not_make_free_locks_taken() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let subjects: [(&str, Arc<dyn InterProcessLock>); 5] = [
        ("mutex", lock_at(&client, C)),
        ("existing", Arc::new(existing(&client))),
        ("paths", Arc::new(MultiLock::new(&client, ["/pitfalls/d", "/pitfalls/e"]).unwrap())),
        ("permits", Arc::new(Semaphore::new(&client, "/pitfalls/s", 3).unwrap().many(2).unwrap())),
        ("reading", Arc::new(ReadWriteLock::new(&client, "/pitfalls/r").unwrap().read().clone())),
    ];
    let mut wrong = Vec::new();
    for (kind, lock) in subjects {
        for _ in 0..3 {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        for (index, fate) in (0..8).flat_map(|index| [(index, Fate::LoseRequest), (index, Fate::LoseReply)]) {
            for is_timed in [false, true] {
                let lock = lock.owned_by(&Owner::new());
                let lost = proxy.intercept_after(index, fate);
                let start = Instant::now();
                let outcome = timeout(Duration::from_secs(25), async {
                    if is_timed { lock.try_acquire_for(LONG).await } else { lock.try_acquire().await }
                })
                .await;
                drop(lost);
                match outcome {
                    Ok(Ok(Some(guard))) => drop(guard.release().await),
                    other => wrong.push(format!(
                        "{kind}, timed {is_timed}, {fate:?} {index}: {other:?} in {:?}",
                        start.elapsed()
                    )),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One of two calls of one owner vanishes with its runtime; the other one goes on.
#[test]
fn a_call_whose_runtime_ends_does_not_take_the_other_call_of_its_owner_along() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    let [holder, client]: [Client; 2] = elsewhere.block_on(connect_many(&server));
    for round in 0..6 {
        let lock = existing(&client).owned_by(&Owner::new());
        let held = block_on(mutex_at(&holder, B).acquire()).unwrap();
        let begun =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let call = |runtime: &tokio::runtime::Runtime| {
            let lock = lock.clone();
            runtime.spawn(async move { lock.acquire().await })
        };
        let (first, second) = if round % 2 == 0 {
            let first = call(&begun);
            elsewhere.block_on(queue_of(&zookeeper, B, 2));
            (first, call(&elsewhere))
        } else {
            let second = call(&elsewhere);
            elsewhere.block_on(queue_of(&zookeeper, B, 2));
            (call(&begun), second)
        };
        elsewhere.block_on(queue_of(&zookeeper, B, 3));
        elsewhere.block_on(queue_of(&zookeeper, A, 1));
        if round > 3 {
            thread::sleep(Duration::from_millis(300));
        }
        drop(begun);
        assert!(!second.is_finished());
        block_on(held.release()).unwrap();
        let guard = elsewhere.block_on(within(second)).unwrap().unwrap();
        assert_eq!(guard.hold_count(), 1);
        assert!(elsewhere.block_on(first).is_err());
        block_on(guard.release()).unwrap();
        elsewhere.block_on(queue_of(&zookeeper, A, 0));
        elsewhere.block_on(queue_of(&zookeeper, B, 0));
    }
}

/// The owner keeps what it has lost, and the first lock is busy: that must not go on forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_hold_that_the_owner_keeps_ends_the_acquire_however_busy_the_others_are() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [holder, client]: [Client; 2] = connect_many(&server).await;
    let owner = Owner::new();
    let at_b = mutex_at(&client, B);
    let lock = MultiLock::of([lock_at(&client, A), Arc::new(at_b.clone()), lock_at(&client, C)])
        .unwrap()
        .owned_by(&owner);
    let kept = at_b.owned_by(&owner).acquire().await.unwrap();
    let held = mutex_at(&holder, C).acquire().await.unwrap();
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    queue_of(&zookeeper, C, 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    delete_only_child(&zookeeper, B).await;
    within(kept.lost()).await;
    held.release().await.unwrap();
    // Others use the first lock, each for a while.
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let lock = mutex_at(&holder, A);
            tokio::spawn(async move {
                loop {
                    let guard = lock.owned_by(&Owner::new()).acquire().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(700)).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    let outcome = timeout(Duration::from_secs(30), acquiring).await;
    busy.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(matches!(outcome, Ok(Ok(Err(Error::LockLost { .. })))), "{outcome:?}");
}

/// A lost connection does not end the wait.
#[tokio::test]
async fn a_connection_that_comes_and_goes_does_not_end_the_wait_for_existing_locks() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let holder = connect(&server).await;
    let client = connect_through(&proxy).await;
    let options = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let at_a = |path| {
        Arc::new(mutex_at(&client, path).with_options(options.clone()).unwrap()) as Arc<dyn InterProcessLock>
    };
    let held = mutex_at(&holder, B).acquire().await.unwrap();
    let alone = mutex_at(&client, B).with_options(options.clone()).unwrap();
    let lock = MultiLock::of([at_a(A), at_a(B)]).unwrap();
    let plain = tokio::spawn(async move { alone.acquire().await });
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(25) && !waiting.is_finished() && !plain.is_finished() {
        tokio::time::sleep(Duration::from_millis(300)).await;
        proxy.cut();
    }
    assert!(!plain.is_finished(), "{:?}", plain.await);
    if waiting.is_finished() {
        panic!("after {:?}: {:?}", start.elapsed(), waiting.await);
    }
    held.release().await.unwrap();
    within(plain).await.unwrap().unwrap().release().await.unwrap();
    within(waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// What a try gives up itself is in nobody's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_of_locks_that_are_given_up_in_doubt_does_not_say_that_somebody_has_them() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let options = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let at = |path| {
        Arc::new(mutex_at(&client, path).with_options(options.clone()).unwrap()) as Arc<dyn InterProcessLock>
    };
    let lock = MultiLock::of([at(A), at(B), Arc::new(Semaphore::new(&client, C, 1).unwrap())]).unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let mut wrong = Vec::new();
    for round in 0..40 {
        let lost = proxy
            .intercept(Request::Exists, if round % 2 == 0 { Fate::LoseReply } else { Fate::LoseRequest });
        let outcome = timeout(Duration::from_secs(25), lock.try_acquire()).await;
        drop(lost);
        match outcome {
            Ok(Ok(Some(guard))) => drop(guard.release().await),
            other => wrong.push(format!("{round}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "nobody else is there: {wrong:#?}");
}

/// A hold ends when its last guard is dropped.
#[tokio::test]
async fn the_hold_of_a_writer_ends_with_its_guard_though_nobody_polls_a_read() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [client, other]: [Client; 2] = connect_many(&server).await;
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let reader = lock.read().owned_by(&owner);
    let mut reading = pin!(reader.acquire());
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(reading.as_mut().poll(&mut context), Poll::Pending));
    queue_of(&zookeeper, A, 2).await;
    drop(writing);
    // Like any place in a queue, that of the read may stay; but nothing is left of the writer.
    let outside = ReadWriteLock::new(&other, A).unwrap();
    let let_in = timeout(LONG, outside.read().acquire()).await;
    assert!(let_in.is_ok(), "{:?}", children(&zookeeper, A).await);
}

/// What is lost again and again fails the acquire, though each round takes a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_locks_that_are_lost_again_and_again_fail_a_try() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_through(&proxy).await;
    let paths: Vec<String> = (0..12).map(|number| format!("/pitfalls/{number:02}")).collect();
    let lock = MultiLock::of(paths.iter().map(|path| lock_at(&client, path))).unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(60)));
    let first = paths[0].clone();
    let rounds = Arc::new(AtomicUsize::new(0));
    let deleting = {
        let rounds = rounds.clone();
        tokio::spawn(async move {
            loop {
                for node in children(&zookeeper, &first).await {
                    // A round takes longer than that.
                    tokio::time::sleep(Duration::from_millis(1150)).await;
                    let _ = zookeeper.delete(&format!("{first}/{node}"), None).await;
                    rounds.fetch_add(1, SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    };
    let outcome = timeout(Duration::from_secs(45), lock.try_acquire()).await;
    deleting.abort();
    proxy.set_traffic(Traffic::pass());
    let rounds = rounds.load(SeqCst);
    assert!(matches!(outcome, Ok(Err(Error::PlaceLost { .. }))), "after {rounds} rounds: {outcome:?}");
}

/// Closing a client wakes every waiter, whoever has taken the first lock meanwhile.
#[tokio::test]
async fn a_closed_client_ends_the_wait_when_others_take_the_first_lock() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [one, two, holder]: [Client; 3] = connect_many(&server).await;
    let held = mutex_at(&holder, C).acquire().await.unwrap();
    let lock = MultiLock::of([lock_at(&one, A), lock_at(&two, B), lock_at(&one, C)]).unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    queue_of(&zookeeper, A, 1).await;
    queue_of(&zookeeper, C, 2).await;
    let next = mutex_at(&holder, A);
    let next = tokio::spawn(async move { next.acquire().await });
    queue_of(&zookeeper, A, 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    two.close().await;
    let outcome = timeout(LONG, waiting).await;
    let next = within(next).await.unwrap().unwrap();
    assert!(next.is_valid());
    assert!(matches!(outcome, Ok(Ok(Err(Error::Closed)))), "{outcome:?}");
    drop(held);
}

/// Operators take nodes away while calls of one owner and of others come and go.
#[test]
fn whatever_operators_take_away_nobody_hangs_and_nothing_stays() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    let [one, two, three]: [Client; 3] = elsewhere.block_on(connect_many(&server));
    let end = Instant::now() + Duration::from_secs(20);
    let owner = Owner::new();
    let shared: Vec<Arc<dyn InterProcessLock>> = vec![
        Arc::new(existing(&one).owned_by(&owner)),
        Arc::new(MultiLock::new(&one, [A, B, C]).unwrap().owned_by(&owner)),
        Arc::new(MultiLock::of([lock_at(&one, B), lock_at(&two, C)]).unwrap().owned_by(&owner)),
    ];
    let errors = Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::<String, usize>::new()));
    let (done, all_done) = mpsc::channel();
    let mut calls = 0;
    let mut locks: Vec<Arc<dyn InterProcessLock>> = Vec::new();
    for lock in shared {
        locks.extend([lock.clone(), lock.clone(), lock]);
    }
    locks.push(Arc::new(existing(&three)));
    locks.push(Arc::new(MultiLock::new(&three, [B, C]).unwrap()));
    for lock in locks {
        calls += 1;
        let (errors, done) = (errors.clone(), done.clone());
        elsewhere.spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                let time = Duration::from_millis(fastrand::u64(1..2500));
                let outcome = match fastrand::u32(0..4) {
                    0 => lock.try_acquire().await,
                    1 => match timeout(time, lock.acquire()).await {
                        Ok(acquired) => acquired.map(Some),
                        Err(_) => continue,
                    },
                    _ => lock.try_acquire_for(time).await,
                };
                match outcome {
                    Ok(Some(guard)) => {
                        count += 1;
                        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..10))).await;
                        drop(guard);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let kind = format!("{error:?}").chars().take(16).collect();
                        *errors.lock().unwrap().entry(kind).or_default() += 1;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
            done.send(count).unwrap();
        });
    }
    while Instant::now() < end {
        elsewhere.block_on(async {
            let mut nodes = ephemerals_below(&zookeeper, "/pitfalls").await;
            fastrand::shuffle(&mut nodes);
            if let Some((node, _)) = nodes.pop() {
                let _ = zookeeper.delete(&node, None).await;
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..150))).await;
        });
    }
    let mut ended = Vec::new();
    for _ in 0..calls {
        match all_done.recv_timeout(Duration::from_secs(30)) {
            Ok(count) => ended.push(count),
            Err(_) => panic!("some hang; ended: {ended:?}, {:?}", errors.lock().unwrap()),
        }
    }
    println!("{ended:?} {:#?}", errors.lock().unwrap());
    elsewhere.block_on(async {
        eventually("nothing is left", || async {
            ephemerals_below(&zookeeper, "/pitfalls").await.is_empty().then_some(())
        })
        .await;
        watches_of(&server, 0).await;
    });
}
