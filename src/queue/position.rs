//! The position of a waiter: how many contenders are ahead of it.

use zookeeper_client as zk;

use super::internals::LockInternals;
use super::pure::order::in_order_of_creation;
use super::pure::rule::position_of;
use super::shared_local_queue::SharedLocalQueue;
use crate::client::{PAUSE, Watcher};
use crate::failure::Failure;
use crate::watch::Watched;

/// Publishes the position of a contender whenever the queue changes.
pub(crate) async fn follow(
    internals: &LockInternals,
    local: &SharedLocalQueue,
    own: &str,
    positions: &Watched<usize>,
) {
    loop {
        local.session().ready().await;
        match look(internals, local, own).await {
            Ok((Some(position), mut changed)) => {
                positions.show(position);
                changed.changed().await;
            }
            Err(error) if Failure::of(&error).is_passing() => tokio::time::sleep(PAUSE).await,
            // A queue that cannot be read, or that we are no longer in, has no position to publish.
            Ok((None, _)) | Err(_) => break,
        }
    }
    std::future::pending().await
}

/// Returns the position, if we are in the queue, and the watch on changes.
async fn look(
    internals: &LockInternals,
    local: &SharedLocalQueue,
    own: &str,
) -> Result<(Option<usize>, Watcher), zk::Error> {
    let (children, changed) = local.session().watch_list(internals.path()).await?;
    let queue = match internals.among(children).in_order() {
        Ok(queue) => queue,
        Err(undated) => in_order_of_creation(internals.dates_in(local, undated).await?),
    };
    Ok((position_of(own, &queue), changed))
}
