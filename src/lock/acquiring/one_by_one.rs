//! Several locks of any kind and any client, acquired one after the other: a multi-lock of existing locks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::wait::{Wait, remaining};
use crate::client::sleep_until;
use crate::error::{Error, LossReason, Result};
use crate::lock::holding::guard::{BRIEF_WAIT, LockGuard, any_lost, release_all};
use crate::lock::holding::held_node::HeldNode;
use crate::lock::inter_process_lock::InterProcessLock;
use crate::queue::Losses;

/// How often in a row an acquire may meet a lost lock that another call of its owner holds.
const MOST_SHARED_LOSSES: u32 = 5;

/// After this time in the queues, a loss is not one of a series.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// How a round through all locks has ended.
enum Round {
    Held(LockGuard),
    /// One was not available in time.
    Unavailable,
    /// One was lost before all were held.
    Lost(Error),
}

/// Acquires one lock after the other, in the order in which everybody acquires them; at least one. Starts over if one is
/// lost before all are held. Returns `None` if the locks were not available for that long.
pub(crate) async fn try_acquire(
    locks: &[Arc<dyn InterProcessLock>],
    wait: Wait,
) -> Result<Option<LockGuard>> {
    // With the client's timers, since the caller may have none.
    locks[0].first_client().at_home(rounds(locks, wait)).await
}

async fn rounds(locks: &[Arc<dyn InterProcessLock>], wait: Wait) -> Result<Option<LockGuard>> {
    let mut losses = Losses::default();
    // How often a lock may yet be found lost that another call of the owner holds, who is about to notice.
    let mut shared_losses = 0;
    loop {
        let start = Instant::now();
        match round(locks, wait).await {
            Ok(Round::Held(guard)) => return Ok(Some(guard)),
            Ok(Round::Unavailable) => return Ok(None),
            Ok(Round::Lost(error)) => {
                match error {
                    Error::LockLost { reason: LossReason::Deleted, .. } => {}
                    Error::LockLost { reason: LossReason::Expired | LossReason::Suspect, .. } => {
                        losses.reset();
                    }
                    // The next round would not be faster, or not get so far.
                    error => return Err(error),
                }
                if start.elapsed() > LONG_WAIT && !matches!(wait, Wait::No) {
                    losses.reset();
                }
                shared_losses = MOST_SHARED_LOSSES;
            }
            Err(Error::LockLost { .. }) if shared_losses > 0 => shared_losses -= 1,
            Err(error) => return Err(error),
        }
        // After the deadline, the next round finds out what to answer.
        let paths = || locks.iter().flat_map(|lock| lock.paths()).collect::<Vec<_>>().join(", ");
        wait.bound(pin!(losses.pause(&paths()))).await.unwrap_or(Ok(()))?;
    }
}

async fn round(locks: &[Arc<dyn InterProcessLock>], wait: Wait) -> Result<Round> {
    let mut taken = Vec::with_capacity(locks.len());
    for lock in locks {
        let loss = async { taken[any_lost(taken.iter().collect()).await].ensure_held() };
        let next = tokio::select! {
            biased;
            next = take(&**lock, wait) => next,
            Err(error) = loss => return Ok(Round::Lost(error)),
        };
        match next {
            Ok(Some(guard)) => taken.push(guard),
            Ok(None) => {
                let mut failed = give_back(taken, wait).await;
                // What was lost needs no release.
                failed.retain(|error| !matches!(error, Error::LockLost { .. }));
                return Error::all(failed).map_or(Ok(Round::Unavailable), Err);
            }
            Err(error) => {
                let mut failed = give_back(taken, wait).await;
                failed.retain(|other| *other != error);
                return Err(error.with(failed));
            }
        }
    }
    let guard = LockGuard::of_all(taken);
    loop {
        let look = async |node: &Arc<HeldNode>| wait.finish(pin!(node.look())).await.unwrap_or(false);
        let answered = join_all(guard.nodes().map(look)).await;
        let silent = guard.nodes().zip(answered).find(|(_, has_answered)| !has_answered);
        match (guard.ensure_held(), silent, wait) {
            (Err(error), ..) => return Ok(Round::Lost(error)),
            (Ok(()), None, _) => return Ok(Round::Held(guard)),
            (Ok(()), Some((node, _)), Wait::Until { deadline, within }) if deadline <= Instant::now() => {
                return Err(node.client().not_connected(within));
            }
            // Until it answers, or the session is over.
            (Ok(()), Some(_), _) => sleep_until(Instant::now() + BRIEF_WAIT).await,
        }
    }
}

async fn take(lock: &dyn InterProcessLock, wait: Wait) -> Result<Option<LockGuard>> {
    match wait {
        Wait::No => lock.try_acquire().await,
        Wait::Until { deadline, within } => {
            let not_connected = || lock.first_client().not_connected(within);
            let remaining = remaining(deadline).ok_or_else(not_connected)?;
            let mut taken = lock.try_acquire_for(remaining).await;
            if let Err(Error::NotConnected { waited, .. }) = &mut taken {
                *waited = within;
            }
            taken
        }
        Wait::Forever => lock.acquire().await.map(Some),
    }
}

/// Releases the locks acquired so far after the next one could not be acquired, and returns the errors.
async fn give_back(taken: Vec<LockGuard>, wait: Wait) -> Vec<Error> {
    wait.finish(pin!(release_all(taken))).await.unwrap_or_default()
}
