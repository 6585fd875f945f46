//! A state that can be read and watched.

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::state::LockState;
use crate::watch::{Watch, Watched};

/// The state of a hold, and the copy of it that watchers see.
#[derive(Debug)]
pub(super) struct Published {
    state: Mutex<LockState>,
    /// Created for the first watcher.
    watched: OnceLock<Watched<LockState>>,
}

impl Published {
    pub(super) fn new(state: LockState) -> Self {
        Self { state: Mutex::new(state), watched: OnceLock::new() }
    }

    pub(super) fn get(&self) -> LockState {
        *self.state.lock()
    }

    /// Runs `act` while no one else changes the state.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut LockState) -> T) -> T {
        act(&mut self.state.lock())
    }

    /// Follows the state. Call [`publish`](Self::publish) afterwards: a change in between may not be seen.
    pub(super) fn watch(&self) -> Watch<LockState> {
        self.watched.get_or_init(|| Watched::new(self.get())).watch()
    }

    /// Whether a watcher may see the state.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.get().is_some_and(Watched::is_watched)
    }

    /// Publishes the state to the watchers.
    pub(super) fn publish(&self) {
        let Some(watched) = self.watched.get() else { return };
        watched.show_if(|shown| {
            let state = self.get();
            Some((state != *shown, state))
        });
    }
}
