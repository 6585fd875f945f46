//! Writers that become readers.

use super::*;

#[tokio::test]
async fn a_writer_goes_on_as_a_reader() {
    let (server, zookeeper, [own, second, third, fourth]) = server_with_clients().await;
    let lock = read_write(&own);
    let writing = lock.write().acquire().await.unwrap();
    let mut line = Line::default();
    for (client, side) in [(&second, Read), (&third, Write), (&fourth, Read)] {
        line.enter(&server, &read_write(client), side).await;
    }

    let reading = within(lock.read().acquire()).await.unwrap();
    let id = name(&reading).strip_prefix("_c_").and_then(|rest| rest.split_once("-__READ__")).unwrap();
    assert!(Uuid::parse_str(id.0).is_ok_and(|id| !name(&writing).contains(&id.to_string())));
    assert_eq!(id.1, format!("{:010}", sequence(writing.node_path())), "and nothing behind it");
    let (data, stat) = zookeeper.get_data(reading.node_path()).await.unwrap();
    assert_eq!((data.as_slice(), stat.ephemeral_owner), (own.identity(), session_id(&own).await));
    assert_eq!(reading.fencing_token(), writing.fencing_token());
    assert!(stat.czxid > reading.fencing_token());
    assert_eq!(children(&zookeeper, LOCK).await.len(), 5);

    // Nobody comes in for that; and the reader before the next writer when the write lock is released.
    line.let_in(&server, 0).await;
    writing.release().await.unwrap();
    let beside = line.let_in(&server, 1).await.remove(0);
    assert!(beside.fencing_token() > reading.fencing_token());
    would_deadlock(within(lock.write().acquire()).await, LOCK);
    beside.release().await.unwrap();
    line.let_in(&server, 0).await;
    reading.release().await.unwrap();
    let next = line.let_in(&server, 1).await;
    drop(next);
    drop(line.let_in(&server, 1).await);
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_reader_that_still_writes_keeps_everybody_out() {
    let (server, _, [own, second, third]) = server_with_clients().await;
    let lock = read_write(&own);
    let writing = lock.write().acquire().await.unwrap();
    let mut line = Line::default();
    line.enter(&server, &read_write(&second), Read).await;
    line.enter(&server, &read_write(&third), Write).await;
    let mut earlier = String::new();
    for _ in 0..3 {
        // Each time anew.
        let reading = within(lock.read().acquire()).await.unwrap();
        assert_eq!(sequence(reading.node_path()), sequence(writing.node_path()));
        assert_ne!(reading.node_path(), earlier);
        earlier = reading.node_path().to_owned();
        reading.release().await.unwrap();
        line.let_in(&server, 0).await;
        assert!(lock.write().is_owned_by(&Owner::current()) && !lock.read().is_owned_by(&Owner::current()));
    }
    writing.release().await.unwrap();
    for _ in 0..2 {
        drop(line.let_in(&server, 1).await);
    }
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn a_writer_that_has_lost_its_node_does_not_become_a_reader() {
    let (server, zookeeper, [own, other]) = server_with_clients().await;
    let lock = read_write(&own);
    for reason in [LossReason::Deleted, LossReason::Expired] {
        let writing = lock.write().acquire().await.unwrap();
        if reason == LossReason::Deleted {
            zookeeper.delete(writing.node_path(), None).await.unwrap();
        } else {
            kill_session(&own).await.unwrap();
        }
        // Another one may write now.
        let other = read_write(&other).write().try_acquire().await.unwrap().unwrap();
        let changed = changes(&zookeeper).await;
        let lost = Error::LockLost { path: writing.node_path().to_owned(), reason };
        assert_eq!(within(lock.read().acquire()).await.unwrap_err(), lost);
        left_after(&zookeeper, changed, &[&other]).await;
        assert!(!lock.read().is_owned_by(&Owner::current()));
        assert_eq!(writing.loss(), Some(reason));
        assert_eq!(within(lock.write().acquire()).await.unwrap_err(), lost);
        assert_eq!(within(writing.release()).await, Err(lost));
        other.release().await.unwrap();
    }
    within(lock.read().acquire()).await.unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_release_waits_for_the_delete_also_while_the_owner_becomes_a_reader() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let lock = read_write(&client);
    let owner = Owner::new();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let writer = name(&writing).to_owned();
    let next = enter(&read_write(&client), Write);
    queue_of(&zookeeper, LOCK, 2).await;
    let stalled = proxy.intercept(Request::Multi, Fate::HoldReply);
    let reading = read_as(&lock, &owner);
    within(stalled.happened()).await;
    assert_eq!(writing.hold_count(), 1);
    let mut releasing = Box::pin(writing.release());
    assert!(releasing.as_mut().now_or_never().is_none(), "the delete is not confirmed");
    drop(stalled);
    assert_eq!(within(releasing).await, Ok(()));
    assert!(!children(&zookeeper, LOCK).await.contains(&writer));
    // And nobody came in between.
    let reading = within(reading).await.unwrap().unwrap();
    assert!(reading.is_valid() && !next.is_finished());
    reading.release().await.unwrap();
    within(next).await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_downgrade_dropped_at_each_await_leaves_the_write_hold_alone() {
    let (server, zookeeper, [client]) = server_with_clients().await;
    let session = session_id(&client).await;
    let lock = read_write(&client);
    let writing = lock.write().acquire().await.unwrap();
    for awaits in 1.. {
        let changed = changes(&zookeeper).await;
        let reading = poll_times(lock.read().acquire(), awaits).await;
        let done = reading.is_some();
        drop(reading);
        // The reader's node came and went.
        left_after(&zookeeper, changed + 2, &[&writing]).await;
        assert_eq!(writing.hold_count(), 1);
        assert!(!lock.read().is_owned_by(&Owner::current()));
        if done {
            assert!(awaits > 1, "{awaits} awaits");
            break;
        }
    }
    writing.release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
    assert_eq!(session_id(&client).await, session);
}

#[tokio::test]
async fn a_lost_reply_to_a_downgrade_leaves_one_reader() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let session = session_id(&client).await;
    let lock = read_write(&client);
    let owner = Owner::new();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();

    // Given up while it is in doubt.
    let changed = changes(&zookeeper).await;
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    let reading = read_as(&lock, &owner);
    within(lost.happened()).await;
    reading.abort();
    drop(reading.await);
    left_after(&zookeeper, changed + 2, &[&writing]).await;
    assert_eq!(writing.hold_count(), 1);

    // Created, undone and created.
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    let reading = within(lock.read().owned_by(&owner).acquire()).await.unwrap();
    within(lost.happened()).await;
    left_after(&zookeeper, changed + 5, &[&writing, &reading]).await;
    assert_eq!(sequence(reading.node_path()), sequence(writing.node_path()));
    assert_eq!(reading.fencing_token(), writing.fencing_token());

    writing.release().await.unwrap();
    let writer = read_write(&connect(&server).await);
    assert!(writer.write().try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();
    writer.write().try_acquire().await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
    assert_eq!(session_id(&client).await, session);
}

/// How many nodes have come and gone, together.
async fn changes(zookeeper: &zk::Client) -> i32 {
    zookeeper.check_stat(LOCK).await.unwrap().unwrap().cversion
}

/// Waits until exactly these nodes are left after that many changes.
async fn left_after(zookeeper: &zk::Client, changed: i32, guards: &[&LockGuard]) {
    let mut names: Vec<&str> = guards.iter().map(|guard| name(guard)).collect();
    names.sort_unstable();
    eventually(&format!("{names:?} after {changed} changes"), || async {
        let (mut children, stat) = zookeeper.get_children(LOCK).await.unwrap();
        children.sort_unstable();
        (children == names && stat.cversion == changed).then_some(())
    })
    .await;
}

fn name(guard: &LockGuard) -> &str {
    guard.node_path().rsplit_once('/').unwrap().1
}
