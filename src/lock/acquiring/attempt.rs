//! An acquire of anything that has to queue, with or without a deadline.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{timeout, timeout_at};

use crate::client::Client;
use crate::error::Result;
use crate::lock::deadline::from_now;
use crate::queue::Caller;

/// How much longer than its deadline an acquire may take, to confirm that its nodes are gone from the queues.
pub(crate) const LEAVE_GRACE: Duration = Duration::from_millis(100);

/// The result of entering the queues.
#[derive(Debug)]
pub(crate) enum Entry<Q: Contending> {
    /// The owner already holds what it asked for.
    Granted(Q::Guard),
    Queued(Q),
}

/// A waiter in its queues. Dropping it leaves them.
pub(crate) trait Contending: Debug {
    type Guard: Debug;

    /// Takes the guard if it was granted. After that, nothing is left in the queues.
    fn take(&mut self) -> Option<Self::Guard>;

    /// # Errors
    /// - [`WouldDeadlock`](crate::Error::WouldDeadlock): it is not granted, and would wait for what its owner
    ///   holds.
    fn ensure_no_deadlock(&self) -> Result<()>;

    /// Waits until something has changed.
    ///
    /// # Errors
    /// Same as [`ensure_no_deadlock`](Self::ensure_no_deadlock), among others.
    ///
    /// # Cancel safety
    /// If cancelled, only drop or leave it.
    async fn wait(&mut self) -> Result<()>;

    /// Leaves the queues, and waits for the confirmation.
    ///
    /// # Cancel safety
    /// The queues are left in any case; if this is cancelled, in the background.
    async fn leave(self) -> Result<()>;
}

/// Waits until it is granted.
///
/// # Cancel safety
/// If cancelled, only drop or leave it.
pub(crate) async fn granted<Q: Contending>(queued: &mut Q) -> Result<Q::Guard> {
    loop {
        if let Some(guard) = queued.take() {
            return Ok(guard);
        }
        queued.wait().await?;
    }
}

pub(crate) async fn acquire<Q: Contending, F: Future<Output = Result<Entry<Q>>>>(
    client: &Client,
    enter: impl FnOnce(Caller) -> F,
) -> Result<Q::Guard> {
    let acquire = async {
        match enter(Caller::patient()).await? {
            Entry::Granted(guard) => Ok(guard),
            Entry::Queued(mut queued) => granted(&mut queued).await,
        }
    };
    client.unless_closed(acquire).await
}

pub(crate) async fn try_acquire<Q: Contending, F: Future<Output = Result<Entry<Q>>>>(
    client: &Client,
    enter: impl FnOnce(Caller) -> F,
) -> Result<Option<Q::Guard>> {
    let acquire = async {
        match enter(Caller::asking()).await {
            Ok(Entry::Granted(guard)) => Ok(Some(guard)),
            Ok(Entry::Queued(mut queued)) => match queued.take() {
                Some(guard) => Ok(Some(guard)),
                None => {
                    // Trying again and again would fare no better than waiting.
                    let would_end = queued.ensure_no_deadlock();
                    // Boxed, here and below, so that waiters do not carry its size.
                    let left = Box::pin(queued.leave()).await;
                    would_end.and(left).map(|()| None)
                }
            },
            Err(error) => Err(error),
        }
    };
    client.unless_closed(acquire).await
}

pub(crate) async fn try_acquire_for<Q: Contending, F: Future<Output = Result<Entry<Q>>>>(
    client: &Client,
    within: Duration,
    enter: impl FnOnce(Caller) -> F,
) -> Result<Option<Q::Guard>> {
    if within.is_zero() {
        return try_acquire(client, enter).await;
    }
    let deadline = from_now(within);
    let acquire = async {
        let caller = Caller::with_deadline();
        let Ok(entry) = timeout_at(deadline, enter(caller.clone())).await else {
            // Only an entry that reached the queue knows that another owner is ahead.
            return if caller.has_reached() { Ok(None) } else { Err(client.not_connected(within)) };
        };
        let mut queued = match entry? {
            Entry::Granted(guard) => return Ok(Some(guard)),
            Entry::Queued(queued) => queued,
        };
        if let Ok(guard) = timeout_at(deadline, granted(&mut queued)).await {
            return guard.map(Some);
        }
        match timeout(LEAVE_GRACE, Box::pin(queued.leave())).await {
            Ok(left) => left.map(|()| None),
            Err(_) => Ok(None),
        }
    };
    client.unless_closed(acquire).await
}
