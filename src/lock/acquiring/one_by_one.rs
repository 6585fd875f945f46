//! Several locks of any kind and any client, acquired one after the other: a multi-lock of existing locks.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::ticket::{Ticket, Waiter};
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
        self.acquire_after(Vec::new()).await
    }

    /// Acquires the locks behind those that it has.
    async fn acquire_after(&self, taken: Vec<LockGuard>) -> Result<LockGuard> {
        let mut acquired = self.take_each(taken, Wait::Forever).await?;
        loop {
            match acquired {
                Some(guard) => return Ok(guard),
                // That would mean that the wait has ended, which it does not.
                None => acquired = self.take_each(Vec::new(), Wait::Forever).await?,
            }
        }
    }

    /// Returns `None` if the locks were not available for that long.
    pub(crate) async fn try_acquire(&self, wait: Wait) -> Result<Option<LockGuard>> {
        self.take_each(Vec::new(), wait).await
    }

    /// Enters the queue of the first lock.
    pub(crate) async fn enqueue(&self) -> Result<Ticket> {
        let first = self.locks[0].enqueue().await?;
        let position = first.last_position();
        Ok(Ticket::of(Box::new(First { first, locks: self.clone() }), position))
    }

    /// Acquires one lock after the other, behind those that it has. Starts over if one is lost while waiting for
    /// another.
    async fn take_each(&self, mut taken: Vec<LockGuard>, wait: Wait) -> Result<Option<LockGuard>> {
        'anew: loop {
            for lock in &self.locks[taken.len()..] {
                let next = tokio::select! {
                    biased;
                    next = take(&**lock, wait) => next,
                    () = any_lost(&taken) => {
                        taken.clear();
                        continue 'anew;
                    }
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
            let guard = LockGuard::of_all(std::mem::take(&mut taken));
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

/// A place in the queue of the first lock.
#[derive(Debug)]
struct First {
    first: Ticket,
    locks: OneByOne,
}

#[async_trait]
impl Waiter for First {
    async fn position(&self) -> Result<usize> {
        self.first.position().await
    }

    async fn acquired(self: Box<Self>, positions: &watch::Sender<usize>) -> Result<LockGuard> {
        let Self { first, locks } = *self;
        let first = first.followed_by(positions).acquired().await?;
        locks.acquire_after(vec![first]).await
    }
}
