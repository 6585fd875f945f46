//! What the handle, the task that moves messages, and the tasks of connections share.

use std::collections::VecDeque;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::state::State;
use super::truth::Observed;
use crate::testing::memory::serve;

/// The address of a client at the other end of a stream that has none.
const PEER_OF_STREAM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

type Observer = Box<dyn FnMut(&Observed) + Send>;

/// When the servers were built, by the clock that they go by.
#[derive(Debug)]
pub(in super::super) enum Clock {
    /// tokio's, which can be paused: all that is due is done before what is asked for, so a run can be repeated.
    Simulated(time::Instant),
    /// That of the machine. A thread that is late first does what clients have sent in time.
    Real(Instant),
}

pub(in super::super) struct Core {
    state: Mutex<State>,
    observers: Mutex<Vec<Observer>>,
    clock: Clock,
    resumed: Notify,
    /// Tells the task that moves messages that there is an earlier one.
    earlier: Notify,
}

impl Core {
    pub(in super::super) fn new(state: State, clock: Clock) -> Self {
        Self {
            state: Mutex::new(state),
            observers: Mutex::default(),
            clock,
            resumed: Notify::new(),
            earlier: Notify::new(),
        }
    }

    fn elapsed(&self) -> Duration {
        match self.clock {
            Clock::Simulated(built) => built.elapsed(),
            Clock::Real(built) => built.elapsed(),
        }
    }

    /// Works on the state. Then calls the observers.
    pub(in super::super) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let (result, has_observed) = {
            let mut state = self.state.lock();
            match self.clock {
                Clock::Simulated(_) => state.advance(self.elapsed()),
                Clock::Real(_) => state.now = self.elapsed(),
            }
            let result = work(&mut state);
            if state.agenda.next().is_some_and(|next| next < state.awaited) {
                state.awaited = Duration::ZERO;
                self.earlier.notify_one();
            }
            (result, !state.observed.is_empty())
        };
        if has_observed {
            self.report();
        }
        result
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

    pub(in super::super) fn set_paused(&self, server: usize, is_paused: bool) {
        self.with(|state| state.set_paused(server, is_paused));
        self.resumed.notify_waiters();
    }

    pub(in super::super) fn start(&self, server: usize) {
        self.with(|state| state.start(server));
        self.resumed.notify_waiters();
    }

    /// Serves a client at the other end of a stream until either side closes it.
    pub(in super::super) fn serve<S>(
        self: &Arc<Self>,
        server: usize,
        stream: S,
    ) -> impl Future<Output = ()> + use<S>
    where
        S: AsyncRead + AsyncWrite,
    {
        let core = self.clone();
        let is_open = self.with(|state| state.is_open(server));
        async move {
            if is_open {
                serve::serve(&core, server, stream, PEER_OF_STREAM).await;
            }
        }
    }

    /// Works on the state as soon as a server is not paused.
    pub(in super::super) async fn served<R>(&self, server: usize, work: impl FnOnce(&mut State) -> R) -> R {
        let mut work = Some(work);
        loop {
            let resumed = self.resumed.notified();
            let done = self.with(|state| {
                let work = if state.replicas[server].is_paused { None } else { work.take() };
                work.map(|work| work(state))
            });
            if let Some(done) = done {
                return done;
            }
            resumed.await;
        }
    }

    /// Moves messages and looks at the clock until it is stopped. Then stops the servers.
    pub(in super::super) async fn drive(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.with(|state| {
                state.advance(state.now);
                state.awaited = state.agenda.next().unwrap_or(Duration::MAX);
                state.awaited
            });
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.earlier.notified() => {}
                () = time::sleep(next.saturating_sub(self.elapsed())) => {}
            }
        }
        self.with(|state| (0..state.replicas.len()).for_each(|server| state.stop(server)));
    }
}
