//! The line in which the acquires of one client wait for one lock, in front of its queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;

use crate::queue::Caller;

/// The line of a lock with a cohort: first come, first served.
///
/// One at a time has its turn: it holds the lock, or is in the queue for it, or is the next to hold by the node.
#[derive(Debug)]
pub(crate) struct Line {
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// How often the lock was granted in this client.
    grants: AtomicU64,
    /// The caller that has entered the queue, since it has its turn.
    in_queue: Mutex<Option<Caller>>,
}

/// The turn of an acquire. When it is dropped, it is the turn of the next in line.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "it is dropped")] OwnedSemaphorePermit);

impl Line {
    pub(super) fn new() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            grants: AtomicU64::new(0),
            in_queue: Mutex::default(),
        }
    }

    /// Takes the turn if no one has it and no one is in line.
    pub(super) fn try_turn(&self) -> Option<Turn> {
        self.turns.clone().try_acquire_owned().ok().map(Turn)
    }

    /// Counts one more in line, until [`leave`](Self::leave). Returns how often the lock was granted before.
    pub(super) fn join(&self) -> u64 {
        self.waiting.fetch_add(1, SeqCst);
        self.grants.load(SeqCst)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(SeqCst) == 0
    }

    /// Whether the acquire that has its turn has reached the queue, as far as is known.
    pub(super) fn is_in_queue(&self) -> bool {
        self.in_queue.lock().as_ref().is_some_and(Caller::has_reached)
    }

    /// Records that the lock was granted, to the one that has its turn or beside the line.
    pub(super) fn granted(&self, has_turn: bool) {
        self.grants.fetch_add(1, SeqCst);
        if has_turn {
            *self.in_queue.lock() = None;
        }
    }

    /// Waits for the turn.
    ///
    /// # Cancel safety
    /// One that waits again is the last in line.
    pub(super) async fn turn(&self) -> Turn {
        // Unconstrained, so that the first to be polled is the first in line, even if its task has used up its budget.
        let turn = unconstrained(self.turns.clone().acquire_owned()).await;
        Turn(turn.expect("it is never closed"))
    }

    /// Whether others have had the lock since it was granted that often, or are waited for in the queue, as far as is known.
    pub(super) fn has_made_wait(&self, since: u64) -> bool {
        self.grants.load(SeqCst) != since || self.is_in_queue()
    }

    /// Records that the caller enters the queue, since it has its turn.
    pub(super) fn enters_queue(&self, caller: &Caller) {
        *self.in_queue.lock() = Some(caller.clone());
    }

    /// Leaves the line. Returns whether it was the last in it.
    pub(super) fn leave(&self) -> bool {
        self.waiting.fetch_sub(1, SeqCst) == 1
    }
}
