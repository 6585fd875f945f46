//! What acquires, tickets and multi-locks promise where it is easily broken: by time, silence, and the operator.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use support::*;
use zk_recipes::testing::{Fate, FaultProxy, Request, TestingServer, Traffic, kill_session};
use zk_recipes::{
    Client, ConnectionState, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, MultiLock,
    Owner, ReadWriteLock, RetryPolicy, Semaphore, SemaphoreMutex,
};

const A: &str = "/attack/a";
const B: &str = "/attack/b";
const C: &str = "/attack/c";

/// Much longer than anything takes whose turn has come.
const LONG: Duration = Duration::from_secs(15);

fn mutex_at(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap()
}

fn lock_at(client: &Client, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(mutex_at(client, path))
}

fn multi(client: &Client) -> MultiLock {
    MultiLock::new(client, [A, B]).unwrap()
}

fn mixed(client: &Client) -> MultiLock {
    MultiLock::of([lock_at(client, A), lock_at(client, B)]).unwrap()
}

fn in_task(lock: Arc<dyn InterProcessLock>) -> tokio::task::JoinHandle<zk_recipes::Result<LockGuard>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// A place is kept while the session lives, however long nobody awaits the ticket.
#[tokio::test]
async fn an_idle_ticket_keeps_what_it_has_while_its_session_lives() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let mut tickets = Vec::new();
    // Each in a session of its own: a request for one would keep the others confirmed.
    for number in 0..20 {
        let (kind, path, parent) = match number % 4 {
            0 => ("mutex", format!("/attack/{number}"), ""),
            1 => ("permit", format!("/attack/{number}"), "/leases"),
            2 => ("permits", format!("/attack/{number}"), "/leases"),
            _ => ("paths", format!("/attack/{number}"), ""),
        };
        let parent = format!("{path}{parent}");
        let client = builder().session_timeout(Duration::from_secs(4));
        let client = client.connect(&server.connect_string()).await.unwrap();
        let lock: Arc<dyn InterProcessLock> = match kind {
            "mutex" => Arc::new(mutex_at(&client, &path)),
            "permit" => Arc::new(SemaphoreMutex::new(&client, &path).unwrap()),
            "permits" => Arc::new(Semaphore::new(&client, &path, 2).unwrap().many(2).unwrap()),
            _ => Arc::new(MultiLock::new(&client, [path.clone(), format!("{path}-b")]).unwrap()),
        };
        let ticket = lock.enqueue().await.unwrap();
        let mut nodes = children(&zookeeper, &parent).await;
        nodes.sort();
        assert!(!nodes.is_empty(), "{kind} has it");
        tickets.push((kind, parent, nodes, ticket, session_id(&client).await, client));
    }
    // Nothing is to be waited for but the time itself: in all of it the sessions are connected, and live.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut lost: Vec<(&str, &str, Vec<String>, Vec<String>)> = Vec::new();
    for (kind, parent, before, ticket, session, client) in tickets {
        if lost.iter().any(|(known, ..)| *known == kind) {
            continue;
        }
        let acquiring = tokio::spawn(ticket.acquired());
        let Ok(acquired) = tokio::time::timeout(LONG, acquiring).await else {
            let gate = children(&zookeeper, &parent.replace("leases", "locks")).await;
            lost.push((kind, "waits for itself", before, gate));
            continue;
        };
        let guard = acquired.unwrap().unwrap();
        let mut now = children(&zookeeper, &parent).await;
        now.sort();
        assert_eq!(session_id(&client).await, session);
        if now != before {
            lost.push((kind, "has queued again", before, now));
        }
        guard.release().await.unwrap();
    }
    assert!(lost.is_empty(), "given up while the session lived: {lost:#?}");
}

/// A ticket that has one of three permits keeps nobody from the other two.
#[tokio::test]
async fn a_ticket_that_has_a_permit_leaves_the_others_to_others() {
    let server = TestingServer::start().await.unwrap();
    let [one, two, ..]: [Client; 2] = connect_many(&server).await;
    let ticket = Semaphore::new(&one, "/attack/s", 3).unwrap().enqueue().await.unwrap();
    let other = Semaphore::new(&two, "/attack/s", 3).unwrap();
    assert_eq!(other.available_permits().await, Ok(2), "the ticket has one");
    let tried = other.try_acquire().await.unwrap();
    let awaited = other.try_acquire_for(LONG).await.unwrap();
    assert!(awaited.is_some(), "two permits are free, and nobody waits");
    assert!(tried.is_some());
    drop(ticket);
}

/// An owner that has kept one member of a multi-lock waits for itself.
#[tokio::test]
async fn an_owner_that_has_kept_one_member_does_not_wait_for_itself() {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
    let lock = multi(&client);
    for kept in 0..2 {
        let mut members = lock.acquire().await.unwrap().into_members();
        let kept = members.swap_remove(kept);
        for released in members {
            released.release().await.unwrap();
        }
        let tried = within(lock.try_acquire()).await;
        let timed = within(lock.try_acquire_for(Duration::from_secs(1))).await;
        for outcome in [tried, timed] {
            // Either it enters again what it has, or it is told.
            match outcome {
                Ok(Some(guard)) => guard.release().await.unwrap(),
                Err(Error::WouldDeadlock { .. }) => {}
                other => panic!("nobody else has anything: {other:?}"),
            }
        }
        kept.release().await.unwrap();
    }
}

/// A ticket belongs to the owner that entered the queue, whichever task awaits it.
#[tokio::test]
async fn a_ticket_of_existing_locks_belongs_to_whoever_queued() {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
    for (kind, lock) in [("paths", multi(&client)), ("existing locks", mixed(&client))] {
        let queueing = lock.clone();
        tokio::spawn(async move {
            let ticket = queueing.enqueue().await.unwrap();
            let guard = within(tokio::spawn(ticket.acquired())).await.unwrap().unwrap();
            assert!(queueing.is_owned_by(&Owner::current()), "not the owner of {kind}");
            // So it can be entered again.
            let again = queueing.try_acquire_for(LONG).await.unwrap().expect("its owner asks");
            again.release().await.unwrap();
            guard.release().await.unwrap();
        })
        .await
        .unwrap();
    }
}

/// Two calls of one owner wait, on a thread each: when one has the lock, the other enters it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_many_paths_enters_when_its_owner_has_them() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [holder, client]: [Client; 2] = connect_many(&server).await;
    let paths: Vec<String> = (0..400).map(|number| format!("/attack/{number:03}")).collect();
    let lock = MultiLock::new(&client, &paths).unwrap().owned_by(&Owner::new());
    for round in 0..20 {
        let held = mutex_at(&holder, &paths[0]).acquire().await.unwrap();
        let (acquired, mut guards) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..2 {
            let (lock, acquired) = (lock.clone(), acquired.clone());
            std::thread::spawn(move || {
                let _ = acquired.send(futures_executor::block_on(lock.acquire()).unwrap());
            });
        }
        queue_of(&zookeeper, &paths[0], 3).await;
        watches_of(&server, 2).await;
        held.release().await.unwrap();
        let first = within(guards.recv()).await.unwrap();
        let second = tokio::time::timeout(LONG, guards.recv()).await;
        assert!(second.is_ok(), "in round {round} one has the locks, and the other waits for its own owner");
        second.unwrap().unwrap().release().await.unwrap();
        first.release().await.unwrap();
    }
}

/// `None` means that somebody else had it; whoever has not reached the queue gets an error.
#[tokio::test]
async fn a_try_of_existing_locks_at_a_silent_server_does_not_say_that_somebody_has_them() {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
    for (kind, lock) in [("paths", multi(&client)), ("existing locks", mixed(&client))] {
        lock.acquire().await.unwrap().release().await.unwrap();
        server.pause().unwrap();
        let outcome = within(lock.try_acquire_for(Duration::from_nanos(1))).await;
        server.resume().unwrap();
        assert!(matches!(outcome, Err(Error::NotConnected { .. })), "{kind}: {outcome:?}");
    }
}

/// All locks are free and were acquired; the servers are silent when they are asked whether they are still held.
#[tokio::test]
async fn a_try_of_free_existing_locks_does_not_say_that_somebody_has_them() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(&server).await.unwrap();
    let client = connect_through(&proxy).await;
    let lock = mixed(&client);
    // Then it is watched whether the paths exist.
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let silent = proxy.intercept(Request::Exists, Fate::HoldReply);
    let outcome = within(lock.try_acquire_for(Duration::from_secs(2))).await;
    within(silent.happened()).await;
    silent.release();
    assert!(!matches!(outcome, Ok(None)), "nobody else is there");
}

/// The deadline bounds the whole of an acquire, whatever the servers take for each lock.
#[tokio::test]
async fn the_deadline_of_existing_locks_holds_when_each_takes_a_little() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(&server).await.unwrap();
    let client = connect_through(&proxy).await;
    let locks = (0..60).map(|number| lock_at(&client, &format!("/attack/{number:02}")));
    let lock = MultiLock::of(locks).unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(10)));
    let mut longest = (Duration::ZERO, String::new());
    for _ in 0..10 {
        let start = Instant::now();
        let outcome = within(lock.try_acquire_for(Duration::from_nanos(1))).await;
        let elapsed = start.elapsed();
        longest = longest.max((elapsed, format!("{:?}", outcome.map(|guard| guard.is_some()))));
    }
    proxy.set_traffic(Traffic::pass());
    // Several times what is allowed, for a busy machine.
    assert!(longest.0 < Duration::from_millis(500), "{longest:?}");
}

/// Locks that are lost as soon as they are acquired.
fn lost_at_once(client: &Client) -> MultiLock {
    mixed(client).with_options(LockOptions::new().max_hold(Duration::from_micros(1))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_of_existing_locks_that_are_lost_at_once_is_no_storm() {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
    let session = session_id(&client).await;
    let before = server.session_packets(session).await.unwrap();
    let acquiring = in_task(Arc::new(lost_at_once(&client)));
    // As long as that may take, or for a while.
    let _ = tokio::time::timeout(Duration::from_secs(5), acquiring).await;
    let requests = server.session_packets(session).await.unwrap() - before;
    assert!(requests < 100, "{requests} requests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_of_existing_locks_that_are_lost_at_once_holds() {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
    let lock = lost_at_once(&client);
    let mut longest = Duration::ZERO;
    for _ in 0..30 {
        let start = Instant::now();
        let _ = tokio::time::timeout(LONG, lock.try_acquire_for(Duration::from_millis(300))).await;
        longest = longest.max(start.elapsed());
        if longest > LONG {
            break;
        }
    }
    // Several times what is allowed, for a busy machine.
    assert!(longest < Duration::from_secs(1), "instead of 300 ms, it took {longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_of_existing_locks_that_are_lost_at_once_comes_to_an_end() {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
    let lock = lost_at_once(&client);
    let trying = tokio::spawn(async move { lock.try_acquire().await });
    assert!(tokio::time::timeout(LONG, trying).await.is_ok(), "a try does not wait");
}

/// Two multi-locks cannot deadlock.
#[tokio::test]
async fn a_multi_lock_in_a_multi_lock_does_not_deadlock_with_others() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [one, two]: [Client; 2] = connect_many(&server).await;
    // Acquires A and C, and then B.
    let outer: [Arc<dyn InterProcessLock>; 2] =
        [Arc::new(MultiLock::new(&one, [A, C]).unwrap()), lock_at(&one, B)];
    let Ok(nested) = MultiLock::of(outer) else { return };
    let ticket = nested.enqueue().await.unwrap();
    // Acquires B and then C.
    let other = in_task(Arc::new(MultiLock::new(&two, [B, C]).unwrap()));
    watches_of(&server, 1).await;
    queue_of(&zookeeper, B, 1).await;
    let first = tokio::spawn(ticket.acquired());
    let both = async {
        let first = first.await.unwrap().unwrap();
        first.release().await.unwrap();
        other.await.unwrap().unwrap().release().await.unwrap();
    };
    assert!(tokio::time::timeout(LONG, both).await.is_ok(), "each waits for the other");
}

/// The servers would have said that it is gone, if they had been asked again.
#[tokio::test]
async fn what_a_ticket_returns_is_not_lost_already_when_one_reply_was_lost() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(&server).await.unwrap();
    let client = connect_through(&proxy).await;
    let subjects: [(&str, Arc<dyn InterProcessLock>); 4] = [
        (A, Arc::new(mutex_at(&client, A))),
        (A, Arc::new(multi(&client))),
        ("/attack/s/leases", Arc::new(SemaphoreMutex::new(&client, "/attack/s").unwrap())),
        (C, Arc::new(MultiLock::of([lock_at(&client, C), lock_at(&client, "/attack/d")]).unwrap())),
    ];
    let mut wrong = Vec::new();
    for (parent, lock) in subjects {
        let ticket = lock.enqueue().await.unwrap();
        let [node] = &children(&zookeeper, parent).await[..] else { panic!("one has it") };
        zookeeper.delete(&format!("{parent}/{node}"), None).await.unwrap();
        let lost = proxy.intercept(Request::Exists, Fate::LoseReply);
        let guard = within(ticket.acquired()).await.unwrap();
        drop(lost);
        let nodes = guard.members().first().unwrap_or(&guard).node_path().to_owned();
        let is_there = zookeeper.check_stat(&nodes).await.unwrap().is_some();
        if !is_there && guard.is_valid() {
            wrong.push(lock.paths().join(", "));
        }
        drop(guard);
    }
    assert!(wrong.is_empty(), "valid guards without a node: {wrong:?}");
}

/// Another caller of this client has been granted the lock, because the node of the ticket is gone; and then the ticket
/// returns a second guard.
#[tokio::test]
async fn a_ticket_that_has_lost_its_place_to_its_own_client_does_not_return_a_guard() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(&server).await.unwrap();
    let builder = Client::builder().session_timeout(Duration::from_secs(20)).drop_timeout(Duration::ZERO);
    let client = builder.connection_timeout(Duration::from_millis(500));
    let client = client.connect(&proxy.connect_string()).await.unwrap();
    let lock = multi(&client);
    let ticket = lock.enqueue().await.unwrap();
    let node = children(&zookeeper, A).await.remove(0);
    let behind = in_task(Arc::new(mutex_at(&client, A)));
    queue_of(&zookeeper, A, 2).await;
    zookeeper.delete(&format!("{A}/{node}"), None).await.unwrap();
    let other = within(behind).await.unwrap().unwrap();
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    let acquired = within(ticket.acquired()).await;
    let both = acquired.as_ref().is_ok_and(LockGuard::is_valid) && other.is_valid();
    proxy.refuse_connections(false).unwrap();
    assert!(!both, "two guards of one client say that they hold {A}");
    drop((acquired, other));
}

/// A try of an owner whose own ticket is ahead: nobody else has it.
#[tokio::test]
async fn a_try_behind_a_ticket_of_its_own_owner_does_not_say_that_somebody_else_has_it() {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
    let subjects: [Arc<dyn InterProcessLock>; 3] = [
        lock_at(&client, A),
        Arc::new(MultiLock::new(&client, [B, C]).unwrap()),
        Arc::new(ReadWriteLock::new(&client, "/attack/rw").unwrap().write().clone()),
    ];
    let mut wrong = Vec::new();
    for lock in subjects {
        let ticket = lock.enqueue().await.unwrap();
        let tried = within(lock.try_acquire()).await;
        if matches!(tried, Ok(None)) {
            wrong.push(lock.paths().join(", "));
        }
        drop((tried, ticket));
    }
    assert!(wrong.is_empty(), "no later try can succeed while the ticket lives: {wrong:?}");
}

/// The position is zero once the lock is there, and not while others are ahead in the next queue.
#[tokio::test]
async fn the_position_of_existing_locks_is_that_in_the_queue_in_which_it_waits() {
    let server = TestingServer::start().await.unwrap();
    let [holder, one]: [Client; 2] = connect_many(&server).await;
    let zookeeper = bystander(&server).await;
    for (kind, lock) in [("paths", multi(&one)), ("existing locks", mixed(&one))] {
        let first = mutex_at(&holder, A).acquire().await.unwrap();
        let second = mutex_at(&holder, B).acquire().await.unwrap();
        let ticket = lock.enqueue().await.unwrap();
        let mut position = ticket.watch_position();
        assert_eq!(*position.borrow_and_update(), 1);
        let acquiring = tokio::spawn(ticket.acquired());
        // One of them follows the position.
        watches_of(&server, 2).await;
        first.release().await.unwrap();
        // It goes on to the next queue, and waits there.
        queue_of(&zookeeper, B, 2).await;
        let settled = tokio::time::timeout(LONG, position.wait_for(|position| *position == 1)).await;
        let seen = settled.map(|seen| *seen.unwrap()).map_err(drop);
        assert!(seen.is_ok(), "of {kind}: one is ahead, the holder of {B}; shown is {}", *position.borrow());
        assert!(!acquiring.is_finished());
        second.release().await.unwrap();
        within(acquiring).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// For a semaphore, zero means that this one gets the next permits.
#[tokio::test]
async fn the_followed_position_at_a_semaphore_is_zero_when_it_is_first() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [holder, one, two]: [Client; 3] = connect_many(&server).await;
    let semaphore = |client| SemaphoreMutex::new(client, "/attack/s").unwrap();
    let gate = "/attack/s/locks";
    for _ in 0..10 {
        let held = semaphore(&holder).acquire().await.unwrap();
        queue_of(&zookeeper, gate, 0).await;
        let first = in_task(Arc::new(semaphore(&one)));
        watches_of(&server, 1).await;
        let ticket = semaphore(&two).enqueue().await.unwrap();
        let mut position = ticket.watch_position();
        assert_eq!(*position.borrow_and_update(), 1);
        let second = tokio::spawn(ticket.acquired());
        // One of them follows the position.
        watches_of(&server, 3).await;
        first.abort();
        queue_of(&zookeeper, gate, 1).await;
        let seen = tokio::time::timeout(LONG, position.wait_for(|position| *position == 0)).await;
        assert!(seen.is_ok(), "it is first at the gate");
        assert!(!second.is_finished());
        held.release().await.unwrap();
        within(second).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// A place that was lost counts as being behind all others.
#[tokio::test]
async fn a_ticket_that_has_lost_what_it_had_is_not_first() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [one, two]: [Client; 2] = connect_many(&server).await;
    let semaphore = |client| SemaphoreMutex::new(client, "/attack/s").unwrap();
    let subjects: [(Arc<dyn InterProcessLock>, Arc<dyn InterProcessLock>); 3] = [
        (Arc::new(mutex_at(&one, C)), Arc::new(mutex_at(&two, C))),
        (Arc::new(multi(&one)), Arc::new(multi(&two))),
        (Arc::new(semaphore(&one)), Arc::new(semaphore(&two))),
    ];
    let mut wrong = Vec::new();
    for (lock, other) in subjects {
        let ticket = lock.enqueue().await.unwrap();
        for (node, _) in ephemerals_below(&zookeeper, "/attack").await {
            zookeeper.delete(&node, None).await.unwrap();
        }
        let guard = within(other.acquire()).await.unwrap();
        if ticket.position().await == Ok(0) {
            wrong.push(lock.paths().join(", "));
        }
        guard.release().await.unwrap();
        drop(ticket);
    }
    assert!(wrong.is_empty(), "another one holds: {wrong:?}");
}

/// A waiter keeps its place however often requests fail; so does a ticket that is awaited during an outage.
#[tokio::test]
async fn an_outage_longer_than_the_policy_does_not_cost_a_ticket_its_place() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let holder = connect(&server).await;
    let proxy = FaultProxy::start(&server).await.unwrap();
    let client = Client::builder()
        .session_timeout(Duration::from_secs(30))
        .connection_timeout(Duration::from_millis(200))
        .retry_policy(RetryPolicy::one_time(Duration::from_millis(10)))
        .drop_timeout(Duration::ZERO)
        .connect(&proxy.connect_string())
        .await
        .unwrap();
    let session = session_id(&client).await;
    let mut failed = Vec::new();
    for is_ticket in [false, true] {
        let held = mutex_at(&holder, A).acquire().await.unwrap();
        let lock = mutex_at(&client, A);
        let waiting = if is_ticket {
            let ticket = lock.enqueue().await.unwrap();
            proxy.refuse_connections(true).unwrap();
            proxy.cut();
            let suspended = client.watch_connection();
            within(suspended.clone().wait_for(|state| *state == ConnectionState::Suspended)).await.unwrap();
            tokio::spawn(ticket.acquired())
        } else {
            let waiting = tokio::spawn(async move { lock.acquire().await });
            watches_of(&server, 1).await;
            proxy.refuse_connections(true).unwrap();
            proxy.cut();
            waiting
        };
        let [place] = &children(&zookeeper, A)
            .await
            .into_iter()
            .filter(|node| !held.node_path().ends_with(node))
            .collect::<Vec<_>>()[..]
        else {
            panic!("one waits")
        };
        // Several times what the policy allows.
        tokio::time::sleep(Duration::from_secs(2)).await;
        proxy.refuse_connections(false).unwrap();
        held.release().await.unwrap();
        match within(waiting).await.unwrap() {
            Ok(guard) => {
                assert!(guard.node_path().ends_with(place));
                guard.release().await.unwrap();
            }
            Err(error) => failed.push((is_ticket, error.to_string())),
        }
        assert_eq!(session_id(&client).await, session);
        queue_of(&zookeeper, A, 0).await;
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Two calls of one owner for existing locks: the loss of a lock that both have does not end the wait.
#[tokio::test]
async fn a_lock_lost_while_two_calls_of_one_owner_wait_is_acquired_again() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [holder, client]: [Client; 2] = connect_many(&server).await;
    let lock = mixed(&client).owned_by(&Owner::new());
    let held = mutex_at(&holder, B).acquire().await.unwrap();
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    queue_of(&zookeeper, B, 3).await;
    let node = queue_of(&zookeeper, A, 1).await.remove(0);
    // Both watch it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    zookeeper.delete(&format!("{A}/{node}"), None).await.unwrap();
    eventually("it is acquired again", || async {
        let now = children(&zookeeper, A).await;
        (now.len() == 1 && now[0] != node || calls.iter().any(|call| call.is_finished())).then_some(())
    })
    .await;
    held.release().await.unwrap();
    let mut errors = Vec::new();
    for call in calls {
        match within(call).await.unwrap() {
            Ok(guard) => drop(guard),
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.is_empty(), "{errors:?}");
}

/// A maximum hold time counts from the grant: a wait that is longer than that gets the lock in the end.
#[tokio::test]
async fn a_wait_for_existing_locks_longer_than_their_hold_time_keeps_its_place() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [holder, client, late]: [Client; 3] = connect_many(&server).await;
    for (kind, lock) in [("paths", multi(&client)), ("existing locks", mixed(&client))] {
        let lock = lock.with_options(LockOptions::new().max_hold(Duration::from_secs(1))).unwrap();
        let held = mutex_at(&holder, B).acquire().await.unwrap();
        let waiting = in_task(Arc::new(lock.clone()));
        let first = queue_of(&zookeeper, B, 2).await;
        let behind = in_task(lock_at(&late, B));
        queue_of(&zookeeper, B, 3).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = queue_of(&zookeeper, B, 3).await;
        let kept = first.iter().all(|node| now.contains(node));
        held.release().await.unwrap();
        if !kept {
            behind.abort();
            waiting.abort();
        }
        assert!(kept, "{kind}: overtaken by those who came later");
        within(waiting).await.unwrap().unwrap().release().await.unwrap();
        within(behind).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// A guard of several permits that is split while one of them is lost: the others stay what they are.
#[tokio::test]
async fn a_split_guard_of_permits_loses_only_what_is_lost() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [one, two]: [Client; 2] = connect_many(&server).await;
    let owner = Owner::new();
    let semaphore = Semaphore::new(&one, "/attack/s", 3).unwrap().owned_by(&owner);
    let guard = semaphore.many(3).unwrap().acquire().await.unwrap();
    zookeeper.delete(guard.members()[1].node_path(), None).await.unwrap();
    within(guard.lost()).await;
    let members = guard.into_members();
    assert_eq!(members.iter().map(LockGuard::is_valid).collect::<Vec<_>>(), [true, false, true]);
    let other = Semaphore::new(&two, "/attack/s", 3).unwrap();
    let free = within(other.acquire()).await.unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    let outcomes = futures_util::future::join_all(members.into_iter().map(LockGuard::release)).await;
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert!(!semaphore.is_owned_by(&owner));
    assert!(!semaphore.is_acquired_in_this_process());
    free.release().await.unwrap();
    queue_of(&zookeeper, "/attack/s/leases", 0).await;
}

/// Sessions are killed while tickets are idle, and those behind them wait in the same client.
#[tokio::test]
async fn whoever_waits_behind_an_idle_ticket_goes_on_when_the_session_is_killed() {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
    for lock in [lock_at(&client, A), Arc::new(MultiLock::new(&client, [B, C]).unwrap())] {
        let ticket = lock.enqueue().await.unwrap();
        let behind = in_task(lock.owned_by(&Owner::new()));
        watches_of(&server, 1).await;
        kill_session(&client).await.unwrap();
        within(behind).await.unwrap().unwrap().release().await.unwrap();
        within(ticket.acquired()).await.unwrap().release().await.unwrap();
    }
}

/// A call of the same owner that waits behind a ticket is not let in on what the ticket has lost.
#[tokio::test]
async fn nobody_enters_by_a_ticket_that_has_lost_a_member() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let lock = multi(&client).owned_by(&Owner::new());
    let ticket = lock.enqueue().await.unwrap();
    let node = queue_of(&zookeeper, B, 1).await.remove(0);
    let mut call = Box::pin(lock.acquire());
    // It waits behind the ticket.
    tokio::select! {
        biased;
        early = &mut call => panic!("{early:?}"),
        () = watches_of(&server, 1) => {}
    }
    zookeeper.delete(&format!("{B}/{node}"), None).await.unwrap();
    let by_call = async {
        let guard = call.await.unwrap();
        let is_there = zookeeper.check_stat(guard.members()[1].node_path()).await.unwrap().is_some();
        (is_there, guard)
    };
    let (by_ticket, (is_there, _guard)) =
        within(futures_util::future::join(ticket.acquired(), by_call)).await;
    assert!(is_there, "the call got what was lost; the ticket got {by_ticket:?}");
    assert!(by_ticket.is_ok(), "{by_ticket:?}");
}

/// Two calls of one owner to read, on a thread each, share one hold, whichever is released first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_reads_twice_reads_until_both_are_released() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [holder, client]: [Client; 2] = connect_many(&server).await;
    let owner = Owner::new();
    let outside = ReadWriteLock::new(&holder, A).unwrap();
    let lock = ReadWriteLock::new(&client, A).unwrap().read().owned_by(&owner);
    for round in 0..300 {
        let held = outside.write().acquire().await.unwrap();
        let (acquired, mut guards) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..2 {
            let (lock, acquired) = (lock.clone(), acquired.clone());
            std::thread::spawn(move || {
                let _ = acquired.send(futures_executor::block_on(lock.acquire()).unwrap());
            });
        }
        queue_of(&zookeeper, A, 3).await;
        held.release().await.unwrap();
        let (first, second) = (within(guards.recv()).await.unwrap(), within(guards.recv()).await.unwrap());
        second.release().await.unwrap();
        assert!(lock.is_owned_by(&owner), "in round {round} it still reads: {first:?}");
        first.release().await.unwrap();
        assert!(!lock.is_owned_by(&owner), "in round {round}");
    }
}

/// All permits are free; the servers are silent while they are taken.
#[tokio::test]
async fn a_timed_acquire_of_free_permits_does_not_say_that_somebody_has_them() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(&server).await.unwrap();
    let client = connect_through(&proxy).await;
    let semaphore = Semaphore::new(&client, "/attack/s", 3).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let silent = proxy.intercept(Request::Multi, Fate::HoldReply);
    let outcome = within(semaphore.try_acquire_for(Duration::from_secs(2))).await;
    within(silent.happened()).await;
    silent.release();
    assert!(!matches!(outcome, Ok(None)), "nobody else is there");
}

/// Every kind, by its ticket, dropped at each await; alone and behind another.
#[tokio::test]
async fn a_ticket_dropped_at_each_await_leaves_nothing() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [holder, client]: [Client; 2] = connect_many(&server).await;
    let subjects = |client: &Client| -> Vec<Arc<dyn InterProcessLock>> {
        let rw = ReadWriteLock::new(client, "/attack/rw").unwrap();
        vec![
            lock_at(client, C),
            Arc::new(rw.read().clone()),
            Arc::new(rw.write().clone()),
            Arc::new(SemaphoreMutex::new(client, "/attack/s").unwrap()),
            Arc::new(Semaphore::new(client, "/attack/t", 2).unwrap().many(2).unwrap()),
            Arc::new(MultiLock::new(client, ["/attack/e", "/attack/f"]).unwrap()),
            Arc::new(mixed(client)),
        ]
    };
    let others = subjects(&holder);
    for (number, lock) in subjects(&client).into_iter().enumerate() {
        // Readers are kept out by the writer.
        let other = &others[if number == 1 { 2 } else { number }];
        for is_held in [false, true] {
            for awaits in 1.. {
                let held = if is_held { Some(within(other.acquire()).await.unwrap()) } else { None };
                let queueing = lock.clone();
                let acquire = async move {
                    let ticket = queueing.enqueue().await?;
                    let _position = ticket.watch_position();
                    ticket.acquired().await
                };
                let acquire = tokio::spawn(poll_times(acquire, awaits));
                if is_held {
                    tokio::task::yield_now().await;
                    let mut acquire = acquire;
                    let done = tokio::time::timeout(Duration::from_millis(300), &mut acquire).await;
                    held.unwrap().release().await.unwrap();
                    let outcome = match done {
                        Ok(outcome) => outcome.unwrap().transpose().unwrap(),
                        Err(_) => within(acquire).await.unwrap().transpose().unwrap(),
                    };
                    let is_done = outcome.is_some();
                    drop(outcome);
                    eventually("nothing is left", || async {
                        ephemerals_below(&zookeeper, "/attack").await.is_empty().then_some(())
                    })
                    .await;
                    watches_of(&server, 0).await;
                    if is_done {
                        break;
                    }
                } else {
                    let outcome = within(acquire).await.unwrap().transpose().unwrap();
                    let is_done = outcome.is_some();
                    drop(outcome);
                    eventually("nothing is left", || async {
                        ephemerals_below(&zookeeper, "/attack").await.is_empty().then_some(())
                    })
                    .await;
                    watches_of(&server, 0).await;
                    if is_done {
                        break;
                    }
                }
            }
        }
    }
}

/// A ticket that has a permit and loses it queues again, and not behind itself.
#[tokio::test]
async fn a_ticket_that_has_lost_its_permit_does_not_wait_for_itself() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let ticket = Semaphore::new(&client, "/attack/s", 3).unwrap().enqueue().await.unwrap();
    let lease = queue_of(&zookeeper, "/attack/s/leases", 1).await.remove(0);
    zookeeper.delete(&format!("/attack/s/leases/{lease}"), None).await.unwrap();
    let acquired = tokio::time::timeout(LONG, tokio::spawn(ticket.acquired())).await;
    let gate = children(&zookeeper, "/attack/s/locks").await;
    assert!(acquired.is_ok(), "nobody else is there, and it waits: {gate:?}");
    acquired.unwrap().unwrap().unwrap().release().await.unwrap();
}

/// Members that outlive the guard, the lock and all but one handle on the client, and go in an odd order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_outlive_what_they_came_from() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    for closes in [false, true] {
        let client = connect(&server).await;
        let lock = multi(&client).owned_by(&Owner::new());
        let semaphore = Semaphore::new(&client, "/attack/s", 3).unwrap().many(3).unwrap();
        let again = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
        let ticket = lock.enqueue().await.unwrap();
        let mut members = again.1.into_members();
        members.extend(semaphore.acquire().await.unwrap().into_members());
        members.extend(again.0.into_members());
        fastrand::shuffle(&mut members);
        drop((lock, semaphore));
        if closes {
            within(client.close()).await;
        }
        drop(client);
        let dropping = members.into_iter().map(|member| std::thread::spawn(move || drop(member)));
        for dropped in dropping.collect::<Vec<_>>() {
            dropped.join().unwrap();
        }
        tokio::task::spawn_blocking(move || drop(ticket)).await.unwrap();
        eventually("nothing is left", || async {
            ephemerals_below(&zookeeper, "/attack").await.is_empty().then_some(())
        })
        .await;
    }
}

/// The second lock of a ticket of existing locks is acquired for the owner as well if the first was lost.
#[tokio::test]
async fn a_ticket_of_existing_locks_that_starts_over_belongs_to_whoever_queued() {
    let server = TestingServer::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [holder, client]: [Client; 2] = connect_many(&server).await;
    let owner = Owner::new();
    let lock = mixed(&client).owned_by(&owner);
    let held = mutex_at(&holder, B).acquire().await.unwrap();
    let ticket = lock.enqueue().await.unwrap();
    let acquiring = tokio::spawn(ticket.acquired());
    queue_of(&zookeeper, B, 2).await;
    let node = queue_of(&zookeeper, A, 1).await.remove(0);
    zookeeper.delete(&format!("{A}/{node}"), None).await.unwrap();
    eventually("it starts over", || async {
        let now = children(&zookeeper, A).await;
        (now.len() == 1 && now[0] != node).then_some(())
    })
    .await;
    held.release().await.unwrap();
    let guard = within(acquiring).await.unwrap().unwrap();
    assert!(lock.is_owned_by(&owner));
    guard.release().await.unwrap();
}

/// A ticket that has permits keeps the gate only as long as it needs it, also as a member of a multi-lock.
#[tokio::test]
async fn a_ticket_of_existing_locks_with_a_semaphore_leaves_the_other_permits_to_others() {
    let server = TestingServer::start().await.unwrap();
    let [one, two]: [Client; 2] = connect_many(&server).await;
    let members: [Arc<dyn InterProcessLock>; 2] =
        [Arc::new(Semaphore::new(&one, A, 3).unwrap()), lock_at(&one, B)];
    let ticket = MultiLock::of(members).unwrap().enqueue().await.unwrap();
    let other = Semaphore::new(&two, A, 3).unwrap();
    assert_eq!(other.available_permits().await, Ok(2));
    assert!(other.try_acquire_for(LONG).await.unwrap().is_some(), "two permits are free");
    drop(ticket);
}
