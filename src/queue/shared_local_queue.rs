//! The local queue in use: shared by the contenders of one queue in one session.

use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, fence};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::pure::connection::Connection;
use super::pure::local_queue::{LocalQueue, Moment, Rank, Vacancy};
use super::pure::order::Queued;
use super::pure::permits::Limit;
use super::pure::stock::Stock;
use crate::client::{Session, Watcher};

#[derive(Debug)]
pub(crate) struct SharedLocalQueue {
    session: Arc<Session>,
    state: Mutex<State>,
    /// Cloned by each list that is on its way, and was sent behind a create.
    lists: Arc<()>,
    /// Cloned for each lease of ours that is not known to be gone.
    leases: Arc<()>,
}

#[derive(Debug, Default)]
struct State {
    local: LocalQueue<Arc<Notify>>,
    parent_watch: Option<Watcher>,
    /// What is known of the permits, if this is the gate of a semaphore.
    stock: Stock,
    /// Whether a task [watches over](super::front) its front.
    is_watched: bool,
}

/// A contender's place in the local queue. Dropping it leaves the local queue, and wakes those that waited for it.
#[derive(Debug)]
pub(crate) struct LocalSlot {
    local: Arc<SharedLocalQueue>,
    rank: Rank,
}

/// What is expected of a create at the gate of a semaphore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guess {
    /// The number that it gets.
    pub(crate) number: i32,
    /// No one is at the gate.
    pub(crate) vacancy: Option<Vacancy>,
    /// When that was so.
    pub(crate) at: Moment,
}

impl SharedLocalQueue {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self { session, state: Mutex::default(), lists: Arc::default(), leases: Arc::default() }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the current connection.
    pub(crate) fn connection(&self) -> Connection {
        Connection(self.session.connection())
    }

    /// Calls `act` with the local queue and the current connection.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut LocalQueue<Arc<Notify>>, Connection) -> T) -> T {
        self.with_stock(|local, _, now| act(local, now))
    }

    fn with_stock<T>(
        &self,
        act: impl FnOnce(&mut LocalQueue<Arc<Notify>>, &mut Stock, Connection) -> T,
    ) -> T {
        let mut state = self.state.lock();
        let State { local, parent_watch, stock, .. } = &mut *state;
        if parent_watch.as_mut().is_some_and(|watch| watch.seen().is_some()) {
            *parent_watch = None;
            local.parent_changed();
        }
        act(local, stock, self.connection())
    }

    /// Whether the reply to a list is awaited that was sent behind a create.
    pub(crate) fn is_being_listed(&self) -> bool {
        Arc::strong_count(&self.lists) > 1
    }

    /// Marks the queue as [being listed](Self::is_being_listed) until the result is dropped.
    pub(crate) fn list_begins(&self) -> Arc<()> {
        self.lists.clone()
    }

    /// Whether to take permits along with the create at the gate, beside `own` leases of the session. See [`Stock::guess`].
    pub(crate) fn guess(&self, wanted: u32, own: usize) -> Option<Guess> {
        self.with_stock(|local, stock, now| {
            let vacancy = local.vacancy(now);
            Some(Guess { number: stock.guess(vacancy, wanted, own)?, vacancy, at: local.moment(now) })
        })
    }

    /// Records that a guess was wrong.
    pub(crate) fn guessed_wrong(&self) {
        self.state.lock().stock.was_wrong();
    }

    /// Returns the moment of a request that is sent now.
    pub(crate) fn moment(&self) -> Moment {
        self.with(|local, now| local.moment(now))
    }

    /// Records that the parent is watched by a request on that connection. Returns the moment of the requests that
    /// were sent behind it.
    pub(crate) fn parent_watched(&self, watch: Watcher, on: Connection) -> Moment {
        let mut state = self.state.lock();
        state.parent_watch = Some(watch);
        state.local.parent_watched(on)
    }

    /// Returns what keeps a lease of ours counted until it is dropped.
    pub(crate) fn lease(&self) -> Arc<()> {
        self.leases.clone()
    }

    /// Whether leases of ours have been given back that may be there, since their deletes may fail.
    pub(crate) fn has_leaving_leases(&self) -> bool {
        let leases = Arc::strong_count(&self.leases) - 1;
        // A delete that was refused was recorded before its lease left the count.
        fence(Acquire);
        leases > 0 && leases > self.members() || self.session.leaves_nodes()
    }

    pub(crate) fn members(&self) -> usize {
        self.state.lock().local.members()
    }

    /// Adds a contender. See [`LocalQueue::arrive`].
    pub(crate) fn arrive(
        self: &Arc<Self>,
        node: &Queued,
        created: Option<Moment>,
        wake: &Arc<Notify>,
    ) -> LocalSlot {
        let rank = self.with(|local, now| local.arrive(node, created, now, wake.clone()));
        LocalSlot { local: self.clone(), rank }
    }

    /// Whether this contender waits in the local queue, or is waited for, and no task watches over the front yet.
    /// If so, the caller must start that task: it counts as started.
    pub(crate) fn is_to_be_watched(&self, rank: Rank) -> bool {
        let mut state = self.state.lock();
        let State { local, is_watched, .. } = &*state;
        let is_needed = !is_watched && (local.is_blocked(rank) || local.is_waited_for(rank));
        state.is_watched |= is_needed;
        is_needed
    }

    /// Returns its [front](LocalQueue::front); `None` if no one waits, and then the task that watches over it counts as
    /// ended.
    pub(crate) fn front(&self) -> Option<Vec<(Rank, String)>> {
        let mut state = self.state.lock();
        let front = state.local.front();
        state.is_watched = !front.is_empty();
        state.is_watched.then_some(front)
    }

    /// Removes a contender, and wakes those that waited for it. May be called again for one that has left.
    pub(crate) fn leave(&self, rank: Rank) {
        // The parent watch is not checked here: it makes no difference to those who leave, and their runtime may
        // have ended.
        let woken = self.state.lock().local.leave(rank);
        for wake in woken {
            wake.notify_one();
        }
    }

    /// Adds the reader that a writer downgrades to, if the writer is still there. See [`LocalQueue::follow`].
    pub(crate) fn follow(self: &Arc<Self>, reader: &Queued, writer: &Queued) -> Option<LocalSlot> {
        // Never notified: the reader waits for no one.
        let rank = self.with(|local, now| local.follow(reader, writer, now, Arc::default()))?;
        Some(LocalSlot { local: self.clone(), rank })
    }
}

impl LocalSlot {
    /// Records that this contender at the gate of a semaphore has taken its permits, and how many leases others have.
    pub(crate) fn takes(&self, others: usize, limit: Limit) {
        self.local.with_stock(|local, stock, now| {
            stock.taken(local.vacancy_behind(self.rank, now), others, limit);
        });
    }

    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether it is still in the local queue: the task that [watches over](super::front) the front may have removed it.
    pub(crate) fn is_in_local_queue(&self) -> bool {
        self.local.state.lock().local.is_member(self.rank)
    }
}

impl Drop for LocalSlot {
    fn drop(&mut self) {
        self.local.leave(self.rank);
    }
}
