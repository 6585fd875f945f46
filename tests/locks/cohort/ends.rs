//! How a line ends, and what it outlasts.

use super::*;

#[tokio::test]
async fn an_expired_session_does_not_stop_the_line() {
    let (_server, _, [client]) = server_with_clients().await;
    let mutex = selfish(&client);
    let log = Log::default();
    let lost = mutex.acquire().await.unwrap();
    let tasks: Vec<_> = (0..5).map(|number| log.visit(number, in_line(&mutex))).collect();
    kill_session(&client).await.unwrap();
    // The guard of the lost hold is still there.
    for task in tasks {
        assert_ne!(within(task).await.unwrap(), lost.node_path());
    }
    assert_eq!(log.visits(), names("", 0..5));
    assert!(!lost.is_valid());
}

#[tokio::test]
async fn a_deleted_node_does_not_stop_the_line() {
    let (server, zookeeper, [client]) = server_with_clients_here().await;
    let mutex = selfish(&client);
    // As holders, and as the next of the line.
    for is_held in [true, false] {
        let guard = alone(&server, &client, &mutex).await;
        let node = guard.node_path().to_owned();
        let next = in_line(&mutex);
        let guard = if is_held {
            Some(guard)
        } else {
            guard.release().await.unwrap();
            watches_on(&server, &node).await;
            None
        };
        zookeeper.delete(&node, None).await.unwrap();
        if guard.is_none() {
            is_up_to_date(&client).await;
        }
        let next = within(next).await.unwrap();
        assert_ne!(next.node_path(), node);
        next.release().await.unwrap();
        drop(guard);
    }
}

#[tokio::test]
async fn closing_the_client_ends_the_wait() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    for is_held in [true, false] {
        let [client, other] = connect_many(&server).await;
        let held = if is_held { selfish(&client) } else { plain(&other) };
        let guard = held.acquire().await.unwrap();
        let mutex = selfish(&client);
        let waiting: Vec<_> = (0..5).map(|_| tokio::spawn(in_line(&mutex))).collect();
        queue_of(&zookeeper, PATH, if is_held { 1 } else { 2 }).await;
        within(client.close()).await;
        for waiting in waiting {
            assert_eq!(within(waiting).await.unwrap().unwrap_err(), Error::Closed);
        }
        assert_eq!(mutex.try_acquire().await.unwrap_err(), Error::Closed);
        drop(guard);
        queue_of(&zookeeper, PATH, 0).await;
    }
}

#[tokio::test]
async fn all_in_line_learn_that_the_session_is_over_for_good() {
    let server = Server::start().await.unwrap();
    let owned = zk::Client::connect(&server.connect_string()).await.unwrap();
    let client = Client::from_zookeeper(owned.clone()).unwrap();
    let mutex = selfish(&client);
    let guard = mutex.acquire().await.unwrap();
    let waiting: Vec<_> = (0..10).map(|_| tokio::spawn(in_line(&mutex))).collect();
    server.kill_session(owned.session_id().0).await.unwrap();
    for waiting in waiting {
        let error = within(waiting).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::SessionOver { .. }), "{error}");
    }
    drop(guard);
}

#[tokio::test]
async fn the_line_goes_on_without_the_first_lock_object() {
    let (_server, zookeeper, [client]) = server_with_clients().await;
    let mutex = selfish(&client);
    let log = Log::default();
    let guard = mutex.acquire().await.unwrap();
    let tasks: Vec<_> = (0..5).map(|number| log.visit(number, in_line(&selfish(&client)))).collect();
    drop((mutex, client));
    guard.release().await.unwrap();
    all_end(tasks).await;
    assert_eq!(log.visits(), names("", 0..5));
    queue_of(&zookeeper, PATH, 0).await;
}

#[test]
fn the_end_of_the_runtime_ends_the_wait() {
    let around = tokio::runtime::Runtime::new().unwrap();
    let server = around.block_on(Server::start()).unwrap();
    let inner = tokio::runtime::Runtime::new().unwrap();
    let (mutex, guard) = inner.block_on(async {
        let client = connect_here(&server).await;
        let mutex = selfish(&client);
        let guard = mutex.acquire().await.unwrap();
        (mutex, guard)
    });
    let waiting = around.spawn(in_line_on(&around, &mutex));
    let tries = mutex.owned_by(&Owner::new());
    drop(inner);
    let waited = around.block_on(within(waiting)).unwrap();
    assert!(waited.is_err(), "{waited:?}");
    let tried = around.block_on(within(tries.try_acquire_for(Duration::from_millis(100))));
    assert!(tried.is_err(), "{tried:?}");
    drop(guard);
}

fn in_line_on(runtime: &tokio::runtime::Runtime, mutex: &InterProcessMutex) -> Acquire {
    let _entered = runtime.enter();
    in_line(mutex)
}

#[tokio::test]
async fn an_unknown_outcome_ends_the_handing_on() {
    let (server, _, [client]) = server_with_clients_here().await;
    let mutex = selfish(&client);
    let guard = alone(&server, &client, &mutex).await;
    let node = guard.node_path().to_owned();
    let next = in_line(&mutex);
    drop(poll_times(guard.transaction().commit(), 1).await);
    drop(guard);
    let next = within(next).await.unwrap();
    assert_ne!(next.node_path(), node);
}
