//! Several locks of any kind and any client, acquired one after the other: a multi-lock of existing locks.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::time::Instant;

use super::wait::Wait;
use crate::client::sleep_until;
use crate::error::{Error, Result};
use crate::lock::holding::guard::{LockGuard, release_all};
use crate::lock::inter_process_lock::InterProcessLock;

/// How long a wait must last before the locks acquired so far are worth a watch each.
const BRIEF_WAIT: Duration = Duration::from_millis(100);

/// The locks in the order in which everybody acquires them; at least one.
#[derive(Clone, Debug)]
pub(crate) struct OneByOne {
    locks: Arc<[Arc<dyn InterProcessLock>]>,
}

impl OneByOne {
    pub(crate) fn new(locks: Vec<Arc<dyn InterProcessLock>>) -> Self {
        Self { locks: locks.into() }
    }

    pub(crate) fn locks(&self) -> &[Arc<dyn InterProcessLock>] {
        &self.locks
    }

    pub(crate) async fn acquire(&self) -> Result<LockGuard> {
        loop {
            // `None` would mean that the wait has ended, which it does not.
            if let Some(guard) = self.try_acquire(Wait::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Acquires one lock after the other. Starts over if one is lost while waiting for another. Returns `None` if the
    /// locks were not available for that long.
    pub(crate) async fn try_acquire(&self, wait: Wait) -> Result<Option<LockGuard>> {
        'anew: loop {
            let mut taken = Vec::with_capacity(self.locks.len());
            for lock in &*self.locks {
                let next = tokio::select! {
                    biased;
                    next = take(&**lock, wait) => next,
                    () = any_lost(&taken) => continue 'anew,
                };
                match next {
                    Ok(Some(guard)) => taken.push(guard),
                    Ok(None) => {
                        let mut failed = give_back(taken, wait).await;
                        // Members that were lost need no release.
                        failed.retain(|error| !matches!(error, Error::LockLost { .. }));
                        return Error::all(failed).map_or(Ok(None), Err);
                    }
                    Err(error) => {
                        let mut failed = give_back(taken, wait).await;
                        failed.retain(|other| *other != error);
                        return Err(error.with(failed));
                    }
                }
            }
            let guard = LockGuard::of_all(taken);
            if wait.finish(guard.look()).await.is_none() {
                return Ok(None);
            }
            if guard.loss().is_none() {
                return Ok(Some(guard));
            }
        }
    }
}

async fn take(lock: &dyn InterProcessLock, wait: Wait) -> Result<Option<LockGuard>> {
    match wait {
        Wait::No => lock.try_acquire().await,
        Wait::Until { deadline, .. } => {
            let within = deadline.saturating_duration_since(Instant::now());
            // At the very deadline this is `try_acquire`, which has no bound of its own.
            wait.finish(lock.try_acquire_for(within)).await.unwrap_or(Ok(None))
        }
        Wait::Forever => lock.acquire().await.map(Some),
    }
}

/// Waits until one of the locks is lost. Sets a watch on their nodes only if this takes long enough to be worth
/// it.
async fn any_lost(taken: &[LockGuard]) {
    sleep_until(Instant::now() + BRIEF_WAIT).await;
    match taken {
        [] => pending().await,
        taken => drop(select_all(taken.iter().map(|guard| Box::pin(guard.lost()))).await),
    }
}

/// Releases the locks acquired so far after the next one could not be acquired, and returns the errors.
async fn give_back(taken: Vec<LockGuard>, wait: Wait) -> Vec<Error> {
    wait.finish(release_all(taken)).await.unwrap_or_default()
}
