//! The local queue in use: shared by the contenders of one queue in one session.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::pure::connection::Connection;
use super::pure::line::{Line, Moment, Rank};
use super::pure::order::Queued;
use crate::client::{Session, Watcher};

#[derive(Debug)]
pub(crate) struct SharedLine {
    session: Arc<Session>,
    state: Mutex<State>,
    /// Notified of each contender that is added.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    line: Line<Arc<Notify>>,
    parent_watch: Option<Watcher>,
    /// Whether a task [watches over](super::front) its front.
    is_watched: bool,
}

/// A contender's place in the local queue. Dropping it leaves the local queue, and wakes those that waited for it.
#[derive(Debug)]
pub(crate) struct Membership {
    line: Arc<SharedLine>,
    rank: Rank,
}

impl SharedLine {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self { session, state: Mutex::default(), arrived: Notify::new() }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the current connection.
    pub(crate) fn connection(&self) -> Connection {
        Connection(self.session.connection())
    }

    /// Calls `act` with the local queue and the current connection.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Line<Arc<Notify>>, Connection) -> T) -> T {
        let mut state = self.state.lock();
        let State { line, parent_watch, .. } = &mut *state;
        if parent_watch.as_mut().is_some_and(|watch| watch.seen().is_some()) {
            *parent_watch = None;
            line.parent_changed();
        }
        act(line, self.connection())
    }

    /// Returns the moment of a request that is sent now.
    pub(crate) fn moment(&self) -> Moment {
        self.with(|line, now| line.moment(now))
    }

    /// Records that the parent is watched by a request on that connection. Returns the moment of the requests that
    /// were sent behind it.
    pub(crate) fn parent_watched(&self, watch: Watcher, on: Connection) -> Moment {
        let mut state = self.state.lock();
        state.parent_watch = Some(watch);
        state.line.parent_watched(on)
    }

    /// Adds a contender. See [`Line::arrive`].
    pub(crate) fn arrive(
        self: &Arc<Self>,
        node: &Queued,
        created: Option<Moment>,
        wake: &Arc<Notify>,
    ) -> Membership {
        let rank = self.with(|line, now| line.arrive(node, created, now, wake.clone()));
        self.arrived.notify_waiters();
        Membership { line: self.clone(), rank }
    }

    /// Waits until a local contender waits for this one.
    pub(crate) async fn waited_for(&self, rank: Rank) {
        loop {
            let arrived = self.arrived.notified();
            if self.with(|line, _| line.is_waited_for(rank)) {
                return;
            }
            arrived.await;
        }
    }

    /// Whether this contender waits in the local queue, or is waited for, and no task watches over the front yet.
    /// If so, the caller must start that task: it counts as started.
    pub(crate) fn is_to_be_watched(&self, rank: Rank) -> bool {
        let mut state = self.state.lock();
        let State { line, is_watched, .. } = &*state;
        let is_needed = !is_watched && (line.is_blocked(rank) || line.is_waited_for(rank));
        state.is_watched |= is_needed;
        is_needed
    }

    /// Returns its [front](Line::front); `None` if no one waits, and then the task that watches over it counts as
    /// ended.
    pub(crate) fn front(&self) -> Option<Vec<(Rank, String)>> {
        let mut state = self.state.lock();
        let front = state.line.front();
        state.is_watched = !front.is_empty();
        state.is_watched.then_some(front)
    }

    /// Removes a contender, and wakes those that waited for it. May be called again for one that has left.
    pub(crate) fn leave(&self, rank: Rank) {
        // The parent watch is not checked here: it makes no difference to those who leave, and their runtime may
        // have ended.
        let woken = self.state.lock().line.leave(rank);
        for wake in woken {
            wake.notify_one();
        }
    }

    /// Adds the reader that a writer downgrades to, if the writer is still there. See [`Line::follow`].
    pub(crate) fn follow(self: &Arc<Self>, reader: &Queued, writer: &Queued) -> Option<Membership> {
        // Never notified: the reader waits for no one.
        let wake = Arc::default();
        let rank = self.with(|line, now| line.follow(reader, writer, now, wake))?;
        self.arrived.notify_waiters();
        Some(Membership { line: self.clone(), rank })
    }
}

impl Membership {
    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether it is still in the local queue: the [watch](super::idle::IdleWatch) on an idle place may have
    /// removed it.
    pub(crate) fn is_in_line(&self) -> bool {
        self.line.state.lock().line.is_member(self.rank)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.line.leave(self.rank);
    }
}
