//! Waits that end with their client, or are given up.

use super::prelude::*;

#[history]
async fn close_wakes_everybody(stage: Stage) {
    let [client, other, _] = connect_all(&stage).await;
    let (holder, shared) = (mutex(&other), mutex(&client));
    let other_path = mutex_at(&client, "/locks/b");
    let own = other_path.acquire().await.unwrap();
    let held = holder.acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..5 {
        waiters.push(waiter(&shared).await);
    }
    let timed = shared.clone();
    waiters.push(tokio::spawn(async move { timed.try_acquire_for(BOUND).await.map(|guard| guard.unwrap()) }));
    let ticket = shared.enqueue().await.unwrap();
    waiters.push(tokio::spawn(ticket.acquired()));
    sleep(A_MOMENT).await;
    assert_eq!(nodes(stage.servers(), PATH).len(), 8);
    let start = Instant::now();
    within(client.close()).await;
    assert!(client.is_closed());
    for waiter in waiters {
        assert_eq!(within(waiter).await.unwrap().unwrap_err(), Error::Closed);
    }
    assert!(start.elapsed() < A_MOMENT, "long before the session times out");
    // Its session has ended: also what it held is free, at once.
    assert_eq!(nodes(stage.servers(), PATH), [held.node_path()]);
    assert_eq!(nodes(stage.servers(), "/locks/b"), [""; 0]);
    assert_eq!(own.release().await, Err(Error::Closed));
    assert_eq!(shared.acquire().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.try_acquire().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.try_acquire_for(BOUND).await.unwrap_err(), Error::Closed);
    assert_eq!(shared.enqueue().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.participants().await.unwrap_err(), Error::Closed);
    assert_eq!(client.zookeeper().await.unwrap_err(), Error::Closed);
    state_is(&client, ConnectionState::Closed).await;
    drop(held);
    nothing_is_left(stage.servers()).await;
}
