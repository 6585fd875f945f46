//! Where a client lives: on a thread of its own, whatever its callers do with theirs.

mod support;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};
use zk_recipes::testing::{FaultProxy, MemoryServer, Traffic};
use zk_recipes::{
    Client, CloseMode, Error, InterProcessLock, InterProcessMutex, LeaderLatch, LeaderOptions,
    LeaderSelector, LeaderState, LossReason, MultiLock, Owner, Semaphore,
};

use support::alone::is_alone;
use support::kinds::*;
use support::runtime::*;
use support::*;

const SESSION: Duration = Duration::from_secs(8);
const LONGER_THAN_A_SESSION: Duration = Duration::from_secs(10);

/// A runtime that runs only while it is waited for.
fn caller() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_caller_needs_no_runtime() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    block_on(async {
        let client = Client::connect(&server.connect_string()).await.unwrap();
        for kind in KINDS {
            let guard = kind.unlimited(&client).acquire().await.unwrap();
            assert!(guard.is_valid(), "{kind:?}");
            guard.run(std::future::ready(())).await.unwrap();
            guard.release().await.unwrap();
        }
        let locks = ["/locks/a", "/locks/b"].map(|path| InterProcessMutex::new(&client, path).unwrap());
        let locks = MultiLock::of(locks.map(|lock| Arc::new(lock) as Arc<dyn InterProcessLock>)).unwrap();
        locks.acquire().await.unwrap().release().await.unwrap();
        let guard = locks.try_acquire_for(BOUND).await.unwrap().unwrap();
        guard.release().await.unwrap();
        let mutex = mutex(&client);
        let held = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
        let tried = answered(async || mutex.try_acquire_for(Duration::from_millis(20)).await);
        assert!(tried.await.is_none());
        let ticket = mutex.owned_by(&Owner::new()).enqueue().await.unwrap();
        assert_eq!(ticket.position().await.unwrap(), 1);
        assert_eq!(mutex.participants().await.unwrap().len(), 2);
        held.release().await.unwrap();
        ticket.acquired().await.unwrap().release().await.unwrap();

        let latch = LeaderLatch::start(&client, "/leader", LeaderOptions::new()).unwrap();
        let leadership = latch.await_leadership().await.unwrap();
        leadership.run(std::future::ready(())).await.unwrap();
        latch.close(CloseMode::Silent).await.unwrap();
        let work = |_| async { Ok::<(), std::io::Error>(()) };
        let selecting = LeaderSelector::start(&client, "/leader", LeaderOptions::new(), work);
        assert!(matches!(selecting.unwrap_err(), Error::InvalidArgument { argument: "runtime", .. }));
        client.close().await;
        assert_eq!(mutex.acquire().await.unwrap_err(), Error::Closed);
    });
    assert!(elsewhere.block_on(ephemerals_below(&zookeeper, "/locks")).is_empty());
}

/// The process has no files left when it makes its first client, and has some later.
#[cfg(target_os = "linux")]
#[test]
fn clients_outlast_a_lack_of_files() {
    if !is_alone("clients_outlast_a_lack_of_files") {
        return;
    }
    let server = MemoryServer::start().unwrap();
    let limit = getrlimit(Resource::Nofile);
    for spare in 0..10 {
        let used = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        setrlimit(Resource::Nofile, Rlimit { current: Some(used + spare), ..limit }).unwrap();
        let builder = Client::builder().connection_timeout(Duration::from_millis(100));
        let tried = block_on(builder.connect(&server.connect_string()));
        setrlimit(Resource::Nofile, limit).unwrap();
        drop(tried);
    }
    assert!(block_on(Client::connect(&server.connect_string())).is_ok());
}

#[test]
fn a_client_outlives_the_runtime_that_it_was_made_on() {
    let (_elsewhere, server) = server_elsewhere();
    let first = elsewhere();
    let (client, guard) = first.block_on(async {
        let client = connect(&server).await;
        let guard = mutex(&client).acquire().await.unwrap();
        (client, guard)
    });
    let waiting = mutex(&client);
    let waiter = first.spawn(async move { waiting.owned_by(&Owner::new()).acquire().await });
    first.block_on(async { while mutex(&client).participants().await.unwrap().len() < 2 {} });
    drop(first);
    drop(waiter);
    let second = caller();
    second.block_on(async {
        assert!(guard.is_valid());
        eventually("the waiter has gone", async || {
            (mutex(&client).participants().await.unwrap().len() == 1).then_some(())
        })
        .await;
        guard.release().await.unwrap();
        mutex(&client).acquire().await.unwrap().release().await.unwrap();
    });
}

/// On the only thread of the caller's runtime.
#[tokio::test]
async fn work_that_blocks_keeps_its_lock() {
    let server = Server::start().await.unwrap();
    let client = Client::builder().session_timeout(SESSION).connect(&server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let state = guard.watch_state();
    std::thread::sleep(LONGER_THAN_A_SESSION);
    assert!(guard.is_valid());
    assert_eq!(state.get(), zk_recipes::LockState::Held);
    assert_eq!(session_id(&client).await, session);
    guard.release().await.unwrap();
}

#[test]
fn work_that_blocks_while_it_is_cut_off_hears_of_the_loss_before_the_next_is_let_in() {
    let (elsewhere, server) = server_elsewhere();
    let proxy = elsewhere.block_on(FaultProxy::start(server.connect_string())).unwrap();
    let next = elsewhere.block_on(connect(&server));
    let caller = caller();
    caller.block_on(async {
        let builder = Client::builder().session_timeout(SESSION);
        let client = builder.connect(&proxy.connect_string()).await.unwrap();
        let guard = std::sync::Arc::new(mutex(&client).acquire().await.unwrap());
        let (lost, is_lost) = mpsc::channel();
        let listening = std::thread::spawn({
            let guard = guard.clone();
            move || {
                let reason = block_on(guard.lost());
                lost.send(Instant::now()).unwrap();
                reason
            }
        });
        let granted = elsewhere.spawn(async move {
            let guard = mutex(&next).acquire().await.unwrap();
            (Instant::now(), guard)
        });
        proxy.set_traffic(Traffic::black_hole());
        std::thread::sleep(LONGER_THAN_A_SESSION);
        assert_eq!(guard.loss(), Some(LossReason::Expired));
        let (granted, _next) = granted.await.unwrap();
        assert!(is_lost.recv_timeout(BOUND).unwrap() < granted);
        assert_eq!(listening.join().unwrap(), LossReason::Expired);
    });
}

#[test]
fn the_last_drop_ends_the_session_before_it_returns() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    for _ in 0..20 {
        let client = block_on(connect(&server));
        let guard = block_on(mutex(&client).acquire()).unwrap();
        let ticket = block_on(mutex(&client).owned_by(&Owner::new()).enqueue()).unwrap();
        drop(client);
        assert_eq!(elsewhere.block_on(ephemerals_below(&zookeeper, "/locks")).len(), 2);
        drop(guard);
        drop(ticket);
        assert!(elsewhere.block_on(ephemerals_below(&zookeeper, "/locks")).is_empty());
    }
}

/// Whatever of the client is left keeps it open.
#[test]
fn all_that_a_user_has_of_a_client_keeps_it_open() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    block_on(async {
        for kind in KINDS {
            let lock = kind.unlimited(&connect(&server).await);
            let guard = lock.acquire().await.unwrap();
            drop(lock);
            assert!(guard.is_valid(), "{kind:?}");
            guard.release().await.unwrap();
        }
        let latch = LeaderLatch::start(&connect(&server).await, "/leader", LeaderOptions::new()).unwrap();
        let leadership = latch.await_leadership().await.unwrap();
        assert!(leadership.is_valid());
    });
    for path in ["/locks", "/leader"] {
        assert!(elsewhere.block_on(ephemerals_below(&zookeeper, path)).is_empty());
    }
}

/// It would wait for a minute, if it did.
#[test]
fn the_last_drop_waits_for_nothing_without_a_connection_and_not_for_its_own_runtime() {
    let (elsewhere, mut server) = server_elsewhere();
    let begun = Instant::now();
    let builder = Client::builder().drop_timeout(2 * BOUND);
    let caller = caller();
    caller.block_on(async {
        let here = builder.clone().runtime(tokio::runtime::Handle::current());
        let client = here.connect(&server.connect_string()).await.unwrap();
        drop(mutex(&client).acquire().await.unwrap());
        drop(client);
    });
    let client = block_on(builder.connect(&server.connect_string())).unwrap();
    let guard = block_on(mutex(&client).acquire()).unwrap();
    elsewhere.block_on(async {
        server.kill().await.unwrap();
        let _ = client.watch_connection().wait_for(|state| !state.is_connected()).await;
    });
    drop((client, guard));
    assert!(begun.elapsed() < BOUND);
}

#[test]
fn the_last_drop_waits_no_longer_than_it_is_to() {
    let (elsewhere, server) = server_elsewhere();
    let builder = Client::builder().session_timeout(4 * BOUND);
    for timeout in [Duration::ZERO, Duration::from_millis(50)] {
        let client =
            block_on(builder.clone().drop_timeout(timeout).connect(&server.connect_string())).unwrap();
        elsewhere.block_on(async { server.pause() }).unwrap();
        let begun = Instant::now();
        drop(client);
        assert!(begun.elapsed() >= timeout && begun.elapsed() < BOUND);
        elsewhere.block_on(async { server.resume() }).unwrap();
    }
}

#[test]
fn all_clients_share_two_threads() {
    // Not with those of tests that keep one of them busy: then there are more.
    if !is_alone("all_clients_share_two_threads") {
        return;
    }
    let (_elsewhere, server) = server_elsewhere();
    let clients: Vec<Client> = (0..20).map(|_| block_on(connect(&server))).collect();
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    let mut ours: Vec<String> = names.filter(|name| name.starts_with("zk-recipes")).collect();
    ours.sort();
    assert_eq!(ours, ["zk-recipes\n", "zk-recipes-io\n"]);
    drop(clients);
}

/// Its turn ends when the call has returned, though that does not await.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_call_for_the_work_of_a_selector_is_part_of_the_work() {
    let server = Server::start().await.unwrap();
    let [ours, theirs] = connect_many(&server).await;
    let (is_in, overlaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let first = LeaderSelector::start(&ours, "/leader", LeaderOptions::new(), {
        let is_in = is_in.clone();
        move |_| {
            is_in.store(true, SeqCst);
            std::thread::sleep(Duration::from_secs(3));
            is_in.store(false, SeqCst);
            async { Ok::<(), std::io::Error>(()) }
        }
    });
    let first = first.unwrap();
    eventually("it works", async || is_in.load(SeqCst).then_some(())).await;
    let (works, mut working) = tokio::sync::mpsc::unbounded_channel();
    let _second = LeaderSelector::start(&theirs, "/leader", LeaderOptions::new(), {
        let (is_in, overlaps) = (is_in.clone(), overlaps.clone());
        move |_| {
            overlaps.fetch_or(is_in.load(SeqCst), SeqCst);
            works.send(()).unwrap();
            std::future::pending::<Result<(), std::io::Error>>()
        }
    });
    queue_of(&bystander(&server).await, "/leader", 2).await;
    first.interrupt_leadership();
    within(working.recv()).await.unwrap();
    assert!(!overlaps.load(SeqCst), "two leaders work");
}

#[test]
fn a_selector_whose_runtime_is_gone_stands_in_nobodys_way() {
    let (elsewhere, server) = server_elsewhere();
    let client = elsewhere.block_on(connect(&server));
    let caller = caller();
    let selector = caller.block_on(async {
        let work = |_| std::future::pending::<Result<(), std::io::Error>>();
        let selector = LeaderSelector::start(&client, "/leader", LeaderOptions::new(), work).unwrap();
        eventually("it leads", async || selector.leadership()).await;
        selector
    });
    drop(caller);
    elsewhere.block_on(async {
        let closed = |state: &LeaderState| matches!(state, LeaderState::Closed);
        within(selector.watch_state().wait_for(closed)).await.unwrap();
        queue_of(&bystander(&server).await, "/leader", 0).await;
    });
}

/// The macros of tokio poll nothing at all when the task has used up its budget: nothing that is to be sent first may be left
/// to them.
#[test]
fn a_semaphore_counts_behind_its_place_whatever_is_left_of_the_callers_budget() {
    let (elsewhere, server) = server_elsewhere();
    let proxy = elsewhere.block_on(FaultProxy::start(server.connect_string())).unwrap();
    let client = elsewhere.block_on(connect_through(&proxy));
    let rival = elsewhere.block_on(connect(&server));
    let caller = caller();
    // Each task has 128 units.
    for used in 118..129 {
        let path = format!("/semaphores/{used}");
        let [semaphore, theirs] = [&client, &rival].map(|client| Semaphore::new(client, &path, 1).unwrap());
        elsewhere.block_on(async { theirs.acquire().await.unwrap().release().await.unwrap() });
        let (mine, theirs) = caller.block_on(async {
            let acquiring = tokio::spawn(async move {
                for _ in 0..used {
                    tokio::task::consume_budget().await;
                }
                semaphore.acquire().await.unwrap()
            });
            // Others have their turn when a task has used up its budget, and may take their time.
            let (held, is_held) = mpsc::channel();
            elsewhere.spawn(async move {
                let guard = tokio::time::timeout(Duration::from_millis(1500), theirs.acquire()).await;
                let _ = held.send(guard);
            });
            let blocking = tokio::spawn(async move { is_held.recv_timeout(Duration::from_millis(400)).ok() });
            let theirs = blocking.await.unwrap().and_then(Result::ok).map(Result::unwrap);
            let mine =
                tokio::time::timeout(Duration::from_millis(700), acquiring).await.ok().map(Result::unwrap);
            (mine, theirs)
        });
        let held = [&mine, &theirs].into_iter().flatten().filter(|guard| guard.is_valid()).count();
        assert!(held < 2, "two permits of one after {used} units");
    }
}

/// For less than a second, when the client ends.
#[test]
fn a_session_is_ended_though_its_server_pauses() {
    let (elsewhere, server) = server_elsewhere();
    let zookeeper = elsewhere.block_on(bystander(&server));
    for is_closed in [true, false] {
        let builder = Client::builder().session_timeout(2 * BOUND);
        let client = block_on(builder.connect(&server.connect_string())).unwrap();
        let guard = block_on(mutex(&client).acquire()).unwrap();
        server.pause().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(700));
                server.resume().unwrap();
            });
            if is_closed {
                block_on(client.close());
            }
            drop((guard, client));
        });
        // Not as late as the session would expire.
        elsewhere.block_on(queue_of(&zookeeper, "/locks/a", 0));
    }
}
