//! What real runtimes, threads and rights do to locks.

mod without_time;

#[path = "../../support/mod.rs"]
mod support;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use support::counter::server_counting_from;
use support::runtime::server_elsewhere;
use support::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use zk_recipes::testing::{FaultProxy, Traffic};
use zk_recipes::{
    Acl, AuthId, Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, MultiLock,
    Owner, Permission, ReadWriteLock, Semaphore, blocking,
};
use zookeeper_client as zk;

const A: &str = "/runtimes/a";
const B: &str = "/runtimes/b";
const C: &str = "/runtimes/c";
const PARENT: &str = "/orders";

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

/// Each kind of lock that waits for its turn, or for locks that exist.
fn subjects(client: &Client, path: &str) -> [(&'static str, Arc<dyn InterProcessLock>); 3] {
    [
        ("mutex", lock_at(client, path)),
        ("paths", Arc::new(MultiLock::new(client, [A, B]).unwrap())),
        ("existing", Arc::new(existing(client))),
    ]
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
    let runtime = Builder::new_current_thread().build().unwrap();
    for (kind, lock) in subjects(&client, C) {
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

/// That runtime is not driven, or is blocked until the caller is done. The deadline of the caller holds nevertheless.
#[test]
fn an_acquire_ends_in_time_though_the_runtime_of_the_client_stands_still() {
    let (elsewhere, server) = server_elsewhere();
    let time = Duration::from_millis(500);
    let idle = Builder::new_current_thread().enable_all().build().unwrap();
    let busy = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for (home, is_driven) in [(&idle, false), (&busy, true)] {
        let builder = Client::builder().runtime(home.handle().clone()).drop_timeout(Duration::ZERO);
        let client = home.block_on(builder.connect(&server.connect_string())).unwrap();
        let ((begins, begun), (told, tell)) = (mpsc::channel(), mpsc::channel::<()>());
        home.spawn(async move {
            begins.send(()).unwrap();
            tell.recv().ok()
        });
        if is_driven {
            begun.recv().unwrap();
        }
        let mutex = mutex_at(&client, A);
        let outcome = elsewhere.block_on(async { timeout(LONG, mutex.try_acquire_for(time)).await });
        assert!(matches!(outcome, Ok(Err(Error::NotConnected { .. }))), "{outcome:?}");
        let blocking = blocking::InterProcessMutex::from(mutex);
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || done.send(blocking.try_acquire_for(time).map(drop)));
        let outcome = is_done.recv_timeout(LONG);
        assert!(matches!(outcome, Ok(Err(Error::NotConnected { .. }))), "{outcome:?}");
        drop(told);
    }
    busy.shutdown_background();
}

/// It ends during the first poll of the acquire, as when the thread of the caller is not scheduled at that point.
#[test]
fn a_runtime_that_ends_as_an_acquire_begins_is_an_error() {
    let (elsewhere, server) = server_elsewhere();
    let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let handle = home.handle().clone();
    let runtime = Arc::new(Mutex::new(None::<Runtime>));
    let ends = runtime.clone();
    let builder = Client::builder().runtime(handle).drop_timeout(Duration::ZERO).acl_for_path(move |_| {
        if let Some(runtime) = ends.lock().unwrap().take() {
            thread::spawn(move || runtime.shutdown_timeout(LONG)).join().unwrap();
        }
        None
    });
    let client = home.block_on(builder.connect(&server.connect_string())).unwrap();
    let mutex = mutex_at(&client, A);
    home.block_on(async { within(mutex.acquire()).await.unwrap().release().await.unwrap() });
    *runtime.lock().unwrap() = Some(home);
    let outcome = elsewhere.block_on(async { within(mutex.try_acquire_for(LONG)).await });
    assert_eq!(outcome.map(drop), Err(Error::Closed));
    assert!(runtime.lock().unwrap().is_none(), "it has ended");
}

/// A future goes on elsewhere after the runtime that polled it first has ended.
#[test]
fn an_acquire_goes_on_when_the_runtime_that_began_it_has_ended() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    let [holder, client]: [Client; 2] = elsewhere.block_on(connect_many(&server));
    let owner = Owner::new();
    for (kind, lock) in subjects(&client, B) {
        let lock = lock.owned_by(&owner);
        let held = block_on(mutex_at(&holder, B).acquire()).unwrap();
        let mut acquiring = Box::pin(async move { lock.try_acquire_for(LONG).await });
        let begun = Builder::new_current_thread().enable_all().build().unwrap();
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

/// A runtime that ends drops what is held on it, without a panic.
#[test]
fn several_releases_at_the_end_of_a_runtime_are_no_panic() {
    let (elsewhere, server) = server_elsewhere();
    let panics = Arc::new(AtomicUsize::new(0));
    let before = std::panic::take_hook();
    let counted = panics.clone();
    std::panic::set_hook(Box::new(move |panic| {
        // Not those of other tests.
        if panic.location().is_none_or(|location| !location.file().contains("runtimes")) {
            counted.fetch_add(1, SeqCst);
        }
        before(panic);
    }));
    for round in 0..20 {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let builder = Client::builder().runtime(tokio::runtime::Handle::current());
            builder.drop_timeout(Duration::ZERO).connect(&server.connect_string()).await.unwrap()
        });
        let outside = runtime.block_on(async {
            for number in 0..4 {
                let multi = MultiLock::new(
                    &client,
                    [format!("/end-{round}/{number}/a"), format!("/end-{round}/{number}/b")],
                )
                .unwrap();
                let permits =
                    Semaphore::new(&client, &format!("/end-{round}/permits"), 50).unwrap().many(3).unwrap();
                let owner = Owner::new();
                let lock = ReadWriteLock::new(&client, &format!("/end-{round}/rw-{number}")).unwrap();
                let held = (
                    within(multi.acquire()).await.unwrap(),
                    within(permits.acquire()).await.unwrap(),
                    within(lock.write().owned_by(&owner).acquire()).await.unwrap(),
                );
                tokio::spawn(async move {
                    let reader = lock.read().owned_by(&owner);
                    let (multi, permits, writing) = held;
                    let mut reading = Box::pin(reader.acquire());
                    let _ = poll_times(reading.as_mut(), 1).await;
                    let mut releasing = Box::pin(permits.release());
                    if round % 2 == 0 {
                        let _ = poll_times(releasing.as_mut(), 1).await;
                    }
                    std::future::pending::<()>().await;
                    drop((multi, writing));
                });
            }
            let multi = MultiLock::new(
                &client,
                [format!("/end-{round}/outside/a"), format!("/end-{round}/outside/b")],
            )
            .unwrap();
            within(multi.acquire()).await.unwrap()
        });
        runtime.shutdown_timeout(Duration::from_millis(u64::from(round % 3 == 0)));
        drop(outside);
        drop(client);
    }
    drop(std::panic::take_hook());
    assert_eq!(panics.load(SeqCst), 0);
    elsewhere.block_on(async move { drop(server) });
}

// --- A writer that reads too ---

/// The drop of the last handle blocks until the servers have ended the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_handle_ends_the_session_though_a_read_was_just_given_up() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    for is_read in [false, true] {
        let builder = Client::builder().session_timeout(Duration::from_secs(10));
        let client =
            builder.drop_timeout(Duration::from_secs(10)).connect(&proxy.connect_string()).await.unwrap();
        let owner = Owner::new();
        let lock = ReadWriteLock::new(&client, A).unwrap();
        let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
        proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(300)));
        let reader = lock.read().owned_by(&owner);
        let mut reading = Box::pin(async move { reader.acquire().await.map(drop) });
        if is_read {
            assert!(poll_once(&mut reading).is_pending());
        }
        // As at the end of `main`.
        let took = tokio::task::spawn_blocking(move || {
            let start = Instant::now();
            drop(reading);
            drop(writing);
            drop(lock);
            drop(client);
            start.elapsed()
        });
        let took = took.await.unwrap();
        let left = ephemerals_below(&zookeeper, A).await;
        proxy.set_traffic(Traffic::pass());
        assert!(left.is_empty(), "with a read: {is_read}; after {took:?}, these are left: {left:?}");
    }
}
