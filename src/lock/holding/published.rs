//! A state that can be read and watched.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::state::LockState;

/// The state of a hold, and the copy of it that watchers see.
///
/// There are two copies because a borrow from a watch channel blocks changes to it. A read must not wait for a
/// borrow, because the borrower may be the reader itself.
#[derive(Debug)]
pub(super) struct Published {
    state: Mutex<LockState>,
    /// Created for the first watcher.
    watched: OnceLock<watch::Sender<LockState>>,
    /// Whether the state is on its way to the watchers.
    is_on_the_way: AtomicBool,
}

impl Published {
    pub(super) fn new(state: LockState) -> Self {
        Self { state: Mutex::new(state), watched: OnceLock::new(), is_on_the_way: AtomicBool::new(false) }
    }

    pub(super) fn get(&self) -> LockState {
        *self.state.lock()
    }

    /// Runs `act` while no one else changes the state.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut LockState) -> T) -> T {
        act(&mut self.state.lock())
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
        !self.is_on_the_way.swap(true, SeqCst)
    }

    /// Publishes the state to the watchers. Waits for borrows.
    pub(super) fn publish(&self) {
        let Some(watched) = self.watched.get() else { return };
        watched.send_if_modified(|seen| {
            self.is_on_the_way.store(false, SeqCst);
            let state = self.get();
            std::mem::replace(seen, state) != state
        });
    }
}
