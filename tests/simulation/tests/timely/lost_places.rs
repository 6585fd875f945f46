//! Places in queues that are lost: with their sessions, or since somebody deletes their nodes.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::Request;
use zk_recipes::{
    ConnectionState, InterProcessMutex, LossReason, MultiLock, Owner, ReadWriteLock, RetryPolicy, operate,
    zookeeper_client as zk,
};
use zk_recipes_simulation::world::World;

use super::kinds::{KINDS, assert_lost, in_task};
use super::queue::*;
use super::{A_MOMENT, Proxy, ends, play, play_with, within};

/// Ends the session of a client, which gets another one.
async fn end_session(world: &World, client: &zk_recipes::Client) {
    let old = session_id(client).await;
    world.servers().end_session(old);
    sleep(SOON).await;
    assert_ne!(session_id(client).await, old);
}

#[test]
fn a_waiter_whose_session_is_killed_queues_again_on_the_new_one() {
    play(async |world| {
        let servers = world.servers();
        let clients = connect_all(&world).await;
        let [holder, killed, third] = &clients;
        let held = mutex(holder).acquire().await.unwrap();
        let waiting = waiter(&mutex(killed)).await;
        let behind = waiter(&mutex(third)).await;
        assert_eq!(nodes(servers, PATH).len(), 3);
        end_session(&world, killed).await;
        // Its place is lost: now it is behind the third.
        let queue = nodes(servers, PATH);
        let owners: Vec<_> = queue.iter().map(|node| servers.node(node).unwrap().ephemeral_owner).collect();
        let [holder, new, third] =
            [session_id(holder).await, session_id(killed).await, session_id(third).await];
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
        ends(&world, clients).await;
    });
}

#[test]
fn a_holder_whose_session_is_killed_has_lost_the_lock() {
    play(async |world| {
        let [killed, other] = [connect(&world, 0).await, connect(&world, 1).await];
        let lock = mutex(&killed);
        let lost = lock.acquire().await.unwrap();
        world.servers().end_session(session_id(&killed).await);
        let guard = within(mutex(&other).acquire()).await.unwrap();
        assert!(guard.fencing_token() > lost.fencing_token());
        let mut connection = killed.watch_connection();
        within(connection.wait_for(|state| *state != ConnectionState::Connected)).await.unwrap();
        assert_eq!(within(lost.lost()).await, LossReason::Expired);
        assert!(is_lost(&lock.acquire().await.unwrap_err()));
        assert!(is_lost(&lost.release().await.unwrap_err()));
        // The owner is free to acquire again, and waits for the present holder.
        let again = in_task(Arc::new(lock));
        sleep(SOON).await;
        assert_eq!(nodes(world.servers(), PATH).len(), 2);
        guard.release().await.unwrap();
        granted(again).await.release().await.unwrap();
        nothing_is_left(world.servers()).await;
        ends(&world, [killed, other]).await;
    });
}

#[test]
fn a_waiter_whose_node_is_deleted_queues_again() {
    play(async |world| {
        let servers = world.servers();
        let clients = connect_all(&world).await;
        let [holder, evicted, third] = clients.each_ref().map(mutex);
        let held = holder.acquire().await.unwrap();
        let waiting = waiter(&evicted).await;
        // More often than the retry policy allows in a row: each time it has stood in the queue.
        for round in 1..=5 {
            servers.delete(&nodes(servers, PATH)[1]);
            // It learns of it when the contender before it goes or changes.
            servers.set_data(held.node_path(), &servers.node(held.node_path()).unwrap().data);
            sleep(SOON).await;
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
        ends(&world, clients).await;
    });
}

/// Losing a node is no failure to reach the servers.
#[test]
fn a_waiter_that_retries_nothing_queues_again_when_its_node_is_deleted() {
    play(async |world| {
        let servers = world.servers();
        let never = RetryPolicy::n_times(0, Duration::from_millis(1));
        let client = connect_with(&world, 0, |builder| builder.retry_policy(never)).await;
        let other = connect(&world, 1).await;
        let held = mutex(&other).acquire().await.unwrap();
        let waiting = waiter(&mutex(&client)).await;
        let evicted = nodes(servers, PATH).remove(1);
        servers.delete(&evicted);
        sleep(SOON).await;
        assert!(!waiting.is_finished(), "it has given up");
        assert_ne!(nodes(servers, PATH)[1], evicted);
        held.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
        nothing_is_left(servers).await;
        ends(&world, [client, other]).await;
    });
}

/// Numbers begin again in a queue that was made again, so that a stranger has the number of a place that is gone. It is
/// lost by a ticket, or by a multi-lock that holds it while it waits in another queue.
async fn vouches_for_no_stranger(world: World, is_multi: bool) {
    let servers = world.servers();
    let [own, other] = [connect(&world, 0).await, connect(&world, 1).await];
    let ours = mutex(&own);
    let elsewhere = InterProcessMutex::new(&other, "/locks/b").unwrap().acquire().await.unwrap();
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
    ends(&world, [own, other]).await;
}

#[test]
fn a_place_of_a_queue_that_was_removed_does_not_vouch_for_a_stranger_of_the_next_one() {
    play(|world| vouches_for_no_stranger(world, false));
}

#[test]
fn a_member_that_a_multi_lock_has_lost_does_not_vouch_for_a_stranger() {
    play(|world| vouches_for_no_stranger(world, true));
}

/// A ticket that nobody awaits does not notice what becomes of its place.
#[test]
fn a_ticket_that_was_first_is_not_granted_when_its_place_is_gone() {
    play(async |world| {
        let servers = world.servers();
        let [first, other] = [connect(&world, 0).await, connect(&world, 1).await];
        for is_killed in [true, false] {
            let ticket = mutex(&first).enqueue().await.unwrap();
            assert_eq!(ticket.position().await, Ok(0));
            if is_killed {
                end_session(&world, &first).await;
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
        ends(&world, [first, other]).await;
    });
}

/// The ticket's place is in the line of its client, and those behind it watch nothing but the line.
#[test]
fn the_end_of_a_ticket_that_nobody_awaits_lets_the_next_one_on() {
    play(async |world| {
        let servers = world.servers();
        let clients = connect_all(&world).await;
        let [own, other, operator] = &clients;
        let ours = mutex(own);
        let ticket = ours.owned_by(&Owner::new()).enqueue().await.unwrap();
        sleep(SESSION).await;
        assert_eq!(servers.watch_count(), 0, "nobody is behind it");
        let next = waiter(&ours).await;
        let last = waiter(&mutex(other)).await;
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
        ends(&world, clients).await;
    });
}

/// Futures that are never polled again, whose nodes somebody deletes.
fn forgotten_futures_end(number: usize, may_be_read: bool) {
    play(async move |world| {
        let servers = world.servers();
        let clients = connect_all(&world).await;
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
        let operator = operator.zookeeper().await.unwrap();
        for node in &nodes(servers, PATH)[1..=number] {
            if !may_be_read {
                // Servers tell nobody of the end of a node that he may not read.
                let but_read = zk::Permission::CREATE | zk::Permission::DELETE | zk::Permission::ADMIN;
                operator.set_acl(node, &[zk::Acl::new(but_read, zk::AuthId::anyone())], None).await.unwrap();
            }
            assert!(servers.delete(node));
        }
        held.release().await.unwrap();
        // The longer it has waited, the longer is the pause.
        let guard = timeout(2 * SESSION, granted(next)).await.expect("their ends are noticed");
        guard.release().await.unwrap();
        drop(futures);
        nothing_is_left(servers).await;
        ends(&world, clients).await;
    });
}

#[test]
fn futures_that_are_never_polled_are_in_nobodys_way_when_their_nodes_are_gone() {
    for (number, may_be_read) in [(1, true), (1, false), (10, true)] {
        forgotten_futures_end(number, may_be_read);
    }
}

#[test]
fn a_holder_whose_node_is_deleted_hears_of_it_at_the_release() {
    play(async |world| {
        let client = connect(&world, 0).await;
        let lock = mutex(&client);
        let guard = lock.acquire().await.unwrap();
        world.servers().delete(guard.node_path());
        assert!(is_lost(&guard.release().await.unwrap_err()));
        visit(&lock).await;
        nothing_is_left(world.servers()).await;
        ends(&world, [client]).await;
    });
}

/// CURATOR-171: a holder whose node is deleted goes on.
#[test]
fn an_operator_can_evict_a_holder() {
    play(async |world| {
        let clients = connect_all(&world).await;
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
        nothing_is_left(world.servers()).await;
        ends(&world, clients).await;
    });
}

#[test]
fn parents_that_vanish_are_made_again() {
    let reaps = |plan: &mut zk_recipes_simulation::plan::Plan| plan.reap_interval = Duration::from_millis(1);
    play_with(1, reaps, async |world| {
        let servers = world.servers();
        let client = connect(&world, 0).await;
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
        let deep = InterProcessMutex::new(&client, "/a/b/c/d/e").unwrap();
        for round in 0..400 {
            visit(&lock).await;
            // At another moment of the server's rounds.
            sleep(Duration::from_micros(round % 10 * 300)).await;
            visit(&deep).await;
        }
        ends(&world, [client]).await;
    });
}

/// An operator deletes the nodes of readers that are never polled again, one after another: each is looked at once.
#[test]
fn the_end_of_many_readers_is_noticed_with_few_looks() {
    const READERS: usize = 100;
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, |builder| builder.session_timeout(SESSION)).await;
        let other = connect(&world, 1).await;
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
        let looks = || proxy.take_requests().iter().filter(|request| **request == Request::Exists).count();
        // The second look is two seconds after the first, or after a change.
        let mut looked = 0;
        while looked < 2 * READERS {
            sleep(Duration::from_millis(1)).await;
            looked += looks();
        }
        sleep(Duration::from_millis(1990)).await;
        looks();
        for victim in &nodes(world.servers(), PATH)[1..=READERS] {
            assert!(world.servers().delete(victim));
            sleep(Duration::from_millis(1)).await;
        }
        let looked = looks();
        assert!((1..=3 * READERS).contains(&looked), "{looked} looks");
        held.release().await.unwrap();
        granted(next).await.release().await.unwrap();
        drop(readers);
        ends(&world, [client, other]).await;
    });
}
