//! Attacks on what is done in one transaction: a new queue with its first node, several releases, and the step of a writer
//! to a reader.

#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use support::counter::server_counting_from;
use support::*;
use tokio::time::timeout;
use zk_recipes::testing::{Fate, FaultProxy, Request, Traffic};
use zk_recipes::{
    Acl, AuthId, Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, LossReason,
    MultiLock, Owner, Permission, ReadWriteLock, RetryPolicy, Semaphore,
};
use zookeeper_client as zk;

const PARENT: &str = "/orders";
const A: &str = "/attack/a";

/// Much longer than anything takes whose turn has come.
const LONG: Duration = Duration::from_secs(15);

fn at(client: &Client, name: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, &format!("{PARENT}/{name}")).unwrap()
}

/// Teaches a client that the paths below [`PARENT`] are new.
async fn teach(client: &Client, who: &str) {
    for number in 0..3 {
        at(client, &format!("lesson-{who}-{number}")).acquire().await.unwrap().release().await.unwrap();
    }
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
            let mut context = Context::from_waker(Waker::noop());
            assert!(matches!(reading.as_mut().poll(&mut context), Poll::Pending));
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

/// Whatever becomes of a read, a writer that is dropped is gone.
#[tokio::test]
async fn past_the_last_number_a_writer_that_is_dropped_before_it_reads_is_gone() {
    let server = server_counting_from(A, i32::MAX).await;
    let zookeeper = bystander(&server).await;
    let client = connect_here(&server).await;
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let reader = lock.read().owned_by(&owner);
    let mut reading = Box::pin(async move { reader.acquire().await });
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(reading.as_mut().poll(&mut context), Poll::Pending));
    drop(writing);
    let outcome = within(reading).await.map(drop);
    let other = ReadWriteLock::new(&connect(&server).await, A).unwrap();
    let next = timeout(LONG, other.write().acquire()).await;
    let nodes = children(&zookeeper, A).await;
    assert!(next.is_ok(), "the read ended with {outcome:?}; these nodes keep others out: {nodes:?}");
}

/// The same for a client on its own threads.
#[tokio::test]
async fn past_the_last_number_a_writer_that_is_dropped_while_it_begins_to_read_is_gone() {
    let server = server_counting_from(A, i32::MAX).await;
    let zookeeper = bystander(&server).await;
    let client = Client::builder().connect(&server.connect_string()).await.unwrap();
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    for round in 0..100 {
        let writing = within(lock.write().owned_by(&owner).acquire()).await.unwrap();
        let reader = lock.read().owned_by(&owner);
        let mut reading = Box::pin(async move { reader.acquire().await });
        let mut context = Context::from_waker(Waker::noop());
        let begun = reading.as_mut().poll(&mut context);
        drop(writing);
        let outcome = match begun {
            Poll::Ready(outcome) => outcome.map(drop),
            Poll::Pending => within(reading).await.map(drop),
        };
        let gone = timeout(Duration::from_secs(5), queue_of(&zookeeper, A, 0)).await;
        assert!(gone.is_ok(), "round {round}: the read ended with {outcome:?}, and the node stays");
    }
}

/// A release ends when the lock can no longer be known to be held.
#[tokio::test]
async fn the_release_of_a_writer_that_becomes_a_reader_ends_in_an_outage() {
    let server = empty_server().await;
    let mut took = Vec::new();
    for is_read in [false, true] {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let builder = Client::builder().session_timeout(Duration::from_secs(5)).drop_timeout(Duration::ZERO);
        let builder = builder.retry_policy(RetryPolicy::forever(Duration::from_millis(100)));
        let client = builder.connect(&proxy.connect_string()).await.unwrap();
        let owner = Owner::new();
        let lock = ReadWriteLock::new(&client, A).unwrap();
        let writing = within(lock.write().owned_by(&owner).acquire()).await.unwrap();
        proxy.set_traffic(Traffic::black_hole_to_client());
        let reader = lock.read().owned_by(&owner);
        let reading = is_read.then(|| tokio::spawn(async move { reader.acquire().await.map(drop) }));
        tokio::time::sleep(Duration::from_millis(200)).await;
        let start = Instant::now();
        let outcome = timeout(Duration::from_secs(30), writing.release()).await;
        took.push((is_read, start.elapsed(), outcome));
        proxy.set_traffic(Traffic::pass());
        drop(reading);
    }
    let [alone, with_a_read] = [took[0].1, took[1].1];
    assert!(with_a_read < alone + Duration::from_secs(2), "{took:?}");
}

// --- A new queue ---

/// First come, first served: a reply that is lost costs nobody the place.
#[tokio::test]
async fn a_lost_look_at_the_date_does_not_cost_the_place() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    if dates_transactions(&zookeeper).await {
        return;
    }
    let other = connect(&server).await;
    let client = connect_through(&proxy).await;
    let lock = at(&client, "fresh");
    let lost = proxy.intercept(Request::Exists, Fate::LoseRequest);
    let ours = acquire_in_task(&lock);
    within(lost.happened()).await;
    proxy.refuse_connections(true).unwrap();
    let first = queue_of(&zookeeper, lock.path(), 1).await;
    let mut theirs = acquire_in_task(&at(&other, "fresh"));
    queue_of(&zookeeper, lock.path(), 2).await;
    proxy.refuse_connections(false).unwrap();
    let (mut ours, start) = (ours, Instant::now());
    tokio::select! {
        guard = &mut ours => drop(guard.unwrap().unwrap()),
        guard = &mut theirs => {
            let guard = guard.unwrap().unwrap();
            let now = children(&zookeeper, lock.path()).await;
            panic!("{first:?} was first, and its session lives; {guard:?} was let in after {:?}: {now:?}", start.elapsed());
        }
    }
    drop(within(theirs).await.unwrap().unwrap());
}

/// Many at one path say nothing about the other paths.
#[tokio::test]
async fn a_crowd_at_a_new_path_is_no_reason_to_expect_no_other() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    teach(&client, "a").await;
    proxy.take_requests();
    let crowd = (0..20).map(|_| {
        let lock = at(&client, "crowd").owned_by(&Owner::new());
        async move { lock.acquire().await.unwrap().release().await.unwrap() }
    });
    within(join_all(crowd)).await;
    let requests = proxy.take_requests();
    let transactions = requests.iter().filter(|request| **request == Request::Multi).count();
    let guard = at(&client, "next").acquire().await.unwrap();
    let next = proxy.take_requests();
    drop(guard);
    assert!(
        next.contains(&Request::Multi) && !next.contains(&Request::Create),
        "{transactions} transactions of the crowd; the next new path: {next:?}"
    );
}

/// Whatever a client has learnt, the outcome is the same, and so is the error.
#[tokio::test]
async fn what_is_learnt_changes_no_outcome() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    let [untaught, taught]: [Client; 2] = connect_many(&server).await;
    teach(&taught, "b").await;
    let acls = [
        Permission::ADMIN,
        Permission::ADMIN | Permission::READ,
        Permission::ADMIN | Permission::CREATE,
        Permission::ADMIN | Permission::READ | Permission::DELETE,
        Permission::ADMIN | Permission::READ | Permission::CREATE,
    ];
    let mut wrong = Vec::new();
    for (number, acl) in acls.into_iter().enumerate() {
        for is_there in [false, true] {
            let mut outcomes = Vec::new();
            for (who, client) in [("untaught", &untaught), ("taught", &taught)] {
                // The taught client takes what is below the parent for new in any case.
                let name = format!("acl-{number}-{is_there}-{who}");
                if is_there {
                    zookeeper.create(&format!("{PARENT}/{name}"), b"", &persistent).await.unwrap();
                }
                zookeeper.set_acl(PARENT, &[Acl::new(acl, AuthId::anyone())], None).await.unwrap();
                let outcome = timeout(LONG, at(client, &name).acquire()).await.map(|acquired| {
                    acquired.map(|guard| sequence(guard.node_path())).map_err(|error| {
                        error.to_string().replace(who, "").replace("untaught", "").replace("taught", "")
                    })
                });
                outcomes.push(outcome.map_err(|_| "hangs"));
                zookeeper
                    .set_acl(PARENT, &[Acl::new(Permission::ALL, AuthId::anyone())], None)
                    .await
                    .unwrap();
                if let Some(Ok(Err(_))) = outcomes.last() {
                    // It does not forget for it.
                    teach(&taught, &format!("c-{number}-{is_there}")).await;
                }
                teach(&taught, &format!("d-{number}-{is_there}-{who}")).await;
            }
            if outcomes[0] != outcomes[1] {
                wrong.push((number, is_there, outcomes));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A session that ends between the transaction and its reply takes the node along, and nothing else.
#[tokio::test]
async fn a_session_that_ends_before_the_reply_does_not_hold() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_through(&proxy).await;
    let other = connect(&server).await;
    for fate in [Request::Multi, Request::Exists] {
        let name = format!("expired-{fate:?}");
        teach(&client, &name).await;
        let held = proxy.intercept(fate, Fate::HoldReply);
        let lock = at(&client, &name);
        let ours = acquire_in_task(&lock);
        if timeout(Duration::from_secs(5), held.happened()).await.is_err() {
            // Servers that tell the date are not asked for it.
            drop(within(ours).await.unwrap().unwrap());
            continue;
        }
        let session = session_id(&client).await;
        server.kill_session(session).await.unwrap();
        queue_of(&zookeeper, lock.path(), 0).await;
        let theirs = within(at(&other, &name).acquire()).await.unwrap();
        drop(held);
        tokio::time::sleep(Duration::from_secs(1)).await;
        if ours.is_finished() {
            let guard = ours.await.unwrap().unwrap();
            assert!(!guard.is_valid() || !theirs.is_valid(), "{guard:?} beside {theirs:?}");
            continue;
        }
        theirs.release().await.unwrap();
        within(ours).await.unwrap().unwrap().release().await.unwrap();
        queue_of(&zookeeper, lock.path(), 0).await;
    }
}

/// Below a chroot, a new path takes one round trip as well, and nothing is left of lost replies.
#[tokio::test]
async fn below_a_chroot_new_paths_are_as_elsewhere() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/apps", b"", &persistent).await.unwrap();
    let builder = Client::builder().session_timeout(Duration::from_secs(10)).drop_timeout(Duration::ZERO);
    let client = builder.connect(&format!("{}/apps", proxy.connect_string())).await.unwrap();
    teach(&client, "chroot").await;
    proxy.take_requests();
    let tells = dates_transactions(&zookeeper).await;
    let guard = at(&client, "one").acquire().await.unwrap();
    let mut requests = proxy.take_requests();
    requests.retain(|request| *request != Request::Confirm);
    let expected: &[Request] = if tells { &[Request::Multi] } else { &[Request::Multi, Request::Exists] };
    assert_eq!(requests, expected);
    assert!(zookeeper.check_stat(&format!("/apps{}", guard.node_path())).await.unwrap().is_some());
    guard.release().await.unwrap();
    for (number, fate) in [Fate::LoseReply, Fate::LoseRequest].into_iter().enumerate() {
        let lock = at(&client, &format!("lost-{number}"));
        let lost = proxy.intercept(Request::Multi, fate);
        let ours = acquire_in_task(&lock);
        within(lost.happened()).await;
        let guard = within(ours).await.unwrap().unwrap();
        let path = format!("/apps{}", lock.path());
        queue_of(&zookeeper, &path, 1).await;
        guard.release().await.unwrap();
        queue_of(&zookeeper, &path, 0).await;
        let lost = proxy.intercept(Request::Multi, fate);
        let lock = at(&client, &format!("given-up-{number}"));
        let ours = acquire_in_task(&lock);
        within(lost.happened()).await;
        ours.abort();
        drop(ours.await);
        queue_of(&zookeeper, &format!("/apps{}", lock.path()), 0).await;
    }
}

/// What happens at paths that come and go.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// Somebody deletes nodes and paths.
    operator: bool,
    /// Sessions end.
    expiry: bool,
    /// Multi-locks and semaphores as well.
    several: bool,
}

/// Paths that the servers remove at any moment, and connections that end at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_meets_another_at_paths_that_come_and_go() {
    come_and_go(Trouble { operator: false, expiry: false, several: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_meets_another_at_paths_that_come_and_go_with_their_sessions() {
    come_and_go(Trouble { operator: false, expiry: true, several: true }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_hangs_at_paths_that_operators_delete() {
    come_and_go(Trouble { operator: true, expiry: false, several: true }).await;
}

async fn come_and_go(trouble: Trouble) {
    const KEYS: usize = 12;
    let server = Server::builder().container_check_interval(Duration::from_millis(3)).start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let mut proxies = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        clients.push(connect_through(&proxy).await);
        proxies.push(proxy);
    }
    let rooms: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let done = Arc::new(AtomicBool::new(false));
    let acquired = Arc::new(AtomicUsize::new(0));
    let mut users = tokio::task::JoinSet::new();
    for number in 0..12 {
        let (client, rooms, done, acquired) =
            (clients[number % 3].clone(), rooms.clone(), done.clone(), acquired.clone());
        users.spawn(async move {
            while !done.load(SeqCst) {
                let (one, two) = (fastrand::usize(..KEYS), fastrand::usize(..KEYS));
                let path = |key: usize| format!("{PARENT}/key-{key}");
                let is_multi = trouble.several && one != two && fastrand::u8(..4) == 0;
                let lock: Arc<dyn InterProcessLock> = if is_multi {
                    Arc::new(MultiLock::new(&client, [path(one), path(two)]).unwrap())
                } else {
                    Arc::new(InterProcessMutex::new(&client, &path(one)).unwrap())
                };
                let lock = lock.owned_by(&Owner::new());
                if trouble.several && fastrand::u8(..8) == 0 {
                    let permits = Semaphore::new(&client, "/permits/few", 3).unwrap().many(2).unwrap();
                    let acquired = timeout(BOUND, permits.acquire()).await.expect("it hangs");
                    if fastrand::bool()
                        && let Ok(permits) = acquired
                    {
                        let _ = permits.release().await;
                    }
                }
                let guard: Option<LockGuard> = match fastrand::u8(..4) {
                    0 => lock.try_acquire().await.unwrap_or_default(),
                    1 => lock
                        .try_acquire_for(Duration::from_micros(fastrand::u64(..20_000)))
                        .await
                        .unwrap_or_default(),
                    2 => {
                        let acquired = poll_times(lock.acquire(), fastrand::usize(1..5)).await;
                        acquired.and_then(zk_recipes::Result::ok)
                    }
                    _ => match timeout(2 * BOUND, lock.acquire()).await.expect("it hangs") {
                        Ok(guard) => Some(guard),
                        Err(error) if trouble.operator || error.is_retryable() => None,
                        Err(error) => panic!("{error}"),
                    },
                };
                let Some(guard) = guard else { continue };
                acquired.fetch_add(1, SeqCst);
                let keys = if is_multi { vec![one, two] } else { vec![one] };
                for key in &keys {
                    let before = rooms[*key].fetch_add(1, SeqCst);
                    assert!(
                        before == 0 || trouble.operator || trouble.expiry || !guard.is_valid(),
                        "two hold {key}"
                    );
                }
                if fastrand::bool() {
                    tokio::time::sleep(Duration::from_micros(fastrand::u64(..3000))).await;
                }
                for key in &keys {
                    rooms[*key].fetch_sub(1, SeqCst);
                }
                match fastrand::u8(..3) {
                    0 => drop(guard),
                    1 => drop(timeout(BOUND, guard.release()).await.expect("it hangs")),
                    _ => drop(poll_times(guard.release(), 1).await),
                }
            }
        });
    }
    let end = Instant::now() + Duration::from_secs(25);
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(20..600))).await;
        let which = fastrand::usize(..3);
        match fastrand::u8(..6) {
            0 => proxies[which].cut(),
            1 if trouble.expiry => {
                if let Ok(Ok(session)) = timeout(Duration::from_secs(1), clients[which].zookeeper()).await {
                    let session = session.session_id().0;
                    let _ = server.kill_session(session).await;
                }
            }
            2 | 3 if trouble.operator => {
                for (path, _) in nodes_below(&zookeeper, PARENT).await.into_iter().rev() {
                    if fastrand::u8(..3) == 0 {
                        let _ = zookeeper.delete(&path, None).await;
                    }
                }
            }
            _ => {
                let kinds =
                    [Request::Multi, Request::Exists, Request::Create, Request::Delete, Request::GetChildren];
                let fate = [Fate::LoseReply, Fate::LoseRequest, Fate::HoldReply][fastrand::usize(..3)];
                let lost = proxies[which].intercept(kinds[fastrand::usize(..kinds.len())], fate);
                let _ = timeout(Duration::from_millis(300), lost.happened()).await;
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..50))).await;
            }
        }
    }
    done.store(true, SeqCst);
    while let Some(ended) = timeout(3 * BOUND, users.join_next()).await.expect("somebody hangs") {
        ended.unwrap();
    }
    println!("{trouble:?}: {} acquired", acquired.load(SeqCst));
    for root in [PARENT, "/permits"] {
        eventually("nothing is left", async || {
            ephemerals_below(&zookeeper, root).await.is_empty().then_some(())
        })
        .await;
    }
}

// --- Releases in one transaction ---

/// A release tells that the lock was lost before, also if the servers were not reached at first.
#[tokio::test]
async fn a_release_that_was_not_sent_at_first_tells_that_the_lock_was_lost() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let builder = Client::builder().session_timeout(Duration::from_secs(20)).drop_timeout(Duration::ZERO);
    let builder = builder.connection_timeout(Duration::from_millis(300));
    let builder = builder.retry_policy(RetryPolicy::forever(Duration::from_millis(50)));
    let client = connected(builder, &proxy.connect_string()).await;
    let mut wrong = Vec::new();
    for is_multi in [false, true] {
        let guard = if is_multi {
            MultiLock::new(&client, ["/lost/a", "/lost/b"]).unwrap().acquire().await.unwrap()
        } else {
            InterProcessMutex::new(&client, "/lost/a").unwrap().acquire().await.unwrap()
        };
        let mut state = client.watch_connection();
        proxy.refuse_connections(true).unwrap();
        proxy.cut();
        within(state.wait_for(|state| !state.is_connected())).await.unwrap();
        zookeeper.delete(guard.node_path(), None).await.unwrap();
        let releasing = tokio::spawn(guard.release());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!releasing.is_finished());
        proxy.refuse_connections(false).unwrap();
        let outcome = within(releasing).await.unwrap();
        if !matches!(outcome, Err(Error::LockLost { reason: LossReason::Deleted, .. })) {
            wrong.push((is_multi, outcome));
        }
        within(state.wait_for(|state| state.is_connected())).await.unwrap();
    }
    assert!(wrong.is_empty(), "nothing of ours had deleted it: {wrong:?}");
}

/// What is dropped without a connection is gone when there is one.
#[tokio::test]
async fn what_is_dropped_without_a_connection_is_gone_with_the_next() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_through(&proxy).await;
    let multi = MultiLock::new(&client, ["/lost/a", "/lost/b"]).unwrap();
    let semaphore = Semaphore::new(&client, "/permits", 5).unwrap();
    for is_polled in [false, true] {
        let guards = [multi.acquire().await.unwrap(), semaphore.many(3).unwrap().acquire().await.unwrap()];
        let mut state = client.watch_connection();
        proxy.refuse_connections(true).unwrap();
        proxy.cut();
        within(state.wait_for(|state| !state.is_connected())).await.unwrap();
        for guard in guards {
            if is_polled {
                assert!(poll_times(guard.release(), 1).await.is_none());
            } else {
                drop(guard);
            }
        }
        proxy.refuse_connections(false).unwrap();
        for path in ["/lost/a", "/lost/b", "/permits/leases"] {
            queue_of(&zookeeper, path, 0).await;
        }
        within(state.wait_for(|state| state.is_connected())).await.unwrap();
    }
}

/// `None` means that somebody else has it.
#[tokio::test]
async fn a_server_that_falls_silent_behind_a_new_queue_is_nobody_who_holds() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_through(&proxy).await;
    let mut wrong = Vec::new();
    if !dates_transactions(&zookeeper).await {
        let held = proxy.intercept(Request::Exists, Fate::HoldReply);
        let outcome = within(at(&client, "silent").try_acquire_for(Duration::from_secs(1))).await;
        within(held.happened()).await;
        if !matches!(outcome, Err(Error::NotConnected { .. })) {
            wrong.push(("mutex", outcome));
        }
    }
    for (name, is_new) in [("new semaphore", true), ("known semaphore", false)] {
        let client = connect_through(&proxy).await;
        let semaphore = Semaphore::new(&client, &format!("/permits/{is_new}"), 3).unwrap();
        if !is_new {
            for _ in 0..3 {
                semaphore.acquire().await.unwrap().release().await.unwrap();
            }
        }
        let trying = async move { semaphore.try_acquire_for(Duration::from_secs(2)).await };
        let (silent, trying) = if is_new {
            let held = proxy.intercept(Request::Multi, Fate::HoldReply);
            let trying = tokio::spawn(trying);
            within(held.happened()).await;
            (proxy.intercept(Request::GetChildren, Fate::HoldReply), trying)
        } else {
            // Sent right behind the transaction.
            (proxy.intercept(Request::GetChildren, Fate::HoldReply), tokio::spawn(trying))
        };
        let outcome = within(trying).await.unwrap();
        if timeout(Duration::from_secs(1), silent.happened()).await.is_ok()
            && !matches!(outcome, Err(Error::NotConnected { .. }))
        {
            wrong.push((name, outcome));
        }
    }
    assert!(wrong.is_empty(), "nobody else is there: {wrong:?}");
}

/// Writers that read too, given up at any moment, on connections that end at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_were_writers_keep_the_rules() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let mut proxies = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        clients.push(connect_through(&proxy).await);
        proxies.push(proxy);
    }
    const KEYS: usize = 3;
    // Who writes at each key, and how many read there.
    let rooms: Arc<Vec<(AtomicUsize, AtomicUsize)>> =
        Arc::new((0..KEYS).map(|_| Default::default()).collect());
    let done = Arc::new(AtomicBool::new(false));
    let counted = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut users = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (client, rooms, done, counted) =
            (clients[number % 2].clone(), rooms.clone(), done.clone(), counted.clone());
        users.spawn(async move {
            let nap = async || tokio::time::sleep(Duration::from_micros(fastrand::u64(..2000))).await;
            while !done.load(SeqCst) {
                let key = fastrand::usize(..KEYS);
                let lock = ReadWriteLock::new(&client, &format!("/rooms/{key}")).unwrap();
                let owner = Owner::new();
                let (writes, reads) = &rooms[key];
                let reader = lock.read().owned_by(&owner);
                if fastrand::u8(..3) == 0 {
                    let Ok(reading) = timeout(BOUND, reader.acquire()).await.expect("it hangs") else {
                        continue;
                    };
                    reads.fetch_add(1, SeqCst);
                    let is_alone = writes.load(SeqCst) == 0;
                    assert!(is_alone || !reading.is_valid(), "a reader beside a writer at {key}");
                    nap().await;
                    reads.fetch_sub(1, SeqCst);
                    drop(reading);
                    counted[0].fetch_add(1, SeqCst);
                    continue;
                }
                let writer = lock.write().owned_by(&owner);
                let Ok(writing) = timeout(BOUND, writer.acquire()).await.expect("it hangs") else { continue };
                counted[1].fetch_add(1, SeqCst);
                writes.fetch_add(1, SeqCst);
                let is_alone = reads.load(SeqCst) == 0 && writes.load(SeqCst) == 1;
                assert!(is_alone || !writing.is_valid(), "a writer beside others at {key}");
                let mut reading = Box::pin(async move { reader.acquire().await });
                let polls = fastrand::usize(..4);
                let begun = if polls == 0 { None } else { poll_times(reading.as_mut(), polls).await };
                if fastrand::bool() {
                    nap().await;
                }
                let is_valid = writing.is_valid();
                writes.fetch_sub(1, SeqCst);
                match fastrand::u8(..3) {
                    0 => drop(writing),
                    1 => drop(timeout(BOUND, writing.release()).await.expect("it hangs")),
                    _ => assert!(poll_times(writing.release(), 1).await.is_none_or(|_| true)),
                }
                let read = match begun {
                    Some(read) => Some(read),
                    None if polls > 0 && fastrand::bool() => {
                        Some(timeout(BOUND, reading).await.expect("it hangs"))
                    }
                    None => {
                        drop(reading);
                        None
                    }
                };
                if let Some(Ok(read)) = read
                    && is_valid
                {
                    reads.fetch_add(1, SeqCst);
                    let is_alone = writes.load(SeqCst) == 0;
                    assert!(
                        is_alone || !read.is_valid(),
                        "a reader that was a writer beside a writer at {key}"
                    );
                    nap().await;
                    reads.fetch_sub(1, SeqCst);
                    counted[2].fetch_add(1, SeqCst);
                }
            }
        });
    }
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(100..1500))).await;
        proxies[fastrand::usize(..2)].cut();
    }
    done.store(true, SeqCst);
    while let Some(ended) = timeout(BOUND, users.join_next()).await.expect("somebody hangs") {
        ended.unwrap();
    }
    println!("{counted:?}");
    eventually("nothing is left", async || {
        ephemerals_below(&zookeeper, "/rooms").await.is_empty().then_some(())
    })
    .await;
}

/// A runtime that ends drops what is held on it, without a panic.
#[test]
fn several_releases_at_the_end_of_a_runtime_are_no_panic() {
    let (elsewhere, server) = runtime::server_elsewhere();
    let panics = Arc::new(AtomicUsize::new(0));
    let before = std::panic::take_hook();
    let counted = panics.clone();
    std::panic::set_hook(Box::new(move |panic| {
        // Not those of other tests.
        if panic.location().is_none_or(|location| !location.file().contains("attack.rs")) {
            counted.fetch_add(1, SeqCst);
        }
        before(panic);
    }));
    for round in 0..20 {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
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

/// What is given up while the servers are silent does not make them busy afterwards, at many paths as at one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_new_paths_that_were_given_up_are_not_searched_one_by_one() {
    const CALLS: usize = 2000;
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let mut searched = Vec::new();
    for paths in [1, CALLS] {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let client = connect_through(&proxy).await;
        teach(&client, &format!("storm-{paths}")).await;
        proxy.set_traffic(Traffic::black_hole_to_client());
        proxy.take_requests();
        for number in 0..CALLS {
            let lock = at(&client, &format!("storm-{paths}-{}", number % paths)).owned_by(&Owner::new());
            assert!(!lock.try_acquire_for(Duration::from_nanos(1)).await.is_ok_and(|guard| guard.is_some()));
        }
        let sent = proxy.take_requests().len();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        proxy.set_traffic(Traffic::pass());
        proxy.cut();
        eventually("nothing is left", async || {
            ephemerals_below(&zookeeper, PARENT).await.is_empty().then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut kinds = std::collections::HashMap::<Request, usize>::new();
        for request in proxy.take_requests() {
            *kinds.entry(request).or_default() += 1;
        }
        let searches: usize =
            kinds.iter().filter(|(request, _)| **request != Request::Delete).map(|(_, count)| count).sum();
        searched.push((paths, sent, searches, kinds));
    }
    assert!(searched[1].2 < searched[0].2 + CALLS / 10, "paths, sent at first, sent to search: {searched:?}");
}

/// What the application does wrong in a callback is not an end of the client.
#[tokio::test]
async fn a_panic_of_the_application_while_a_writer_reads_is_no_closed_client() {
    let server = empty_server().await;
    let acl = |path: &str| -> Option<Vec<Acl>> {
        assert!(!path.contains("__READ__"), "as it is to be");
        None
    };
    let client = Client::builder().acl_for_path(acl).connect(&server.connect_string()).await.unwrap();
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let reader = lock.read().owned_by(&owner);
    let outcome = within(tokio::spawn(async move { reader.acquire().await.map(drop) })).await;
    assert!(!client.is_closed());
    assert!(writing.is_valid());
    writing.release().await.unwrap();
    assert!(!matches!(outcome, Ok(Err(Error::Closed))), "the client is open: {outcome:?}");
}

/// A writer that is dropped while it becomes a reader is gone when the reader is.
#[tokio::test]
async fn a_writer_that_is_dropped_before_it_reads_leaves_nothing() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    for client in [connect_here(&server).await, connect(&server).await] {
        for is_read in [false, true] {
            let owner = Owner::new();
            let lock = ReadWriteLock::new(&client, A).unwrap();
            let writing = within(lock.write().owned_by(&owner).acquire()).await.unwrap();
            let reader = lock.read().owned_by(&owner);
            let mut reading = Box::pin(async move { reader.acquire().await });
            let mut context = Context::from_waker(Waker::noop());
            let begun = reading.as_mut().poll(&mut context);
            drop(writing);
            if is_read {
                let outcome = match begun {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => within(reading).await,
                };
                if let Ok(guard) = outcome {
                    guard.release().await.unwrap();
                }
            } else {
                drop((begun, reading));
            }
            assert_nothing_left(&server, &zookeeper, A).await;
        }
    }
}

/// Guards on a session that outlives the client remove their nodes.
#[tokio::test]
async fn an_adopted_session_keeps_nothing_of_several_locks() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    for is_closed in [false, true] {
        for is_dropped in [false, true] {
            let session = bystander(&server).await;
            let client = Client::from_zookeeper(session.clone()).unwrap();
            let multi = MultiLock::new(&client, ["/adopted/a", "/adopted/b"]).unwrap();
            let permits = Semaphore::new(&client, "/permits", 5).unwrap().many(3).unwrap();
            let guards = [multi.acquire().await.unwrap(), permits.acquire().await.unwrap()];
            let fresh = InterProcessMutex::new(&client, "/adopted/c").unwrap();
            let guard = fresh.acquire().await.unwrap();
            drop((multi, permits, fresh));
            if is_closed {
                client.close().await;
            }
            drop(client);
            drop(guard);
            for guard in guards {
                match is_dropped {
                    true => drop(guard),
                    false => assert_eq!(guard.release().await.is_err(), is_closed),
                }
            }
            for path in ["/adopted/a", "/adopted/b", "/adopted/c", "/permits/leases", "/permits/locks"] {
                queue_of(&zookeeper, path, 0).await;
            }
        }
    }
}

/// A node that fits into a request of its own can be created at a new path, too.
#[tokio::test]
async fn a_node_that_fits_is_created_at_a_new_path() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let existing = at(&client, "existing");
    existing.acquire().await.unwrap().release().await.unwrap();
    let mut wrong = Vec::new();
    for size in (1_048_000..1_048_600_usize).step_by(40) {
        teach(&client, &format!("size-{size}")).await;
        let options = LockOptions::new().node_data(vec![0; size]);
        let new = at(&client, &format!("x-{}", &size.to_string()[1..]));
        let [there, new] = [existing.clone(), new].map(|lock| {
            let options = options.clone();
            async move {
                let guard = within(lock.with_options(options)?.acquire()).await?;
                guard.release().await
            }
        });
        let (there, new) = (there.await, new.await);
        if there.is_ok() != new.is_ok() {
            wrong.push((size, there, new));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A path with a holder of ours exists, however long ago it was entered.
#[tokio::test]
async fn a_queue_with_one_of_ours_is_not_new() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    teach(&client, "long").await;
    let lock = at(&client, "long");
    let held = lock.acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(62)).await;
    proxy.take_requests();
    assert!(lock.owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
    let requests = proxy.take_requests();
    held.release().await.unwrap();
    assert!(!requests.contains(&Request::Multi), "a transaction that cannot succeed: {requests:?}");
}

/// A release ends, whatever the owner does elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_of_the_same_owner_do_not_keep_a_writer_from_its_release() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    // No read is answered before it is given up.
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(50)));
    let reads = Arc::new(AtomicUsize::new(0));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (reader, reads) = (lock.read().owned_by(&owner), reads.clone());
        readers.spawn(async move {
            loop {
                let _ = timeout(Duration::from_millis(fastrand::u64(20..90)), reader.acquire()).await;
                reads.fetch_add(1, SeqCst);
                // One that enters again is never pending.
                tokio::task::yield_now().await;
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (start, before) = (Instant::now(), reads.load(SeqCst));
    let released = timeout(LONG, writing.release()).await;
    let (took, reads) = (start.elapsed(), reads.load(SeqCst) - before);
    readers.shutdown().await;
    proxy.set_traffic(Traffic::pass());
    assert!(released.is_ok(), "not within {took:?}, in which {reads} reads came and went");
}
