//! The changes of a cache, one after the other.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use super::change::Change;
use super::shared::Shared;
use super::snapshot::Snapshot;
use crate::waker::guarded;

/// The changes of a [`Cache`](super::Cache) from a snapshot on. From [`Cache::changes`](super::Cache::changes).
///
/// It begins with a [`Reset`](CacheEvent::Reset), once the cache has loaded. A reader that is later than the
/// [buffer](super::CacheOptions::buffer) holds gets another one, instead of the changes that it has missed: no change is
/// lost silently, and no reader holds up the cache or another reader.
pub struct Changes {
    shared: Arc<Shared>,
    receiver: Receiver<(u64, Change)>,
    /// How many changes are covered by what was returned. `None` before the first reset.
    covered: Option<u64>,
}

debug_by!(Changes, |it| path: it.shared.path);

/// What happens in a cache.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CacheEvent {
    /// Replace all that you know by this snapshot: it is the first event, or changes were missed.
    Reset(Arc<Snapshot>),
    /// A change of what was told before.
    Change(Change),
}

impl Changes {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let receiver = shared.subscribe();
        Self { shared, receiver, covered: None }
    }

    /// Waits for the next event. Returns `None` when the cache has failed, or was dropped with all its handles, or the
    /// client was closed: no more events will come.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<CacheEvent> {
        if self.covered.is_none() {
            self.shared.wait_until(|_, _| Some(())).await.ok()?;
            return Some(self.reset());
        }
        let mut news = self.shared.news();
        loop {
            match self.take_next() {
                // The sender is as old as what is shared.
                Err(TryRecvError::Empty) => drop(guarded(news.changed()).await),
                next => return next.ok(),
            }
        }
    }

    /// Returns the next event if there is one at the moment.
    pub fn try_next(&mut self) -> Option<CacheEvent> {
        if self.covered.is_none() {
            return self.shared.has_loaded().then(|| self.reset());
        }
        self.take_next().ok()
    }

    fn take_next(&mut self) -> Result<CacheEvent, TryRecvError> {
        loop {
            match self.receiver.try_recv() {
                Ok((number, change)) if Some(number) > self.covered => {
                    self.covered = Some(number);
                    return Ok(CacheEvent::Change(change));
                }
                // The snapshot has it already.
                Ok(_) => {}
                Err(TryRecvError::Lagged(_)) => return Ok(self.reset()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts over. The changes up to the snapshot are skipped when they come.
    fn reset(&mut self) -> CacheEvent {
        let snapshot = self.shared.snapshot();
        self.covered = Some(snapshot.changes());
        CacheEvent::Reset(snapshot)
    }
}
