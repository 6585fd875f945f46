//! Servers that are down, silent or restarted.

use super::kinds::Kind;
use super::prelude::*;

async fn is(guard: &LockGuard, wanted: LockState) {
    within(guard.watch_state().wait_for(|state| *state == wanted)).await.map(|_| ()).unwrap();
}

#[history]
async fn a_hold_and_the_places_behind_it_survive_a_restart_of_the_server(stage: Stage) {
    let servers = stage.servers();
    let clients = connect_all(&stage).await;
    let [holding, second, third] = &clients;
    let mut sessions = Vec::new();
    for client in &clients {
        sessions.push(session_id(client).await);
    }
    let mut queues = Vec::new();
    for kind in KINDS {
        let guard = kind.unlimited(holding).acquire().await.unwrap();
        let mut waiters = Vec::new();
        for client in [second, third] {
            waiters.push(in_task(kind.rival(client)));
            sleep(A_MOMENT).await;
        }
        let length = nodes(servers, &kind.queue()).len();
        assert_eq!(length, if kind == Kind::Permit { 2 } else { 3 }, "{kind:?}");
        queues.push((kind, guard, waiters));
    }
    servers.stop(0);
    for (_, guard, _) in &queues {
        is(guard, LockState::Suspect).await;
        assert!(guard.is_valid());
    }
    for client in &clients {
        state_is(client, ConnectionState::Suspended).await;
    }
    servers.start(0);
    for (kind, guard, waiters) in queues {
        let mut token = guard.fencing_token();
        is(&guard, LockState::Held).await;
        assert_eq!((guard.fencing_token(), guard.loss()), (token, None), "{kind:?}");
        let mut held = guard;
        for waiter in waiters {
            assert!(!waiter.is_finished(), "{kind:?}");
            within(held.release()).await.unwrap();
            held = granted(waiter).await;
            assert!(held.fencing_token() > token, "{kind:?}");
            token = held.fencing_token();
        }
        within(held.release()).await.unwrap();
    }
    for (client, session) in clients.iter().zip(sessions) {
        assert_eq!(session_id(client).await, session);
    }
    nothing_is_left(servers).await;
}

/// CURATOR-604: a waiter on a new session is granted the lock by the node of its old one, which is about to go.
#[history]
async fn the_first_node_of_a_queue_gives_nothing_to_a_later_session(stage: Stage) {
    let servers = stage.servers();
    // They are to hold over the outage.
    let long =
        async |machine| stage.connect(machine, |builder| session(builder).session_timeout(3 * SESSION)).await;
    let (holder, other) = (long(0).await, long(1).await);
    let client = stage.connect(2, session).await;
    let old_session = session_id(&client).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let waiting = waiter(&mutex(&client)).await;
    assert_eq!(nodes(servers, PATH).len(), 2);
    // The client gives its session up. The server, when it is back, gives that its time again; but the client ends it.
    servers.stop(0);
    state_is(&client, ConnectionState::Lost).await;
    servers.start(0);
    sleep(SESSION / 2).await;
    let queue = nodes(servers, PATH);
    let owners: Vec<_> = queue.iter().map(|node| servers.node(node).unwrap().ephemeral_owner).collect();
    assert_eq!(owners, [session_id(&holder).await, session_id(&client).await], "queued again");
    assert!(!owners.contains(&old_session));
    let behind = waiter(&mutex(&other)).await;
    within(held.release()).await.unwrap();
    let guard = granted(waiting).await;
    assert_eq!(guard.node_path(), queue[1]);
    assert!(!behind.is_finished());
    guard.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
}

/// The same while the old node is there. A server that comes back after a long outage gives old sessions their time again.
#[history]
async fn the_node_of_an_old_session_is_never_granted(stage: Stage) {
    let servers = stage.servers();
    let (proxy, client) = stage.far(session).await;
    let lock = mutex(&client);
    let owner = Owner::new();
    let old = lock.owned_by(&owner).acquire().await.unwrap();
    let waiting = lock.enqueue().await.unwrap();
    servers.stop(0);
    state_is(&client, ConnectionState::Lost).await;
    // The client would end it, if it could.
    let _ending: Vec<_> = (0..99).map(|_| proxy.intercept(Request::Other(-11), Fate::LoseRequest)).collect();
    let start = Instant::now();
    servers.start(0);
    // The waiter enters again, behind its own old node and that of the old hold.
    let waiter = tokio::spawn(waiting.acquired());
    sleep(SESSION / 2).await;
    assert_eq!(nodes(servers, PATH).len(), 3);
    assert!(!waiter.is_finished());
    let guard = granted(waiter).await;
    assert!(start.elapsed() >= SESSION, "{:?}", start.elapsed());
    assert_eq!(nodes(servers, PATH), [guard.node_path()], "the old nodes are gone at the grant");
    assert!(guard.fencing_token() > old.fencing_token());
    // The old hold knows that it is lost.
    assert!(is_lost(&lock.owned_by(&owner).acquire().await.unwrap_err()));
    assert!(is_lost(&old.release().await.unwrap_err()));
    guard.release().await.unwrap();
    nothing_is_left(servers).await;
}

/// CURATOR-678, -486: after a release that failed for want of a connection, a new acquire waits for its own old node.
#[history]
async fn a_new_acquire_does_not_wait_for_what_was_released_without_a_connection(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let session = session_id(&client).await;
    for kind in KINDS {
        let lock = kind.unlimited(&client);
        for is_cancelled in [false, true] {
            let guard = lock.acquire().await.unwrap();
            let token = guard.fencing_token();
            proxy.cut_off();
            state_is(&client, ConnectionState::Suspended).await;
            let releasing = tokio::spawn(guard.release());
            tokio::task::yield_now().await;
            if is_cancelled {
                releasing.abort();
            }
            let again = in_task(lock.clone());
            proxy.refuse_connections(false);
            if let Ok(released) = within(releasing).await {
                assert_eq!(released, Ok(()), "{kind:?}");
            }
            // Whoever waited for the end of the session would be noticed.
            let guard = timeout(SESSION / 2, again).await.expect("it waits").unwrap().unwrap();
            assert!(guard.fencing_token() > token, "{kind:?}");
            sleep(A_MOMENT).await;
            let length = nodes(stage.servers(), &kind.queue()).len();
            assert_eq!(length, if kind == Kind::Permit { 0 } else { 1 }, "{kind:?}");
            within(guard.release()).await.unwrap();
        }
    }
    assert_eq!(session_id(&client).await, session);
    nothing_is_left(stage.servers()).await;
}

/// Its server may lag behind the one before, and nothing that was heard as an event keeps the session from it.
#[history]
async fn a_new_connection_is_of_use_when_its_server_has_caught_up(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let client: Client = proxy.client(session).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let states = guard.watch_state();
    let catching_up = proxy.intercept(Request::Confirm, Fate::HoldReply);
    proxy.cut();
    within(catching_up.happened()).await;
    sleep(A_MOMENT).await;
    assert_eq!(client.watch_connection().get(), ConnectionState::Suspended);
    assert!(timeout(A_MOMENT, client.zookeeper()).await.is_err(), "it would show the past");
    assert_eq!((guard.is_valid(), states.get()), (true, LockState::Suspect));
    catching_up.release();
    state_is(&client, ConnectionState::Reconnected).await;
    let zookeeper = client.zookeeper().await.unwrap();
    zookeeper.get_data(guard.node_path()).await.unwrap();
    is(&guard, LockState::Held).await;
    guard.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}
