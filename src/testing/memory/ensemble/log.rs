//! What the servers of an ensemble do, in the same order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::testing::memory::acl::Id;
use crate::testing::memory::connections::ConnectionId;
use crate::testing::memory::request::Write;

/// How many entries are kept for servers that have missed them. Others get a copy of the tree.
pub(super) const KEPT: usize = 500;

/// Who waits for the outcome: a connection of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) server: usize,
    pub(super) connection: ConnectionId,
    /// Distinguishes the requests of all connections.
    pub(super) ticket: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A new leader has the log up to here.
    Lead,
    OpenSession(Duration),
    CloseSession,
    Write(Write),
    Multi(Vec<Write>),
    /// Deletes a node, and what is below.
    DeleteAll(String),
    RemoveOverdue(String),
}

/// What the leader is to have done.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) action: Action,
    /// 0 for what no session does.
    pub(super) session: i64,
    pub(super) ids: Arc<Vec<Id>>,
    pub(super) origin: Option<Origin>,
}

impl Proposal {
    /// Something that no client waits for.
    pub(super) fn of_leader(action: Action, session: i64) -> Self {
        Self { action, session, ids: Arc::default(), origin: None }
    }

    /// Something that an operator does, as if it were a client that may do everything.
    pub(super) fn of_operator(action: Action, session: i64) -> Self {
        Self { ids: Arc::new(vec![Id::of_operator()]), ..Self::of_leader(action, session) }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) zxid: i64,
    /// In milliseconds since 1970.
    pub(super) time: i64,
    pub(super) proposal: Proposal,
}

/// The entries that a server has logged. It has made those that are committed.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Arc<Entry>>,
    /// The last entry that is not kept.
    base: i64,
}

impl Log {
    /// Returns the number of the last entry.
    pub(super) fn last(&self) -> i64 {
        self.entries.back().map_or(self.base, |entry| entry.zxid)
    }

    pub(super) fn push(&mut self, entry: Arc<Entry>) {
        self.entries.push_back(entry);
    }

    /// Returns the entry after another one.
    pub(super) fn after(&self, zxid: i64) -> Option<&Arc<Entry>> {
        self.entries.get(self.entries.partition_point(|entry| entry.zxid <= zxid))
    }

    /// Whether a server that has made all entries up to one can continue with what is kept here.
    pub(super) fn continues(&self, zxid: i64) -> bool {
        zxid == self.base || self.entries.binary_search_by_key(&zxid, |entry| entry.zxid).is_ok()
    }

    /// Forgets old entries of those that the server has made.
    pub(super) fn compact(&mut self, made: i64, kept: usize) {
        if self.entries.len() < 2 * kept {
            return;
        }
        while self.entries.len() > kept
            && let Some(zxid) = self.entries.front().map(|entry| entry.zxid).filter(|zxid| *zxid <= made)
        {
            self.entries.pop_front();
            self.base = zxid;
        }
    }
}
