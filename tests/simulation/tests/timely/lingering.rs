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

/// An adopted session connects again by itself.
#[history(false, true)]
async fn a_lost_connection_ends_it(stage: Stage, is_adopted: bool) {
    const PATIENCE: Duration = ms(200);
    let proxy = stage.proxy(0).await;
    let client = match is_adopted {
        true => keep(Client::from_zookeeper(own_session(&proxy.address).await).unwrap()),
        false => proxy.client(|builder| builder.session_timeout(LONG)).await,
    };
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

#[history]
async fn cycles_send_nothing_and_count_turns(stage: Stage) {
    let (proxy, client) = stage.far(|builder| builder.session_timeout(LONG)).await;
    let mutex = lingering(&client, LockOptions::new().linger(LONG));
    let guard = mutex.acquire().await.unwrap();
    let token = guard.fencing_token();
    assert_eq!(guard.turn(), 0);
    // It is watched from then on.
    sleep(secs(2)).await;
    guard.release().await.unwrap();
    proxy.take_requests();
    for turn in 1..300 {
        let guard = match turn % 3 {
            0 => mutex.acquire().await.unwrap(),
            1 => mutex.try_acquire().await.unwrap().unwrap(),
            _ => mutex.try_acquire_for(LONG).await.unwrap().unwrap(),
        };
        assert_eq!((guard.is_valid(), guard.fencing_token(), guard.turn()), (true, token, turn));
        if turn % 2 == 0 { guard.release().await.unwrap() } else { drop(guard) }
    }
    sleep(A_MOMENT).await;
    assert_eq!(proxy.take_requests(), []);
    assert_eq!(queue(&stage, "/locks/a"), 1);
}

#[history]
async fn a_node_that_was_deleted_is_not_taken(stage: Stage) {
    let [client, operator] = stage.clients().await;
    let mutex = lingering(&client, LockOptions::new().linger(LONG));
    let node = leave_a_node(&mutex).await;
    assert_eq!(operate::force_release(&operator, "/locks/a").await.unwrap().len(), 1);
    let theirs = within(mutex_at(&operator, "/locks/a").acquire()).await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    drop(theirs);
    assert_ne!(leave_a_node(&mutex).await, node);
    // During a hold, it is lost as any other.
    let guard = mutex.acquire().await.unwrap();
    assert!(stage.servers().delete(guard.node_path()));
    assert_eq!(within(guard.lost()).await, LossReason::Deleted);
    assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
    leave_a_node(&mutex).await;
}

#[history]
async fn it_does_not_stay_while_its_state_is_watched(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = lingering(&client, LockOptions::new().linger(LONG));
    let node = leave_a_node(&mutex).await;
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node);
    let mut state = guard.watch_state();
    guard.release().await.unwrap();
    within(async { while state.changed().await.is_some() {} }).await;
    assert_ne!(mutex.acquire().await.unwrap().node_path(), node);
}
