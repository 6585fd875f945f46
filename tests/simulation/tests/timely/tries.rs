//! Tries of several locks: how long they take, and what they say.

use super::prelude::*;

const A: &str = "/multi/a";
const B: &str = "/multi/b";
const C: &str = "/multi/c";

/// A multi-lock of two existing locks.
fn existing(client: &Client) -> MultiLock {
    MultiLock::of([lock_at(client, A), lock_at(client, B)]).unwrap()
}

#[history]
async fn locks_of_all_kinds_are_given_back_when_the_rest_is_not_had_in_time(stage: Stage) {
    const TIME: Duration = secs(4);
    /// Locks of three kinds, each seen through a client of its own.
    fn mixed(clients: &[Client; 3]) -> [Lock; 3] {
        let write = ReadWriteLock::new(&clients[1], B).unwrap().write().clone();
        let semaphore_mutex = SemaphoreMutex::new(&clients[2], C).unwrap();
        [lock_at(&clients[0], A), Arc::new(write), Arc::new(semaphore_mutex)]
    }
    let three = async |n| [stage.client(n).await, stage.client(n).await, stage.client(n).await];
    let [own, theirs] = [three(0).await, three(1).await];
    let lock = MultiLock::of(mixed(&own)).unwrap();
    let others = mixed(&theirs);
    let only_left = async |expected: &[&str]| {
        sleep(A_MOMENT).await;
        let mut nodes = stage.servers().nodes_below("/multi");
        nodes.retain(|(_, node)| node.ephemeral_owner != 0);
        assert!(nodes.iter().map(|(path, _)| path).eq(expected), "{nodes:?}, not {expected:?}");
    };
    for other in &others {
        let guard = other.acquire().await.unwrap();
        for time in [None, Some(Duration::ZERO), Some(TIME)] {
            let start = Instant::now();
            let tried = match time {
                None => lock.try_acquire().await,
                Some(time) => lock.try_acquire_for(time).await,
            };
            takes(start, time.unwrap_or_default());
            match tried {
                Ok(tried) => assert!(tried.is_none()),
                // It was not let into the queue in that time.
                Err(error) => assert!(time == Some(Duration::ZERO), "{error}"),
            }
            only_left(&[guard.node_path()]).await;
        }
        guard.release().await.unwrap();
    }
    // There is one deadline, not one for each.
    let (first, last) = (others[0].acquire().await.unwrap(), others[2].acquire().await.unwrap());
    let start = Instant::now();
    let timed = lock.clone();
    let waiter = spawn_local(async move { timed.try_acquire_for(TIME).await });
    sleep(TIME * 6 / 10).await;
    first.release().await.unwrap();
    assert!(within(waiter).await.unwrap().unwrap().is_none());
    takes(start, TIME);
    only_left(&[last.node_path()]).await;
    drop(last);
    lock.try_acquire_for(TIME).await.unwrap().unwrap().release().await.unwrap();
    drop((lock, others));
    only_left(&[]).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

/// `None` means that someone else had it; whoever has not reached the queue gets an error.
#[history]
async fn a_try_of_existing_locks_at_a_silent_server_does_not_say_that_somebody_has_them(stage: Stage) {
    let client = stage.client(0).await;
    for lock in [MultiLock::new(&client, [A, B]).unwrap(), existing(&client)] {
        lock.acquire().await.unwrap().release().await.unwrap();
        stage.servers().set_paused(0, true);
        let tried = within(lock.try_acquire_for(Duration::from_nanos(1))).await;
        stage.servers().set_paused(0, false);
        assert!(matches!(tried, Err(Error::NotConnected { .. })), "{lock:?}: {tried:?}");
        sleep(A_MOMENT).await;
    }
}

/// All locks are free and were acquired; the servers are silent when they are asked whether they are still held.
#[history]
async fn a_try_of_free_existing_locks_does_not_say_that_somebody_has_them(stage: Stage) {
    const TIME: Duration = secs(2);
    let (proxy, client) = stage.far(session).await;
    let lock = existing(&client);
    // Then it is watched whether the paths exist.
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let silent = proxy.intercept(Request::Exists, Fate::HoldReply);
    let tried = within(lock.try_acquire_for(TIME)).await;
    within(silent.happened()).await;
    silent.release();
    assert!(!matches!(tried, Ok(None)), "no one else is there");
}

/// The deadline bounds the whole of an acquire, whatever the servers take for each lock.
#[history]
async fn the_deadline_of_existing_locks_holds_when_each_takes_a_little(stage: Stage) {
    const DELAY: Duration = ms(50);
    let (proxy, client) = stage.far(session).await;
    let lock = (0..60).map(|number| lock_at(&client, &format!("/multi/{number:02}")));
    let lock = MultiLock::of(lock).unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    proxy.set_traffic(Traffic::pass().delay(DELAY));
    for _ in 0..10 {
        let start = Instant::now();
        let tried = within(lock.try_acquire_for(Duration::from_nanos(1))).await;
        let took = start.elapsed();
        assert!(took < 2 * DELAY + A_MOMENT, "{took:?}: {tried:?}");
    }
    proxy.set_traffic(Traffic::pass());
}

/// Two calls of one owner for existing locks: the loss of a lock that both have does not end the wait.
#[history]
async fn a_lock_lost_while_two_calls_of_one_owner_wait_is_acquired_again(stage: Stage) {
    let [holder, client] = [stage.client(1).await, stage.client(0).await];
    let lock = existing(&client).owned_by(&Owner::new());
    let held = lock_at(&holder, B).acquire().await.unwrap();
    let calls = [(); 2].map(|()| {
        let lock = lock.clone();
        spawn_local(async move { lock.acquire().await })
    });
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, B), 3);
    let [node] = &stage.servers().children(A).unwrap()[..] else { panic!("one has it") };
    // Both watch it.
    sleep(SESSION).await;
    assert!(stage.servers().delete(&format!("{A}/{node}")));
    sleep(SESSION / 10).await;
    let again = stage.servers().children(A).unwrap();
    assert!(again.len() == 1 && again[0] != *node, "{again:?}");
    assert!(calls.iter().all(|call| !call.is_finished()));
    held.release().await.unwrap();
    for call in calls {
        drop(within(call).await.unwrap().unwrap());
    }
}
