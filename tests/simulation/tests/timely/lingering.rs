//! How long a lock lingers, and its holds last.

use super::prelude::*;

const LONG: Duration = secs(600);

fn lingering(client: &Client, options: LockOptions) -> InterProcessMutex {
    mutex_at(client, "/locks/a").with_options(options).unwrap()
}

/// Acquires and releases. Returns the node, which stays.
async fn leave_a_node(mutex: &InterProcessMutex) -> String {
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node_path().to_owned();
    // It has listed the queue.
    sleep(A_MOMENT).await;
    guard.release().await.unwrap();
    node
}

#[history]
async fn a_lock_lingers_for_a_time_from_its_last_release(stage: Stage) {
    const TIME: Duration = ms(500);
    let client = stage.client(0).await;
    let mutex = lingering(&client, LockOptions::new().linger(TIME));
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node_path().to_owned();
    guard.release().await.unwrap();
    for _ in 0..5 {
        sleep(TIME - A_MOMENT).await;
        assert!(stage.servers().node(&node).is_some());
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(guard.node_path(), node);
        // However long it is held.
        sleep(2 * TIME).await;
        guard.release().await.unwrap();
    }
    sleep(TIME - A_MOMENT).await;
    assert!(stage.servers().node(&node).is_some());
    sleep(2 * A_MOMENT).await;
    assert!(stage.servers().node(&node).is_none());
    assert_ne!(mutex.acquire().await.unwrap().node_path(), node);
    sleep(TIME).await;
}

#[history]
async fn each_hold_has_the_whole_time(stage: Stage) {
    const MAX_HOLD: Duration = secs(3);
    let client = stage.client(0).await;
    let mutex = lingering(&client, LockOptions::new().linger(LONG).max_hold(MAX_HOLD));
    let node = leave_a_node(&mutex).await;
    // Nothing is over while no one holds.
    sleep(2 * MAX_HOLD).await;
    let start = Instant::now();
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node);
    assert_eq!(guard.remaining_hold(), Some(MAX_HOLD));
    assert_eq!(within(guard.lost()).await, LossReason::Deadline);
    takes(start, MAX_HOLD);
    drop(guard);
    let node = leave_a_node(&mutex).await;
    assert_eq!(mutex.acquire().await.unwrap().node_path(), node);
}

#[history]
async fn a_lost_connection_ends_it(stage: Stage) {
    const PATIENCE: Duration = ms(200);
    let (proxy, client) = stage.far(|builder| builder.session_timeout(LONG)).await;
    let mutex = lingering(&client, LockOptions::new().linger(LONG));
    let node = leave_a_node(&mutex).await;
    proxy.set_traffic(Traffic::black_hole());
    proxy.cut();
    sleep(A_MOMENT).await;
    let tried = took(PATIENCE, mutex.try_acquire_for(PATIENCE)).await;
    assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    proxy.set_traffic(Traffic::pass());
    let guard = within(mutex.acquire()).await.unwrap();
    assert_ne!(guard.node_path(), node);
}
