//! What the handle, the task that moves messages, and the tasks of connections share.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::state::State;
use super::truth::Observed;
use crate::testing::memory::connections::{ConnectionId, Wire};
use crate::testing::memory::database::Fate;
use crate::testing::memory::serve::Host;

type Observer = Box<dyn FnMut(&Observed) + Send>;

pub(super) struct Core {
    state: Mutex<State>,
    observers: Mutex<Vec<Observer>>,
    started: Instant,
    resumed: Notify,
    /// Tells the task that moves messages that there is an earlier one.
    earlier: Notify,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("state", &*self.state.lock()).finish_non_exhaustive()
    }
}

impl Core {
    pub(super) fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            observers: Mutex::default(),
            started: Instant::now(),
            resumed: Notify::new(),
            earlier: Notify::new(),
        }
    }

    /// Works on the state, after everything that is due. Then calls the observers.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let result = {
            let mut state = self.state.lock();
            state.advance(self.started.elapsed());
            let result = work(&mut state);
            if state.agenda.next().is_some_and(|next| next < state.awaited) {
                state.awaited = Duration::ZERO;
                self.earlier.notify_one();
            }
            if state.is_observed && !state.observed.is_empty() { Err(result) } else { Ok(result) }
        };
        result.unwrap_or_else(|result| {
            self.report();
            result
        })
    }

    /// Calls the observers without holding the state, so that they can look at it.
    fn report(&self) {
        // An observer that makes a change is called again for it when it has returned.
        let Some(mut observers) = self.observers.try_lock() else { return };
        loop {
            let observed: VecDeque<_> = std::mem::take(&mut self.state.lock().observed);
            if observed.is_empty() {
                return;
            }
            for observed in &observed {
                observers.iter_mut().for_each(|observer| observer(observed));
            }
        }
    }

    pub(super) fn observe(&self, observer: Observer) {
        self.observers.lock().push(observer);
        self.state.lock().is_observed = true;
    }

    pub(super) fn resume(&self) {
        self.resumed.notify_waiters();
    }

    /// Moves messages and looks at the clock until the handles are dropped.
    pub(super) async fn drive(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.with(|state| {
                state.awaited = state.agenda.next().unwrap_or(Duration::MAX);
                state.awaited
            });
            let wake = async {
                match self.started.checked_add(next) {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.earlier.notified() => {}
                () = wake => {}
            }
        }
        self.with(|state| (0..state.replicas.len()).for_each(|server| state.stop(server)));
    }
}

/// One server of an ensemble.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) core: Arc<Core>,
    pub(super) server: usize,
}

impl Seat {
    /// Works on the state as soon as the server is not paused.
    async fn served<R>(&self, work: impl FnOnce(&mut State, usize) -> R) -> R {
        let mut work = Some(work);
        loop {
            let resumed = self.core.resumed.notified();
            let done = self.core.with(|state| {
                let work = if state.replicas[self.server].is_paused { None } else { work.take() };
                work.map(|work| work(state, self.server))
            });
            if let Some(done) = done {
                return done;
            }
            resumed.await;
        }
    }
}

impl Host for Seat {
    fn longest_message(&self) -> usize {
        self.core.with(|state| state.behaviour.longest_message)
    }

    async fn accept(&self, peer: SocketAddr) -> Option<Wire> {
        self.served(|state, server| state.accept(server, peer)).await
    }

    async fn receive(&self, id: ConnectionId, message: &[u8]) -> Fate {
        self.served(|state, server| state.receive(server, id, message)).await
    }

    fn disconnect(&self, id: ConnectionId) {
        self.core.with(|state| state.disconnect(self.server, id));
    }

    async fn answer(&self, word: &str) -> Option<String> {
        self.served(|state, server| {
            let replica = &mut state.replicas[server];
            replica.is_running.then(|| replica.database.answer(word)).flatten()
        })
        .await
    }
}
