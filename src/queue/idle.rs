//! Watches the node of a place that is not polled, on behalf of the local waiters behind it.

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::blocker::BlockerWatch;
use super::internals::LockInternals;
use super::pure::contender::WatchState;
use super::pure::local_queue::Rank;
use super::shared_local_queue::SharedLocalQueue;
use crate::client::PAUSE;

/// Removes the place of that rank from its local queue when the node of that name is gone, even while the place is not polled.
/// Dropping what this returns ends the watch.
///
/// The waiters behind the place in the local queue watch nothing else, and would wait until the place is polled
/// again. Nothing is sent while there are no such waiters.
pub(crate) fn watch(
    internals: &LockInternals,
    local: &Arc<SharedLocalQueue>,
    rank: Rank,
    name: String,
) -> DropGuard {
    let dropped = CancellationToken::new();
    // Not the queue itself: it would outlive its lock objects until the task learns of the drop.
    let (queue, local, until_dropped) = (internals.path().clone(), local.clone(), dropped.clone());
    internals.client().spawn(async move {
        let watching = async {
            local.waited_for(rank).await;
            if is_gone(&queue, &local, &name).await {
                local.leave(rank);
            }
        };
        // Whether it ended or was dropped, nothing is left to do.
        let _ = until_dropped.run_until_cancelled(watching).await;
    });
    dropped.drop_guard()
}

/// Waits until the node is gone. Returns false if that cannot be determined.
async fn is_gone(queue: &str, local: &SharedLocalQueue, name: &str) -> bool {
    loop {
        local.session().ready().await;
        match BlockerWatch::set(queue, local.session(), name, local.connection()).await {
            Ok((_, Some(mut watch))) => {
                watch.changed().await;
                if watch.state() == WatchState::Gone {
                    return true;
                }
            }
            Ok((_, None)) => return true,
            Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
            Err(_) => return false,
        }
    }
}
