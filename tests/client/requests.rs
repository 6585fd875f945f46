//! What goes over the wire, counted by the server and seen on the way.

use crate::prelude::*;

/// Long enough for no ping to be sent in between.
const SESSION: Duration = secs(60);

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

/// A server, a proxy before it, a client's lock behind that, and one of another client.
async fn observed() -> (PooledServer, FaultProxy, InterProcessMutex, InterProcessMutex) {
    let (server, proxy, _) = server_with_proxy().await;
    let client = Client::builder().session_timeout(SESSION).connect(&proxy.connect_string()).await.unwrap();
    let other = mutex(&connect(&server).await);
    // The path is there, but new to the client.
    visit(&other, 1).await;
    proxy.take_requests();
    (server, proxy, mutex(&client), other)
}

#[tokio::test]
async fn create_and_list_are_sent_back_to_back() {
    let (_server, proxy, mutex, _) = observed().await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let acquiring = acquire_in_task(&mutex);
    until("both requests are sent before any reply", || proxy.requests_seen() == 2).await;
    assert!(!acquiring.is_finished());
    assert_eq!(proxy.take_requests(), [Request::Create, Request::GetChildren]);
    proxy.set_traffic(Traffic::pass());
    let guard = within(acquiring).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(proxy.take_requests(), [Request::Delete]);
}

#[tokio::test]
async fn a_failed_try_sets_no_watch() {
    let (server, proxy, mutex, other) = observed().await;
    let holder = other.acquire().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(proxy.take_requests(), [Request::Create, Request::GetChildren, Request::Delete]);
    assert_eq!(watches(&server).await, 0);
    drop(holder);
}

#[tokio::test]
async fn an_adopted_session_is_valid_from_its_first_answer() {
    let (_server, proxy, _) = server_with_proxy().await;
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
async fn what_a_lock_object_watches_ends_with_it() {
    let (server, _proxy, mutex, _) = observed().await;
    visit(&mutex, 3).await;
    assert_eq!(server.watch_count().await.unwrap(), 1, "of its path");
    drop(mutex);
    all_watches(&server, 0).await;
}
