//! `InterProcessMutex` on the shared servers: exclusion, order, re-entrance, queue, bad input, other recipes.

use crate::prelude::*;

#[tokio::test]
async fn an_owner_enters_again_by_a_ticket() {
    let (_, [client]) = sandbox_with_clients().await;
    let mutex = mutex(&client);
    let first = mutex.acquire().await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    assert_eq!(ticket.position().await, Ok(0));
    let second = ticket.acquired().await.unwrap();
    assert_eq!((second.hold_count(), second.node_path()), (2, first.node_path()));
    assert_eq!(second.fencing_token(), first.fencing_token());
    first.release().await.unwrap();
    assert!(mutex.participants().await.unwrap()[0].is_holder());
    second.release().await.unwrap();
    assert_eq!(mutex.participants().await, Ok(Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_threads_and_explicit_owners_do_not_enter_for_each_other() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let mutex = mutex(&client);
    let refused = async |mutex: InterProcessMutex| {
        assert!(!mutex.is_owned_by(&Owner::current()));
        assert!(mutex.try_acquire().await.unwrap().is_none());
        assert!(mutex.owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
        let in_task = mutex.clone();
        let task = tokio::spawn(async move { in_task.try_acquire().await });
        assert!(task.await.unwrap().unwrap().is_none());
        let runtime = tokio::runtime::Handle::current();
        let thread = tokio::task::spawn_blocking(move || {
            std::thread::spawn(move || runtime.block_on(mutex.try_acquire())).join().unwrap()
        });
        assert!(thread.await.unwrap().unwrap().is_none());
    };

    // Held by an explicit owner.
    let guard = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
    refused(mutex.clone()).await;
    drop(guard);

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
        assert!(in_task.is_owned_by(&Owner::current()));
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
async fn waiting_for_oneself_through_another_object_is_refused() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let (one, other) = (mutex(&client), mutex(&client));
    let guard = one.acquire().await.unwrap();
    let cohort = other.with_options(LockOptions::new().cohort(3)).unwrap();
    assert_would_deadlock(&other, &sandbox.lock_path()).await;
    assert_would_deadlock(&cohort, &sandbox.lock_path()).await;
    // Another owner may wait.
    let waiter = acquire_in_task(&other);
    queue_of(&client.zookeeper().await.unwrap(), guard.node_path().rsplit_once('/').unwrap().0, 2).await;
    drop(guard);
    within(waiter).await.unwrap().unwrap().release().await.unwrap();
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
    // What is no contender is not listed.
    let (zookeeper, path) = (bystander_of(&servers()).await, sandbox.lock_path());
    let foreign = anyone(CreateMode::Ephemeral);
    for name in ["0-foreign", "zebra", "clock-0000000000", "lock-1", "_c_x-latch-1"] {
        zookeeper.create(&format!("{path}/{name}"), b"", &foreign).await.unwrap();
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
    drop((tickets, zookeeper));
    sandbox.assert_nothing_left().await;
    assert_eq!(observer.participants().await, Ok(Vec::new()));
}

/// Where a server's counter ends, it repeats the greatest number or turns negative. Such names, made by hand.
#[tokio::test]
async fn past_the_last_number_the_order_is_that_of_creation() {
    let sandbox = Sandbox::new();
    let mutex = mutex(&sandbox.client().await);
    mutex.acquire().await.unwrap().release().await.unwrap();
    let foreign = bystander_of(&servers()).await;
    let path = sandbox.lock_path();
    let create = async |name: &str| {
        let node = format!("{path}/_c_{name}");
        let mode = anyone(CreateMode::Ephemeral);
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
    assert!(mutex.owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
    assert!(!waiter.is_finished());
    foreign.delete(&second, None).await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(guard.node_path(), order[2]);
    guard.release().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none(), "the negative one holds now");
    foreign.delete(&last, None).await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[test]
fn what_may_cross_threads() {
    fn assert_send_sync<T: Send + Sync>() {}
    fn assert_send<T: Send>(_: T) {}
    assert_send_sync::<(InterProcessMutex, ReadWriteLock, ReadLock, WriteLock, MultiLock)>();
    assert_send_sync::<(LockGuard, Owner, Client, Ticket, Participant)>();
    const TIME: Duration = Duration::ZERO;
    fn of_a_mutex(mutex: &InterProcessMutex, guard: LockGuard, ticket: Ticket) {
        assert_send((mutex.acquire(), mutex.try_acquire(), mutex.try_acquire_for(TIME), mutex.enqueue()));
        assert_send((mutex.participants(), guard.release(), ticket.acquired()));
    }
    fn of_a_side(read: &ReadLock, write: &WriteLock) {
        assert_send((read.acquire(), read.try_acquire(), read.try_acquire_for(TIME), read.enqueue()));
        assert_send((write.acquire(), write.try_acquire(), write.try_acquire_for(TIME), write.enqueue()));
        assert_send((read.participants(), write.participants()));
    }
    fn of_many(lock: &MultiLock) {
        assert_send((lock.acquire(), lock.try_acquire(), lock.try_acquire_for(TIME)));
        assert_send((lock.is_locked(), lock.holder()));
    }
    let _ = (of_a_mutex, of_a_side, of_many);
}

#[tokio::test]
async fn what_one_owner_waits_for_twice_it_gets_at_once() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let mutex = mutex(&client);
    let zookeeper = client.zookeeper().await.unwrap();
    // In one task, which awaits both before it drops one of them.
    let (one, other) = within(join(mutex.acquire(), mutex.acquire())).await;
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((one.hold_count(), one.fencing_token()), (2, other.fencing_token()));
    queue_of(&zookeeper, &sandbox.lock_path(), 1).await;
    one.release().await.unwrap();
    assert!(other.is_valid());
    other.release().await.unwrap();
    // If one is dropped before, the other one waits for that.
    let tokens = async || mutex.acquire().await.unwrap().fencing_token();
    let (first, second) = within(join(tokens(), tokens())).await;
    assert!(first < second);
    assert!(!mutex.is_acquired_in_this_process());

    // Two places of one owner, and somebody else between them.
    let (first, second) = (mutex.enqueue().await.unwrap(), mutex.enqueue().await.unwrap());
    let stranger = acquire_in_task(&mutex);
    queue_of(&zookeeper, &sandbox.lock_path(), 3).await;
    let first = first.acquired().await.unwrap();
    let second = within(second.acquired()).await.unwrap();
    assert_eq!((first.hold_count(), first.node_path()), (2, second.node_path()));
    queue_of(&zookeeper, &sandbox.lock_path(), 2).await;
    drop((first, second));
    within(stranger).await.unwrap().unwrap().release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

/// A look from another thread does not make a release return early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_waits_for_the_delete_whoever_looks_at_the_owner() {
    let (server, proxy, _, client) = server_behind_proxy().await;
    let mutex = mutex(&client);
    let owner = Owner::new();
    let is_over = Arc::new(AtomicBool::new(false));
    let looking = std::thread::spawn({
        let (mutex, owner, is_over) = (mutex.clone(), owner.clone(), is_over.clone());
        move || {
            while !is_over.load(SeqCst) {
                std::hint::black_box(mutex.is_owned_by(&owner));
            }
        }
    });
    let mut early = 0;
    for _ in 0..repeats(300) {
        let guard = mutex.owned_by(&owner).acquire().await.unwrap();
        let held = proxy.intercept(Request::Delete, Fate::HoldReply);
        let mut releasing = Box::pin(guard.release());
        early += usize::from(releasing.as_mut().now_or_never().is_some());
        within(held.happened()).await;
        drop((held, releasing));
    }
    is_over.store(true, SeqCst);
    looking.join().unwrap();
    assert_eq!(early, 0, "without a reply");
    assert_nothing_left(&server, &bystander(&server).await, "/locks/a").await;
}
