//! Places in queues that are lost: with their sessions, or since somebody deletes their nodes.

use std::future::pending;

use super::prelude::*;

/// Ends the session of a client, which gets another one.
async fn end_session(stage: &Stage, client: &zk_recipes::Client) {
    let old = session_id(client).await;
    stage.servers().end_session(old);
    sleep(SOON).await;
    assert_ne!(session_id(client).await, old);
}

/// Takes away the right to read a node. The servers tell nobody of its end then.
async fn hide(operator: &zk_recipes::Client, path: &str) {
    permit(operator, path, zk::Permission::CREATE | zk::Permission::DELETE | zk::Permission::ADMIN).await;
}

async fn show(operator: &zk_recipes::Client, path: &str) {
    permit(operator, path, zk::Permission::ALL).await;
}

async fn permit(operator: &zk_recipes::Client, path: &str, permissions: zk::Permission) {
    let zookeeper = operator.zookeeper().await.unwrap();
    zookeeper.set_acl(path, &[zk::Acl::new(permissions, zk::AuthId::anyone())], None).await.unwrap();
}

#[history]
async fn a_waiter_whose_session_is_killed_queues_again_on_the_new_one(stage: Stage) {
    let servers = stage.servers();
    let clients = connect_all(&stage).await;
    let [holder, killed, third] = &clients;
    let held = mutex(holder).acquire().await.unwrap();
    let waiting = waiter(&mutex(killed)).await;
    let behind = waiter(&mutex(third)).await;
    assert_eq!(nodes(servers, PATH).len(), 3);
    end_session(&stage, killed).await;
    // Its place is lost: now it is behind the third.
    let queue = nodes(servers, PATH);
    let owners: Vec<_> = queue.iter().map(|node| servers.node(node).unwrap().ephemeral_owner).collect();
    let [holder, new, third] = [session_id(holder).await, session_id(killed).await, session_id(third).await];
    assert_eq!(owners, [holder, third, new]);
    held.release().await.unwrap();
    let guard = granted(behind).await;
    sleep(A_MOMENT).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let guard = granted(waiting).await;
    assert_eq!(guard.node_path(), queue[2]);
    guard.release().await.unwrap();
    nothing_is_left(servers).await;
}

/// Losing a node is no failure to reach the servers: it counts for no retry policy, however often it comes.
#[history(RetryPolicy::default(), RetryPolicy::n_times(0, ms(1)))]
async fn a_waiter_whose_node_is_deleted_queues_again(stage: Stage, policy: RetryPolicy) {
    let servers = stage.servers();
    let [holder, _, third] = connect_all(&stage).await.each_ref().map(mutex);
    let evicted = stage.connect(1, |builder| session(builder).retry_policy(policy)).await;
    let held = holder.acquire().await.unwrap();
    let waiting = waiter(&mutex(&evicted)).await;
    for round in 1..=5 {
        servers.delete(&nodes(servers, PATH)[1]);
        if round < 5 {
            // It learns of it also when the contender before it goes or changes.
            servers.set_data(held.node_path(), &servers.node(held.node_path()).unwrap().data);
        }
        sleep(SOON).await;
        assert!(!waiting.is_finished(), "it has given up");
        assert_eq!(number(&nodes(servers, PATH)[1]), round + 1);
    }
    let behind = waiter(&third).await;
    servers.delete(&nodes(servers, PATH)[1]);
    held.release().await.unwrap();
    let guard = granted(behind).await;
    sleep(SOON).await;
    assert_eq!(nodes(servers, PATH).len(), 2);
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    nothing_is_left(servers).await;
}

/// Numbers begin again in a queue that was made again, so that a stranger has the number of a place that is gone. It is
/// lost by a ticket, or by a multi-lock that holds it while it waits in another queue.
#[history(false, true)]
async fn a_lost_place_does_not_vouch_for_a_stranger_with_its_number(stage: Stage, is_multi: bool) {
    let servers = stage.servers();
    let [own, other] = [stage.connect(0, session).await, stage.connect(1, session).await];
    let ours = mutex(&own);
    let elsewhere = mutex_at(&other, "/locks/b").acquire().await.unwrap();
    for _ in 0..2 {
        visit(&ours).await;
    }
    let (mut ticket, mut joint) = (None, None);
    if is_multi {
        let both = MultiLock::new(&own, [PATH, "/locks/b"]).unwrap();
        let mut acquire = Box::pin(async move { both.acquire().await });
        // It is polled until it waits for the other path, and then no more, so that it does not come back.
        assert!(timeout(A_MOMENT, &mut acquire).await.is_err(), "it was granted beside the holder");
        assert_eq!(nodes(servers, "/locks/b").len(), 2);
        joint = Some(acquire);
    } else {
        ticket = Some(ours.owned_by(&Owner::new()).enqueue().await.unwrap());
    }
    let gone = number(&nodes(servers, PATH)[0]);
    servers.delete(PATH);
    for _ in 0..gone {
        visit(&ours).await;
    }
    let held = within(mutex(&other).acquire()).await.unwrap();
    assert_eq!(number(held.node_path()), gone);
    let waiting = waiter(&ours).await;
    assert_eq!(nodes(servers, PATH).len(), 2);
    drop((ticket, joint));
    sleep(SESSION).await;
    assert!(!waiting.is_finished(), "it was granted beside the holder");
    let token = held.fencing_token();
    held.release().await.unwrap();
    // It has waited for the holder.
    let guard = timeout(A_MOMENT, granted(waiting)).await.expect("a grant");
    assert!(guard.fencing_token() > token);
    guard.release().await.unwrap();
    elsewhere.release().await.unwrap();
    nothing_is_left(servers).await;
}

/// A ticket that nobody awaits does not notice what becomes of its place.
#[history]
async fn a_ticket_that_was_first_is_not_granted_when_its_place_is_gone(stage: Stage) {
    let servers = stage.servers();
    let [first, other] = [stage.connect(0, session).await, stage.connect(1, session).await];
    for is_killed in [true, false] {
        let ticket = mutex(&first).enqueue().await.unwrap();
        assert_eq!(ticket.position().await, Ok(0));
        if is_killed {
            end_session(&stage, &first).await;
        } else {
            servers.delete(&nodes(servers, PATH)[0]);
        }
        let guard = within(mutex(&other).acquire()).await.unwrap();
        assert_eq!(ticket.position().await, Ok(1), "behind the one that came since");
        let waiting = tokio::spawn(ticket.acquired());
        sleep(SOON).await;
        assert_eq!(nodes(servers, PATH).len(), 2);
        assert!(!waiting.is_finished());
        let held = guard.fencing_token();
        guard.release().await.unwrap();
        let guard = granted(waiting).await;
        assert!(guard.fencing_token() > held);
        guard.release().await.unwrap();
    }
    nothing_is_left(servers).await;
}

/// The ticket's place is in the line of its client, and those behind it watch nothing but the line.
#[history]
async fn the_end_of_a_ticket_that_nobody_awaits_lets_the_next_one_on(stage: Stage) {
    let servers = stage.servers();
    let clients = connect_all(&stage).await;
    let [own, other, operator] = &clients;
    let ours = mutex(own);
    let ticket = ours.owned_by(&Owner::new()).enqueue().await.unwrap();
    sleep(SESSION).await;
    assert_eq!(servers.watch_count(), 0, "nobody is behind it");
    let next = waiter(&ours).await;
    let last = waiter(&mutex(other)).await;
    sleep(SOON).await;
    assert_eq!(nodes(servers, PATH).len(), 3);
    let removed = mutex(operator).participants().await.unwrap().remove(0);
    assert!(operate::force_release_participant(operator, &removed).await.unwrap());
    let guard = timeout(A_MOMENT, granted(next)).await.expect("its end is told at once");
    guard.release().await.unwrap();
    let guard = granted(last).await;
    // It has lost its place, and goes to the end.
    let again = tokio::spawn(ticket.acquired());
    sleep(SOON).await;
    assert_eq!(nodes(servers, PATH).len(), 2);
    assert!(!again.is_finished());
    guard.release().await.unwrap();
    granted(again).await.release().await.unwrap();
    nothing_is_left(servers).await;
}

/// Futures that are never polled again, whose nodes somebody deletes.
#[history((1, true), (1, false), (10, true))]
async fn futures_that_are_never_polled_are_in_nobodys_way_when_their_nodes_are_gone(
    stage: Stage,
    number: usize,
    may_be_read: bool,
) {
    let servers = stage.servers();
    let clients = connect_all(&stage).await;
    let [own, other, operator] = &clients;
    let ours = mutex(own);
    let held = mutex(other).acquire().await.unwrap();
    let owners: Vec<_> = (0..number).map(|_| ours.owned_by(&Owner::new())).collect();
    let mut futures = Vec::new();
    for owned in &owners {
        let mut future = Box::pin(owned.acquire());
        assert!(timeout(A_MOMENT, &mut future).await.is_err());
        futures.push(future);
    }
    let next = waiter(&ours).await;
    sleep(SESSION).await;
    for node in &nodes(servers, PATH)[1..=number] {
        if !may_be_read {
            hide(operator, node).await;
        }
        assert!(servers.delete(node));
    }
    held.release().await.unwrap();
    let guard = timeout(2 * SESSION, granted(next)).await.expect("their ends are noticed");
    guard.release().await.unwrap();
    drop(futures);
    nothing_is_left(servers).await;
}

/// CURATOR-171: a holder whose node is deleted goes on.
#[history]
async fn an_operator_can_evict_a_holder(stage: Stage) {
    let clients = connect_all(&stage).await;
    let [holding, other, operator] = &clients;
    for kind in KINDS {
        let lock = kind.unlimited(holding);
        let guard = lock.acquire().await.unwrap();
        let next = in_task(kind.rival(other));
        sleep(A_MOMENT).await;
        let evicting = async {
            let evicted = operate::force_release(operator, kind.path()).await.unwrap();
            assert_eq!(evicted.len(), 1);
        };
        let (ran, ()) = within(join(guard.run(pending::<()>()), evicting)).await;
        assert_lost(&ran.unwrap_err(), LossReason::Deleted);
        let next = granted(next).await;
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
        // It may queue again, behind whoever has it now.
        let again = in_task(lock);
        sleep(A_MOMENT).await;
        assert!(next.is_valid() && !again.is_finished());
        next.release().await.unwrap();
        granted(again).await.release().await.unwrap();
    }
    nothing_is_left(stage.servers()).await;
}

#[test]
fn parents_that_vanish_are_made_again() {
    let reaps = |plan: &mut zk_recipes_simulation::plan::Plan| plan.reap_interval = ms(1);
    play_with(1, reaps, async |stage| {
        let servers = stage.servers();
        let client = stage.connect(0, session).await;
        let lock = mutex(&client);
        for _ in 0..3 {
            let guard = lock.acquire().await.unwrap();
            assert_eq!(servers.node("/locks").unwrap().data, b"");
            guard.release().await.unwrap();
            // Sequence numbers begin anew; tokens do not.
            sleep(A_MOMENT).await;
            assert_eq!(servers.node("/locks"), None, "the containers are gone");
        }
        // While the server removes them all the time, also between one that is there and its child.
        let deep = mutex_at(&client, "/a/b/c/d/e");
        for round in 0..400 {
            visit(&lock).await;
            // At another moment of the server's rounds.
            sleep(Duration::from_micros(round % 10 * 300)).await;
            visit(&deep).await;
        }
    });
}

/// An operator deletes the nodes of readers that are never polled again, one after another: each is looked at once.
#[history]
async fn the_end_of_many_readers_is_noticed_with_few_looks(stage: Stage) {
    const READERS: usize = 100;
    let (proxy, client) = stage.far(session).await;
    let other = stage.connect(1, session).await;
    let [lock, theirs] = [&client, &other].map(|client| ReadWriteLock::new(client, PATH).unwrap());
    let held = theirs.write().acquire().await.unwrap();
    let mut readers: Vec<_> = (0..READERS)
        .map(|_| {
            let reader = lock.read().owned_by(&Owner::new());
            Box::pin(async move { reader.acquire().await })
        })
        .collect();
    for reader in &mut readers {
        assert!(timeout(A_MOMENT, reader).await.is_err());
    }
    let writer = lock.write().owned_by(&Owner::new());
    let next = tokio::spawn(async move { writer.acquire().await });
    let looks = || proxy.take_requests().iter().filter(|request| **request == Request::GetData).count();
    looks();
    sleep(secs(5)).await;
    assert_eq!(looks(), READERS + 1, "they are watched, and the writer watches its own");
    for victim in &nodes(stage.servers(), PATH)[1..=READERS] {
        assert!(stage.servers().delete(victim));
        sleep(ms(1)).await;
    }
    assert!(looks() <= READERS + 1, "each end is confirmed once");
    held.release().await.unwrap();
    granted(next).await.release().await.unwrap();
}

/// The client may not read the node ahead, so it gets no event when that is deleted: the node of a holder, of a multi-lock
/// that waits for another member, or of a waiter for permits at the gate.
#[history(0, 1, 2)]
async fn the_end_of_a_node_that_may_not_be_read_lets_the_next_one_of_its_client_on(stage: Stage, who: usize) {
    const B: &str = "/locks/b";
    const S: &str = "/locks/s";
    const GATE: &str = "/locks/s/locks";
    let servers = stage.servers();
    let clients = connect_all(&stage).await;
    let [own, other, operator] = &clients;
    let permits = |client, count| Semaphore::new(client, S, 2).unwrap().many(count).unwrap();
    let elsewhere = [permits(other, 1).acquire().await, mutex_at(other, B).acquire().await];
    queue_of(servers, GATE, 0).await;
    let (path, ahead, next): (_, Lock, Lock) = match who {
        0 => (PATH, lock_at(own, PATH), lock_at(own, PATH)),
        1 => (PATH, Arc::new(MultiLock::new(own, [PATH, B]).unwrap()), lock_at(own, PATH)),
        _ => (GATE, Arc::new(permits(own, 2)), Arc::new(permits(own, 1))),
    };
    let mut acquires = Vec::new();
    for lock in [ahead, next] {
        let lock = lock.owned_by(&Owner::new());
        acquires.push(spawn_local(async move { lock.acquire().await }));
        sleep(A_MOMENT).await;
    }
    let node = nodes(servers, path)[0].clone();
    let but_read = zk::Permission::CREATE | zk::Permission::DELETE | zk::Permission::ADMIN;
    let but_read = zk::Acl::new(but_read, zk::AuthId::anyone());
    operator.zookeeper().await.unwrap().set_acl(&node, &[but_read], None).await.unwrap();
    sleep(SESSION).await;
    assert!(servers.delete(&node));
    let next = acquires.pop().unwrap();
    granted(next).await.release().await.unwrap();
    acquires[0].abort();
    drop((acquires, elsewhere));
    sleep(SOON).await;
}

/// Somebody takes away the right to read a node that a client of another session has watched. The servers tell nothing of
/// its end.
#[history]
async fn the_end_of_a_node_that_may_not_be_read_any_more_lets_others_on(stage: Stage) {
    let clients = connect_all(&stage).await;
    let [own, other, last] = &clients;
    for kind in KINDS {
        let held = kind.unlimited(own).acquire().await.unwrap();
        let mut waiting = Vec::new();
        for client in [other, last] {
            waiting.push(in_task(kind.rival(client)));
            sleep(A_MOMENT).await;
        }
        hide(own, held.node_path()).await;
        held.release().await.unwrap();
        for waiting in waiting {
            let guard = timeout(3 * SESSION, granted(waiting)).await.expect("they look at times");
            guard.release().await.unwrap();
        }
    }
    nothing_is_left(stage.servers()).await;
}

/// Neither the node ahead nor the queue may be read for a while, so that even those who have private nodes are not told.
#[history((false, false), (false, true), (true, false), (true, true))]
async fn what_happens_while_nothing_may_be_read_is_found_out_later(
    stage: Stage,
    is_private: bool,
    ends: bool,
) {
    let connect = |node, who| {
        stage.connect(node, move |builder| if is_private { private(builder, who) } else { session(builder) })
    };
    let (own, other, operator) =
        (connect(0, "own").await, connect(1, "other").await, stage.connect(2, session).await);
    let held = mutex(&own).acquire().await.unwrap();
    let waiting = waiter(&mutex(&other)).await;
    let hidden = if is_private { vec![PATH] } else { vec![held.node_path(), PATH] };
    let hidden: Vec<_> = hidden.into_iter().map(str::to_owned).collect();
    for path in &hidden {
        hide(&operator, path).await;
    }
    let mut held = Some(held);
    if ends {
        held.take().unwrap().release().await.unwrap();
    }
    sleep(if ends { A_MOMENT } else { 3 * SESSION }).await;
    for path in hidden.iter().filter(|path| *path == PATH || !ends) {
        show(&operator, path).await;
    }
    assert!(!waiting.is_finished());
    drop(held);
    timeout(3 * SESSION, granted(waiting)).await.expect("it looks at times").release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

/// The node of a future that is never polled again could not be watched for a moment.
#[history]
async fn a_front_that_may_not_be_read_for_a_while_is_watched_later(stage: Stage) {
    let servers = stage.servers();
    let clients = connect_all(&stage).await;
    let [own, other, operator] = &clients;
    let held = mutex(other).acquire().await.unwrap();
    let owned = mutex(own).owned_by(&Owner::new());
    let mut unpolled = Box::pin(owned.acquire());
    assert!(timeout(A_MOMENT, &mut unpolled).await.is_err());
    let waiting = waiter(&mutex(own)).await;
    let front = nodes(servers, PATH).remove(1);
    for path in [&front, PATH] {
        hide(operator, path).await;
    }
    sleep(SESSION).await;
    for path in [PATH, &front] {
        show(operator, path).await;
    }
    assert!(servers.delete(&front));
    held.release().await.unwrap();
    timeout(3 * SESSION, granted(waiting)).await.expect("its end is found out").release().await.unwrap();
    drop(unpolled);
    nothing_is_left(servers).await;
}

/// Those ahead of a reader give up one after the other, and wake it each time.
#[history]
async fn looks_are_not_put_off_by_those_who_give_up(stage: Stage) {
    let clients = connect_all(&stage).await;
    let [own, other, operator] = &clients;
    let [lock, theirs] = [own, other].map(|client| ReadWriteLock::new(client, PATH).unwrap());
    let held = theirs.write().acquire().await.unwrap();
    let mut readers = Vec::new();
    for _ in 0..10 {
        let reader = lock.read().owned_by(&Owner::new());
        readers.push(tokio::spawn(async move { reader.acquire().await }));
        sleep(A_MOMENT).await;
    }
    let writer = lock.write().owned_by(&Owner::new());
    let writer = tokio::spawn(async move { writer.acquire().await });
    sleep(A_MOMENT).await;
    hide(operator, held.node_path()).await;
    held.release().await.unwrap();
    let last = readers.pop().unwrap();
    let giving_up = async {
        for reader in &readers {
            sleep(SESSION * 9 / 10).await;
            reader.abort();
        }
        pending().await
    };
    tokio::select! {
        guard = timeout(3 * SESSION, granted(last)) => guard.expect("it looks at times").release().await.unwrap(),
        () = giving_up => {}
    }
    // With what was granted to them since.
    drop(readers);
    granted(writer).await.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

/// Nobody holds, although the guard is still there.
#[history]
async fn a_lost_guard_does_not_keep_another_recipe_out(stage: Stage) {
    let client = stage.connect(0, session).await;
    let lost = mutex(&client).acquire().await.unwrap();
    assert!(stage.servers().delete(lost.node_path()));
    sleep(SOON).await;
    assert!(!lost.is_valid());
    let lock = ReadWriteLock::new(&client, PATH).unwrap();
    within(lock.write().owned_by(&Owner::new()).acquire()).await.unwrap().release().await.unwrap();
    drop(lost);
}

/// Its turn comes while it is not polled. Before the next poll, its node is deleted or its session ends.
#[history((false, false), (false, true), (true, false), (true, true))]
async fn a_wait_whose_turn_came_and_went_goes_on(stage: Stage, is_ticket: bool, is_session: bool) {
    let [holder, own] = [stage.connect(0, session).await, stage.connect(1, session).await];
    let held = mutex(&holder).acquire().await.unwrap();
    let lock = mutex(&own);
    let mut acquired = match is_ticket {
        false => async { lock.acquire().await }.boxed_local(),
        true => lock.enqueue().await.unwrap().acquired().boxed_local(),
    };
    assert!(timeout(A_MOMENT, &mut acquired).await.is_err());
    held.release().await.unwrap();
    sleep(A_MOMENT).await;
    if is_session {
        end_session(&stage, &own).await;
    } else {
        assert!(stage.servers().delete(&nodes(stage.servers(), PATH)[0]));
        sleep(SOON).await;
    }
    within(acquired).await.unwrap().release().await.unwrap();
}
