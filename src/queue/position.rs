//! How many contenders are before one that waits.

use std::time::Duration;

use tokio::sync::watch;
use zookeeper_client as zk;

use super::internals::LockInternals;
use super::rule::position_of;
use crate::client::{Session, Watcher};
use crate::failure::Failure;

/// After a request that failed for want of a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Publishes the position of a contender whenever the queue changes.
pub(crate) async fn follow(
    internals: &LockInternals,
    session: &Session,
    own: &str,
    positions: &watch::Sender<usize>,
) {
    loop {
        match look(internals, session, own).await {
            Ok((Some(position), mut changed)) => {
                positions.send_if_modified(|last| std::mem::replace(last, position) != position);
                changed.changed().await;
            }
            Err(error) if Failure::of(&error).is_passing() => tokio::time::sleep(PAUSE).await,
            // A queue that cannot be read, or no longer has us, has no position to tell.
            Ok((None, _)) | Err(_) => break,
        }
    }
    std::future::pending().await
}

/// The position, if the queue has us, and what tells of changes.
async fn look(
    internals: &LockInternals,
    session: &Session,
    own: &str,
) -> Result<(Option<usize>, Watcher), zk::Error> {
    let (children, changed) = session.watch_list(internals.path()).await?;
    let queue = internals.in_order(session, children).await?;
    Ok((position_of(own, &queue), changed))
}
