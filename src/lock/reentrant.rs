//! A queue whose holders are known again: what the re-entrant locks share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::guard::{Hold, LockGuard, Registration};
use super::owner::{HeldNodes, Holds, Owner};
use super::participant::{self, Participant};
use super::ticket::Ticket;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::queue::{Grant, LockInternals, Place, Standing};

/// How much longer than its deadline an acquire may take, to see its node gone from the queue.
const LEAVE_GRACE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct Reentrant {
    internals: Arc<LockInternals>,
    holds: Arc<Holds>,
    held_nodes: Arc<HeldNodes>,
}

impl Reentrant {
    pub(crate) fn new(internals: LockInternals) -> Self {
        let held_nodes = internals.client().extension();
        Self { internals: Arc::new(internals), holds: Arc::default(), held_nodes }
    }

    pub(crate) fn client(&self) -> &Client {
        self.internals.client()
    }

    pub(crate) fn path(&self) -> &str {
        self.internals.path()
    }

    pub(crate) fn internals(&self) -> &LockInternals {
        &self.internals
    }

    pub(crate) async fn acquire(&self, owner: &Owner) -> Result<LockGuard> {
        let acquire = async {
            if let Some(guard) = self.reenter(owner)? {
                return Ok(guard);
            }
            let mut place = self.internals.enqueue().await?;
            self.turn(&mut place, owner).await
        };
        self.client().unless_closed(acquire).await
    }

    pub(crate) async fn try_acquire(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        let acquire = async {
            if let Some(guard) = self.reenter(owner)? {
                return Ok(Some(guard));
            }
            let mut place = self.internals.enqueue().await?;
            match place.take_grant() {
                Some(grant) => Ok(Some(self.hold(grant, owner))),
                None => place.leave().await.map(|()| None),
            }
        };
        self.client().unless_closed(acquire).await
    }

    pub(crate) async fn try_acquire_for(&self, owner: &Owner, within: Duration) -> Result<Option<LockGuard>> {
        if within.is_zero() {
            return self.try_acquire(owner).await;
        }
        // A deadline beyond what the clock can tell is none.
        let Some(deadline) = Instant::now().checked_add(within) else {
            return self.acquire(owner).await.map(Some);
        };
        let acquire = async {
            if let Some(guard) = self.reenter(owner)? {
                return Ok(Some(guard));
            }
            let Ok(place) = timeout_at(deadline, self.internals.enqueue()).await else { return Ok(None) };
            let mut place = place?;
            if let Ok(turn) = timeout_at(deadline, self.turn(&mut place, owner)).await {
                return turn.map(Some);
            }
            match timeout(LEAVE_GRACE, place.leave()).await {
                Ok(left) => left.map(|()| None),
                Err(_) => Ok(None),
            }
        };
        self.client().unless_closed(acquire).await
    }

    pub(crate) async fn enqueue(&self, owner: &Owner) -> Result<Ticket> {
        let enqueue = async {
            match self.reenter(owner)? {
                Some(guard) => Ok(Ticket::entered_again(self, owner, guard)),
                None => Ok(Ticket::queued(self, owner, self.internals.enqueue().await?)),
            }
        };
        self.client().unless_closed(enqueue).await
    }

    /// Waits until a place is granted.
    ///
    /// # Cancel safety
    /// Only to be followed by leaving the place.
    pub(crate) async fn turn(&self, place: &mut Place, owner: &Owner) -> Result<LockGuard> {
        loop {
            if let Some(grant) = place.take_grant() {
                return Ok(self.hold(grant, owner));
            }
            if let Standing::Waiting { holder, .. } = place.standing() {
                let held_here = self.held_nodes.is_held_by(&self.internals.child(holder), owner);
                // Through this very object the owner may have two contenders, started at the same time.
                if held_here && self.holds.of(owner).is_none() {
                    return Err(Error::WouldDeadlock { path: self.path().to_owned() });
                }
            }
            place.wait().await?;
        }
    }

    /// Another guard on what the owner holds already.
    ///
    /// # Errors
    /// [`Error::LockLost`] when the hold is known to be lost.
    fn reenter(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        let Some(hold) = self.holds.of(owner) else { return Ok(None) };
        hold.ensure_held()?;
        Ok(Some(LockGuard::new(hold)))
    }

    fn hold(&self, grant: Grant, owner: &Owner) -> LockGuard {
        let registration = Registration::new(&self.holds, &self.held_nodes, owner, &grant.node.path());
        let hold = Arc::new(Hold::new(self.client().clone(), grant, registration));
        self.holds.insert(owner.clone(), &hold);
        LockGuard::new(hold)
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>> {
        self.client().unless_closed(participant::of(&self.internals)).await
    }

    pub(crate) fn is_acquired_in_this_process(&self) -> bool {
        !self.holds.is_empty()
    }

    pub(crate) fn is_owned_by(&self, owner: &Owner) -> bool {
        self.holds.of(owner).is_some()
    }
}
