//! `InterProcessMutex` on the shared servers: exclusion, order, re-entrance, queue, bad input.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::join;
use support::*;
use tokio::sync::mpsc;
use zk_recipes::{Error, InterProcessLock, InterProcessMutex, LockGuard, Owner};
use zookeeper_client as zk;

/// Sees two at once in a place that is for one.
#[derive(Default)]
struct Room {
    occupied: AtomicBool,
    visits: AtomicUsize,
    last_token: AtomicI64,
}

impl Room {
    async fn visit(&self, guard: &LockGuard) {
        assert!(!self.occupied.swap(true, SeqCst), "two holders at once");
        let token = guard.fencing_token();
        assert!(self.last_token.swap(token, SeqCst) < token, "the tokens of grants must grow");
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        self.visits.fetch_add(1, SeqCst);
        assert!(self.occupied.swap(false, SeqCst));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excludes_clients_and_tasks() {
    let sandbox = Sandbox::new();
    let room = Arc::new(Room::default());
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let client = sandbox.client().await;
        let shared = mutex(&client);
        for task in 0..4 {
            // Half of the tasks share a lock object, the others have their own.
            let mutex = if task % 2 == 0 { shared.clone() } else { mutex(&client) };
            let room = room.clone();
            workers.spawn(async move {
                for round in 0..10 {
                    let guard = mutex.acquire().await.unwrap();
                    room.visit(&guard).await;
                    if round % 2 == 0 {
                        guard.release().await.unwrap();
                    }
                }
            });
        }
    }
    within(workers.join_all()).await;
    assert_eq!(room.visits.load(SeqCst), 160);
    sandbox.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excludes_threads() {
    let sandbox = Sandbox::new();
    let client = sandbox.client().await;
    let (mutex, room) = (mutex(&client), Arc::new(Room::default()));
    let runtime = tokio::runtime::Handle::current();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (mutex, room, runtime) = (mutex.clone(), room.clone(), runtime.clone());
            std::thread::spawn(move || {
                for _ in 0..10 {
                    // Outside of a task the thread is the owner.
                    let guard = runtime.block_on(mutex.acquire()).unwrap();
                    runtime.block_on(room.visit(&guard));
                    drop(guard);
                }
            })
        })
        .collect();
    let done = tokio::task::spawn_blocking(|| threads.into_iter().for_each(|thread| thread.join().unwrap()));
    within(done).await.unwrap();
    assert_eq!(room.visits.load(SeqCst), 40);
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn first_come_first_served() {
    let sandbox = Sandbox::new();
    let clients = [sandbox.client().await, sandbox.client().await, sandbox.client().await];
    let zookeeper = clients[0].zookeeper().await.unwrap();
    let path = sandbox.lock_path();
    let holder = mutex(&clients[0]).acquire().await.unwrap();
    let (granted, mut order) = mpsc::unbounded_channel();
    let mut waiters = tokio::task::JoinSet::new();
    for number in 0..24 {
        let (mutex, granted) = (mutex(&clients[number % 3]), granted.clone());
        waiters.spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            granted.send(number).unwrap();
            guard.release().await.unwrap();
        });
        // Everybody is in the queue before the next one comes.
        queue_of(&zookeeper, &path, number + 2).await;
    }
    holder.release().await.unwrap();
    within(waiters.join_all()).await;
    for number in 0..24 {
        assert_eq!(order.recv().await, Some(number));
    }
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn an_owner_enters_again() {
    let sandbox = Sandbox::new();
    let client = sandbox.client().await;
    let mutex = mutex(&client);
    assert!(!mutex.is_acquired_in_this_process());
    let first = mutex.acquire().await.unwrap();
    assert_eq!(first.hold_count(), 1);
    let second = mutex.acquire().await.unwrap();
    let third = mutex.try_acquire().await.unwrap().unwrap();
    let fourth = mutex.try_acquire_for(Duration::from_secs(1)).await.unwrap().unwrap();
    let fifth = mutex.enqueue().await.unwrap();
    assert_eq!(fifth.position().await, Ok(0));
    let fifth = fifth.acquired().await.unwrap();
    assert_eq!(fifth.hold_count(), 5);
    for again in [&second, &third, &fourth, &fifth] {
        assert_eq!(again.fencing_token(), first.fencing_token());
        assert_eq!(again.node_path(), first.node_path());
    }
    // The first to come is the first to go; the others still hold.
    first.release().await.unwrap();
    drop((second, third));
    fourth.release().await.unwrap();
    assert!(mutex.is_acquired_in_this_process() && mutex.is_owned_by_current());
    assert!(mutex.participants().await.unwrap()[0].is_holder());
    fifth.release().await.unwrap();
    assert!(!mutex.is_acquired_in_this_process() && !mutex.is_owned_by_current());
    assert_eq!(mutex.participants().await, Ok(Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_threads_and_explicit_owners_do_not_enter_for_each_other() {
    let sandbox = Sandbox::new();
    let client = sandbox.client().await;
    let mutex = mutex(&client);
    let explicit = Owner::new();
    let refused = async |mutex: InterProcessMutex| {
        assert!(!mutex.is_owned_by_current());
        assert!(mutex.try_acquire().await.unwrap().is_none());
        assert!(mutex.try_acquire_as(&Owner::new()).await.unwrap().is_none());
        let in_task = mutex.clone();
        let task = tokio::spawn(async move { in_task.try_acquire().await });
        assert!(task.await.unwrap().unwrap().is_none());
        let runtime = tokio::runtime::Handle::current();
        let thread = tokio::task::spawn_blocking(move || {
            std::thread::spawn(move || runtime.block_on(mutex.try_acquire())).join().unwrap()
        });
        assert!(thread.await.unwrap().unwrap().is_none());
    };

    // Held by an explicit owner: by nobody else, but by that owner in another task.
    let guard = mutex.acquire_as(&explicit).await.unwrap();
    refused(mutex.clone()).await;
    let (same, owner) = (mutex.clone(), explicit.clone());
    let again = tokio::spawn(async move { same.acquire_as(&owner).await }).await.unwrap().unwrap();
    assert_eq!(again.fencing_token(), guard.fencing_token());
    assert!(mutex.is_owned_by(&explicit));
    drop((guard, again));

    // Held by a task, and again in the same task after it was moved between threads.
    let in_task = mutex.clone();
    let (held, mut holds) = mpsc::channel(1);
    let (go_on, mut going_on) = mpsc::channel::<()>(1);
    let task = tokio::spawn(async move {
        let first = in_task.acquire().await.unwrap();
        held.send(()).await.unwrap();
        going_on.recv().await;
        let second = in_task.acquire().await.unwrap();
        assert_eq!(second.hold_count(), 2);
        assert!(in_task.is_owned_by_current());
        (first, second)
    });
    holds.recv().await;
    refused(mutex.clone()).await;
    go_on.send(()).await.unwrap();
    // Guards may be dropped anywhere, also in a thread without a runtime.
    let guards = task.await.unwrap();
    std::thread::spawn(move || drop(guards)).join().unwrap();

    // Held by a thread.
    let (in_thread, runtime) = (mutex.clone(), tokio::runtime::Handle::current());
    let guards = tokio::task::spawn_blocking(move || {
        let acquire = || runtime.block_on(in_thread.acquire()).unwrap();
        std::thread::scope(|scope| scope.spawn(|| (acquire(), acquire())).join().unwrap())
    })
    .await
    .unwrap();
    assert_eq!(guards.0.hold_count(), 2);
    refused(mutex.clone()).await;
    drop(guards);
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn two_acquires_started_at_once_are_two_contenders() {
    let sandbox = Sandbox::new();
    let client = sandbox.client().await;
    let mutex = mutex(&client);
    let hold_shortly = async || {
        let guard = mutex.acquire().await.unwrap();
        (guard.fencing_token(), guard.hold_count())
    };
    let (first, second) = within(join(hold_shortly(), hold_shortly())).await;
    assert!(first.0 < second.0);
    assert_eq!((first.1, second.1), (1, 1));
    assert!(!mutex.is_acquired_in_this_process());
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn waiting_for_oneself_through_another_object_is_refused() {
    let sandbox = Sandbox::new();
    let client = sandbox.client().await;
    let (one, other) = (mutex(&client), mutex(&client));
    let guard = one.acquire().await.unwrap();
    let path = sandbox.lock_path();
    assert_eq!(within(other.acquire()).await.unwrap_err(), Error::WouldDeadlock { path: path.clone() });
    let timed = within(other.try_acquire_for(Duration::from_secs(60))).await;
    assert_eq!(timed.unwrap_err(), Error::WouldDeadlock { path });
    // Trying is not waiting, and another owner may wait.
    assert!(other.try_acquire().await.unwrap().is_none());
    let waiter = acquire_in_task(&other);
    queue_of(&client.zookeeper().await.unwrap(), guard.node_path().rsplit_once('/').unwrap().0, 2).await;
    drop(guard);
    within(waiter).await.unwrap().unwrap().release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn try_acquire_leaves_the_queue_as_it_was() {
    let sandbox = Sandbox::new();
    let (holder, other) = (sandbox.client().await, sandbox.client().await);
    let bystander = zk::Client::connect(&servers()).await.unwrap();
    let path = sandbox.lock_path();
    let guard = mutex(&holder).try_acquire().await.unwrap().unwrap();
    for within in
        [None, Some(Duration::ZERO), Some(Duration::from_millis(1)), Some(Duration::from_millis(50))]
    {
        let outcome = match within {
            None => mutex(&other).try_acquire().await,
            Some(within) => mutex(&other).try_acquire_for(within).await,
        };
        assert!(outcome.unwrap().is_none());
        bystander.sync(&path).await.unwrap();
        if within != Some(Duration::from_millis(1)) {
            // Whoever gets `None` back is out of the queue, for all to see. (In a millisecond it may not even
            // have got in; then the background sees to it.)
            assert_eq!(children(&bystander, &path).await.len(), 1, "{within:?}");
        }
    }
    queue_of(&bystander, &path, 1).await;
    // A dropped guard is out of the way of whatever its client asks next.
    drop(guard);
    let guard = mutex(&holder).try_acquire().await.unwrap().unwrap();
    guard.release().await.unwrap();
    let guard = mutex(&other).try_acquire_for(Duration::MAX).await.unwrap().unwrap();
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_timed_acquire_gets_its_turn_in_time() {
    let sandbox = Sandbox::new();
    let (one, other) = (sandbox.client().await, sandbox.client().await);
    let guard = mutex(&one).acquire().await.unwrap();
    let waiting = mutex(&other);
    let waiter = tokio::spawn(async move { waiting.try_acquire_for(BOUND).await });
    queue_of(&one.zookeeper().await.unwrap(), &sandbox.lock_path(), 2).await;
    guard.release().await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap().unwrap();
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn participants_are_listed_in_order() {
    let sandbox = Sandbox::new();
    let observer = mutex(&sandbox.client().await);
    assert_eq!(observer.participants().await, Ok(Vec::new()), "the path does not exist yet");
    let names = ["first", "second", "third"];
    let mut tickets = Vec::new();
    let mut sessions = Vec::new();
    for name in names {
        let client = sandbox.builder().identity(name).connect(&servers()).await.unwrap();
        sessions.push(session_id(&client).await);
        tickets.push(mutex(&client).enqueue().await.unwrap());
    }
    let participants = observer.participants().await.unwrap();
    let listed: Vec<_> = participants.iter().map(|p| p.identity().unwrap()).collect();
    assert_eq!(listed, names.map(str::as_bytes));
    let listed: Vec<_> = participants.iter().map(|p| p.session_id()).collect();
    assert_eq!(listed, sessions);
    let listed: Vec<_> = participants.iter().map(|p| p.is_holder()).collect();
    assert_eq!(listed, [true, false, false]);
    let prefix = format!("{}/_c_", sandbox.lock_path());
    for participant in &participants {
        assert!(participant.node_path().starts_with(&prefix), "{participant:?}");
        assert!(participant.age() < BOUND);
    }
    drop(tickets);
    sandbox.assert_nothing_left().await;
    assert_eq!(observer.participants().await, Ok(Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_participant_holds_however_fast_they_change() {
    let sandbox = Sandbox::new();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mutex = mutex(&sandbox.client().await);
        workers.spawn(async move {
            for _ in 0..100 {
                mutex.acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    let observer = mutex(&sandbox.client().await);
    while workers.try_join_next().is_none() {
        let participants = observer.participants().await.unwrap();
        for (position, participant) in participants.iter().enumerate() {
            assert_eq!(participant.is_holder(), position == 0, "{participants:?}");
        }
    }
    within(workers.join_all()).await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_ticket_tells_its_position() {
    let sandbox = Sandbox::new();
    let client = sandbox.client().await;
    let path = sandbox.lock_path();
    let mut tickets = Vec::new();
    let mutex = mutex(&client);
    for position in 0..4 {
        // Each its own owner, so that none enters for another.
        let ticket = mutex.enqueue_as(&Owner::new()).await.unwrap();
        assert_eq!(ticket.position().await, Ok(position));
        tickets.push(ticket);
    }
    let last = tickets.pop().unwrap();
    let mut followed = last.watch_position();
    assert_eq!(*followed.borrow_and_update(), 3);
    let last = tokio::spawn(last.acquired());
    // The middle of the queue gives up: whoever is not watched by the last one counts, too.
    drop(tickets.remove(1));
    within(followed.wait_for(|position| *position == 2)).await.unwrap();
    drop(tickets.pop());
    within(followed.wait_for(|position| *position == 1)).await.unwrap();
    let guard = tickets.pop().unwrap().acquired().await.unwrap();
    assert!(!last.is_finished());
    guard.release().await.unwrap();
    let guard = within(last).await.unwrap().unwrap();
    // The wait is over, and so is the news.
    while within(followed.changed()).await.is_ok() {}
    assert!(guard.node_path().starts_with(&path));
    drop(guard);
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn children_of_others_are_ignored() {
    let sandbox = Sandbox::new();
    let client = sandbox.client().await;
    let mutex = mutex(&client);
    mutex.acquire().await.unwrap().release().await.unwrap();
    let zookeeper = client.zookeeper().await.unwrap();
    let path = sandbox.lock_path();
    let anyone = zk::Acls::anyone_all();
    let ephemeral = zk::CreateMode::Ephemeral.with_acls(anyone);
    let foreign = ["0-foreign", "zebra", "clock-0000000000", "lock-1", "_c_x-latch-0000000000"];
    for name in foreign {
        zookeeper.create(&format!("{path}/{name}"), b"", &ephemeral).await.unwrap();
    }
    let guard = mutex.try_acquire().await.unwrap().expect("strangers do not block");
    let participants = mutex.participants().await.unwrap();
    assert_eq!(participants.len(), 1);
    assert_eq!(participants[0].node_path(), guard.node_path());
    guard.release().await.unwrap();
    for name in foreign {
        zookeeper.delete(&format!("{path}/{name}"), None).await.unwrap();
    }
    sandbox.assert_nothing_left().await;
}

/// A lock whose path exists, and a session that makes nodes in it by hand.
async fn beside_others(sandbox: &Sandbox) -> (InterProcessMutex, zk::Client) {
    let mutex = mutex(&sandbox.client().await);
    mutex.acquire().await.unwrap().release().await.unwrap();
    (mutex, zk::Client::connect(&servers()).await.unwrap())
}

/// The names that Curator, go-zookeeper and kazoo write, created by hand.
#[tokio::test]
async fn other_libraries_stand_in_the_same_queue() {
    let sandbox = Sandbox::new();
    let (mutex, foreign) = beside_others(&sandbox).await;
    let path = sandbox.lock_path();
    for name in [
        "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-",
        "_c_3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f-lock-",
        "3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__lock__",
        "ff1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f-lock-",
    ] {
        let mode = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
        let prefix = format!("{path}/{name}");
        // It holds: we wait.
        let (_, before) = foreign.create(&prefix, b"other", &mode).await.unwrap();
        let ticket = mutex.enqueue().await.unwrap();
        assert_eq!(ticket.position().await, Ok(1), "{name}");
        // It comes after us: it waits.
        let (_, after) = foreign.create(&prefix, b"other", &mode).await.unwrap();
        let order: Vec<_> =
            mutex.participants().await.unwrap().iter().map(|p| sequence(p.node_path())).collect();
        let own = before.into_i64() as i32 + 1;
        assert_eq!(order, [own - 1, own, own + 1], "{name}");
        assert!(mutex.try_acquire_as(&Owner::new()).await.unwrap().is_none());
        foreign.delete(&format!("{prefix}{before}"), None).await.unwrap();
        let guard = within(ticket.acquired()).await.unwrap();
        assert_eq!(sequence(guard.node_path()), own);
        guard.release().await.unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_none(), "{name} holds now");
        foreign.delete(&format!("{prefix}{after}"), None).await.unwrap();
    }
    sandbox.assert_nothing_left().await;
}

/// Where a server's counter ends, it repeats the greatest number or turns negative. Such names, made by hand.
#[tokio::test]
async fn past_the_last_number_the_order_is_that_of_creation() {
    let sandbox = Sandbox::new();
    let (mutex, foreign) = beside_others(&sandbox).await;
    let path = sandbox.lock_path();
    let create = async |name: &str| {
        let node = format!("{path}/_c_{name}");
        let mode = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
        foreign.create(&node, b"", &mode).await.unwrap();
        node
    };
    let first = create("b-lock-2147483647").await;
    let second = create("a-lock-2147483647").await;
    let ticket = mutex.enqueue().await.unwrap();
    assert_eq!(ticket.position().await, Ok(2));
    let last = create("a-lock--2147483648").await;
    let order: Vec<_> =
        mutex.participants().await.unwrap().iter().map(|p| p.node_path().to_owned()).collect();
    assert_eq!([&order[0], &order[1], &order[3]], [&first, &second, &last]);
    let waiter = tokio::spawn(ticket.acquired());
    foreign.delete(&first, None).await.unwrap();
    assert!(mutex.try_acquire_as(&Owner::new()).await.unwrap().is_none());
    assert!(!waiter.is_finished());
    foreign.delete(&second, None).await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(guard.node_path(), order[2]);
    guard.release().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none(), "the negative one holds now");
    foreign.delete(&last, None).await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn bad_paths_are_refused_before_anything_is_sent() {
    let client = zk_recipes::Client::connect_lazily("127.0.0.1:1").unwrap();
    for path in ["", "/", "locks", "/locks/", "//", "/a//b", "/a/../b", "/a/.", "/a\u{0}b", "/a\u{7f}"] {
        match InterProcessMutex::new(&client, path) {
            Err(Error::InvalidPath { path: named, reason }) => {
                assert_eq!(named, path);
                assert!(!reason.is_empty());
            }
            other => panic!("{path:?}: {other:?}"),
        }
    }
    let mutex = InterProcessMutex::new(&client, "/läs/a b").unwrap();
    assert_eq!(mutex.path(), "/läs/a b");
}

#[tokio::test]
async fn any_lock_will_do() {
    let sandbox = Sandbox::new();
    let lock: Arc<dyn InterProcessLock> = Arc::new(mutex(&sandbox.client().await));
    let guard = lock.acquire().await.unwrap();
    assert!(lock.is_acquired_in_this_process());
    assert_eq!(lock.try_acquire().await.unwrap().unwrap().hold_count(), 2);
    assert!(lock.try_acquire_for(Duration::from_millis(10)).await.unwrap().is_some());
    assert_eq!(lock.path(), sandbox.lock_path());
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[test]
fn what_may_cross_threads() {
    fn assert_send_sync<T: Send + Sync>() {}
    fn assert_send<T: Send>(_: T) {}
    assert_send_sync::<InterProcessMutex>();
    assert_send_sync::<LockGuard>();
    assert_send_sync::<Owner>();
    assert_send_sync::<zk_recipes::Client>();
    assert_send_sync::<zk_recipes::Ticket>();
    assert_send_sync::<zk_recipes::Participant>();
    fn futures(mutex: &InterProcessMutex, guard: LockGuard, ticket: zk_recipes::Ticket) {
        assert_send(mutex.acquire());
        assert_send(mutex.try_acquire());
        assert_send(mutex.try_acquire_for(Duration::ZERO));
        assert_send(mutex.enqueue());
        assert_send(mutex.participants());
        assert_send(guard.release());
        assert_send(ticket.acquired());
    }
    let _ = futures;
}
