//! The states of a session of somebody else, which `zookeeper-client` connects again by itself.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use zookeeper_client::{self as zk, SessionState};

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
