//! A state that can be read and watched.

use std::sync::OnceLock;

use tokio::sync::watch;

use super::state::LockState;
use crate::client::Latest;

/// The state of a hold, and the copy of it that watchers see.
#[derive(Debug)]
pub(super) struct Published {
    state: Latest<LockState>,
    /// Created for the first watcher.
    watched: OnceLock<watch::Sender<LockState>>,
}

impl Published {
    pub(super) fn new(state: LockState) -> Self {
        Self { state: Latest::new(state), watched: OnceLock::new() }
    }

    pub(super) fn get(&self) -> LockState {
        self.state.with(|state| *state)
    }

    /// Runs `act` while no one else changes the state.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut LockState) -> T) -> T {
        self.state.with(act)
    }

    /// Subscribes to the state. Call [`publish`](Self::publish) afterwards: a change in between may not be seen.
    pub(super) fn subscribe(&self) -> watch::Receiver<LockState> {
        self.watched.get_or_init(|| watch::Sender::new(self.get())).subscribe()
    }

    /// Whether a watcher may borrow the state.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.get().is_some_and(|watched| watched.receiver_count() > 0)
    }

    /// Whether it has to be [published](Self::publish): an earlier call that is waiting for a borrow will publish
    /// the latest state.
    pub(super) fn sets_out(&self) -> bool {
        self.state.sets_out()
    }

    /// Publishes the state to the watchers. Waits for borrows.
    pub(super) fn publish(&self) {
        let Some(watched) = self.watched.get() else { return };
        watched.send_if_modified(|seen| {
            let state = self.state.take(|state| *state);
            std::mem::replace(seen, state) != state
        });
    }
}
