//! What Curator 5.9 still gets wrong, provoked as it is there.

use std::time::Duration;

use crate::support::counter::server_counting_from;
use crate::support::kinds::*;
use crate::support::*;
use futures_util::future::pending;
use zk_recipes::testing::{FaultProxy, TestingCluster, Traffic};
use zk_recipes::{Client, ConnectionState, Error, LockGuard, LossReason, Owner, Semaphore, operate};

async fn state_is(client: &Client, wanted: ConnectionState) {
    within(client.watch_connection().wait_for(|state| *state == wanted)).await.unwrap();
}

/// The holder's own watch on its node would come after a second. This way it is there from the beginning, and counted.
async fn watched(guard: LockGuard, server: &Server) -> LockGuard {
    drop(guard.watch_state());
    watches_with_holders(server, 1).await;
    guard
}

// CURATOR-604: a waiter on a new session is granted the lock by the node of its old one, which is about to go.
#[tokio::test]
async fn the_first_node_of_a_queue_gives_nothing_to_a_later_session() {
    let mut server = empty_server().await;
    let connect = async |session_timeout| {
        let builder = Client::builder().session_timeout(Duration::from_secs(session_timeout));
        builder.connect(&server.connect_string()).await.unwrap()
    };
    // They are to hold over the outage.
    let (holder, other) = (connect(30).await, connect(30).await);
    let waiter = connect(3).await;
    let old_session = session_id(&waiter).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let waiting = acquire_in_task(&mutex(&waiter));
    queue_of(&bystander(&server).await, "/locks/a", 2).await;
    // The client gives its session up. The server, when it is back, gives that its time again; but the client ends it.
    server.kill().await.unwrap();
    state_is(&waiter, ConnectionState::Lost).await;
    server.restart().await.unwrap();
    let zookeeper = bystander(&server).await;
    eventually("the waiter has queued again", async || {
        let nodes = ephemerals_below(&zookeeper, "/locks/a").await;
        let is_old = |(_, session): &(_, i64)| *session == old_session;
        (nodes.len() == 2 && !nodes.iter().any(is_old)).then_some(())
    })
    .await;
    let behind = acquire_in_task(&mutex(&other));
    within(held.release()).await.unwrap();
    let guard = within(waiting).await.unwrap().unwrap();
    let (_, stat) = zookeeper.get_data(guard.node_path()).await.unwrap();
    assert_eq!(stat.ephemeral_owner, session_id(&waiter).await);
    assert_ne!(stat.ephemeral_owner, old_session);
    assert!(!behind.is_finished());
    guard.release().await.unwrap();
    within(behind).await.unwrap().unwrap().release().await.unwrap();
}

// CURATOR-678, -486: after a release that failed for want of a connection, a new acquire waits for its own old node.
#[tokio::test]
async fn a_new_acquire_does_not_wait_for_what_was_released_without_a_connection() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    // With such a session, whoever waited for its end would be noticed.
    let client = Client::builder().session_timeout(2 * BOUND).connect(&proxy.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    for kind in KINDS {
        let lock = kind.unlimited(&client);
        for cancelled in [false, true] {
            let guard = lock.acquire().await.unwrap();
            let token = guard.fencing_token();
            proxy.refuse_connections(true).unwrap();
            proxy.cut();
            state_is(&client, ConnectionState::Suspended).await;
            let releasing = tokio::spawn(guard.release());
            tokio::task::yield_now().await;
            if cancelled {
                releasing.abort();
            }
            let again = in_task(lock.clone());
            proxy.refuse_connections(false).unwrap();
            if let Ok(released) = within(releasing).await {
                assert_eq!(released, Ok(()), "{kind:?}");
            }
            let guard = within(again).await.unwrap().unwrap();
            assert!(guard.fencing_token() > token, "{kind:?}");
            queue_of(&zookeeper, &kind.queue(), if kind == Kind::Permit { 0 } else { 1 }).await;
            within(guard.release()).await.unwrap();
        }
    }
    assert_eq!(session_id(&client).await, session);
    eventually("nothing is left", async || {
        ephemerals_below(&zookeeper, "/locks").await.is_empty().then_some(())
    })
    .await;
}

// CURATOR-478, -654, -14: a wait that was given up leaves its watch on the server.
#[tokio::test]
async fn a_wait_that_was_given_up_leaves_no_watch() {
    let server = empty_server().await;
    let [holder, client] = connect_many(&server).await;
    for kind in KINDS {
        let held = watched(kind.rival(&holder).acquire().await.unwrap(), &server).await;
        let lock = kind.unlimited(&client);
        for _ in 0..5 {
            let tried = answered(async || lock.try_acquire_for(Duration::from_millis(200)).await);
            assert!(tried.await.is_none(), "{kind:?}");
            let waiter = in_task(lock.clone());
            watches_with_holders(&server, 1 + kind.nodes() as u64).await;
            waiter.abort();
            watches_with_holders(&server, 1).await;
        }
        held.release().await.unwrap();
    }
}

// kazoo#730, go-zk#65, and the same in Curator: past 2^31 creates several hold at once. For names made by hand see
// mutex.rs and semaphore.rs, for both sides of a read/write lock read_write.rs.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn past_the_last_number_a_mutex_has_one_holder() {
    let server = server_counting_from("/locks/a", i32::MAX - 2).await;
    let zookeeper = bystander(&server).await;
    let clients: [Client; 6] = connect_many(&server).await;
    for _ in 0..2 {
        let mut waiters = Vec::new();
        for (index, client) in clients.iter().enumerate() {
            waiters.push(acquire_in_task(&mutex(client)));
            queue_of(&zookeeper, "/locks/a", index + 1).await;
        }
        let mut last_token = 0;
        for waiter in waiters.drain(..) {
            let guard = within(waiter).await.unwrap().unwrap();
            assert!(guard.fencing_token() > last_token, "first come, first served");
            last_token = guard.fencing_token();
            for client in &clients {
                assert!(mutex(client).owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
            }
            guard.release().await.unwrap();
        }
    }
    watches_with_holders(&server, 0).await;
}

// The same for both queues of a semaphore.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn past_the_last_number_a_semaphore_has_no_more_permits() {
    for queue in ["/locks/s/locks", "/locks/s/leases"] {
        let server = server_counting_from(queue, i32::MAX - 2).await;
        let clients: [Client; 5] = connect_many(&server).await;
        let semaphores = clients.each_ref().map(|client| Semaphore::new(client, "/locks/s", 2).unwrap());
        let mut held = vec![semaphores[0].acquire().await.unwrap(), semaphores[1].acquire().await.unwrap()];
        let zookeeper = bystander(&server).await;
        let mut waiters = Vec::new();
        for (index, semaphore) in semaphores.iter().enumerate() {
            let semaphore = semaphore.clone();
            waiters.push(tokio::spawn(async move { semaphore.acquire().await }));
            queue_of(&zookeeper, "/locks/s/locks", index + 1).await;
        }
        for (index, waiter) in waiters.into_iter().enumerate() {
            assert!(semaphores[index].try_acquire().await.unwrap().is_none(), "{queue}");
            assert_eq!(semaphores[index].available_permits().await, Ok(0));
            assert!(!waiter.is_finished(), "{queue}");
            held.remove(0).release().await.unwrap();
            held.push(within(waiter).await.unwrap().unwrap());
            assert_eq!(children(&zookeeper, "/locks/s/leases").await.len(), 2, "{queue}");
        }
    }
}

// CURATOR-264: a create that comes to an end after it was looked for, at another server, leaves an orphan.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_create_that_was_given_up_leaves_nothing_if_it_is_done_later() {
    let cluster = TestingCluster::start(3).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let zookeeper = bystander_of(&cluster.servers()[leader].connect_string()).await;
    let old = FaultProxy::start(cluster.servers()[(leader + 1) % 3].connect_string()).await.unwrap();
    let new = FaultProxy::start(cluster.servers()[(leader + 2) % 3].connect_string()).await.unwrap();
    new.refuse_connections(true).unwrap();
    let client = Client::builder()
        .session_timeout(Duration::from_secs(10))
        .connect(&[old.connect_string(), new.connect_string()].join(","))
        .await
        .unwrap();
    let session = session_id(&client).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    // The create is on its way, and the client turns to the other server.
    old.set_traffic(Traffic::black_hole());
    let requests = old.requests_seen();
    let acquiring = acquire_in_task(&lock);
    eventually("it is sent", async || (old.requests_seen() > requests).then_some(())).await;
    assert!(children(&zookeeper, "/locks/a").await.is_empty());
    new.refuse_connections(false).unwrap();
    let guard = within(acquiring).await.unwrap().unwrap();
    assert_eq!(session_id(&client).await, session);
    // Now it arrives, at a server that does not have the session any more; or has it again, if the client has knocked
    // there a second time in vain: then the node is there for a while.
    let replies = old.replies_seen();
    old.set_traffic(Traffic::pass());
    eventually("the old server is done with it", async || {
        (old.connections().is_empty() || old.replies_seen() > replies).then_some(())
    })
    .await;
    zookeeper.sync("/locks").await.unwrap();
    let node = guard.node_path().rsplit_once('/').unwrap().1;
    eventually("its node is alone", async || {
        (children(&zookeeper, "/locks/a").await == [node]).then_some(())
    })
    .await;
    guard.release().await.unwrap();
    queue_of(&zookeeper, "/locks/a", 0).await;
}

// CURATOR-171: a holder whose node is deleted goes on. For the ways to hear of it see losses.rs of the simulation.
#[tokio::test]
async fn an_operator_can_evict_a_holder() {
    let sandbox = Sandbox::new();
    let [holding, other, operator] = [sandbox.client().await, sandbox.client().await, sandbox.client().await];
    for kind in KINDS {
        let lock = kind.unlimited(&holding);
        let guard = lock.acquire().await.unwrap();
        let next = in_task(kind.rival(&other));
        let evicting = async {
            assert_eq!(operate::force_release(&operator, kind.path()).await.unwrap().len(), 1);
        };
        let (ran, ()) = within(futures_util::future::join(guard.run(pending::<()>()), evicting)).await;
        assert_lost(&ran.unwrap_err(), LossReason::Deleted);
        let next = within(next).await.unwrap().unwrap();
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
        // It may queue again, behind whoever has it now.
        let again = in_task(lock);
        assert!(next.is_valid() && !again.is_finished());
        next.release().await.unwrap();
        within(again).await.unwrap().unwrap().release().await.unwrap();
    }
    sandbox.assert_nothing_left().await;
}

// GH-1277: a wait without a bound hangs when the client is closed.
#[tokio::test]
async fn closing_ends_every_wait() {
    let server = empty_server().await;
    let holder = connect(&server).await;
    for kind in KINDS {
        let held = watched(kind.rival(&holder).acquire().await.unwrap(), &server).await;
        let client = connect(&server).await;
        let lock = kind.unlimited(&client);
        let waiter = in_task(lock.clone());
        watches_with_holders(&server, 1 + kind.nodes() as u64).await;
        within(client.close()).await;
        assert_eq!(within(waiter).await.unwrap().unwrap_err(), Error::Closed, "{kind:?}");
        assert_eq!(within(lock.acquire()).await.unwrap_err(), Error::Closed, "{kind:?}");
        watches_with_holders(&server, 1).await;
        held.release().await.unwrap();
        watches_with_holders(&server, 0).await;
    }
}
