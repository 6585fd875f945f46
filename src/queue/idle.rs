//! A place that nobody may poll for long, and that others of its line wait for.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::blocker::BlockerWatch;
use super::contender::Sight;
use super::internals::LockInternals;
use super::line::Rank;
use super::membership::SharedLine;

/// After a request that failed for want of a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Has a place leave its line when its node is gone, also while nobody polls it. Dropping this ends that.
///
/// Those behind it in the line watch nothing but the line, and would wait for it until it is polled again. Nothing is
/// sent as long as nobody is.
#[derive(Debug)]
pub(crate) struct IdleWatch {
    _until_dropped: DropGuard,
}

impl IdleWatch {
    /// For the place of that rank, whose node has that name.
    pub(crate) fn of(
        internals: &Arc<LockInternals>,
        line: &Arc<SharedLine>,
        rank: Rank,
        name: String,
    ) -> Self {
        let dropped = CancellationToken::new();
        // Not the queue itself, which would outlive its lock objects until the task hears that this is dropped.
        let (queue, line, until_dropped) = (internals.path().clone(), line.clone(), dropped.clone());
        internals.client().spawn(async move {
            let watching = async {
                line.waited_for(rank).await;
                if is_gone(&queue, &line, &name).await {
                    line.leave(rank);
                }
            };
            // Ended or dropped, nothing is left to be done.
            let _ = until_dropped.run_until_cancelled(watching).await;
        });
        Self { _until_dropped: dropped.drop_guard() }
    }
}

/// Waits until the node is gone. Returns false if that cannot be told.
async fn is_gone(queue: &str, line: &SharedLine, name: &str) -> bool {
    loop {
        line.session().ready().await;
        match BlockerWatch::set(queue, line.session(), name, line.connection()).await {
            Ok((_, Some(mut watch))) => {
                watch.changed().await;
                if watch.sight() == Sight::Gone {
                    return true;
                }
            }
            Ok((_, None)) => return true,
            Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
            Err(_) => return false,
        }
    }
}
