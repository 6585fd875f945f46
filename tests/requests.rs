//! What goes over the wire, counted by the server and seen on the way.

mod support;

use std::time::Duration;

use support::proxy::{CREATE2, DELETE, GET_CHILDREN, GET_DATA, Proxy};
use support::*;
use zk_recipes::testing::TestingServer;
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
    proxy: Proxy,
    mutex: InterProcessMutex,
    other: InterProcessMutex,
}

async fn observed() -> Observed {
    let server = TestingServer::start().await.unwrap();
    let proxy = Proxy::start(&server).await;
    let client = Client::builder().session_timeout(SESSION).connect(proxy.connect_string()).await.unwrap();
    let mutex = mutex(&client);
    let other = support::mutex(&connect(&server).await);
    mutex.acquire().await.unwrap().release().await.unwrap();
    proxy.take_requests();
    Observed { server, proxy, mutex, other }
}

#[tokio::test]
async fn create_and_list_are_sent_back_to_back() {
    let Observed { server: _server, proxy, mutex, .. } = observed().await;
    proxy.hold_replies(true);
    let acquiring = acquire_in_task(&mutex);
    eventually("both requests are sent before any reply", || async {
        (proxy.requests_seen() == 2).then_some(())
    })
    .await;
    assert!(!acquiring.is_finished());
    assert_eq!(proxy.take_requests(), [CREATE2, GET_CHILDREN]);
    proxy.hold_replies(false);
    let guard = within(acquiring).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(proxy.take_requests(), [DELETE]);
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
    assert_eq!(proxy.take_requests(), [CREATE2, GET_CHILDREN, GET_DATA]);
    // The holder goes: that does not concern the last in the queue.
    holder.release().await.unwrap();
    let second = ticket.acquired().await.unwrap();
    assert_eq!(proxy.take_requests(), []);
    second.release().await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(proxy.take_requests(), [GET_CHILDREN]);
    drop(guard);
}

#[tokio::test]
async fn a_failed_try_sets_no_watch() {
    let Observed { server, proxy, mutex, other } = observed().await;
    let holder = other.acquire().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(proxy.take_requests(), [CREATE2, GET_CHILDREN, DELETE]);
    assert_eq!(server.watch_count().await.unwrap(), 0);
    drop(holder);
}

#[tokio::test]
async fn a_predecessor_that_is_gone_before_it_is_watched_leaves_no_watch() {
    let Observed { server, proxy, mutex, other } = observed().await;
    let holder = other.acquire().await.unwrap();
    let replies = proxy.replies_seen();
    proxy.hold_replies(true);
    let waiter = acquire_in_task(&mutex);
    eventually("the queue is listed", || async { (proxy.replies_seen() >= replies + 2).then_some(()) }).await;
    holder.release().await.unwrap();
    proxy.hold_replies(false);
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(proxy.take_requests(), [CREATE2, GET_CHILDREN, GET_DATA, GET_CHILDREN]);
    assert_eq!(server.watch_count().await.unwrap(), 0);
    drop(guard);
}
