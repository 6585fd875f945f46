//! A task that watches the nodes at the front of a local queue.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;
use zookeeper_client as zk;

use super::internals::LockInternals;
use super::pure::local_queue::Rank;
use super::shared_local_queue::SharedLocalQueue;
use crate::client::{Client, LatestWatch, Session};

/// For how long a contender is at the front before it is watched. Most hand-overs are faster, and cost nothing here.
const BRIEF: Duration = Duration::from_secs(1);

/// Removes contenders at the front of a local queue when their nodes are gone. Call this for each newcomer: it
/// starts a task with the first waiter, which ends when no one waits.
///
/// Contenders behind the front watch nothing but the local queue. Without this task they would wait for a contender
/// that is never polled again, or for a ticket that no one awaits, even after an operator has deleted its node.
pub(super) fn watch_over(internals: &LockInternals, local: &Arc<SharedLocalQueue>, newcomer: Rank) {
    if local.is_to_be_watched(newcomer) {
        // Neither the queue nor the local queue, which would outlive its contenders.
        let (client, queue, local) =
            (internals.client().clone(), internals.path().clone(), Arc::downgrade(local));
        internals.client().spawn(async move {
            // Once the client is closed, no one waits.
            let _ = client.closing().run_until_cancelled(watch_the_front(&client, &queue, &local)).await;
        });
    }
}

async fn watch_the_front(client: &Client, queue: &str, local: &Weak<SharedLocalQueue>) {
    let (mut front, mut watched, mut ends) = (Vec::new(), BTreeSet::new(), FuturesUnordered::new());
    loop {
        let ended = tokio::select! {
            Some(rank) = ends.next() => Some(rank),
            () = sleep(BRIEF) => None,
        };
        let Some(local) = local.upgrade().filter(|local| !local.session().is_over()) else { return };
        let mut has_removed = false;
        if let Some(rank) = ended {
            watched.remove(&rank);
            has_removed = local.with(|local, _| local.is_member(rank));
            local.leave(rank);
        }
        let Some(now) = local.front() else { return };
        for (rank, name) in &now {
            // Those behind one that was gone may be gone as well.
            let is_due = has_removed || front.binary_search_by_key(rank, |(rank, _)| *rank).is_ok();
            if is_due && watched.insert(*rank) {
                ends.push(end_of(client, queue, local.session().clone(), *rank, name.clone()));
            }
        }
        if ended.is_none() || has_removed {
            front = now;
        }
    }
}

/// Waits until the node of a contender is gone, and confirms that, as its holder does.
async fn end_of(client: &Client, queue: &str, session: Arc<Session>, rank: Rank, name: String) -> Rank {
    let path = format!("{queue}/{name}");
    let mut watch = LatestWatch::default();
    loop {
        match session.watch_data_patiently(&path).await {
            Ok((_, _, watcher)) => _ = watch.wait(client, &session, watcher).await,
            Err(zk::Error::NoNode) => return rank,
            // It may not be read, which can change.
            Err(_) => sleep(session.watch_holds_for()).await,
        }
    }
}
