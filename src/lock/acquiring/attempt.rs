//! An acquire, with and without a bound, of whatever has to queue.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{timeout, timeout_at};

use crate::client::Client;
use crate::error::Result;
use crate::lock::deadline::from_now;
use crate::queue::Caller;

/// How much longer than its deadline an acquire may take, to see its nodes gone from the queues.
pub(crate) const LEAVE_GRACE: Duration = Duration::from_millis(100);

/// What has entered its queues.
#[derive(Debug)]
pub(crate) enum Entry<Q: Contending> {
    /// Its owner holds already.
    Granted(Q::Guard),
    Queued(Q),
}

/// What waits in its queues. Dropping it leaves them.
pub(crate) trait Contending: Debug {
    type Guard: Debug;

    /// What it waited for, if it was granted. What is left of it then is nothing.
    fn take(&mut self) -> Option<Self::Guard>;

    /// # Errors
    /// [`WouldDeadlock`](crate::Error::WouldDeadlock) if it is not granted, and would wait for what its owner holds.
    fn ensure_no_deadlock(&self) -> Result<()>;

    /// Waits until something has changed.
    ///
    /// # Errors
    /// As [`ensure_no_deadlock`](Self::ensure_no_deadlock), among others.
    ///
    /// # Cancel safety
    /// Only to be followed by dropping or leaving.
    async fn wait(&mut self) -> Result<()>;

    /// Leaves the queues, and waits for the confirmation.
    ///
    /// # Cancel safety
    /// They are left in any case, in the background if this is cancelled.
    async fn leave(self) -> Result<()>;
}

/// Waits until it is granted.
///
/// # Cancel safety
/// Only to be followed by dropping or leaving.
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
                    // To try again and again would be no better than to wait.
                    let would_end = queued.ensure_no_deadlock();
                    // On the heap, here and below: all who wait would keep its room.
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
            // That somebody else has it is only known to those who were in the queue.
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
