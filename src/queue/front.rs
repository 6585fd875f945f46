//! A task that watches the contenders at the front of a local queue.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;

use super::blocker::BlockerWatch;
use super::internals::LockInternals;
use super::pure::contender::WatchState;
use super::pure::local_queue::Rank;
use super::shared_local_queue::SharedLocalQueue;

/// Most hand-overs are faster, and cost nothing here.
const TICK: Duration = Duration::from_secs(1);

/// The node is gone.
struct Gone;

/// Removes contenders at the front of a local queue within two ticks after their nodes are gone. Call this for each
/// newcomer: it starts a task with the first waiter, which ends when no one waits.
///
/// Contenders behind the front watch nothing but the local queue. Without this task they would wait for a ticket that
/// nobody awaits, or a future that is never polled again, even after an operator has deleted its node.
pub(super) fn watch_over(internals: &LockInternals, local: &Arc<SharedLocalQueue>, newcomer: Rank) {
    if local.is_to_be_watched(newcomer) {
        // Neither the queue nor the local queue, which would outlive its contenders.
        let (queue, local, closing) =
            (internals.path().clone(), Arc::downgrade(local), internals.client().closing());
        internals.client().spawn(async move {
            // Once the client is closed, no one waits.
            let _ = closing.run_until_cancelled(watch_the_front(&queue, &local)).await;
        });
    }
}

async fn watch_the_front(queue: &str, local: &Weak<SharedLocalQueue>) {
    let mut watches: HashMap<Rank, Option<BlockerWatch>> = HashMap::new();
    loop {
        tokio::time::sleep(TICK).await;
        let Some(local) = local.upgrade().filter(|local| !local.session().is_over()) else { return };
        let Some(front) = local.front() else { return };
        let seen = join_all(front.into_iter().map(|(rank, name)| {
            let (before, local) = (watches.remove(&rank), &local);
            async move {
                let seen = match before {
                    Some(watch) => watched(queue, local, &name, watch).await,
                    None => Ok(None),
                };
                (rank, seen)
            }
        }));
        watches = HashMap::new();
        for (rank, seen) in seen.await {
            match seen {
                Ok(watch) => drop(watches.insert(rank, watch)),
                Err(Gone) => local.leave(rank),
            }
        }
    }
}

/// Returns the watch on a contender, which is set again if it has fired; `None` if that is not possible now.
async fn watched(
    queue: &str,
    local: &SharedLocalQueue,
    name: &str,
    watch: Option<BlockerWatch>,
) -> Result<Option<BlockerWatch>, Gone> {
    let state = |mut watch: BlockerWatch| (watch.state(), watch);
    match watch.map(state) {
        Some((WatchState::There, watch)) => return Ok(Some(watch)),
        Some((WatchState::Gone, _)) => return Err(Gone),
        _ => {}
    }
    match BlockerWatch::set(queue, local.session(), name, local.connection()).await {
        Ok((_, watch)) => watch.ok_or(Gone).map(Some),
        // The servers cannot be reached.
        Err(_) => Ok(None),
    }
}
