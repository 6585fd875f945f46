//! Tickets and waiters whose nodes or connections are gone for a time, and what is dropped while servers are silent.

use super::prelude::*;

/// The node in the queue beside that of a holder.
fn beside(held: &LockGuard, stage: &Stage) -> String {
    let mut nodes = stage.servers().children(PATH).unwrap();
    nodes.retain(|node| !held.node_path().ends_with(node));
    let [node] = &nodes[..] else { panic!("one waits: {nodes:?}") };
    format!("{PATH}/{node}")
}

/// An operator deletes the node of a ticket, and someone makes one of that name.
#[history]
async fn a_node_made_again_under_a_ticket_is_no_storm(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let lock = mutex(&client);
    let ticket = lock.enqueue().await.unwrap();
    let path = format!("{PATH}/{}", stage.servers().children(PATH).unwrap()[0]);
    let behind = acquiring(&lock);
    sleep(SESSION).await;
    assert_eq!(queue(&stage, PATH), 2);
    assert!(stage.servers().delete(&path));
    let guard = within(behind).await.unwrap().unwrap();
    assert!(stage.servers().create(&path, b"", false));
    proxy.take_requests();
    let acquire = spawn_local(ticket.acquired());
    sleep(2 * SESSION).await;
    let mut requests = proxy.take_requests();
    requests.retain(|request| *request != Request::Confirm);
    assert!(requests.len() <= 10, "{requests:?}");
    assert!(guard.is_valid() && !acquire.is_finished(), "it holds by the node of someone else");
    drop(guard);
    // It stands before the ticket, as anyone's node of that name.
    assert!(stage.servers().delete(&path));
    drop(within(acquire).await.unwrap().unwrap());
}

/// The lock objects and tickets of one recipe are gone, the second of which has waited behind the first: another may
/// follow at once.
#[history]
async fn another_recipe_may_follow_a_watched_ticket_that_is_dropped(stage: Stage) {
    let client = stage.client(0).await;
    let lock = mutex(&client);
    let ticket = lock.enqueue().await.unwrap();
    let second = lock.owned_by(&Owner::new()).enqueue().await.unwrap();
    sleep(SESSION).await;
    drop((second, ticket, lock));
    let other = ReadWriteLock::new(&client, PATH).unwrap();
    within(other.write().acquire()).await.unwrap().release().await.unwrap();
}

/// A waiter keeps its place however often requests fail; so does a ticket that is awaited during an outage.
#[history]
async fn an_outage_longer_than_the_policy_does_not_cost_a_ticket_its_place(stage: Stage) {
    let (proxy, client, holder) =
        stage.far_and_near(tries(SESSION, SESSION / 50, RetryPolicy::one_time(A_MOMENT))).await;
    let session = session_id(&client).await;
    for is_ticket in [false, true] {
        let held = mutex(&holder).acquire().await.unwrap();
        let lock = mutex(&client);
        let ticket = if is_ticket { Some(lock.enqueue().await.unwrap()) } else { None };
        let waiting = acquiring(&lock);
        if is_ticket {
            waiting.abort();
        }
        sleep(A_MOMENT).await;
        proxy.cut_off();
        state_is(&client, ConnectionState::Suspended).await;
        let waiting = match ticket {
            Some(ticket) => spawn_local(ticket.acquired()),
            None => waiting,
        };
        let place = beside(&held, &stage);
        // Several times what the policy allows.
        sleep(SESSION / 2).await;
        proxy.refuse_connections(false);
        held.release().await.unwrap();
        let guard = within(waiting).await.unwrap().unwrap();
        assert_eq!(guard.node_path(), place, "{is_ticket}");
        guard.release().await.unwrap();
        assert_eq!(session_id(&client).await, session);
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 0);
    }
}

/// What is never polled sends nothing, and what is inside is dropped.
#[history]
async fn what_is_dropped_unused_is_given_back(stage: Stage) {
    let [client, holder] = stage.clients().await;
    let session = session_id(&client).await;
    let lock = mutex(&client);
    let nothing_is_left = async || {
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 0);
    };
    drop(lock.enqueue().await.unwrap());
    nothing_is_left().await;
    drop(lock.acquire().await.unwrap().release());
    nothing_is_left().await;
    let held = mutex(&holder).acquire().await.unwrap();
    let ticket = lock.enqueue().await.unwrap();
    let followed = ticket.watch_position();
    assert!(timeout(SESSION, ticket.acquired()).await.is_err());
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 1);
    drop((held, followed));
    nothing_is_left().await;
    assert_eq!(session_id(&client).await, session);
    drop(lock);
    nothing_is_left().await;
    assert_eq!(stage.servers().watch_count(), 0);
}

/// Those behind it in the line watch nothing but the line.
#[history]
async fn an_acquire_that_is_polled_no_more_and_deleted_keeps_nobody_waiting(stage: Stage) {
    let [client, holder] = stage.clients().await;
    let lock = mutex(&client);
    let held = mutex(&holder).acquire().await.unwrap();
    let owned = lock.owned_by(&Owner::new());
    let mut forgotten = Box::pin(owned.acquire());
    assert!(timeout(A_MOMENT, &mut forgotten).await.is_err());
    let node = beside(&held, &stage);
    let behind = acquiring(&lock.owned_by(&Owner::new()));
    sleep(A_MOMENT).await;
    assert!(stage.servers().delete(&node));
    held.release().await.unwrap();
    // They look after it each second.
    let guard = timeout(SESSION / 5, behind).await.expect("it waits in vain").unwrap().unwrap();
    assert!(guard.is_valid());
    // Polled again, it waits for its turn at the end of the queue.
    assert!(timeout(SESSION, &mut forgotten).await.is_err());
    assert_eq!(queue(&stage, PATH), 2);
    guard.release().await.unwrap();
    drop(within(forgotten).await.unwrap());
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 0);
    drop((owned, lock));
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

/// Those of another client are between ours; and then many at once.
#[history]
async fn tickets_know_their_position_at_once(stage: Stage) {
    let [one, other] = stage.clients().await;
    let enqueue = async |client: &Client| mutex(client).owned_by(&Owner::new()).enqueue().await.unwrap();
    let mut tickets = Vec::new();
    for client in [&one, &one, &other, &other, &one] {
        tickets.push(enqueue(client).await);
    }
    tickets.extend(join_all((0..100).map(|_| enqueue(&one))).await);
    let mut positions = Vec::new();
    for ticket in &tickets {
        let position = ticket.position().await.unwrap();
        assert_eq!(position, ticket.watch_position().get());
        positions.push(position);
    }
    positions.sort_unstable();
    assert_eq!(positions, Vec::from_iter(0..105));
}

/// Also its own: a ticket is ahead of its owner as of anyone else.
#[history]
async fn an_owner_waits_behind_its_own_ticket(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = mutex(&client).owned_by(&Owner::new());
    let ticket = mutex.enqueue().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waiting = acquiring(&mutex);
    sleep(SESSION).await;
    assert!(!waiting.is_finished() && queue(&stage, PATH) == 2);
    drop(ticket);
    granted(waiting).await.release().await.unwrap();
}

#[history]
async fn the_first_participant_holds_however_fast_they_change(stage: Stage) {
    let clients = connect_all(&stage).await;
    let workers = clients.each_ref().map(|client| {
        let mutex = mutex(client);
        spawn_local(async move {
            for _ in 0..300 {
                visit(&mutex).await;
            }
        })
    });
    let observer = mutex(&stage.client(0).await);
    while workers.iter().any(|worker| !worker.is_finished()) {
        for (position, participant) in observer.participants().await.unwrap().iter().enumerate() {
            assert_eq!(participant.is_holder(), position == 0, "{participant:?}");
        }
    }
    join_all(workers).await.into_iter().for_each(std::result::Result::unwrap);
}

/// It is not handed out to whoever enters again, and nobody waits for it.
#[history]
async fn a_lost_hold_neither_deadlocks_nor_is_handed_out(stage: Stage) {
    let [client, other] = stage.clients().await;
    let (one, two) = (mutex(&client), mutex(&client));
    let brief = one.with_options(LockOptions::new().max_hold(SOON)).unwrap();
    let old = brief.acquire().await.unwrap();
    let again = brief.enqueue().await.unwrap();
    assert_eq!(within(old.lost()).await, LossReason::Deadline);
    let lost = Error::LockLost { path: old.node_path().to_owned(), reason: LossReason::Deadline };
    assert_eq!(within(again.acquired()).await.unwrap_err(), lost);
    // Somebody else holds, and not the owner through another object.
    let theirs = mutex(&other).acquire().await.unwrap();
    assert!(timeout(A_MOMENT, two.acquire()).await.is_err());
    theirs.release().await.unwrap();
    within(two.acquire()).await.unwrap().release().await.unwrap();
    assert_eq!(old.loss(), Some(LossReason::Deadline));
}
