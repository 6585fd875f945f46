//! Who is inside a lock, by its own guard.

use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use zk_recipes::{LeaderLatch, Leadership, LockGuard, LossReason};

use crate::acts::{Act, Acts};
use crate::clock;

/// One hold of one path, from the moment at which its task has the guard.
pub(crate) struct Claim {
    /// What it was acquired as.
    pub(crate) kind: &'static str,
    pub(crate) id: u64,
    /// Claims of one owner do not exclude each other: a writer may read.
    pub(crate) owner: u64,
    pub(crate) exclusive: bool,
    pub(crate) held: Held,
    pub(crate) node: String,
    pub(crate) session: i64,
    pub(crate) asked: u64,
    pub(crate) from: u64,
    pub(crate) story: Mutex<Story>,
}

/// What says whether it is held.
#[derive(Clone)]
pub(crate) enum Held {
    Guard(Arc<LockGuard>),
    /// One of those of a multi-lock.
    Member(Arc<LockGuard>, usize),
    /// The latch is kept for as long as it leads.
    Leadership(Leadership, #[allow(dead_code, reason = "it leads while it lives")] LeaderLatch),
}

/// What was done under it. All times are of the process's clock.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// The last moment at which it was seen to be valid, or is known to have been.
    pub(crate) valid_at: u64,
    pub(crate) reads: Vec<Read>,
    pub(crate) writes: Vec<Write>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) value: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) from: u64,
    /// When it was confirmed; `None` if it is not known whether it was done.
    pub(crate) until: Option<u64>,
    pub(crate) value: u64,
}

impl Held {
    pub(crate) fn is_valid(&self) -> bool {
        self.loss().is_none()
    }

    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self {
            Self::Guard(guard) => guard.loss(),
            Self::Member(guard, index) => guard.members()[*index].loss(),
            Self::Leadership(leadership, _) => leadership.loss(),
        }
    }

    pub(crate) fn token(&self) -> i64 {
        match self {
            Self::Guard(guard) => guard.fencing_token(),
            Self::Member(guard, index) => guard.members()[*index].fencing_token(),
            Self::Leadership(leadership, _) => leadership.fencing_token(),
        }
    }

    pub(crate) fn node(&self) -> &str {
        match self {
            Self::Guard(guard) => guard.node_path(),
            Self::Member(guard, index) => guard.members()[*index].node_path(),
            Self::Leadership(leadership, _) => leadership.node_path(),
        }
    }

    fn valid_until(&self) -> Instant {
        match self {
            Self::Guard(guard) => guard.valid_until(),
            Self::Member(guard, index) => guard.members()[*index].valid_until(),
            Self::Leadership(leadership, _) => leadership.valid_until(),
        }
    }
}

impl Claim {
    /// Looks whether it is valid, and notes it.
    pub(crate) fn look(&self) -> bool {
        let now = clock::now();
        let is_valid = self.held.is_valid();
        if is_valid {
            let mut story = self.story.lock().unwrap();
            story.valid_at = story.valid_at.max(now);
        }
        is_valid
    }

    /// Looks for the last time. A hold whose time was over was valid until then, as it said; of other losses it is not
    /// known when they were, but that it was not valid any more.
    pub(crate) fn last_look(&self) -> Option<LossReason> {
        if self.look() {
            return None;
        }
        let loss = self.held.loss();
        if loss == Some(LossReason::Deadline) {
            // In this order: if the thread is held up in between, that end is dated too early. Too late, it would seem
            // to be after the next holder's beginning.
            let now = clock::now();
            let ago = Instant::now().saturating_duration_since(self.held.valid_until());
            let until = now.saturating_sub(ago.as_nanos() as u64);
            let mut story = self.story.lock().unwrap();
            story.valid_at = story.valid_at.max(until);
        }
        loss
    }

    pub(crate) fn act(&self, acts: &Acts) -> Option<Act> {
        acts.on(&self.node, self.session)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, owner, node, session, from, .. } = self;
        let held_for = clock::seconds(clock::now() - from);
        write!(f, "{kind} {id} of owner {owner} ({node}, session {session:#x}, for {held_for:.4} s)")
    }
}
