//! An acquire of anything that has to queue.

use std::pin::pin;
use std::time::Duration;

use tokio::task::coop::{consume_budget, unconstrained};
use tokio::time::Instant;
use tracing::Instrument;

use super::acquirable::{Acquirable, Contending, Entry};
use super::look::{ASKING, Look};
use super::observed::Observed;
use super::wait::Wait;
use crate::client::sleep_until;
use crate::error::{Error, LossReason, Result, report};
use crate::lock::holding::claims::Claim;
use crate::lock::holding::guard::LockGuard;
use crate::lock::operating::participant::Participant;
use crate::lock::owner::Owner;
use crate::queue::Losses;

/// Acquires a lock, waiting as told. Returns `None` if it was not available for that long.
pub(crate) async fn try_acquire<L: Acquirable>(
    lock: &L,
    owner: &Owner,
    wait: Wait,
) -> Result<Option<LockGuard>> {
    if let Some(again) = lock.enter_again(owner)? {
        return Ok(Some(again));
    }
    lock.ensure_can_be_granted(owner)?;
    if let Some(guard) = lock.take_lingering(owner) {
        // A task that acquires again and again must let others run at times. Not before: the first to come is the first
        // in the queue.
        consume_budget().await;
        if guard.ensure_held().is_ok() {
            guard.begin_span();
            return Ok(Some(guard));
        }
    }
    if matches!(wait, Wait::No) && lock.is_taken_here() {
        return Ok(None);
    }
    let mut observed = Observed::begin(lock, owner);
    let span = observed.span().clone();
    // Boxed, so that it does not burden the acquires of those who hold the lock already.
    let queueing = Box::pin(queue_up(lock, owner, wait, &mut observed).instrument(span));
    // Unconstrained: the first to be polled is the first in the queue, even if its task has used up its budget.
    let acquired = match lock.options().warn_wait {
        None => unconstrained(lock.client().unless_closed(queueing)).await,
        Some(patience) => {
            let warned_of = Box::pin(warn_of_wait(lock, queueing, patience));
            unconstrained(lock.client().unless_closed(warned_of)).await
        }
    };
    observed.end(&acquired);
    acquired
}

/// Runs an acquire, and warns of it if it takes long.
async fn warn_of_wait<L: Acquirable, T>(
    lock: &L,
    mut acquiring: impl Future<Output = T> + Unpin,
    mut patience: Duration,
) -> T {
    let start = Instant::now();
    let mut look = None;
    loop {
        tokio::select! {
            biased;
            acquired = &mut acquiring => return acquired,
            () = sleep_until(start + patience) => {}
        }
        let look = look
            .get_or_insert_with(|| Look::at(lock.client(), lock.recipe(), &lock.name().to_string().into()));
        let warning = async {
            let waited = start.elapsed();
            let (holder, error) = match look.seen(lock.first()).await {
                Some(Ok(holder)) => (holder, None),
                Some(Err(error)) => (None, Some(report(&error).to_string())),
                None => (None, Some(format!("no server has said within {ASKING:?} who is first"))),
            };
            let node = holder.as_ref().map(Participant::node_path);
            let holder = holder.as_ref().map(Participant::id);
            tracing::warn!(path = %lock.name(), ?waited, holder = holder.as_deref(), node, error, "waiting for a lock");
        };
        tokio::select! {
            biased;
            acquired = &mut acquiring => return acquired,
            () = Box::pin(warning) => patience *= 2,
        }
    }
}

async fn queue_up<L: Acquirable>(
    lock: &L,
    owner: &Owner,
    wait: Wait,
    observed: &mut Observed,
) -> Result<Option<LockGuard>> {
    let mut losses = Losses::default();
    loop {
        let guard = queue_up_once(lock, owner, wait, observed).await?;
        match guard.as_ref().map(LockGuard::ensure_held) {
            // Someone has deleted its node, or its session has ended, as it was granted.
            Some(Err(Error::LockLost {
                reason: LossReason::Deleted | LossReason::Expired | LossReason::Suspect,
                ..
            })) => drop(guard),
            Some(Err(error)) => return Err(error),
            Some(Ok(())) | None => return Ok(guard),
        }
        match wait.bound(Box::pin(losses.pause(&lock.name().to_string()))).await {
            Some(paused) => paused?,
            None => return Ok(None),
        }
    }
}

async fn queue_up_once<L: Acquirable>(
    lock: &L,
    owner: &Owner,
    wait: Wait,
    observed: &mut Observed,
) -> Result<Option<LockGuard>> {
    let caller = wait.caller();
    // Time that was spent in the queue was spent on others; any other time on the servers.
    let timed_out = || match wait {
        Wait::Until { within, .. } if !caller.has_waited() => Err(lock.client().not_connected(within)),
        _ => Ok(()),
    };
    // Boxed, so that waiters do not carry its size.
    let mut waiter = match wait.bound(Box::pin(lock.enter(owner, caller.clone()))).await {
        Some(Ok(Entry::Queued(waiter))) => waiter,
        Some(Ok(Entry::Granted(guard))) => return Ok(Some(guard)),
        Some(Err(error)) => return Err(error),
        None => return timed_out().map(|()| None),
    };
    let would_end = match wait {
        Wait::No => match waiter.take() {
            Some(guard) => return Ok(Some(guard)),
            // Trying again and again would fare no better than waiting.
            None => waiter.ensure_no_deadlock(),
        },
        Wait::Until { .. } | Wait::Forever => {
            if let Some(guard) = waiter.take() {
                return Ok(Some(guard));
            }
            observed.is_behind_others();
            let mut claim = Claim::new(lock.client(), owner, caller.has_deadline());
            match wait.bound(pin!(granted(&mut waiter, Some(&mut claim)))).await {
                Some(guard) => return guard.map(Some),
                None => timed_out(),
            }
        }
    };
    // Boxed, so that waiters do not carry its size.
    let left = wait.finish(Box::pin(waiter.leave())).await;
    would_end.and(left.unwrap_or(Ok(()))).map(|()| None)
}

/// Waits until it is granted. Without a claim, the wait does not count when deadlocks are looked for.
///
/// # Errors
/// - [`WouldDeadlock`](crate::Error::WouldDeadlock), among others.
///
/// # Cancel safety
/// If cancelled, only drop or leave it.
pub(crate) async fn granted<W: Contending>(
    waiter: &mut W,
    mut claim: Option<&mut Claim<'_>>,
) -> Result<LockGuard> {
    loop {
        if let Some(guard) = waiter.take() {
            return Ok(guard);
        }
        waiter.ensure_no_deadlock()?;
        if let Some(claim) = &mut claim {
            claim.waits_for(waiter.awaited())?;
        }
        waiter.wait().await?;
    }
}
