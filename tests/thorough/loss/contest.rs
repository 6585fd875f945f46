//! Two who want one lock.

use tokio::task::JoinHandle;
use tokio::time::Instant;
use zk_recipes::{Client, InterProcessMutex, LockGuard};

use crate::support::queue_of;

/// Acquires a lock in a task of its own, which says when it was granted.
pub(crate) fn acquire(client: &Client, lock: &str) -> JoinHandle<(Instant, LockGuard)> {
    let mutex = InterProcessMutex::new(client, lock).unwrap();
    tokio::spawn(async move {
        let guard = mutex.acquire().await.unwrap();
        (Instant::now(), guard)
    })
}

/// One holds a lock for which the next one waits.
pub(crate) async fn hold_before_next(
    holding: &Client,
    waiting: &Client,
    lock: &str,
) -> (LockGuard, JoinHandle<(Instant, LockGuard)>) {
    let (_, guard) = acquire(holding, lock).await.unwrap();
    let next = acquire(waiting, lock);
    queue_of(&waiting.zookeeper().await.unwrap(), lock, 2).await;
    (guard, next)
}
