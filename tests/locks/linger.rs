//! Locks that linger: whose node stays for the next holder of the same client.

use crate::prelude::*;

const PATH: &str = "/locks/a";

/// Longer than any test.
const LONG: Duration = secs(600);

/// The same lock, which does not linger.
fn plain(client: &Client) -> InterProcessMutex {
    mutex(client)
}

fn lingering(client: &Client) -> InterProcessMutex {
    lingering_for(client, LONG)
}

fn lingering_for(client: &Client, time: Duration) -> InterProcessMutex {
    mutex(client).with_options(LockOptions::new().linger(time)).unwrap()
}

/// Acquires by a node that has stayed.
async fn once_more(mutex: &InterProcessMutex, before: &LockGuard) -> LockGuard {
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), before.node_path());
    guard
}

/// Acquires and releases. Returns the node, which stays.
async fn leave_a_node(mutex: &InterProcessMutex) -> String {
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node_path().to_owned();
    guard.release().await.unwrap();
    // Awaits the list.
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node, "it has not stayed");
    guard.release().await.unwrap();
    node
}

/// Acquires in a task of its own, and hands the guard over.
async fn acquired_elsewhere(mutex: &InterProcessMutex) -> LockGuard {
    within(acquire_in_task(mutex)).await.unwrap().unwrap()
}

#[tokio::test]
async fn cycles_send_nothing_and_count_turns() {
    let server = Server::start().await.unwrap();
    let client = builder().session_timeout(secs(60)).connect(&server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let mutex = lingering(&client);
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.turn(), 0);
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    leave_a_node(&mutex).await;
    // What is sent once: the watch on the node itself.
    let zookeeper = bystander(&server).await;
    watches_with_holders(&server, 2).await;
    let before = server.session_packets(session).await.unwrap();
    for turn in 3..1000 {
        let guard = match turn % 3 {
            0 => mutex.acquire().await.unwrap(),
            1 => mutex.try_acquire().await.unwrap().unwrap(),
            _ => mutex.try_acquire_for(BOUND).await.unwrap().unwrap(),
        };
        assert!(guard.is_valid());
        assert_eq!((guard.fencing_token(), guard.turn()), (token, turn));
        if turn % 2 == 0 { guard.release().await.unwrap() } else { drop(guard) }
    }
    let sent = server.session_packets(session).await.unwrap() - before;
    assert!(sent <= 1, "{sent} requests; at most a ping was due");
    assert_eq!(children(&zookeeper, PATH).await.len(), 1);
}

#[tokio::test]
async fn any_owner_and_any_lock_object_takes_it() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let (one, another) = (lingering(&client), lingering(&client).owned_by(&Owner::new()));
    let node = leave_a_node(&one).await;
    let guard = acquired_elsewhere(&another).await;
    assert_eq!(guard.node_path(), node);
    // While it is held, others wait for it as ever.
    assert!(one.try_acquire().await.unwrap().is_none());
    assert!(one.owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
    drop((guard, one, another));
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn an_owner_reenters_it() {
    let (_, [client]) = sandbox_with_clients().await;
    let mutex = lingering(&client);
    leave_a_node(&mutex).await;
    let guard = mutex.acquire().await.unwrap();
    let again = once_more(&mutex, &guard).await;
    assert_eq!((again.hold_count(), again.turn()), (2, guard.turn()));
    drop(guard);
    assert!(mutex.is_acquired_in_this_process());
    again.release().await.unwrap();
    assert!(!mutex.is_acquired_in_this_process());
    assert!(mutex.is_locked().await.unwrap(), "others see it held");
}

#[tokio::test]
async fn a_node_that_was_deleted_is_not_taken() {
    let (_server, zookeeper, [client, operator]) = server_with_clients().await;
    let mutex = lingering(&client);
    let node = leave_a_node(&mutex).await;
    zookeeper.delete(&node, None).await.unwrap();
    // In the session's order, the event comes before this answer.
    client.zookeeper().await.unwrap().sync(PATH).await.unwrap();
    let guard = mutex.acquire().await.unwrap();
    assert_ne!(guard.node_path(), node);
    guard.release().await.unwrap();

    leave_a_node(&mutex).await;
    operate::force_release(&operator, PATH).await.unwrap();
    let guard = within(plain(&operator).acquire()).await.unwrap();
    client.zookeeper().await.unwrap().sync(PATH).await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    drop(guard);

    // During a hold, it is lost as any other.
    leave_a_node(&mutex).await;
    let guard = mutex.acquire().await.unwrap();
    zookeeper.delete(guard.node_path(), None).await.unwrap();
    assert_eq!(within(guard.lost()).await, LossReason::Deleted);
    let lost = guard.release().await.unwrap_err();
    assert!(matches!(lost, Error::LockLost { reason: LossReason::Deleted, .. }), "{lost}");
    leave_a_node(&mutex).await;
}

#[tokio::test]
async fn a_session_that_goes_on_keeps_no_node_of_a_client_that_was_closed() {
    let (server, zookeeper, []) = server_with_clients().await;
    let owned = zk::Client::connect(&server.connect_string()).await.unwrap();
    let client = Client::from_zookeeper(owned.clone()).unwrap();
    let mutex = lingering(&client);
    leave_a_node(&mutex).await;
    client.close().await;
    queue_of(&zookeeper, PATH, 0).await;
    assert_eq!(mutex.acquire().await.unwrap_err(), Error::Closed);
}

#[tokio::test]
async fn participants_show_it() {
    let (_server, _, [client, other]) = server_with_clients().await;
    let mutex = lingering(&client);
    let node = leave_a_node(&mutex).await;
    let shown = mutex.holder().await.unwrap().unwrap();
    assert_eq!(shown.node_path(), node);
    assert!(shown.is_holder() && shown.is_lingering());
    // An object with other options shows it, another client cannot know.
    assert!(plain(&client).participants().await.unwrap()[0].is_lingering());
    let theirs = plain(&other).participants().await.unwrap();
    assert!(theirs[0].is_holder() && !theirs[0].is_lingering());
    let _guard = mutex.acquire().await.unwrap();
    assert!(!mutex.holder().await.unwrap().unwrap().is_lingering());
}

#[tokio::test]
async fn it_does_not_stay_while_its_state_is_watched() {
    let (_, [client]) = sandbox_with_clients().await;
    let mutex = lingering(&client);
    leave_a_node(&mutex).await;
    let guard = mutex.acquire().await.unwrap();
    let mut state = guard.watch_state();
    let node = guard.node_path().to_owned();
    guard.release().await.unwrap();
    while within(state.changed()).await.is_some() {}
    assert_ne!(mutex.acquire().await.unwrap().node_path(), node);
}

#[tokio::test]
async fn a_loop_without_a_pause_lets_others_in() {
    let (server, _, [other]) = server_with_clients().await;
    // On the runtime of the loop, the client would starve if the loop never let it run.
    for client in [connect(&server).await, connect_here(&server).await] {
        let mutex = lingering(&client);
        let stranger = plain(&other);
        let stranger =
            tokio::spawn(async move { stranger.acquire().await.unwrap().release().await.unwrap() });
        let start = std::time::Instant::now();
        while !stranger.is_finished() {
            mutex.acquire().await.unwrap().release().await.unwrap();
            assert!(start.elapsed() < BOUND, "the stranger waits");
        }
        client.close().await;
    }
}

#[tokio::test]
async fn a_loop_without_a_pause_uses_up_the_budget_of_its_task() {
    let (_, [client]) = sandbox_with_clients().await;
    let mutex = lingering(&client);
    leave_a_node(&mutex).await;
    let cycles = async {
        for _ in 0..10_000 {
            mutex.acquire().await.unwrap().release().await.unwrap();
        }
    };
    assert_eq!(poll_times(cycles, 1).await, None, "it has not let others run");
}

/// The locks of each kind but a mutex, with these options.
pub(crate) fn others_with(client: &Client, options: &LockOptions) -> [Result<()>; 6] {
    let options = || options.clone();
    let both = ReadWriteLock::new(client, PATH).unwrap();
    [
        both.with_options(options()).map(drop),
        both.write().with_options(options()).map(drop),
        both.read().with_options(options()).map(drop),
        Semaphore::new(client, PATH, 3).unwrap().with_options(options()).map(drop),
        SemaphoreMutex::new(client, "/locks/b").unwrap().with_options(options()).map(drop),
        MultiLock::new(client, [PATH]).unwrap().with_options(options()).map(drop),
    ]
}

#[tokio::test]
async fn only_mutexes_linger() {
    let (_, [client]) = sandbox_with_clients().await;
    let zero = mutex(&client).with_options(LockOptions::new().linger(Duration::ZERO)).map(drop);
    let refused = others_with(&client, &LockOptions::new().linger(LONG));
    for refused in refused.into_iter().chain([zero]) {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "linger", .. }), "{error}");
    }
}

#[test]
fn the_end_of_the_runtime_ends_it() {
    let around = tokio::runtime::Runtime::new().unwrap();
    let server = around.block_on(Server::start()).unwrap();
    let inner = tokio::runtime::Runtime::new().unwrap();
    let mutex = inner.block_on(async {
        let client = connect_here(&server).await;
        let mutex = lingering(&client);
        leave_a_node(&mutex).await;
        mutex
    });
    drop(inner);
    let tried = around.block_on(within(mutex.try_acquire_for(ms(100))));
    assert!(tried.is_err(), "{tried:?}");
}
