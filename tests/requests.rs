//! What goes over the wire, counted by the server and seen on the way.

mod support;

use std::time::Duration;

use support::*;
use zk_recipes::testing::{FaultProxy, Request, TestingServer, Traffic};
use zk_recipes::{Client, InterProcessMutex};

/// Long enough for no ping to be sent in between.
const SESSION: Duration = Duration::from_secs(60);

#[tokio::test]
async fn requests_per_operation_as_counted_by_the_server() {
    let server = TestingServer::start().await.unwrap();
    let client = Client::builder().session_timeout(SESSION).connect(&server.connect_string()).await.unwrap();
    let mutex = mutex(&client);
    let session = session_id(&client).await;
    let count = async || server.session_packets(session).await.unwrap();

    // The first acquire makes the parents.
    mutex.acquire().await.unwrap().release().await.unwrap();
    for _ in 0..10 {
        let start = count().await;
        let guard = mutex.acquire().await.unwrap();
        let acquired = count().await;
        let again = mutex.acquire().await.unwrap();
        again.release().await.unwrap();
        let entered_again = count().await;
        guard.release().await.unwrap();
        let released = count().await;
        assert_eq!(acquired - start, 2, "an acquire is a create and a list");
        assert_eq!(entered_again - acquired, 0, "a re-entrant acquire and its release are nothing");
        assert_eq!(released - entered_again, 1, "a release is a delete");
    }
}

/// The requests of one client, as a proxy before the server sees them.
struct Observed {
    server: TestingServer,
    proxy: FaultProxy,
    mutex: InterProcessMutex,
    other: InterProcessMutex,
}

async fn observed() -> Observed {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(&server).await.unwrap();
    let client = Client::builder().session_timeout(SESSION).connect(&proxy.connect_string()).await.unwrap();
    let mutex = mutex(&client);
    let other = support::mutex(&connect(&server).await);
    mutex.acquire().await.unwrap().release().await.unwrap();
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
async fn a_waiter_watches_only_its_predecessor() {
    let Observed { server, proxy, mutex, other } = observed().await;
    let holder = other.acquire().await.unwrap();
    let ticket = {
        let other = other.clone();
        tokio::spawn(async move { other.enqueue().await }).await.unwrap().unwrap()
    };
    let waiter = acquire_in_task(&mutex);
    watches_of(&server, 1).await;
    assert_eq!(proxy.take_requests(), [Request::Create, Request::GetChildren, Request::GetData]);
    // The holder goes: that does not concern the last in the queue.
    holder.release().await.unwrap();
    let second = ticket.acquired().await.unwrap();
    assert_eq!(proxy.take_requests(), []);
    second.release().await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(proxy.take_requests(), [Request::GetChildren]);
    drop(guard);
}

#[tokio::test]
async fn a_failed_try_sets_no_watch() {
    let Observed { server, proxy, mutex, other } = observed().await;
    let holder = other.acquire().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(proxy.take_requests(), [Request::Create, Request::GetChildren, Request::Delete]);
    assert_eq!(server.watch_count().await.unwrap(), 0);
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
        [Request::Create, Request::GetChildren, Request::GetData, Request::GetChildren]
    );
    assert_eq!(server.watch_count().await.unwrap(), 0);
    drop(guard);
}

#[tokio::test]
async fn a_grant_after_a_long_wait_takes_a_sign_that_the_session_lives() {
    const SESSION: Duration = Duration::from_millis(1500);
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(&server).await.unwrap();
    let builder = Client::builder().session_timeout(SESSION);
    let client = builder.connect(&proxy.connect_string()).await.unwrap();
    let other = support::mutex(&connect(&server).await);
    for is_long in [false, true] {
        let holder = other.acquire().await.unwrap();
        let waiter = acquire_in_task(&mutex(&client));
        watches_of(&server, 1).await;
        proxy.take_requests();
        if is_long {
            // Then nothing vouches for it but pings, which a server answers by itself.
            tokio::time::sleep(SESSION).await;
            assert_eq!(proxy.take_requests(), [], "who waits sends no signs of life");
        }
        holder.release().await.unwrap();
        let guard = within(waiter).await.unwrap().unwrap();
        assert!(guard.is_valid());
        let expected: &[Request] =
            if is_long { &[Request::Sync, Request::GetChildren] } else { &[Request::GetChildren] };
        assert_eq!(proxy.take_requests(), expected);
        guard.release().await.unwrap();
        queue_of(&bystander(&server).await, "/locks/a", 0).await;
    }
}

#[tokio::test]
async fn an_adopted_session_is_valid_from_its_first_answer() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(&server).await.unwrap();
    let zookeeper = zookeeper_client::Client::connect(&proxy.connect_string()).await.unwrap();
    let mutex = mutex(&Client::from_zookeeper(zookeeper).unwrap());
    mutex.acquire().await.unwrap().release().await.unwrap();
    proxy.take_requests();
    let guard = mutex.acquire().await.unwrap();
    assert!(guard.is_valid());
    assert_eq!(proxy.take_requests(), [Request::Create, Request::GetChildren]);
    guard.release().await.unwrap();
}
