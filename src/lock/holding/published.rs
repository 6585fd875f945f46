//! A state that is looked at, and watched.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::state::LockState;

/// The state of a hold, and what those see of it who watch it.
///
/// They are two: a borrow from a watch keeps others from changing it. A look must not wait for that, since who
/// borrows may be the one that looks.
#[derive(Debug)]
pub(super) struct Published {
    state: Mutex<LockState>,
    /// Made for the first one that watches.
    watched: OnceLock<watch::Sender<LockState>>,
    /// Whether it is on its way to those who watch.
    is_on_the_way: AtomicBool,
}

impl Published {
    pub(super) fn new(state: LockState) -> Self {
        Self { state: Mutex::new(state), watched: OnceLock::new(), is_on_the_way: AtomicBool::new(false) }
    }

    pub(super) fn get(&self) -> LockState {
        *self.lock()
    }

    /// Does something while nobody else changes it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut LockState) -> T) -> T {
        act(&mut self.lock())
    }

    /// To be followed by [`publish`](Self::publish): what was changed meanwhile may not be seen.
    pub(super) fn subscribe(&self) -> watch::Receiver<LockState> {
        self.watched.get_or_init(|| watch::Sender::new(self.get())).subscribe()
    }

    /// Whether somebody may borrow what is shown.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.get().is_some_and(|watched| watched.receiver_count() > 0)
    }

    /// Whether it is to be [published](Self::publish): one that waits for somebody who borrows shows the latest.
    pub(super) fn sets_out(&self) -> bool {
        !self.is_on_the_way.swap(true, SeqCst)
    }

    /// Shows the state to those who watch. Waits for those who borrow what they see.
    pub(super) fn publish(&self) {
        let Some(watched) = self.watched.get() else { return };
        watched.send_if_modified(|seen| {
            self.is_on_the_way.store(false, SeqCst);
            let state = self.get();
            std::mem::replace(seen, state) != state
        });
    }

    fn lock(&self) -> MutexGuard<'_, LockState> {
        // No code that can panic runs under this lock.
        self.state.lock()
    }
}
