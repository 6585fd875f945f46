//! Bad days: servers down, silent or restarted, sessions killed, replies lost, nodes deleted by others.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use support::*;
use zk_recipes::testing::{Fate, FaultProxy, Request, TestingServer, kill_session};
use zk_recipes::{Client, ConnectionState, Error, InterProcessMutex, Owner, RetryPolicy};
use zookeeper_client as zk;

const LOCK: &str = "/locks/a";

async fn state_is(client: &Client, wanted: ConnectionState) {
    within(client.connection_state().wait_for(|state| *state == wanted)).await.unwrap();
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
    let mut server = TestingServer::start().await.unwrap();
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
            assert!(outcome.unwrap().is_none());
            assert!(elapsed >= Duration::from_millis(300), "{elapsed:?}");
            assert!(elapsed < Duration::from_millis(600), "{elapsed:?}");
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
    let server = TestingServer::start().await.unwrap();
    let holder = connect(&server).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let waiting = mutex(&connect(&server).await);
    let start = Instant::now();
    let waiter = tokio::spawn(async move { waiting.try_acquire_for(Duration::from_millis(500)).await });
    queue_of(&holder.zookeeper().await.unwrap(), LOCK, 2).await;
    server.pause().unwrap();
    assert!(within(waiter).await.unwrap().unwrap().is_none());
    assert!(start.elapsed() < Duration::from_millis(800), "{:?}", start.elapsed());
    server.resume().unwrap();
    queue_of(&bystander(&server).await, LOCK, 1).await;
    drop(held);
}

#[tokio::test]
async fn an_outage_longer_than_the_policy_is_an_error() {
    let mut server = TestingServer::start().await.unwrap();
    let client = Client::builder()
        .connection_timeout(Duration::from_millis(100))
        .retry_policy(RetryPolicy::n_times(2, Duration::from_millis(10)))
        .connect(&server.connect_string())
        .await
        .unwrap();
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
    let mut server = TestingServer::start().await.unwrap();
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
    let server = TestingServer::start().await.unwrap();
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
    let mut server = TestingServer::start().await.unwrap();
    let short = Client::builder().session_timeout(Duration::from_secs(2));
    let client = short.connect(&server.connect_string()).await.unwrap();
    let lock = mutex(&client);
    let owner = Owner::new();
    let old = lock.acquire_as(&owner).await.unwrap();
    let waiting = lock.enqueue().await.unwrap();
    server.kill().await.unwrap();
    state_is(&client, ConnectionState::Lost).await;
    server.restart().await.unwrap();
    // The waiter enters again, behind its own old node and that of the old hold.
    let zookeeper = bystander(&server).await;
    let waiter = tokio::spawn(waiting.acquired());
    queue_of(&zookeeper, LOCK, 3).await;
    assert!(!waiter.is_finished());
    let guard = within(waiter).await.unwrap().unwrap();
    let left = children(&zookeeper, LOCK).await;
    assert_eq!(left, [guard.node_path().rsplit_once('/').unwrap().1], "the old nodes are gone at the grant");
    assert!(guard.fencing_token() > old.fencing_token());
    // The old hold knows that it is lost.
    assert!(lock_lost(&lock.acquire_as(&owner).await.unwrap_err()));
    assert!(lock_lost(&old.release().await.unwrap_err()));
    guard.release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_holder_whose_session_is_killed_has_lost_the_lock() {
    let server = TestingServer::start().await.unwrap();
    let [killed, other] = connect_many(&server).await;
    let lock = mutex(&killed);
    let lost = lock.acquire().await.unwrap();
    kill_session(&killed).await.unwrap();
    let guard = within(mutex(&other).acquire()).await.unwrap();
    assert!(guard.fencing_token() > lost.fencing_token());
    within(killed.connection_state().wait_for(|state| *state != ConnectionState::Connected)).await.unwrap();
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
    let server = TestingServer::start().await.unwrap();
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

/// A ticket that nobody awaits does not notice what becomes of its place.
#[tokio::test]
async fn a_ticket_that_was_first_is_not_granted_when_its_place_is_gone() {
    let server = TestingServer::start().await.unwrap();
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

#[tokio::test]
async fn a_holder_whose_node_is_deleted_hears_of_it_at_the_release() {
    let server = TestingServer::start().await.unwrap();
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
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(&server).await.unwrap();
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
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(&server).await.unwrap();
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
    let server = TestingServer::start().await.unwrap();
    let proxy = Arc::new(FaultProxy::start(&server).await.unwrap());
    let held = Arc::new(AtomicBool::new(false));
    let last_token = Arc::new(AtomicI64::new(0));
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
        let (lock, held, last_token) = (mutex(&client), held.clone(), last_token.clone());
        workers.spawn(async move {
            for _ in 0..CYCLES {
                let guard = lock.acquire().await.unwrap();
                assert!(!held.swap(true, SeqCst), "two holders at once");
                assert!(last_token.swap(guard.fencing_token(), SeqCst) < guard.fencing_token());
                tokio::task::yield_now().await;
                assert!(held.swap(false, SeqCst));
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
    let mut server = TestingServer::start().await.unwrap();
    let client = connect(&server).await;
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
    let server = TestingServer::builder()
        .system_property("znode.container.checkIntervalMs", "1")
        .start()
        .await
        .unwrap();
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
    for round in 0..400 {
        lock.acquire().await.unwrap().release().await.unwrap();
        // At another moment of the server's rounds.
        tokio::time::sleep(Duration::from_micros(round % 10 * 300)).await;
        deep.acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn close_wakes_everybody() {
    let server = TestingServer::start().await.unwrap();
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
    assert_eq!(*client.connection_state().borrow(), ConnectionState::Closed);
    drop(held);
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}
