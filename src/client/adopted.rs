//! A session of somebody else, which `zookeeper-client` connects again by itself.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use zookeeper_client::{self as zk, SessionState};

use super::serving::Serving;

/// What all connections of an adopted session have in common.
#[derive(Debug)]
pub(super) struct Adopted {
    serving: Serving,
    /// Counts the changes of the state.
    changes: Mutex<(States, u64)>,
}

impl Adopted {
    /// On the runtime that the session is served on.
    pub(super) fn new(zookeeper: &zk::Client) -> Self {
        let state = zookeeper.state_watcher();
        let changes = Mutex::new((States::of(state.clone()), 0));
        Self { serving: Serving::new(state), changes }
    }

    /// How often the state has changed so far. What was heard on the way, in answers and events, was heard before this
    /// tells of the next connection.
    pub(super) fn changes(&self) -> u64 {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (states, count) = &mut *changes;
        while states.poll_next(&mut Context::from_waker(Waker::noop())).is_ready() {
            *count += 1;
        }
        *count
    }

    pub(super) fn while_it_lasts<T>(&self, poll: impl FnOnce() -> T) -> Option<T> {
        self.serving.while_it_lasts(poll)
    }
}

/// The changes of a state, one after the other.
///
/// The future that waits for the next one is kept until it is done. To drop it while the state changes in another thread
/// corrupts the memory of that thread: `Notify` in `asyncs-sync` 0.4.0 then writes to a list that was on its stack.
pub(super) struct States {
    next: Pin<Box<dyn Future<Output = (SessionState, zk::StateWatcher)> + Send>>,
}

impl States {
    pub(super) fn of(state: zk::StateWatcher) -> Self {
        Self { next: Box::pin(after(state)) }
    }

    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn next(&mut self) -> SessionState {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<SessionState> {
        let Poll::Ready((changed, state)) = self.next.as_mut().poll(cx) else { return Poll::Pending };
        self.next = Box::pin(after(state));
        Poll::Ready(changed)
    }
}

async fn after(mut state: zk::StateWatcher) -> (SessionState, zk::StateWatcher) {
    let changed = state.changed().await;
    (changed, state)
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}
