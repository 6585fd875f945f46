//! Tickets and waiters whose nodes or connections are gone for a time, and what is dropped while servers are silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::Request;
use zk_recipes::{
    Client, ConnectionState, InterProcessMutex, LockGuard, Owner, ReadWriteLock, Result, RetryPolicy,
};
use zk_recipes_simulation::world::World;

use super::{A_MOMENT, Proxy, SESSION, ends, play, poll_once, queue, session_id, within};

const PATH: &str = "/locks/a";

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, PATH).unwrap()
}

fn acquiring(lock: &InterProcessMutex) -> tokio::task::JoinHandle<Result<LockGuard>> {
    let lock = lock.clone();
    spawn_local(async move { lock.acquire().await })
}

/// The node in the queue beside that of a holder.
fn beside(held: &LockGuard, world: &World) -> String {
    let mut nodes = world.servers().children(PATH).unwrap();
    nodes.retain(|node| !held.node_path().ends_with(node));
    let [node] = &nodes[..] else { panic!("one waits: {nodes:?}") };
    format!("{PATH}/{node}")
}

/// An operator deletes the node of a ticket, and someone makes one of that name.
#[test]
fn a_node_made_again_under_a_ticket_is_no_storm() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, |builder| builder.session_timeout(SESSION)).await;
        let lock = mutex(&client);
        let ticket = lock.enqueue().await.unwrap();
        let path = format!("{PATH}/{}", world.servers().children(PATH).unwrap()[0]);
        let behind = acquiring(&lock);
        sleep(SESSION).await;
        assert_eq!(queue(&world, PATH), 2);
        assert!(world.servers().delete(&path));
        let guard = within(behind).await.unwrap().unwrap();
        assert!(world.servers().create(&path, b"", false));
        proxy.take_requests();
        let acquire = spawn_local(ticket.acquired());
        sleep(2 * SESSION).await;
        let mut requests = proxy.take_requests();
        requests.retain(|request| *request != Request::Confirm);
        assert!(requests.len() <= 10, "{requests:?}");
        assert!(guard.is_valid() && !acquire.is_finished(), "it holds by the node of someone else");
        drop(guard);
        // It stands before the ticket, as anyone's node of that name.
        assert!(world.servers().delete(&path));
        drop(within(acquire).await.unwrap().unwrap());
        ends(&world, [client]).await;
    });
}

/// The lock objects and tickets of one recipe are gone, the second of which has waited behind the first: another may
/// follow at once.
#[test]
fn another_recipe_may_follow_a_watched_ticket_that_is_dropped() {
    play(async |world| {
        let client = world.machines()[0].client().await;
        let lock = mutex(&client);
        let ticket = lock.enqueue().await.unwrap();
        let second = lock.owned_by(&Owner::new()).enqueue().await.unwrap();
        sleep(SESSION).await;
        drop((second, ticket, lock));
        let other = ReadWriteLock::new(&client, PATH).unwrap();
        within(other.write().acquire()).await.unwrap().release().await.unwrap();
        ends(&world, [client]).await;
    });
}

/// A waiter keeps its place however often requests fail; so does a ticket that is awaited during an outage.
#[test]
fn an_outage_longer_than_the_policy_does_not_cost_a_ticket_its_place() {
    play(async |world| {
        let holder = world.machines()[1].client().await;
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, |builder| {
            let builder = builder.session_timeout(SESSION).drop_timeout(Duration::ZERO);
            builder.connection_timeout(SESSION / 50).retry_policy(RetryPolicy::one_time(A_MOMENT))
        });
        let client = client.await;
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
            let mut connection = client.watch_connection();
            within(connection.wait_for(|state| *state == ConnectionState::Suspended)).await.unwrap();
            let waiting = match ticket {
                Some(ticket) => spawn_local(ticket.acquired()),
                None => waiting,
            };
            let place = beside(&held, &world);
            // Several times what the policy allows.
            sleep(SESSION / 2).await;
            proxy.refuse_connections(false);
            held.release().await.unwrap();
            let guard = within(waiting).await.unwrap().unwrap();
            assert_eq!(guard.node_path(), place, "{is_ticket}");
            guard.release().await.unwrap();
            assert_eq!(session_id(&client).await, session);
            sleep(A_MOMENT).await;
            assert_eq!(queue(&world, PATH), 0);
        }
        ends(&world, [holder, client]).await;
    });
}

/// The servers answer nothing, but what was sent before they fell silent is done when they wake.
#[test]
fn requests_under_way_when_dropped_are_undone() {
    play(async |world| {
        let client = world.machines()[0].client().await;
        let session = session_id(&client).await;
        let lock = mutex(&client);
        lock.acquire().await.unwrap().release().await.unwrap();
        let changes = Arc::new(AtomicUsize::new(0));
        let seen = changes.clone();
        world.servers().observe(move |_| {
            seen.fetch_add(1, SeqCst);
        });
        for round in 0..3 {
            world.servers().set_paused(0, true);
            let is_pending = match round {
                0 => poll_once(&mut Box::pin(lock.acquire())).is_pending(),
                1 => poll_once(&mut Box::pin(lock.enqueue())).is_pending(),
                _ => poll_once(&mut Box::pin(lock.try_acquire())).is_pending(),
            };
            assert!(is_pending);
            sleep(A_MOMENT).await;
            world.servers().set_paused(0, false);
            sleep(A_MOMENT).await;
            assert_eq!(changes.swap(0, SeqCst), 2, "a create and a delete");
            assert_eq!(queue(&world, PATH), 0);
        }
        // Otherwise its end did the work.
        assert_eq!(session_id(&client).await, session);
        drop(lock);
        sleep(A_MOMENT).await;
        assert_eq!(world.servers().watch_count(), 0);
        ends(&world, [client]).await;
    });
}

#[test]
fn tickets_and_guards_dropped_and_releases_cancelled() {
    play(async |world| {
        let [client, holder] = [world.machines()[0].client().await, world.machines()[1].client().await];
        let session = session_id(&client).await;
        let lock = mutex(&client);
        let nothing_is_left = async || {
            sleep(A_MOMENT).await;
            assert_eq!(queue(&world, PATH), 0);
        };
        drop(lock.enqueue().await.unwrap());
        nothing_is_left().await;

        drop(lock.acquire().await.unwrap());
        nothing_is_left().await;

        let guard = lock.acquire().await.unwrap();
        assert!(poll_once(&mut Box::pin(guard.release())).is_pending(), "it takes a round trip");
        nothing_is_left().await;

        // Never polled: nothing was sent, and the guard inside is dropped.
        let guard = lock.acquire().await.unwrap();
        drop(guard.release());
        nothing_is_left().await;

        let held = mutex(&holder).acquire().await.unwrap();
        let ticket = lock.enqueue().await.unwrap();
        let followed = ticket.watch_position();
        assert!(timeout(SESSION, ticket.acquired()).await.is_err());
        sleep(A_MOMENT).await;
        assert_eq!(queue(&world, PATH), 1);
        drop((held, followed));
        nothing_is_left().await;
        assert_eq!(session_id(&client).await, session);
        drop(lock);
        nothing_is_left().await;
        assert_eq!(world.servers().watch_count(), 0);
        ends(&world, [client, holder]).await;
    });
}

/// Those behind it in the line watch nothing but the line.
#[test]
fn an_acquire_that_is_polled_no_more_and_deleted_keeps_nobody_waiting() {
    play(async |world| {
        let [client, holder] = [world.machines()[0].client().await, world.machines()[1].client().await];
        let lock = mutex(&client);
        let held = mutex(&holder).acquire().await.unwrap();
        let owned = lock.owned_by(&Owner::new());
        let mut forgotten = Box::pin(owned.acquire());
        assert!(timeout(A_MOMENT, &mut forgotten).await.is_err());
        let node = beside(&held, &world);
        let behind = acquiring(&lock.owned_by(&Owner::new()));
        sleep(A_MOMENT).await;
        assert!(world.servers().delete(&node));
        held.release().await.unwrap();
        // They look after it each second.
        let guard = timeout(SESSION / 5, behind).await.expect("it waits in vain").unwrap().unwrap();
        assert!(guard.is_valid());
        // Polled again, it waits for its turn at the end of the queue.
        assert!(timeout(SESSION, &mut forgotten).await.is_err());
        assert_eq!(queue(&world, PATH), 2);
        guard.release().await.unwrap();
        drop(within(forgotten).await.unwrap());
        sleep(A_MOMENT).await;
        assert_eq!(queue(&world, PATH), 0);
        drop((owned, lock));
        sleep(A_MOMENT).await;
        assert_eq!(world.servers().watch_count(), 0);
        ends(&world, [client, holder]).await;
    });
}
