//! What one owner does on both sides.

use super::*;

#[tokio::test]
async fn owners_do_not_enter_for_each_other_on_either_side() {
    let sandbox = Sandbox::new();
    let lock = read_write(&sandbox.client().await);
    let (owner, stranger) = (Owner::new(), Owner::new());

    let reading = lock.read().owned_by(&owner).acquire().await.unwrap();
    assert!(lock.read().is_owned_by(&owner) && !lock.write().is_owned_by(&owner));
    assert!(lock.read().is_acquired_in_this_process() && !lock.write().is_acquired_in_this_process());
    let beside = lock.read().owned_by(&stranger).try_acquire().await.unwrap().unwrap();
    assert_ne!(beside.node_path(), reading.node_path());
    assert_eq!((reading.hold_count(), beside.hold_count()), (1, 1));
    drop(beside);
    assert!(!lock.read().is_owned_by(&stranger) && !lock.read().is_owned_by(&Owner::current()));
    // The same owner, in another task.
    let again = read_as(&lock, &owner).await.unwrap().unwrap();
    assert_eq!(again.hold_count(), 2);
    drop((reading, again));

    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    assert!(lock.write().is_owned_by(&owner) && !lock.read().is_owned_by(&owner));
    assert!(lock.write().is_acquired_in_this_process() && !lock.read().is_acquired_in_this_process());
    assert!(lock.write().owned_by(&stranger).try_acquire().await.unwrap().is_none());
    assert!(lock.read().owned_by(&stranger).try_acquire().await.unwrap().is_none());
    let reading = lock.read().owned_by(&owner).acquire().await.unwrap();
    assert!(lock.write().is_owned_by(&owner) && lock.read().is_owned_by(&owner));
    assert!(lock.read().owned_by(&stranger).try_acquire().await.unwrap().is_none(), "it still writes");
    // On each side it can go on entering.
    let more = (
        lock.write().owned_by(&owner).acquire().await.unwrap(),
        lock.read().owned_by(&owner).acquire().await.unwrap(),
    );
    assert_eq!((writing.hold_count(), reading.hold_count()), (2, 2));
    assert_eq!((more.0.node_path(), more.1.node_path()), (writing.node_path(), reading.node_path()));
    drop((writing, reading, more));
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_reader_that_wants_to_write_is_refused_at_once() {
    let server = empty_server().await;
    let client = quiet(&server.connect_string()).await;
    let lock = read_write(&client);
    let session = session_id(&client).await;
    let count = async || server.session_packets(session).await.unwrap();
    let refused = async || {
        let before = count().await;
        assert_would_deadlock(lock.write(), LOCK).await;
        would_deadlock(within(lock.write().enqueue()).await, LOCK);
        assert_eq!(count().await, before, "nothing was sent");
    };
    let reading = lock.read().acquire().await.unwrap();
    refused().await;
    // Another owner may wait for it.
    let writer = enter(&lock, Write);
    watches_of(&server, 1).await;
    reading.release().await.unwrap();
    within(writer).await.unwrap().unwrap().release().await.unwrap();
    // The same when it has written before.
    let writing = lock.write().acquire().await.unwrap();
    let reading = lock.read().acquire().await.unwrap();
    assert_eq!(lock.write().acquire().await.unwrap().hold_count(), 2, "it still writes");
    writing.release().await.unwrap();
    refused().await;
    drop(reading);
    lock.write().acquire().await.unwrap().release().await.unwrap();
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn waiting_for_oneself_through_another_object_is_refused() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let (one, other) = (read_write(&client), read_write(&client));
    let path = format!("/{}{LOCK}", sandbox.root);
    let refused_to_write = async || {
        assert_would_deadlock(other.write(), &path).await;
        would_deadlock(within(other.write().enqueue().await.unwrap().acquired()).await, &path);
    };
    let refused_to_read = async || {
        would_deadlock(within(other.read().acquire()).await, &path);
        would_deadlock(within(other.read().try_acquire()).await, &path);
        would_deadlock(within(other.read().try_acquire_for(secs(600))).await, &path);
        would_deadlock(within(other.read().enqueue().await.unwrap().acquired()).await, &path);
    };

    let writing = one.write().acquire().await.unwrap();
    refused_to_write().await;
    refused_to_read().await;
    writing.release().await.unwrap();

    let reading = one.read().acquire().await.unwrap();
    refused_to_write().await;
    // That is no wait yet.
    within(other.read().acquire()).await.unwrap().release().await.unwrap();

    // A writer waits for this owner, so the owner must not wait for that writer.
    let writer = enter(&read_write(&sandbox.client().await), Write);
    let zookeeper = client.zookeeper().await.unwrap();
    queue_of(&zookeeper, &path, 2).await;
    refused_to_read().await;
    let again = within(one.read().acquire()).await.unwrap();
    assert_eq!(again.hold_count(), 2, "through the same object it enters again");
    // Another owner may wait.
    let reader = enter(&other, Read);
    queue_of(&zookeeper, &path, 3).await;
    assert!(!writer.is_finished() && !reader.is_finished());
    drop((reading, again));
    within(writer).await.unwrap().unwrap().release().await.unwrap();
    within(reader).await.unwrap().unwrap().release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

/// A task that starts both at once waits for neither of them twice.
#[tokio::test]
async fn sides_that_one_owner_wants_at_the_same_time_do_not_wait_for_each_other() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let lock = read_write(&client);
    let (one, other) = within(join(lock.read().acquire(), lock.read().acquire())).await;
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((one.hold_count(), one.node_path()), (2, other.node_path()));
    drop((one, other));
    let (writing, reading) = within(join(lock.write().acquire(), lock.read().acquire())).await;
    let (writing, reading) = (writing.unwrap(), reading.unwrap());
    assert_eq!(sequence(reading.node_path()), sequence(writing.node_path()), "it goes on as a reader");
    drop((writing, reading));
    // The writer would wait for its own reader.
    let (reading, writing) = within(join(lock.read().acquire(), lock.write().acquire())).await;
    would_deadlock(writing, lock.path());
    drop(reading.unwrap());
    sandbox.assert_nothing_left().await;
}

/// Two calls of one owner to read, on a thread each, share one hold, whichever is released first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_reads_twice_reads_until_both_are_released() {
    let (_server, zookeeper, [holder, client]) = server_with_clients().await;
    let owner = Owner::new();
    let outside = ReadWriteLock::new(&holder, LOCK).unwrap();
    let lock = ReadWriteLock::new(&client, LOCK).unwrap().read().owned_by(&owner);
    for round in 0..repeats(300) {
        let held = outside.write().acquire().await.unwrap();
        let (acquired, mut guards) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..2 {
            let (lock, acquired) = (lock.clone(), acquired.clone());
            std::thread::spawn(move || {
                let _ = acquired.send(futures_executor::block_on(lock.acquire()).unwrap());
            });
        }
        queue_of(&zookeeper, LOCK, 3).await;
        held.release().await.unwrap();
        let (first, second) = (within(guards.recv()).await.unwrap(), within(guards.recv()).await.unwrap());
        second.release().await.unwrap();
        assert!(lock.is_owned_by(&owner), "in round {round} it still reads: {first:?}");
        first.release().await.unwrap();
        assert!(!lock.is_owned_by(&owner), "in round {round}");
    }
}
