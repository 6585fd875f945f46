//! How a line ends, and what it outlasts.

use super::*;

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
    let tried = around.block_on(within(tries.try_acquire_for(ms(100))));
    assert!(tried.is_err(), "{tried:?}");
    drop(guard);
}

fn in_line_on(runtime: &tokio::runtime::Runtime, mutex: &InterProcessMutex) -> Acquire {
    let _entered = runtime.enter();
    in_line(mutex)
}
