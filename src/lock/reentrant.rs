//! A queue whose holders are known again: what the re-entrant locks share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::books::Books;
use super::guard::LockGuard;
use super::hold::Hold;
use super::owner::Owner;
use super::participant::{self, Participant};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::queue::{Grant, LockInternals, Place, Standing};

/// How much longer than its deadline an acquire may take, to see its node gone from the queue.
const LEAVE_GRACE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct Reentrant {
    internals: Arc<LockInternals>,
    books: Arc<Books<Hold>>,
}

/// What an owner gets that enters.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an acquire should not allocate; it is taken apart at once")]
pub(crate) enum Entry {
    /// Another guard on what it holds already.
    Again(LockGuard),
    Queued(Place),
}

impl Reentrant {
    pub(crate) fn new(internals: LockInternals) -> Self {
        let books = Arc::new(Books::new(internals.client()));
        Self { internals: Arc::new(internals), books }
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

    /// Enters the queue, or a lock that the owner holds already.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn enter(&self, owner: &Owner) -> Result<Entry> {
        if let Some(hold) = self.books.hold_of(owner) {
            hold.ensure_held()?;
            return Ok(Entry::Again(LockGuard::new(hold)));
        }
        Ok(Entry::Queued(Place::enter(&self.internals).await?))
    }

    pub(crate) async fn acquire(&self, owner: &Owner) -> Result<LockGuard> {
        let acquire = async {
            match self.enter(owner).await? {
                Entry::Again(guard) => Ok(guard),
                Entry::Queued(mut place) => self.turn(&mut place, owner).await,
            }
        };
        self.client().unless_closed(acquire).await
    }

    pub(crate) async fn try_acquire(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        let acquire = async {
            let mut place = match self.enter(owner).await? {
                Entry::Again(guard) => return Ok(Some(guard)),
                Entry::Queued(place) => place,
            };
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
            let Ok(entry) = timeout_at(deadline, self.enter(owner)).await else { return Ok(None) };
            let mut place = match entry? {
                Entry::Again(guard) => return Ok(Some(guard)),
                Entry::Queued(place) => place,
            };
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
                tracing::debug!(path = self.path(), position = place.position(), holder, "waiting");
                // Through this very object the owner may have two contenders, started at the same time.
                if self.books.holds_elsewhere(owner, &self.internals.child(holder)) {
                    return Err(Error::WouldDeadlock { path: self.path().to_owned() });
                }
            }
            place.wait().await?;
        }
    }

    fn hold(&self, grant: Grant, owner: &Owner) -> LockGuard {
        let node_path: Arc<str> = grant.node.path().into();
        tracing::debug!(node = &*node_path, token = grant.czxid, "acquired");
        LockGuard::new(self.books.enter(owner, node_path.clone(), |registration| {
            Hold::new(self.client(), grant, node_path, registration)
        }))
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>> {
        self.client().unless_closed(participant::of(&self.internals)).await
    }

    pub(crate) fn is_acquired_in_this_process(&self) -> bool {
        !self.books.is_empty()
    }

    pub(crate) fn is_owned_by(&self, owner: &Owner) -> bool {
        self.books.hold_of(owner).is_some()
    }
}
