//! How many contenders are before one that waits.

use tokio::sync::watch;

use super::internals::LockInternals;
use super::rule::position_of;
use crate::client::Session;

/// Publishes the position of a contender whenever the queue changes.
pub(crate) async fn follow(
    internals: &LockInternals,
    session: &Session,
    own: &str,
    positions: &watch::Sender<usize>,
) {
    // A queue that cannot be read, or no longer has us, has no position to tell.
    while let Ok((children, mut changed)) = session.watch_list(internals.path()).await {
        let Ok(queue) = internals.in_order(session, children).await else { break };
        let Some(position) = position_of(own, &queue) else { break };
        positions.send_if_modified(|last| std::mem::replace(last, position) != position);
        changed.changed().await;
    }
    std::future::pending().await
}
