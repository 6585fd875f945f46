//! What the handles of a cache share with its driver.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{broadcast, watch};

use super::change::Change;
use super::snapshot::Snapshot;
use super::state::CacheState;
use crate::error::Error;
use crate::meters::CacheMeters;
use crate::waker::guarded;
use crate::watch::{Watch, Watched};

/// What the handles of a cache share with its driver, which writes it.
#[derive(Debug)]
pub(super) struct Shared {
    /// Below the client's namespace.
    pub(super) path: Arc<str>,
    snapshot: RwLock<Arc<Snapshot>>,
    /// `None` after the end.
    changes: Mutex<Option<broadcast::Sender<(u64, Change)>>>,
    state: Watch<CacheState>,
    /// Changes it. `None` after the end.
    watched: Mutex<Option<Watched<CacheState>>>,
    /// Wakes those who wait, when the snapshot or what they need to know of the state has changed.
    news: watch::Sender<News>,
    meters: CacheMeters,
}

/// What those who wait for a snapshot go by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    has_loaded: bool,
    /// Whether nothing will come any more, for whatever reason.
    is_over: bool,
}

impl Shared {
    pub(super) fn new(path: Arc<str>, buffer: usize, meters: CacheMeters) -> Self {
        let watched = Watched::new(CacheState::Loading);
        Self {
            path,
            snapshot: RwLock::default(),
            changes: Mutex::new(Some(broadcast::Sender::new(buffer))),
            state: watched.watch(),
            watched: Mutex::new(Some(watched)),
            news: watch::Sender::default(),
            meters,
        }
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.read().clone()
    }

    pub(super) fn state(&self) -> CacheState {
        self.state.get()
    }

    pub(super) fn watch_state(&self) -> Watch<CacheState> {
        self.state.anew()
    }

    /// Returns a receiver of the changes from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<(u64, Change)> {
        match &*self.changes.lock() {
            Some(changes) => changes.subscribe(),
            None => {
                let (_, receiver) = broadcast::channel(1);
                receiver
            }
        }
    }

    /// Changes behind each change of the cache. By this, and not by those themselves, readers wait: a waker of a user must
    /// not run under a lock.
    pub(super) fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    pub(super) fn has_loaded(&self) -> bool {
        self.news.borrow().has_loaded
    }

    /// Waits until `decide` returns a value for the snapshot and the state, of a cache that has loaded.
    ///
    /// # Errors
    /// The cache has ended before.
    pub(super) async fn wait_until<T>(
        &self,
        mut decide: impl FnMut(&Arc<Snapshot>, &CacheState) -> Option<T>,
    ) -> Result<T, Error> {
        let mut news = self.news.subscribe();
        loop {
            let News { has_loaded, is_over } = *news.borrow_and_update();
            // In this order, as they are published the other way round: no state goes with an earlier snapshot.
            let state = self.state();
            let snapshot = self.snapshot();
            if has_loaded && let Some(decided) = decide(&snapshot, &state) {
                return Ok(decided);
            }
            if is_over {
                return Err(match state {
                    CacheState::Failed(error) => error,
                    _ => Error::Closed,
                });
            }
            // The sender is ours.
            let _ = guarded(news.changed()).await;
        }
    }

    /// Publishes the changes that have led to this snapshot, the last of which has its number.
    pub(super) fn publish(&self, snapshot: Snapshot, changes: Vec<Change>) {
        let last = snapshot.changes();
        self.meters.holds(snapshot.len());
        // First, since a reader that is late takes it instead of the changes; but no reader sees it before they are
        // told.
        let mut current = self.snapshot.write();
        *current = Arc::new(snapshot);
        let count = changes.len() as u64;
        if let Some(sender) = &*self.changes.lock() {
            for (number, change) in (last + 1 - count..).zip(changes) {
                // No one may be listening.
                let _ = sender.send((number, change));
            }
        }
        drop(current);
        self.news.send_modify(|_| {});
    }

    pub(super) fn set_state(&self, state: CacheState) {
        let has_loaded = state == CacheState::Current;
        let is_over = matches!(state, CacheState::Failed(_));
        if matches!(state, CacheState::Stale { .. }) {
            self.meters.resyncs();
        }
        tracing::debug!(before = ?self.state(), now = ?state, "the state of a cache has changed");
        // All of it is there before anyone is told of a part.
        self.news.send_if_modified(|news| {
            news.has_loaded |= has_loaded;
            false
        });
        // Not under the lock: a waker of a user may ask for it.
        let watched = self.watched.lock().clone();
        if let Some(watched) = watched {
            watched.show(state);
        }
        // Those who wait are told last, and find the state.
        self.news.send_modify(|_| {});
        if is_over {
            self.end();
        }
    }

    /// Ends the cache as the end of the client does, unless it has ended already.
    pub(super) fn abandon(&self) {
        if !self.news.borrow().is_over {
            self.set_state(CacheState::Failed(Error::Closed));
        }
    }

    /// Tells those who follow the cache that nothing will come any more.
    pub(super) fn end(&self) {
        // Dropped without the locks: that wakes users.
        let ended = (self.changes.lock().take(), self.watched.lock().take());
        drop(ended);
        self.news.send_modify(|news| news.is_over = true);
        self.meters.holds(0);
    }
}
