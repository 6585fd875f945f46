//! Bad days: servers down, silent or restarted, sessions killed, replies lost, nodes deleted by others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::room::Room;
use crate::support::*;
use futures_util::FutureExt;
use tokio::task::JoinHandle;
use zk_recipes::testing::{Fate, FaultProxy, Request, kill_session};
use zk_recipes::{
    Client, ConnectionState, Error, InterProcessMutex, LockGuard, LockState, MultiLock, Owner, RetryPolicy,
    operate,
};
use zookeeper_client as zk;

const LOCK: &str = "/locks/a";

async fn state_is(client: &Client, wanted: ConnectionState) {
    within(client.watch_connection().wait_for(|state| *state == wanted)).await.unwrap();
}

fn lock_lost(error: &Error) -> bool {
    matches!(error, Error::LockLost { path, .. } if path.starts_with(LOCK))
}

/// Deletes the node of the contender at this position.
async fn evict(zookeeper: &zk::Client, mutex: &InterProcessMutex, position: usize) {
    let participants = mutex.participants().await.unwrap();
    zookeeper.delete(participants[position].node_path(), None).await.unwrap();
}

#[tokio::test]
async fn the_deadline_holds_while_the_server_is_down_or_silent() {
    let mut server = empty_server().await;
    let client = connect(&server).await;
    let mutex = mutex(&client);
    mutex.acquire().await.unwrap().release().await.unwrap();
    for silent in [false, true] {
        if silent {
            server.pause().unwrap();
        } else {
            server.kill().await.unwrap();
        }
        for _ in 0..3 {
            let start = Instant::now();
            let outcome = mutex.try_acquire_for(Duration::from_millis(300)).await;
            let elapsed = start.elapsed();
            // It was never in the queue, so it cannot say that somebody else had it.
            assert!(
                matches!(&outcome, Err(Error::NotConnected { waited, .. }) if *waited == Duration::from_millis(300)),
                "{outcome:?}"
            );
            assert!(elapsed >= Duration::from_millis(300), "{elapsed:?}");
            // Long before the client takes the server for lost, also on a busy machine.
            assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
        }
        if silent {
            server.resume().unwrap();
        } else {
            server.restart().await.unwrap();
        }
        // What was tried comes to nothing when the server is back.
        let guard = within(mutex.acquire()).await.unwrap();
        guard.release().await.unwrap();
        assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
    }
}

#[tokio::test]
async fn the_deadline_holds_while_another_holds_and_the_server_falls_silent() {
    let server = empty_server().await;
    let holder = connect(&server).await;
    let held = mutex(&holder).acquire().await.unwrap();
    // The drop of its last handle would wait for the server.
    let client = connect(&server).await;
    let waiting = mutex(&client);
    let start = Instant::now();
    let waiter = tokio::spawn(async move { waiting.try_acquire_for(Duration::from_secs(2)).await });
    // Before it knows that somebody holds, it could not say so.
    watches_of(&server, 1).await;
    server.pause().unwrap();
    assert!(within(waiter).await.unwrap().unwrap().is_none());
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    server.resume().unwrap();
    queue_of(&bystander(&server).await, LOCK, 1).await;
    drop(held);
}

#[tokio::test]
async fn an_outage_longer_than_the_policy_is_an_error() {
    let mut server = empty_server().await;
    let client = Client::builder()
        .connection_timeout(Duration::from_millis(100))
        .retry_policy(RetryPolicy::n_times(2, Duration::from_millis(10)))
        .connect_lazily(&server.connect_string())
        .unwrap();
    // However long the first session takes.
    state_is(&client, ConnectionState::Connected).await;
    server.kill().await.unwrap();
    state_is(&client, ConnectionState::Suspended).await;
    let mutex = mutex(&client);
    for error in [
        within(mutex.acquire()).await.unwrap_err(),
        within(mutex.try_acquire()).await.unwrap_err(),
        within(mutex.participants()).await.unwrap_err(),
    ] {
        assert!(matches!(&error, Error::NotConnected { hosts, .. } if *hosts == server.connect_string()));
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn a_waiter_keeps_its_place_over_a_restart_of_the_server() {
    let mut server = empty_server().await;
    let [holder, second, third] = connect_many(&server).await;
    let session = session_id(&second).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let waiter = acquire_in_task(&mutex(&second));
    queue_of(&holder.zookeeper().await.unwrap(), LOCK, 2).await;
    let behind = acquire_in_task(&mutex(&third));
    queue_of(&holder.zookeeper().await.unwrap(), LOCK, 3).await;
    server.kill().await.unwrap();
    for client in [&holder, &second, &third] {
        state_is(client, ConnectionState::Suspended).await;
    }
    server.restart().await.unwrap();
    within(held.release()).await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(session_id(&second).await, session);
    assert!(!behind.is_finished());
    guard.release().await.unwrap();
    within(behind).await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn a_waiter_whose_session_is_killed_queues_again_on_the_new_one() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [holder, killed, third] = connect_many(&server).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let old_session = session_id(&killed).await;
    let waiter = acquire_in_task(&mutex(&killed));
    queue_of(&zookeeper, LOCK, 2).await;
    let behind = acquire_in_task(&mutex(&third));
    queue_of(&zookeeper, LOCK, 3).await;
    kill_session(&killed).await.unwrap();
    // Its place is lost: now it is behind the third.
    let last = eventually("it queues again", || async {
        let participants = mutex(&holder).participants().await.unwrap();
        (participants.len() == 3 && participants.iter().all(|p| p.session_id() != old_session))
            .then(|| participants[2].clone())
    })
    .await;
    let new_session = session_id(&killed).await;
    assert_ne!(new_session, old_session);
    assert_eq!(last.session_id(), new_session);
    held.release().await.unwrap();
    let guard = within(behind).await.unwrap().unwrap();
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(guard.node_path(), last.node_path());
    guard.release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// A server that comes back after a long outage gives old sessions their time again. A client that gave its
/// session up meanwhile finds its own old node in the queue.
#[tokio::test]
async fn the_node_of_an_old_session_is_never_granted() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let short = Client::builder().session_timeout(Duration::from_secs(2));
    let client = short.connect(&proxy.connect_string()).await.unwrap();
    let lock = mutex(&client);
    let owner = Owner::new();
    let old = lock.owned_by(&owner).acquire().await.unwrap();
    let waiting = lock.enqueue().await.unwrap();
    let session = client.zookeeper().await.unwrap().session().clone();
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    // The servers keep the old session, which the client gives up, for as long as this connection lasts.
    let connector =
        zk::Client::connector().with_session(session).with_session_timeout(Duration::from_secs(30));
    let keeping = connector.connect(&server.connect_string()).await.unwrap();
    state_is(&client, ConnectionState::Lost).await;
    // The client would end it, if it could.
    let _ending: Vec<_> = (0..9).map(|_| proxy.intercept(Request::Other(-11), Fate::LoseRequest)).collect();
    proxy.refuse_connections(false).unwrap();
    // The waiter enters again, behind its own old node and that of the old hold.
    let zookeeper = bystander(&server).await;
    let waiter = tokio::spawn(waiting.acquired());
    queue_of(&zookeeper, LOCK, 3).await;
    assert!(!waiter.is_finished());
    drop(keeping);
    let guard = within(waiter).await.unwrap().unwrap();
    let left = children(&zookeeper, LOCK).await;
    assert_eq!(left, [guard.node_path().rsplit_once('/').unwrap().1], "the old nodes are gone at the grant");
    assert!(guard.fencing_token() > old.fencing_token());
    // The old hold knows that it is lost.
    assert!(lock_lost(&lock.owned_by(&owner).acquire().await.unwrap_err()));
    assert!(lock_lost(&old.release().await.unwrap_err()));
    guard.release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_holder_whose_session_is_killed_has_lost_the_lock() {
    let server = empty_server().await;
    let [killed, other] = connect_many(&server).await;
    let lock = mutex(&killed);
    let lost = lock.acquire().await.unwrap();
    kill_session(&killed).await.unwrap();
    let guard = within(mutex(&other).acquire()).await.unwrap();
    assert!(guard.fencing_token() > lost.fencing_token());
    within(killed.watch_connection().wait_for(|state| *state != ConnectionState::Connected)).await.unwrap();
    eventually("the loss is known", || async { lock.acquire().await.is_err().then_some(()) }).await;
    assert!(lock_lost(&lock.acquire().await.unwrap_err()));
    assert!(lock_lost(&lost.release().await.unwrap_err()));
    // The owner is free to acquire again, and waits for the present holder.
    let again = acquire_in_task(&lock);
    queue_of(&bystander(&server).await, LOCK, 2).await;
    guard.release().await.unwrap();
    within(again).await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_queues_again() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [holder, evicted, third] = connect_many(&server).await;
    let observer = mutex(&holder);
    let held = observer.acquire().await.unwrap();
    let waiter = acquire_in_task(&mutex(&evicted));
    // More often than the retry policy allows in a row: each time it has stood in the queue.
    for round in 1..=5 {
        watches_of(&server, 1).await;
        evict(&zookeeper, &observer, 1).await;
        // It learns of it when the contender before it goes or changes.
        let (data, _) = zookeeper.get_data(held.node_path()).await.unwrap();
        zookeeper.set_data(held.node_path(), &data, None).await.unwrap();
        eventually("it queues again", async || {
            let participants = observer.participants().await.unwrap();
            participants.get(1).is_some_and(|again| sequence(again.node_path()) == round + 1).then_some(())
        })
        .await;
    }
    let behind = acquire_in_task(&mutex(&third));
    queue_of(&zookeeper, LOCK, 3).await;
    evict(&zookeeper, &observer, 1).await;
    held.release().await.unwrap();
    let guard = within(behind).await.unwrap().unwrap();
    queue_of(&zookeeper, LOCK, 2).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    within(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// Its server may lag behind the one before, and nothing that was heard as an event keeps the session from it.
#[tokio::test]
async fn a_new_connection_is_of_use_when_its_server_has_caught_up() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let states = guard.watch_state();
    let catching_up = proxy.intercept(Request::Confirm, Fate::HoldReply);
    proxy.cut();
    within(catching_up.happened()).await;
    assert_eq!(*client.watch_connection().borrow(), ConnectionState::Suspended);
    assert!(client.zookeeper().now_or_never().is_none(), "it would show the past");
    assert_eq!((guard.is_valid(), *states.borrow()), (true, LockState::Suspect));
    catching_up.release();
    state_is(&client, ConnectionState::Reconnected).await;
    let zookeeper = client.zookeeper().await.unwrap();
    zookeeper.get_data(guard.node_path()).await.unwrap();
    within(guard.watch_state().wait_for(|state| *state == LockState::Held)).await.unwrap();
    guard.release().await.unwrap();
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

/// Removes the queue with all that is in it, as `deleteall` does.
async fn wipe(zookeeper: &zk::Client) {
    for node in children(zookeeper, LOCK).await {
        zookeeper.delete(&format!("{LOCK}/{node}"), None).await.unwrap();
    }
    zookeeper.delete(LOCK, None).await.unwrap();
}

/// Whether a client watches a node.
async fn is_watched(path: &str, by: &Client, server: &Server) -> bool {
    let session = format!("0x{:x}\n", session_id(by).await);
    let watched = server.four_letter_word("wchc").await.unwrap();
    let paths = watched.split_once(&session).map(|(_, rest)| rest.lines());
    paths.is_some_and(|paths| {
        paths.take_while(|line| line.starts_with('\t')).any(|watched| watched.trim() == path)
    })
}

/// Waits until somebody who is not granted meanwhile watches the holder.
async fn waits_for<T>(waiter: &JoinHandle<T>, of: &Client, holder: &LockGuard, server: &Server) {
    eventually("it waits for the holder", async || {
        let is_waiting = is_watched(holder.node_path(), of, server).await;
        assert!(!waiter.is_finished(), "it was granted beside the holder");
        is_waiting.then_some(())
    })
    .await;
}

/// Numbers begin again in a queue that was made again, so that a stranger has the number of a place that is gone.
#[tokio::test]
async fn a_place_of_a_queue_that_was_removed_does_not_vouch_for_a_stranger_of_the_next_one() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [own, other] = connect_many(&server).await;
    let ours = mutex(&own);
    let visit = async || {
        within(ours.owned_by(&Owner::new()).acquire()).await.unwrap().release().await.unwrap();
    };
    for _ in 0..2 {
        visit().await;
    }
    let ticket = ours.owned_by(&Owner::new()).enqueue().await.unwrap();
    let gone = sequence(&children(&zookeeper, LOCK).await[0]);
    wipe(&zookeeper).await;
    for _ in 0..gone {
        visit().await;
    }
    let held = within(mutex(&other).acquire()).await.unwrap();
    assert_eq!(sequence(held.node_path()), gone);
    let waiter = tokio::spawn({
        let ours = ours.clone();
        async move { ours.owned_by(&Owner::new()).acquire().await }
    });
    queue_of(&zookeeper, LOCK, 2).await;
    drop(ticket);
    waits_for(&waiter, &own, &held, &server).await;
    let token = held.fencing_token();
    held.release().await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert!(guard.fencing_token() > token);
    guard.release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// The same with a multi-lock that holds its place while it waits in another queue.
#[tokio::test]
async fn a_member_that_a_multi_lock_has_lost_does_not_vouch_for_a_stranger() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [own, other] = connect_many(&server).await;
    let ours = mutex(&own);
    let elsewhere = InterProcessMutex::new(&other, "/locks/b").unwrap().acquire().await.unwrap();
    for _ in 0..2 {
        ours.owned_by(&Owner::new()).acquire().await.unwrap().release().await.unwrap();
    }
    let both = MultiLock::new(&own, [LOCK, "/locks/b"]).unwrap();
    let mut joint = Box::pin(both.acquire());
    // It is polled until it waits for the other path, and then no more, so that it does not come back.
    let waiting = eventually("it waits for the other path", async || {
        is_watched(elsewhere.node_path(), &own, &server).await.then_some(())
    });
    tokio::select! {
        _ = &mut joint => panic!("it was granted beside the holder"),
        () = waiting => {}
    }
    let gone = sequence(&queue_of(&zookeeper, LOCK, 1).await[0]);
    wipe(&zookeeper).await;
    for _ in 0..gone {
        within(ours.owned_by(&Owner::new()).acquire()).await.unwrap().release().await.unwrap();
    }
    let held = within(mutex(&other).acquire()).await.unwrap();
    assert_eq!(sequence(held.node_path()), gone);
    let waiter = tokio::spawn({
        let ours = ours.clone();
        async move { ours.owned_by(&Owner::new()).acquire().await }
    });
    queue_of(&zookeeper, LOCK, 2).await;
    drop(joint);
    waits_for(&waiter, &own, &held, &server).await;
    held.release().await.unwrap();
    within(waiter).await.unwrap().unwrap().release().await.unwrap();
    drop(elsewhere);
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// The list that tells the position may be lost like any other; it is tried again on the next connection.
#[tokio::test]
async fn a_position_is_followed_on_after_a_lost_reply() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let theirs = mutex(&connect(&server).await);
    let held = theirs.owned_by(&Owner::new()).acquire().await.unwrap();
    let mut before = Vec::new();
    for _ in 0..4 {
        before.push(theirs.owned_by(&Owner::new()).enqueue().await.unwrap());
    }
    let ticket = mutex(&client).enqueue().await.unwrap();
    let mut positions = ticket.watch_position();
    let waiting = tokio::spawn(ticket.acquired());
    eventually("it follows the queue", async || (watches_on_children(&server).await == 1).then_some(()))
        .await;
    assert_eq!(*positions.borrow(), 5);

    // Far enough before the waiter that only its position changes.
    let lost = proxy.intercept(Request::GetChildren, Fate::LoseReply);
    drop(before.remove(0));
    within(lost.happened()).await;
    within(positions.wait_for(|position| *position == 4)).await.unwrap();
    drop(before.remove(0));
    within(positions.wait_for(|position| *position == 3)).await.unwrap();
    drop((before, held));
    within(waiting).await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// A ticket that nobody awaits does not notice what becomes of its place.
#[tokio::test]
async fn a_ticket_that_was_first_is_not_granted_when_its_place_is_gone() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [first, other] = connect_many(&server).await;
    for killed in [true, false] {
        let ticket = mutex(&first).enqueue().await.unwrap();
        assert_eq!(ticket.position().await, Ok(0));
        if killed {
            let session = session_id(&first).await;
            kill_session(&first).await.unwrap();
            eventually("a new session", || async { (session_id(&first).await != session).then_some(()) })
                .await;
        } else {
            evict(&zookeeper, &mutex(&other), 0).await;
        }
        let guard = within(mutex(&other).acquire()).await.unwrap();
        assert_eq!(ticket.position().await, Ok(1), "behind the one that came since");
        let waiter = tokio::spawn(ticket.acquired());
        queue_of(&zookeeper, LOCK, 2).await;
        assert!(!waiter.is_finished());
        let held = guard.fencing_token();
        guard.release().await.unwrap();
        let guard = within(waiter).await.unwrap().unwrap();
        assert!(guard.fencing_token() > held);
        guard.release().await.unwrap();
    }
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// The ticket's place is in the line of its client, and those behind it watch nothing but the line.
#[tokio::test]
async fn the_end_of_a_ticket_that_nobody_awaits_lets_the_next_one_on() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [own, other, operator] = connect_many(&server).await;
    let ours = mutex(&own);
    let ticket = ours.owned_by(&Owner::new()).enqueue().await.unwrap();
    assert_eq!(watches(&server).await, 0, "nobody is behind it");
    let acquire =
        |mutex: InterProcessMutex| tokio::spawn(async move { mutex.owned_by(&Owner::new()).acquire().await });
    let next = acquire(ours.clone());
    queue_of(&zookeeper, LOCK, 2).await;
    let last = acquire(mutex(&other));
    queue_of(&zookeeper, LOCK, 3).await;
    let removed = mutex(&operator).participants().await.unwrap().remove(0);
    eventually("its end is told at once", async || {
        is_watched(removed.node_path(), &own, &server).await.then_some(())
    })
    .await;
    assert!(operate::force_release_participant(&operator, &removed).await.unwrap());
    within(next).await.unwrap().unwrap().release().await.unwrap();
    let guard = within(last).await.unwrap().unwrap();
    // It has lost its place, and goes to the end.
    let again = tokio::spawn(ticket.acquired());
    queue_of(&zookeeper, LOCK, 2).await;
    assert!(!again.is_finished());
    guard.release().await.unwrap();
    within(again).await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// Losing a node is no failure to reach the servers.
#[tokio::test]
async fn a_waiter_that_retries_nothing_queues_again_when_its_node_is_deleted() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let once = Client::builder().retry_policy(RetryPolicy::n_times(0, Duration::from_millis(1)));
    let client = once.connect(&server.connect_string()).await.unwrap();
    let other = connect(&server).await;
    let held = mutex(&other).acquire().await.unwrap();
    let waiter = acquire_in_task(&mutex(&client));
    watches_of(&server, 1).await;
    let evicted = mutex(&other).participants().await.unwrap().remove(1);
    zookeeper.delete(evicted.node_path(), None).await.unwrap();
    eventually("it queues again", async || {
        assert!(!waiter.is_finished(), "it has given up");
        let participants = mutex(&other).participants().await.unwrap();
        participants.get(1).is_some_and(|again| again.node_path() != evicted.node_path()).then_some(())
    })
    .await;
    held.release().await.unwrap();
    within(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_holder_whose_node_is_deleted_hears_of_it_at_the_release() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let lock = mutex(&connect(&server).await);
    let guard = lock.acquire().await.unwrap();
    zookeeper.delete(guard.node_path(), None).await.unwrap();
    assert!(lock_lost(&guard.release().await.unwrap_err()));
    lock.acquire().await.unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_lost_create_reply_is_found_again_and_not_doubled() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_through(&proxy).await;
    let session = session_id(&client).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();

    // Nobody else in the queue.
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let guard = within(lock.acquire()).await.unwrap();
    within(lost.happened()).await;
    let (_, stat) = zookeeper.get_data(guard.node_path()).await.unwrap();
    assert_eq!(guard.fencing_token(), stat.czxid);
    assert_eq!(children(&zookeeper, LOCK).await.len(), 1, "one node for one acquire");
    assert_eq!(sequence(guard.node_path()), 1, "created once, not deleted and created again");
    guard.release().await.unwrap();

    // Behind another.
    let held = mutex(&connect(&server).await).acquire().await.unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let waiter = acquire_in_task(&lock);
    within(lost.happened()).await;
    queue_of(&zookeeper, LOCK, 2).await;
    held.release().await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(sequence(guard.node_path()), 3);
    guard.release().await.unwrap();

    // Given up with the reply still lost.
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let waiter = acquire_in_task(&lock);
    within(lost.happened()).await;
    waiter.abort();
    drop(waiter.await);
    assert_nothing_left(&server, &zookeeper, LOCK).await;
    assert_eq!(session_id(&client).await, session);
}

#[tokio::test]
async fn a_lost_delete_reply_is_a_release() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_through(&proxy).await;
    let session = session_id(&client).await;
    let lock = mutex(&client);
    let guard = lock.acquire().await.unwrap();
    let lost = proxy.intercept(Request::Delete, Fate::LoseReply);
    within(guard.release()).await.unwrap();
    within(lost.happened()).await;
    // The same for a guard that is dropped.
    let guard = lock.acquire().await.unwrap();
    let lost = proxy.intercept(Request::Delete, Fate::LoseReply);
    drop(guard);
    within(lost.happened()).await;
    assert_nothing_left(&server, &zookeeper, LOCK).await;
    assert_eq!(session_id(&client).await, session);
}

/// Replies of all kinds are lost all the time, each with its connection, while clients compete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_and_order_survive_lost_replies() {
    const CYCLES: usize = 60;
    let server = empty_server().await;
    let proxy = Arc::new(FaultProxy::start(server.connect_string()).await.unwrap());
    let room = Arc::new(Room::default());
    let mut sessions = Vec::new();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let client = Client::builder()
            .session_timeout(Duration::from_secs(10))
            .retry_policy(RetryPolicy::n_times(100, Duration::from_millis(5)))
            .connect(&proxy.connect_string())
            .await
            .unwrap();
        sessions.push((client.clone(), session_id(&client).await));
        let (lock, room) = (mutex(&client), room.clone());
        workers.spawn(async move {
            for _ in 0..CYCLES {
                let guard = lock.acquire().await.unwrap();
                let stay = room.enter(&guard);
                tokio::task::yield_now().await;
                drop(stay);
                guard.release().await.unwrap();
            }
        });
    }
    let saboteur = {
        let proxy = proxy.clone();
        tokio::spawn(async move {
            let mut losses = 0;
            loop {
                for request in [Request::Create, Request::Delete, Request::GetChildren, Request::GetData] {
                    // Whichever request of the kind comes next. The last one may wait for none.
                    let lost = proxy.intercept(request, Fate::LoseReply);
                    match tokio::time::timeout(Duration::from_secs(1), lost.happened()).await {
                        Ok(_) => losses += 1,
                        Err(_) => return losses,
                    }
                }
            }
        })
    };
    within(workers.join_all()).await;
    let losses = within(saboteur).await.unwrap();
    assert!(losses > 20, "only {losses} replies were lost");
    for (client, session) in sessions {
        assert_eq!(session_id(&client).await, session, "all in one session");
    }
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn a_release_while_the_server_is_down_is_done_when_it_is_back() {
    let mut server = empty_server().await;
    // Long enough for a restart on a busy machine.
    let timeout = Duration::from_secs(20);
    let client = Client::builder().session_timeout(timeout).connect(&server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let lock = mutex(&client);
    for confirmed in [true, false] {
        let guard = lock.acquire().await.unwrap();
        server.kill().await.unwrap();
        state_is(&client, ConnectionState::Suspended).await;
        let releasing = tokio::spawn(async move {
            if confirmed {
                return guard.release().await;
            }
            drop(guard);
            Ok(())
        });
        server.restart().await.unwrap();
        within(releasing).await.unwrap().unwrap();
        assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
    }
    assert_eq!(session_id(&client).await, session, "the session did not end instead");
}

#[tokio::test]
async fn parents_that_vanish_are_made_again() {
    let server = Server::builder().container_check_interval(Duration::from_millis(1)).start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let lock = mutex(&connect(&server).await);
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        let stat = zookeeper.check_stat("/locks").await.unwrap().unwrap();
        assert_eq!(stat.data_length, 0);
        guard.release().await.unwrap();
        // Sequence numbers begin anew; tokens do not.
        eventually("the containers are gone", || async {
            zookeeper.check_stat("/locks").await.unwrap().is_none().then_some(())
        })
        .await;
    }
    // While the server removes them all the time, also between one that is there and its child.
    let deep = InterProcessMutex::new(&connect(&server).await, "/a/b/c/d/e").unwrap();
    for round in 0..repeats(400) as u64 {
        lock.acquire().await.unwrap().release().await.unwrap();
        // At another moment of the server's rounds.
        tokio::time::sleep(Duration::from_micros(round % 10 * 300)).await;
        deep.acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn close_wakes_everybody() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let (holder, shared) = (mutex(&connect(&server).await), mutex(&client));
    let other_path = InterProcessMutex::new(&client, "/locks/b").unwrap();
    let own = other_path.acquire().await.unwrap();
    let held = holder.acquire().await.unwrap();
    let mut waiters: Vec<_> = (0..5).map(|_| acquire_in_task(&shared)).collect();
    let timed = shared.clone();
    waiters.push(tokio::spawn(async move { timed.try_acquire_for(BOUND).await.map(|guard| guard.unwrap()) }));
    let ticket = shared.enqueue().await.unwrap();
    waiters.push(tokio::spawn(ticket.acquired()));
    queue_of(&zookeeper, LOCK, 8).await;
    let start = Instant::now();
    within(client.close()).await;
    assert!(client.is_closed());
    for waiter in waiters {
        assert_eq!(within(waiter).await.unwrap().unwrap_err(), Error::Closed);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "long before the session times out");
    // Its session has ended: also what it held is free, at once.
    assert_eq!(children(&zookeeper, LOCK).await.len(), 1);
    assert_eq!(children(&zookeeper, "/locks/b").await.len(), 0);
    assert_eq!(own.release().await, Err(Error::Closed));
    assert_eq!(shared.acquire().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.try_acquire().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.try_acquire_for(BOUND).await.unwrap_err(), Error::Closed);
    assert_eq!(shared.enqueue().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.participants().await.unwrap_err(), Error::Closed);
    assert_eq!(client.zookeeper().await.unwrap_err(), Error::Closed);
    state_is(&client, ConnectionState::Closed).await; // another thread tells it
    drop(held);
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// Creates nodes that anybody may create who knows the names of those in the queue: by them, an id is not enough to
/// tell whose node it is.
async fn create_twins(zookeeper: &zk::Client, victim: &str) -> Vec<String> {
    let id = &victim[..victim.len() - "lock-0000000000".len()];
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    let numbers = (1..20).map(|number| format!("lock-{number}"));
    let suffixes = numbers.chain(["lock-0000000000".into()]);
    let twins: Vec<String> = suffixes.map(|suffix| format!("{LOCK}/{id}{suffix}")).collect();
    for twin in &twins {
        zookeeper.create(twin, b"", &persistent).await.unwrap();
    }
    twins
}

#[tokio::test]
async fn a_stranger_with_the_id_of_a_lost_create_is_not_taken_for_it() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let victim = connect_through(&proxy).await;
    let holder = mutex(&connect(&server).await);
    holder.acquire().await.unwrap().release().await.unwrap();
    let held = holder.acquire().await.unwrap();
    let lost = proxy.intercept(Request::Create, Fate::HoldReply);
    let waiter = acquire_in_task(&mutex(&victim));
    within(lost.happened()).await;
    let names = queue_of(&zookeeper, LOCK, 2).await;
    let own = names.iter().find(|name| !held.node_path().ends_with(*name)).unwrap().clone();
    let twins = create_twins(&zookeeper, &own).await;
    // The reply is lost when all of them are there.
    proxy.cut();
    drop(lost);
    // It has found its own node when it watches one. That may be a twin: one of them is before all others.
    let session = format!("{:#x}", session_id(&victim).await);
    eventually("it waits", async || {
        let mut is_in_queue = false;
        let printed = server.four_letter_word("wchp").await.unwrap();
        let waits = printed.lines().any(|line| match line.strip_prefix('\t') {
            Some(by) => is_in_queue && by == session,
            None => {
                is_in_queue = line.contains("/_c_");
                false
            }
        });
        waits.then_some(())
    })
    .await;
    assert!(!waiter.is_finished(), "it is not the first");
    held.release().await.unwrap();
    for twin in &twins {
        zookeeper.delete(twin, None).await.expect("they are left alone");
    }
    let guard = within(waiter).await.unwrap().unwrap();
    assert!(guard.node_path().ends_with(&own), "{guard:?}");
    guard.release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// It is deleted, and its name given to a stranger, right after it was found.
#[tokio::test]
async fn a_stranger_with_the_name_of_a_lost_create_is_not_taken_for_it() {
    const LIST_OWN_NODES: Request = Request::Other(103);
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let victim = connect_through(&proxy).await;
    mutex(&victim).acquire().await.unwrap().release().await.unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let found = proxy.intercept(LIST_OWN_NODES, Fate::HoldReply);
    let waiter = acquire_in_task(&mutex(&victim));
    within(lost.happened()).await;
    within(found.happened()).await;
    let own = format!("{LOCK}/{}", queue_of(&zookeeper, LOCK, 1).await.remove(0));
    zookeeper.delete(&own, None).await.unwrap();
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create(&own, b"", &persistent).await.unwrap();
    found.release();
    // It has created another, behind the stranger.
    queue_of(&zookeeper, LOCK, 2).await;
    assert!(!waiter.is_finished(), "it is not the first");
    zookeeper.delete(&own, None).await.expect("it is left alone");
    let guard = within(waiter).await.unwrap().unwrap();
    assert_ne!(guard.node_path(), own);
    guard.release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_lost_create_that_nobody_waits_for_is_removed_and_strangers_with_its_id_are_not() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let victim = connect_through(&proxy).await;
    // A late reply names the node; without one it is looked for.
    for comes in [true, false] {
        mutex(&victim).acquire().await.unwrap().release().await.unwrap();
        let lost = proxy.intercept(Request::Create, Fate::HoldReply);
        let cancelled = acquire_in_task(&mutex(&victim));
        within(lost.happened()).await;
        let own = queue_of(&zookeeper, LOCK, 1).await.remove(0);
        let twins = create_twins(&zookeeper, &own).await;
        cancelled.abort();
        if comes {
            lost.release();
        } else {
            proxy.cut();
            drop(lost);
        }
        eventually("its own node is gone", async || {
            let left = children(&zookeeper, LOCK).await;
            (!left.contains(&own)).then_some(())
        })
        .await;
        // Whatever else it would delete, it would have sent along.
        mutex(&victim).participants().await.unwrap();
        assert_eq!(children(&zookeeper, LOCK).await.len(), twins.len(), "a reply comes: {comes}");
        wipe(&zookeeper).await;
    }
}
