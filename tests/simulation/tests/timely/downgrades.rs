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
