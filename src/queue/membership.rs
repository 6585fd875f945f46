//! A line at work: shared by the contenders of one queue in one session.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::line::{Connection, Line, Moment, Rank};
use super::order::Queued;
use crate::client::{Session, Watcher};

#[derive(Debug)]
pub(crate) struct SharedLine {
    session: Arc<Session>,
    state: Mutex<State>,
    /// Told of each contender that is taken in.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    line: Line<Arc<Notify>>,
    parent_watch: Option<Watcher>,
    /// Whether there is an [eye](super::front) on its front.
    is_watched: bool,
}

/// A contender's place in the line. Dropping it leaves the line, and lets those on who waited for it.
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

    /// The present connection.
    pub(crate) fn connection(&self) -> Connection {
        self.session.connection()
    }

    /// Does something with the line, on the present connection.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Line<Arc<Notify>>, Connection) -> T) -> T {
        let mut state = self.state();
        let State { line, parent_watch, .. } = &mut *state;
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

    /// The parent is watched by a request on that connection. Returns the moment of what was sent behind it.
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
        self.arrived.notify_waiters();
        Membership { line: self.clone(), rank }
    }

    /// Waits until a contender of the line waits for this one.
    pub(crate) async fn waited_for(&self, rank: Rank) {
        loop {
            let arrived = self.arrived.notified();
            if self.with(|line, _| line.is_waited_for(rank)) {
                return;
            }
            arrived.await;
        }
    }

    /// Whether this contender waits in the line, or is waited for, and nobody has an eye on its front. From then on
    /// somebody has.
    pub(crate) fn is_to_be_watched(&self, rank: Rank) -> bool {
        let mut state = self.state();
        let State { line, is_watched, .. } = &*state;
        let is_needed = !is_watched && (line.is_blocked(rank) || line.is_waited_for(rank));
        state.is_watched |= is_needed;
        is_needed
    }

    /// Its [front](Line::front); `None` if nobody waits, and then nobody has an eye on it any more.
    pub(crate) fn front(&self) -> Option<Vec<(Rank, String)>> {
        let mut state = self.state();
        let front = state.line.front();
        state.is_watched = !front.is_empty();
        state.is_watched.then_some(front)
    }

    /// Lets a contender go, and those on who waited for it. One that has gone may go once more.
    pub(crate) fn leave(&self, rank: Rank) {
        // Without a look at the parent: it changes nothing for those who leave, and their runtime may have ended.
        let woken = self.state().line.leave(rank);
        for wake in woken {
            wake.notify_one();
        }
    }

    /// Takes in the reader that a writer goes on as, if the writer is still there. See [`Line::follow`].
    pub(crate) fn follow(self: &Arc<Self>, reader: &Queued, writer: &Queued) -> Option<Membership> {
        // It waits for nobody.
        let wake = Arc::default();
        let rank = self.with(|line, now| line.follow(reader, writer, now, wake))?;
        self.arrived.notify_waiters();
        Some(Membership { line: self.clone(), rank })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock()
    }
}

impl Membership {
    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether it is still in the line: the [watch](super::idle::IdleWatch) on an idle place may have had it leave.
    pub(crate) fn is_in_line(&self) -> bool {
        self.line.state().line.is_member(self.rank)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.line.leave(self.rank);
    }
}
