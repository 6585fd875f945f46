//! A line at work: shared by the contenders of one queue in one session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::line::{Connection, Line, Moment, Rank};
use super::order::Queued;
use crate::client::{Session, Watcher};

#[derive(Debug)]
pub(crate) struct SharedLine {
    session: Arc<Session>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    line: Line<Arc<Notify>>,
    parent_watch: Option<Watcher>,
}

/// A contender's place in the line. Dropping it leaves the line, and lets those on who waited for it.
#[derive(Debug)]
pub(crate) struct Membership {
    line: Arc<SharedLine>,
    rank: Rank,
}

impl SharedLine {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self { session, state: Mutex::default() }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The present connection.
    pub(crate) fn connection(&self) -> Connection {
        self.session.connection()
    }

    /// Does something with the line, on the present connection.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Line<Arc<Notify>>, Connection) -> T) -> T {
        let mut state = self.state();
        let State { line, parent_watch } = &mut *state;
        if parent_watch.as_mut().is_some_and(|watch| watch.seen().is_some()) {
            *parent_watch = None;
            line.parent_changed();
        }
        act(line, self.session.connection())
    }

    /// The moment of a request that is sent now.
    pub(crate) fn moment(&self) -> Moment {
        self.with(|line, now| line.moment(now))
    }

    /// The parent is watched by a request on that connection. Answers the moment of what was sent behind it.
    pub(crate) fn parent_watched(&self, watch: Watcher, on: Connection) -> Moment {
        let mut state = self.state();
        state.parent_watch = Some(watch);
        state.line.parent_watched(on)
    }

    /// Takes in a contender. See [`Line::arrive`].
    pub(crate) fn arrive(
        self: &Arc<Self>,
        node: &Queued,
        created: Option<Moment>,
        wake: &Arc<Notify>,
    ) -> Membership {
        let rank = self.with(|line, now| line.arrive(node, created, now, wake.clone()));
        Membership { line: self.clone(), rank }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let woken = self.line.with(|line, _| line.leave(self.rank));
        for wake in woken {
            wake.notify_one();
        }
    }
}
