//! Writers that become readers, and lose the lock meanwhile.

use super::prelude::*;

/// A lock of a client behind a proxy, and who writes for this time at most.
async fn brief_writer(stage: &Stage, max_hold: Duration) -> (Proxy, ReadWriteLock, Owner, LockGuard) {
    let (proxy, client) = stage.far(session).await;
    let (lock, owner) = (ReadWriteLock::new(&client, PATH).unwrap(), Owner::new());
    let brief = lock.write().with_options(LockOptions::new().max_hold(max_hold)).unwrap();
    let writing = brief.owned_by(&owner).acquire().await.unwrap();
    (proxy, lock, owner, writing)
}

async fn lost(writing: &LockGuard) {
    within(writing.watch_state().wait_for(|state| state.is_lost())).await.unwrap();
}

fn overdue(writing: &LockGuard) -> Error {
    Error::LockLost { path: writing.node_path().to_owned(), reason: LossReason::Deadline }
}

/// The writer has become a reader before it is lost, by its time or by an operator, and the caller looks only after that: it
/// reads, and nobody writes until it has ended.
#[history(false, true)]
async fn a_writer_that_is_lost_after_it_became_a_reader_reads(stage: Stage, by_force: bool) {
    let max_hold = if by_force { BOUND } else { secs(2) };
    let (_proxy, lock, owner, writing) = brief_writer(&stage, max_hold).await;
    let next = acquiring(&lock.write().owned_by(&Owner::new()));
    queue_of(stage.servers(), PATH, 2).await;
    let reader = lock.read().owned_by(&owner);
    let mut reading = Box::pin(reader.acquire());
    assert!(reading.as_mut().now_or_never().is_none());
    queue_of(stage.servers(), PATH, 3).await;
    until(|| lock.read().is_owned_by(&owner)).await;
    assert_eq!(writing.loss(), None, "the downgrade comes first");
    if by_force {
        assert!(stage.servers().delete(writing.node_path()));
    }
    lost(&writing).await;
    queue_of(stage.servers(), PATH, 2).await;

    let reading = within(reading).await.unwrap();
    assert!(reading.is_valid() && !next.is_finished());
    reading.release().await.unwrap();
    granted(next).await.release().await.unwrap();
    drop(writing);
    nothing_is_left(stage.servers()).await;
}

/// The lock is lost first, and then nobody has come in between.
#[history]
async fn a_writer_that_is_lost_while_it_becomes_a_reader_does_not_read_with_nobody_behind_it(stage: Stage) {
    let (proxy, lock, owner, writing) = brief_writer(&stage, secs(1)).await;
    let stalled = proxy.intercept(Request::Multi, Fate::HoldReply);
    let reading = acquiring(&lock.read().owned_by(&owner));
    within(stalled.happened()).await;
    lost(&writing).await;
    drop(stalled);
    assert_eq!(within(reading).await.unwrap().unwrap_err(), overdue(&writing));
    nothing_is_left(stage.servers()).await;
}

/// The line does not pass on yet: a transaction of the writer was sent, and its answer was not awaited.
#[history]
async fn a_writer_that_is_lost_while_it_becomes_a_reader_does_not_read_though_its_line_waits(stage: Stage) {
    let (proxy, lock, owner, writing) = brief_writer(&stage, secs(2)).await;
    let stalled = proxy.intercept(Request::Multi, Fate::HoldReply);
    // It is cancelled, so that nobody hears what became of it.
    assert!(writing.transaction().commit().now_or_never().is_none());
    within(stalled.happened()).await;
    let deleted = proxy.intercept(Request::Delete, Fate::HoldReply);
    let reading = acquiring(&lock.read().owned_by(&owner));
    queue_of(stage.servers(), PATH, 2).await;
    lost(&writing).await;
    within(deleted.happened()).await;
    stalled.release();
    assert_eq!(within(reading).await.unwrap().unwrap_err(), overdue(&writing));
    deleted.release();
    nothing_is_left(stage.servers()).await;
}

#[history]
async fn a_reader_that_still_writes_keeps_everybody_out(stage: Stage) {
    let [own, other] = stage.clients().await;
    let lock = ReadWriteLock::new(&own, PATH).unwrap();
    let theirs = ReadWriteLock::new(&other, PATH).unwrap();
    let writing = lock.write().acquire().await.unwrap();
    let others = [in_task(Arc::new(theirs.read().clone())), in_task(Arc::new(theirs.write().clone()))];
    queue_of(stage.servers(), PATH, 3).await;
    let mut earlier = String::new();
    for _ in 0..3 {
        // Each time anew.
        let reading = within(lock.read().acquire()).await.unwrap();
        assert_eq!(number(reading.node_path()), number(writing.node_path()));
        assert_ne!(reading.node_path(), earlier);
        earlier = reading.node_path().to_owned();
        reading.release().await.unwrap();
        sleep(SOON).await;
        assert!(others.iter().all(|other| !other.is_finished()));
        assert!(lock.write().is_owned_by(&Owner::current()) && !lock.read().is_owned_by(&Owner::current()));
    }
    writing.release().await.unwrap();
    for other in others {
        drop(granted(other).await);
    }
    nothing_is_left(stage.servers()).await;
}

#[history(LossReason::Deleted, LossReason::Expired)]
async fn a_writer_that_has_lost_its_node_does_not_become_a_reader(stage: Stage, reason: LossReason) {
    let [own, other] = stage.clients().await;
    let lock = ReadWriteLock::new(&own, PATH).unwrap();
    let writing = lock.write().acquire().await.unwrap();
    if reason == LossReason::Deleted {
        assert!(stage.servers().delete(writing.node_path()));
    } else {
        assert!(stage.servers().end_session(session_id(&own).await));
    }
    // Another one may write now.
    let next = ReadWriteLock::new(&other, PATH).unwrap().write().try_acquire().await.unwrap().unwrap();
    let is_lost = Error::LockLost { path: writing.node_path().to_owned(), reason };
    assert_eq!(within(lock.read().acquire()).await.unwrap_err(), is_lost);
    sleep(A_MOMENT).await;
    assert_eq!(nodes(stage.servers(), PATH), [next.node_path()]);
    assert!(!lock.read().is_owned_by(&Owner::current()));
    assert_eq!(writing.loss(), Some(reason));
    assert_eq!(within(lock.write().acquire()).await.unwrap_err(), is_lost);
    assert_eq!(within(writing.release()).await, Err(is_lost));
    next.release().await.unwrap();
    once(lock.read()).await;
    nothing_is_left(stage.servers()).await;
}

/// And nobody comes in between.
#[history]
async fn a_release_waits_for_the_delete_also_while_the_owner_becomes_a_reader(stage: Stage) {
    let (proxy, lock, owner, writing) = brief_writer(&stage, BOUND).await;
    let writer = writing.node_path().to_owned();
    let next = acquiring(&lock.write().owned_by(&Owner::new()));
    queue_of(stage.servers(), PATH, 2).await;
    let stalled = proxy.intercept(Request::Multi, Fate::HoldReply);
    let reading = acquiring(&lock.read().owned_by(&owner));
    within(stalled.happened()).await;
    assert_eq!(writing.hold_count(), 1);
    let releasing = spawn_local(writing.release());
    sleep(A_MOMENT).await;
    assert!(!releasing.is_finished(), "the delete is not confirmed");
    drop(stalled);
    assert_eq!(within(releasing).await.unwrap(), Ok(()));
    assert_eq!(stage.servers().node(&writer), None);
    let reading = granted(reading).await;
    assert!(reading.is_valid() && !next.is_finished());
    reading.release().await.unwrap();
    granted(next).await.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

/// Given up while it is in doubt; and created, undone and created.
#[history(true, false)]
async fn a_lost_reply_to_a_downgrade_leaves_one_reader(stage: Stage, is_given_up: bool) {
    let (proxy, lock, owner, writing) = brief_writer(&stage, BOUND).await;
    let other = ReadWriteLock::new(&stage.client(1).await, PATH).unwrap();
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    let reading = acquiring(&lock.read().owned_by(&owner));
    within(lost.happened()).await;
    if is_given_up {
        reading.abort();
        sleep(SOON).await;
        assert_eq!(
            (nodes(stage.servers(), PATH), writing.hold_count()),
            (vec![writing.node_path().into()], 1)
        );
        writing.release().await.unwrap();
    } else {
        let reading = granted(reading).await;
        sleep(SOON).await;
        assert_eq!(nodes(stage.servers(), PATH).len(), 2);
        assert_eq!(number(reading.node_path()), number(writing.node_path()));
        assert_eq!(reading.fencing_token(), writing.fencing_token());
        writing.release().await.unwrap();
        assert!(other.write().try_acquire().await.unwrap().is_none());
        reading.release().await.unwrap();
    }
    other.write().try_acquire().await.unwrap().unwrap().release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

/// It is gone when the read is, whether that is awaited or not.
#[history(true, false)]
async fn a_writer_that_is_dropped_before_it_reads_leaves_nothing(stage: Stage, is_read: bool) {
    let (_proxy, lock, owner, writing) = brief_writer(&stage, BOUND).await;
    let reader = lock.read().owned_by(&owner);
    let mut reading = Box::pin(reader.acquire());
    assert!(reading.as_mut().now_or_never().is_none());
    drop(writing);
    if is_read {
        if let Ok(guard) = within(reading).await {
            guard.release().await.unwrap();
        }
    } else {
        drop(reading);
    }
    nothing_is_left(stage.servers()).await;
}
