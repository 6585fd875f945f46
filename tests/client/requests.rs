//! What goes over the wire, counted by the server and seen on the way.

use std::time::Duration;

use crate::support::*;
use zk_recipes::testing::{Fate, FaultProxy, Request, Traffic};
use zk_recipes::{Client, Error, InterProcessMutex, Owner};

/// Long enough for no ping to be sent in between.
const SESSION: Duration = Duration::from_secs(60);

#[tokio::test]
async fn requests_per_operation_as_counted_by_the_server() {
    let server = empty_server().await;
    let client = Client::builder().session_timeout(SESSION).connect(&server.connect_string()).await.unwrap();
    let mutex = mutex(&client);
    let session = session_id(&client).await;
    let count = async || server.session_packets(session).await.unwrap();

    // The first acquire makes the parents; the second watches the path, along with all else.
    mutex.acquire().await.unwrap().release().await.unwrap();
    let start = count().await;
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(count().await - start, 3, "the path is watched, and the create followed by a list");
    guard.release().await.unwrap();
    for _ in 0..10 {
        let start = count().await;
        let guard = mutex.acquire().await.unwrap();
        let acquired = count().await;
        let again = mutex.acquire().await.unwrap();
        again.release().await.unwrap();
        let entered_again = count().await;
        guard.release().await.unwrap();
        let released = count().await;
        assert_eq!(acquired - start, 1, "an acquire is a create");
        assert_eq!(entered_again - acquired, 0, "a re-entrant acquire and its release are nothing");
        assert_eq!(released - entered_again, 1, "a release is a delete");
    }
}

/// The requests of one client, as a proxy before the server sees them.
struct Observed {
    server: PooledServer,
    proxy: FaultProxy,
    mutex: InterProcessMutex,
    other: InterProcessMutex,
}

async fn observed() -> Observed {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = Client::builder().session_timeout(SESSION).connect(&proxy.connect_string()).await.unwrap();
    let mutex = mutex(&client);
    let other = crate::support::mutex(&connect(&server).await);
    // The path is there, but new to the client.
    other.acquire().await.unwrap().release().await.unwrap();
    proxy.take_requests();
    Observed { server, proxy, mutex, other }
}

#[tokio::test]
async fn create_and_list_are_sent_back_to_back() {
    let Observed { server: _server, proxy, mutex, .. } = observed().await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let acquiring = acquire_in_task(&mutex);
    eventually("both requests are sent before any reply", || async {
        (proxy.requests_seen() == 2).then_some(())
    })
    .await;
    assert!(!acquiring.is_finished());
    assert_eq!(proxy.take_requests(), [Request::Create, Request::GetChildren]);
    proxy.set_traffic(Traffic::pass());
    let guard = within(acquiring).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(proxy.take_requests(), [Request::Delete]);
}

#[tokio::test]
async fn a_waiter_looks_again_while_the_one_before_it_holds() {
    let Observed { server, proxy, mutex, other } = observed().await;
    let holder = other.acquire().await.unwrap();
    let ticket = {
        let other = other.clone();
        tokio::spawn(async move { other.enqueue().await }).await.unwrap().unwrap()
    };
    let waiter = acquire_in_task(&mutex);
    watches_of(&server, 1).await;
    eventually("it has looked", || async { (proxy.requests_seen() == 4).then_some(()) }).await;
    // The watch on its own node tells it if it has lost its place.
    assert_eq!(
        proxy.take_requests(),
        [Request::Create, Request::GetChildren, Request::GetData, Request::GetData]
    );
    holder.release().await.unwrap();
    let second = ticket.acquired().await.unwrap();
    watches_on(&server, second.node_path()).await;
    eventually("the queue is listed", || async { (proxy.requests_seen() == 2).then_some(()) }).await;
    assert_eq!(proxy.take_requests(), [Request::GetData, Request::GetChildren]);
    // So that the last hand-over takes no request.
    second.release().await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(proxy.take_requests(), []);
    drop(guard);
}

#[tokio::test]
async fn a_failed_try_sets_no_watch() {
    let Observed { server, proxy, mutex, other } = observed().await;
    let holder = other.acquire().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(proxy.take_requests(), [Request::Create, Request::GetChildren, Request::Delete]);
    assert_eq!(watches(&server).await, 0);
    drop(holder);
}

#[tokio::test]
async fn a_predecessor_that_is_gone_before_it_is_watched_leaves_no_watch() {
    let Observed { server, proxy, mutex, other } = observed().await;
    let holder = other.acquire().await.unwrap();
    let replies = proxy.replies_seen();
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiter = acquire_in_task(&mutex);
    eventually("the queue is listed", || async { (proxy.replies_seen() >= replies + 2).then_some(()) }).await;
    holder.release().await.unwrap();
    proxy.set_traffic(Traffic::pass());
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(
        proxy.take_requests(),
        [Request::Create, Request::GetChildren, Request::GetData, Request::GetData]
    );
    assert_eq!(watches(&server).await, 0);
    drop(guard);
}

#[tokio::test]
async fn a_grant_after_a_long_wait_takes_a_sign_that_the_session_lives() {
    const SESSION: Duration = Duration::from_secs(9);
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let builder = Client::builder().session_timeout(SESSION);
    let client = builder.connect(&proxy.connect_string()).await.unwrap();
    let other = crate::support::mutex(&connect(&server).await);
    for is_long in [false, true] {
        let holder = other.acquire().await.unwrap();
        let waiter = acquire_in_task(&mutex(&client));
        watches_of(&server, 1).await;
        // The last of its requests is for the watch on its own node.
        let own = queue_of(&zookeeper, "/locks/a", 2).await.into_iter().max_by_key(|node| sequence(node));
        watches_on(&server, &own.unwrap()).await;
        proxy.take_requests();
        if is_long {
            // Then nothing vouches for it but pings, which a server answers by itself.
            tokio::time::sleep(SESSION / 3).await;
            assert_eq!(proxy.take_requests(), [], "who waits sends no signs of life");
        }
        holder.release().await.unwrap();
        let guard = within(waiter).await.unwrap().unwrap();
        assert!(guard.is_valid());
        let expected: &[Request] = if is_long { &[Request::Confirm, Request::GetChildren] } else { &[] };
        let mut requests = proxy.take_requests();
        assert!(requests.starts_with(expected), "{requests:?}");
        // Of a holder one may be due at once.
        requests.drain(..expected.len());
        assert!(requests.iter().all(|request| *request == Request::Confirm), "{requests:?}");
        guard.release().await.unwrap();
        queue_of(&zookeeper, "/locks/a", 0).await;
    }
}

#[tokio::test]
async fn an_adopted_session_is_valid_from_its_first_answer() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = zookeeper_client::Client::connect(&proxy.connect_string()).await.unwrap();
    let mutex = mutex(&Client::from_zookeeper(zookeeper).unwrap());
    mutex.acquire().await.unwrap().release().await.unwrap();
    proxy.take_requests();
    let guard = mutex.acquire().await.unwrap();
    assert!(guard.is_valid());
    assert_eq!(proxy.take_requests(), [Request::Exists, Request::Create, Request::GetChildren]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn waiting_in_the_line_of_a_known_queue_takes_a_create_and_a_watch() {
    let Observed { server, proxy, mutex, .. } = observed().await;
    for _ in 0..2 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let holder = mutex.acquire().await.unwrap();
    proxy.take_requests();
    let waiters = [acquire_in_task(&mutex), acquire_in_task(&mutex)];
    watches_of(&server, 2).await;
    let mut requests = proxy.take_requests();
    requests.sort_unstable_by_key(|request| *request == Request::GetData);
    let (creates, watches) = requests.split_at(2);
    assert_eq!(creates, [Request::Create; 2]);
    // Whoever has held for a second watches its node, too.
    assert!((2..=3).contains(&watches.len()), "{watches:?}");
    assert!(watches.iter().all(|request| *request == Request::GetData), "{watches:?}");
    holder.release().await.unwrap();
    for waiter in waiters {
        within(waiter).await.unwrap().unwrap().release().await.unwrap();
    }
    assert_eq!(proxy.take_requests(), [Request::Delete; 3]);
}

#[tokio::test]
async fn a_release_lets_the_next_in_the_line_in_before_the_server_answers() {
    let Observed { server, proxy, mutex, .. } = observed().await;
    for _ in 0..2 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let holder = mutex.acquire().await.unwrap();
    let waiter = acquire_in_task(&mutex);
    watches_of(&server, 1).await;
    // In the session's order, the client hears that it watches before this answer.
    mutex.participants().await.unwrap();
    proxy.set_traffic(Traffic::black_hole());
    let releasing = tokio::spawn(holder.release());
    let guard = within(waiter).await.unwrap().unwrap();
    assert!(guard.is_valid() && !releasing.is_finished());
    proxy.set_traffic(Traffic::pass());
    within(releasing).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Whether the first of the line is still there is asked now and then, by one for all.
#[tokio::test]
async fn a_long_wait_in_the_line_costs_a_look_now_and_then() {
    let Observed { server, proxy, mutex, .. } = observed().await;
    let holder = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
    let waiters: Vec<_> = (0..5)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move { mutex.owned_by(&Owner::new()).acquire().await })
        })
        .collect();
    watches_of(&server, 5).await;
    // Until the holder is watched, too.
    watches_with_holders(&server, 6).await;
    proxy.take_requests();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut asked = proxy.take_requests();
    asked.retain(|request| !matches!(request, Request::Sync | Request::Confirm));
    assert!(asked.len() <= 3 && asked.iter().all(|request| *request == Request::Exists), "{asked:?}");
    holder.release().await.unwrap();
    for waiter in waiters {
        within(waiter).await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_lock_object_watches_ends_with_it() {
    let Observed { server, proxy: _proxy, mutex, .. } = observed().await;
    for _ in 0..3 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(server.watch_count().await.unwrap(), 1, "of its path");
    drop(mutex);
    eventually("none is left", async || (server.watch_count().await.unwrap() == 0).then_some(())).await;
}

/// A container that was removed and made again counts from zero: what was known of the queue is not of this one.
#[tokio::test]
async fn a_path_that_was_made_again_is_not_known() {
    let Observed { server, proxy, mutex, other } = observed().await;
    let zookeeper = bystander(&server).await;
    for _ in 0..3 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let last = mutex.acquire().await.unwrap();
    let number: u32 = last.node_path()[last.node_path().len() - 10..].parse().unwrap();
    last.release().await.unwrap();
    zookeeper.delete("/locks/a", None).await.unwrap();
    for _ in 0..number {
        other.acquire().await.unwrap().release().await.unwrap();
    }
    let holder = other.acquire().await.unwrap();
    assert!(holder.node_path().ends_with(&format!("{number:010}")));
    proxy.take_requests();
    // Its number is the one after the last that it knows.
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(
        proxy.take_requests(),
        [Request::Exists, Request::Create, Request::GetChildren, Request::Delete]
    );
    holder.release().await.unwrap();
}

/// By which a session asks for its own ephemeral nodes.
const OWN_NODES: Request = Request::Other(103);

/// The replies come when all have given up, and name the nodes.
#[tokio::test]
async fn many_tries_that_time_out_in_their_create_are_removed_by_name() {
    many_tries_time_out_in_their_create(|proxy| proxy.set_traffic(Traffic::pass())).await;
}

/// The replies are lost, so that the nodes are looked for.
#[tokio::test]
async fn many_tries_that_time_out_in_their_create_are_swept_together() {
    many_tries_time_out_in_their_create(|proxy| {
        proxy.cut();
        proxy.set_traffic(Traffic::pass());
    })
    .await;
}

async fn many_tries_time_out_in_their_create(then: impl FnOnce(&FaultProxy)) {
    const TRIES: usize = 200;
    /// Of one client, at a time.
    const UNDER_WAY: usize = 64;
    const SESSION: Duration = Duration::from_secs(2);
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = Client::builder().session_timeout(SESSION).connect(&proxy.connect_string()).await.unwrap();
    let mutex = mutex(&client);
    for _ in 0..2 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    proxy.set_traffic(Traffic::black_hole_to_client());
    proxy.take_requests();
    let tries: Vec<_> = (0..TRIES)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move {
                mutex.owned_by(&Owner::new()).try_acquire_for(Duration::from_millis(50)).await
            })
        })
        .collect();
    for each in tries {
        // Some were in the queue, and others waited for those; none has heard of it.
        let error = within(each).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::NotConnected { .. }), "{error}");
    }
    let zookeeper = bystander(&server).await;
    queue_of(&zookeeper, "/locks/a", UNDER_WAY).await;
    then(&proxy);
    // Both creates and deletes count.
    let changes = 2 * (UNDER_WAY + 2) as i32;
    eventually("all are created and gone", async || {
        let (children, stat) = zookeeper.get_children("/locks/a").await.unwrap();
        (children.is_empty() && stat.cversion >= changes).then_some(())
    })
    .await;
    let requests = proxy.take_requests();
    let looks = requests.iter().filter(|request| [Request::GetChildren, OWN_NODES].contains(request)).count();
    assert!(looks < 20, "{looks} looks for {UNDER_WAY} nodes");
}

#[tokio::test]
async fn before_a_lost_create_is_looked_for_the_server_catches_up() {
    let Observed { server, proxy, mutex, .. } = observed().await;
    for _ in 0..2 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    proxy.take_requests();
    // The connection stays, so that it is only the look that can have the server catch up.
    let create = proxy.intercept(Request::Create, Fate::HoldReply);
    let cancelled = acquire_in_task(&mutex);
    within(create.happened()).await;
    cancelled.abort();
    // For so long the reply is waited for, which would tell the name.
    let mut requests = Vec::new();
    let look = eventually("it is looked for", || {
        requests.extend(proxy.take_requests());
        let look = requests.iter().position(|request| *request == OWN_NODES);
        async move { look }
    })
    .await;
    create.release();
    queue_of(&bystander(&server).await, "/locks/a", 0).await;
    // What a majority commits: a leader that the others have replaced must not say that there is no such node.
    assert_eq!(requests[..look].last(), Some(&Request::Confirm), "{requests:?}");
}
