//! What is done in one transaction: a new queue with its first node, several releases, and the step of a writer to a
//! reader.

use std::collections::HashMap;

use super::prelude::*;

const PARENT: &str = "/orders";
const A: &str = "/locks/a";
const SECOND: Duration = secs(1);

fn at(client: &Client, name: &str) -> InterProcessMutex {
    mutex_at(client, &format!("{PARENT}/{name}"))
}

/// Teaches a client that the paths below [`PARENT`] are new.
async fn teach(client: &Client, who: &str) {
    for number in 0..3 {
        once(&at(client, &format!("lesson-{who}-{number}"))).await;
    }
}

/// Servers that do not tell when the nodes that a transaction creates were created.
async fn without_dates(stage: &Stage) -> (MemoryEnsemble, Proxy) {
    apart(stage, MemoryEnsemble::builder().servers(1).version(MemoryVersion::V3_6), "10.2.0.1:2181").await
}

// --- A writer that reads too ---

/// A release ends when the lock can no longer be known to be held.
#[history]
async fn the_release_of_a_writer_that_becomes_a_reader_ends_in_an_outage(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let mut took = Vec::new();
    for is_read in [false, true] {
        let client = proxy.client(|builder| {
            let builder = builder.session_timeout(5 * SECOND).drop_timeout(Duration::ZERO);
            builder.retry_policy(RetryPolicy::forever(SECOND / 10))
        });
        let client = client.await;
        let owner = Owner::new();
        let lock = ReadWriteLock::new(&client, A).unwrap();
        let writing = within(lock.write().owned_by(&owner).acquire()).await.unwrap();
        proxy.set_traffic(Traffic::black_hole_to_client());
        let reader = lock.read().owned_by(&owner);
        let reading =
            is_read.then(|| stage.machines()[0].spawn(async move { reader.acquire().await.map(drop) }));
        sleep(SECOND / 5).await;
        let start = Instant::now();
        let outcome = timeout(30 * SECOND, writing.release()).await;
        took.push((start.elapsed(), outcome));
        proxy.set_traffic(Traffic::pass());
        if let Some(reading) = reading {
            reading.abort();
        }
        client.close().await;
    }
    assert!(took[1].0 < took[0].0 + A_MOMENT, "alone, and with a read: {took:?}");
}

/// A release ends, whatever the owner does elsewhere.
#[history]
async fn reads_of_the_same_owner_do_not_keep_a_writer_from_its_release(stage: Stage) {
    let (proxy, client) = stage.far(plain).await;
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    // No read is answered before it is given up.
    proxy.set_traffic(Traffic::pass().delay(SECOND / 20));
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let reader = lock.read().owned_by(&owner);
            stage.machines()[0].spawn(async move {
                loop {
                    let patience = Duration::from_millis(fastrand::u64(20..90));
                    let _ = timeout(patience, reader.acquire()).await;
                    // One that enters again is never pending.
                    sleep(Duration::from_micros(1)).await;
                }
            })
        })
        .collect();
    sleep(SECOND / 5).await;
    let released = timeout(SECOND, writing.release()).await;
    assert!(released.is_ok(), "it does not end");
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    proxy.set_traffic(Traffic::pass());
    queue_of(stage.servers(), A, 0).await;
}

// --- A new queue ---

/// First come, first served: a reply that is lost costs nobody the place.
#[history]
async fn a_lost_look_at_the_date_does_not_cost_the_place(stage: Stage) {
    let (servers, proxy) = without_dates(&stage).await;
    let beside = Proxy::before(&stage, servers.clone(), "10.2.0.2:2181").await;
    let client = proxy.client(plain).await;
    let other = beside.client(plain).await;
    let lock = at(&client, "fresh");
    let lost = proxy.intercept(Request::Exists, Fate::LoseRequest);
    let (ours, theirs) = (lock.clone(), at(&other, "fresh"));
    let mut ours = stage.machines()[0].spawn(async move { ours.acquire().await });
    within(lost.happened()).await;
    proxy.refuse_connections(true);
    let first = queue_of(&servers, lock.path(), 1).await;
    let mut theirs = stage.machines()[0].spawn(async move { theirs.acquire().await });
    queue_of(&servers, lock.path(), 2).await;
    proxy.refuse_connections(false);
    tokio::select! {
        guard = within(&mut ours) => drop(guard.unwrap().unwrap().unwrap()),
        guard = &mut theirs => {
            let now = servers.children(lock.path());
            panic!("{first:?} was first, and its session lives; {guard:?} was let in: {now:?}");
        }
    }
    drop(within(theirs).await.unwrap().unwrap().unwrap());
}

/// Many at one path say nothing about the other paths.
#[history]
async fn a_crowd_at_a_new_path_is_no_reason_to_expect_no_other(stage: Stage) {
    let (proxy, client) = stage.far(plain).await;
    teach(&client, "a").await;
    join_all((0..20).map(async |_| once(&at(&client, "crowd").owned_by(&Owner::new())).await)).await;
    proxy.take_requests();
    let guard = at(&client, "next").acquire().await.unwrap();
    let next = proxy.take_requests();
    drop(guard);
    assert!(next.contains(&Request::Multi) && !next.contains(&Request::Create), "{next:?}");
}

/// A session that ends between the transaction and its reply takes the node along, and nothing else.
#[history]
async fn a_session_that_ends_before_the_reply_does_not_hold(stage: Stage) {
    let (servers, proxy) = without_dates(&stage).await;
    let beside = Proxy::before(&stage, servers.clone(), "10.2.0.2:2181").await;
    let client = proxy.client(plain).await;
    let other = beside.client(plain).await;
    for request in [Request::Multi, Request::Exists] {
        let name = format!("expired-{request:?}");
        teach(&client, &name).await;
        let held = proxy.intercept(request, Fate::HoldReply);
        let lock = at(&client, &name);
        let ours = lock.clone();
        let ours = stage.machines()[0].spawn(async move { ours.acquire().await });
        within(held.happened()).await;
        assert!(servers.end_session(session_id(&client).await));
        queue_of(&servers, lock.path(), 0).await;
        let theirs = within(at(&other, &name).acquire()).await.unwrap();
        drop(held);
        sleep(SECOND).await;
        if ours.is_finished() {
            let guard = ours.await.unwrap().unwrap().unwrap();
            assert!(!guard.is_valid() || !theirs.is_valid(), "{guard:?} beside {theirs:?}");
            continue;
        }
        theirs.release().await.unwrap();
        within(ours).await.unwrap().unwrap().unwrap().release().await.unwrap();
        queue_of(&servers, lock.path(), 0).await;
    }
}

/// Below a chroot, a new path takes one round trip as well, and nothing is left of lost replies.
#[history]
async fn below_a_chroot_new_paths_are_as_elsewhere(stage: Stage) {
    let (servers, proxy) = without_dates(&stage).await;
    servers.create("/apps", b"", false);
    let machine = &stage.machines()[0];
    let below = format!("{}/apps", proxy.address);
    let client = stage.connect_to(0, |builder| builder.drop_timeout(Duration::ZERO), &below).await;
    teach(&client, "chroot").await;
    proxy.take_requests();
    let guard = at(&client, "one").acquire().await.unwrap();
    let mut requests = proxy.take_requests();
    requests.retain(|request| *request != Request::Confirm);
    assert_eq!(requests, [Request::Multi, Request::Exists]);
    assert!(servers.node(&format!("/apps{}", guard.node_path())).is_some());
    guard.release().await.unwrap();
    for (number, fate) in [Fate::LoseReply, Fate::LoseRequest].into_iter().enumerate() {
        for is_given_up in [false, true] {
            let lock = at(&client, &format!("lost-{number}-{is_given_up}"));
            let path = format!("/apps{}", lock.path());
            let lost = proxy.intercept(Request::Multi, fate);
            let ours = machine.spawn(async move { lock.acquire().await });
            within(lost.happened()).await;
            if is_given_up {
                ours.abort();
                assert!(ours.await.is_err());
            } else {
                let guard = within(ours).await.unwrap().unwrap().unwrap();
                queue_of(&servers, &path, 1).await;
                guard.release().await.unwrap();
            }
            queue_of(&servers, &path, 0).await;
        }
    }
}

/// `None` means that somebody else has it.
#[history]
async fn a_server_that_falls_silent_behind_a_new_queue_is_nobody_who_holds(stage: Stage) {
    let (_servers, proxy) = without_dates(&stage).await;
    let client = proxy.client(plain).await;
    let held = proxy.intercept(Request::Exists, Fate::HoldReply);
    let outcome = within(at(&client, "silent").try_acquire_for(SECOND)).await;
    within(held.happened()).await;
    assert!(matches!(outcome, Err(Error::NotConnected { .. })), "mutex: {outcome:?}");
    drop(held);
    client.close().await;
    for is_new in [true, false] {
        let client = proxy.client(plain).await;
        let semaphore = Semaphore::new(&client, &format!("/permits/{is_new}"), 3).unwrap();
        if !is_new {
            once(&semaphore).await;
        }
        // The list is sent right behind the transaction of one whose gate is known.
        let behind = is_new.then(|| proxy.intercept(Request::Multi, Fate::HoldReply));
        let known = (!is_new).then(|| proxy.intercept(Request::GetChildren, Fate::HoldReply));
        let trying = stage.machines()[0].spawn(async move { semaphore.try_acquire_for(SECOND).await });
        let silent = match (behind, known) {
            (Some(behind), _) => {
                within(behind.happened()).await;
                let silent = proxy.intercept(Request::GetChildren, Fate::HoldReply);
                behind.release();
                silent
            }
            (None, silent) => silent.unwrap(),
        };
        let outcome = within(trying).await.unwrap().unwrap();
        assert!(timeout(A_MOMENT, silent.happened()).await.is_ok(), "is new: {is_new}");
        assert!(matches!(outcome, Err(Error::NotConnected { .. })), "is new: {is_new}: {outcome:?}");
        drop(silent);
        client.close().await;
    }
}

/// A path with a holder of ours exists, however long ago it was entered.
#[history]
async fn a_queue_with_one_of_ours_is_not_new(stage: Stage) {
    let (proxy, client) = stage.far(plain).await;
    teach(&client, "long").await;
    let lock = at(&client, "long");
    let held = lock.acquire().await.unwrap();
    sleep(62 * SECOND).await;
    proxy.take_requests();
    assert!(lock.owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
    let requests = proxy.take_requests();
    held.release().await.unwrap();
    assert!(!requests.contains(&Request::Multi), "a transaction that cannot succeed: {requests:?}");
}

/// What is given up while the servers are silent does not make them busy afterwards, at many paths as at one.
#[history]
async fn many_new_paths_that_were_given_up_are_not_searched_one_by_one(stage: Stage) {
    const CALLS: usize = 2000;
    /// How many requests search for what was given up.
    async fn searches(stage: &Stage, proxy: &Proxy, paths: usize) -> usize {
        let client = proxy.client(plain).await;
        teach(&client, &format!("storm-{paths}")).await;
        proxy.set_traffic(Traffic::black_hole_to_client());
        for number in 0..CALLS {
            let lock = at(&client, &format!("storm-{paths}-{}", number % paths)).owned_by(&Owner::new());
            assert!(!lock.try_acquire_for(Duration::from_nanos(1)).await.is_ok_and(|guard| guard.is_some()));
        }
        proxy.take_requests();
        sleep(SECOND * 3 / 2).await;
        proxy.set_traffic(Traffic::pass());
        proxy.cut();
        sleep(2 * SECOND).await;
        let mut left = stage.servers().nodes_below(PARENT);
        left.retain(|(_, node)| node.ephemeral_owner != 0);
        assert_eq!(left, []);
        sleep(2 * SECOND).await;
        let mut kinds = HashMap::<Request, usize>::new();
        for request in proxy.take_requests() {
            *kinds.entry(request).or_default() += 1;
        }
        client.close().await;
        kinds.iter().filter(|(request, _)| **request != Request::Delete).map(|(_, count)| count).sum()
    }
    let proxy = stage.proxy(0).await;
    let [one, many] = [searches(&stage, &proxy, 1).await, searches(&stage, &proxy, CALLS).await];
    assert!(many < one + CALLS / 10, "at one path {one}, at many {many}");
}

// --- Releases in one transaction ---

/// A release tells that the lock was lost before, also if the servers were not reached at first.
#[history]
async fn a_release_that_was_not_sent_at_first_tells_that_the_lock_was_lost(stage: Stage) {
    let (proxy, client) =
        stage.far(tries(20 * SECOND, SECOND * 3 / 10, RetryPolicy::forever(SECOND / 20))).await;
    for is_multi in [false, true] {
        let guard = if is_multi {
            MultiLock::new(&client, ["/lost/a", "/lost/b"]).unwrap().acquire().await.unwrap()
        } else {
            mutex_at(&client, "/lost/a").acquire().await.unwrap()
        };
        let mut state = client.watch_connection();
        proxy.cut_off();
        within(state.wait_for(|state| !state.is_connected())).await.unwrap();
        assert!(stage.servers().delete(guard.node_path()));
        let releasing = stage.machines()[0].spawn(guard.release());
        sleep(SECOND).await;
        assert!(!releasing.is_finished());
        proxy.refuse_connections(false);
        let outcome = within(releasing).await.unwrap().unwrap();
        let is_told = matches!(outcome, Err(Error::LockLost { reason: LossReason::Deleted, .. }));
        assert!(is_told, "nothing of ours had deleted it: {is_multi}, {outcome:?}");
        within(state.wait_for(|state| state.is_connected())).await.unwrap();
    }
}

/// What is dropped without a connection is gone when there is one.
#[history]
async fn what_is_dropped_without_a_connection_is_gone_with_the_next(stage: Stage) {
    let (proxy, client) = stage.far(|builder| builder.session_timeout(20 * SECOND)).await;
    let multi = MultiLock::new(&client, ["/lost/a", "/lost/b"]).unwrap();
    let permits = Semaphore::new(&client, "/permits", 5).unwrap().many(3).unwrap();
    for is_polled in [false, true] {
        let guards = [multi.acquire().await.unwrap(), permits.acquire().await.unwrap()];
        let session = session_id(&client).await;
        let mut state = client.watch_connection();
        proxy.cut_off();
        within(state.wait_for(|state| !state.is_connected())).await.unwrap();
        for guard in guards {
            if is_polled {
                assert!(poll_times(guard.release(), 1).await.is_none());
            } else {
                drop(guard);
            }
        }
        proxy.refuse_connections(false);
        within(state.wait_for(|state| state.is_connected())).await.unwrap();
        sleep(A_MOMENT).await;
        for path in ["/lost/a", "/lost/b", "/permits/leases"] {
            assert_eq!(stage.servers().children(path), Some(Vec::new()), "polled: {is_polled}");
        }
        queue_of(stage.servers(), "/permits/locks", 0).await;
        assert_eq!(session_id(&client).await, session);
    }
}

/// A future that is never woken keeps nobody waiting: a read of a writer that goes.
#[history]
async fn a_writer_does_not_wait_for_a_read_that_nobody_polls(stage: Stage) {
    let [client, other] = stage.clients().await;
    for is_released in [false, true] {
        let owner = Owner::new();
        let lock = ReadWriteLock::new(&client, A).unwrap();
        let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
        let reader = lock.read().owned_by(&owner);
        let mut reading = Box::pin(async move { reader.acquire().await });
        assert!(poll_once(&mut reading).is_pending());
        queue_of(stage.servers(), A, 2).await;
        if is_released {
            assert!(timeout(SECOND, writing.release()).await.is_ok(), "it does not end");
        } else {
            drop(writing);
        }
        // Like any place in a queue, that of the read may stay; but nothing is left of the writer.
        let outside = ReadWriteLock::new(&other, A).unwrap();
        let let_in = timeout(SECOND, outside.read().acquire()).await;
        assert!(let_in.is_ok(), "released: {is_released}, {:?}", stage.servers().children(A));
        drop(reading);
        drop(let_in);
        queue_of(stage.servers(), A, 0).await;
    }
}

// --- What is known of paths ---

#[history]
async fn whoever_expects_a_new_path_finds_those_that_are_there(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(plain).await;
    teach(&client, "a").await;
    let requests = async |name: &str| {
        proxy.take_requests();
        let guard = within(at(&client, name).acquire()).await.unwrap();
        assert_eq!(stage.servers().node(guard.node_path()).unwrap().czxid, guard.fencing_token());
        let requests = proxy.take_requests();
        guard.release().await.unwrap();
        requests
    };
    once(&at(&other, "free")).await;
    assert_eq!(requests("free").await, [Request::Multi, Request::Create, Request::GetChildren]);
    let held = at(&other, "held").acquire().await.unwrap();
    assert!(at(&client, "held").try_acquire().await.unwrap().is_none());
    let waiting = waiter(&at(&client, "held")).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    // Two that existed are enough not to expect a new one.
    once(&at(&other, "more")).await;
    assert_eq!(requests("more").await, [Request::Create, Request::GetChildren]);
}

#[history]
async fn what_is_above_a_new_path_may_be_missing(stage: Stage) {
    let (proxy, client) = stage.far(plain).await;
    let requests = async |lock: InterProcessMutex| {
        proxy.take_requests();
        drop(within(lock.acquire()).await.unwrap());
        let requests = proxy.take_requests();
        sleep(A_MOMENT).await;
        requests
    };
    let deep = requests(mutex_at(&client, "/a/b/c/d")).await;
    let expected = [&[Request::Create, Request::GetChildren][..], &[Request::Create; 3], &[Request::Multi]];
    assert_eq!(deep[..6], expected.concat());
    teach(&client, "a").await;
    for (path, _) in stage.servers().nodes_below(PARENT).into_iter().rev() {
        assert!(stage.servers().delete(&path), "{path}");
    }
    assert!(stage.servers().delete(PARENT));
    let gone = requests(at(&client, "a")).await;
    assert_eq!(gone[..3], [Request::Multi, Request::Create, Request::Multi]);
}

/// Of locks by key, there is only the guard or the waiter, who knows of the holder of its own client.
#[history]
async fn what_is_known_of_a_queue_is_kept_for_as_long_as_it_is_held(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = Locks::new(&client, PARENT).unwrap();
    let acquires = || locks.mutex("a").unwrap().owned_by(&Owner::new());
    let held = acquires().acquire().await.unwrap();
    proxy.take_requests();
    let waiting = acquiring(&acquires());
    sleep(A_MOMENT).await;
    let requests = proxy.take_requests();
    // It watches only itself.
    assert_eq!(requests.iter().filter(|request| **request == Request::GetData).count(), 1, "{requests:?}");
    drop(held);
    drop(granted(waiting).await);
}

/// Their nodes stay: a watch on one would end with it.
#[history]
async fn used_keys_leave_no_watch_behind(stage: Stage) {
    let client = stage.client(0).await;
    let locks = Locks::new(&client, PARENT).unwrap();
    for key in 0..20 {
        let mutex = locks.mutex(key).unwrap();
        // The second time the path is watched, for as long as the client has a use for the queue.
        for _ in 0..2 {
            visit(&mutex).await;
        }
        let held = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
        drop(mutex);
        let next = acquiring(&locks.mutex(key).unwrap().owned_by(&Owner::new()));
        drop(held);
        drop(granted(next).await);
    }
    sleep(A_MOMENT).await;
    assert_eq!((stage.servers().watch_count(), queue(&stage, PARENT)), (0, 20));
    assert_eq!(ephemerals(stage.servers(), PARENT), [""; 0]);
}
