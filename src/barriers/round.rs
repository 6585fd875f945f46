//! The round of a double barrier that a member belongs to.

use zookeeper_client as zk;

use super::decision::is_admitted;

/// One round: from the creation of `ready` until its last member has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// The czxid of `ready`; `None` if it is not known.
    ready: Option<i64>,
    /// The transaction that has written `ready` last, as far as it is known. The members of this round have come before it.
    opened: i64,
}

impl Round {
    /// The round that this `ready` belongs to.
    pub(super) fn of(ready: &zk::Stat) -> Self {
        Self { ready: Some(ready.czxid), opened: ready.mzxid }
    }

    /// The round of a member that came by this transaction, of which no more is known: those that came before were let in
    /// with it.
    pub(super) fn before(came: i64) -> Self {
        Self { ready: None, opened: came }
    }

    /// Whether it is known which `ready` is its own.
    pub(super) fn is_known(&self) -> bool {
        self.ready.is_some()
    }

    /// Whether a member that came by this transaction belongs to it.
    pub(super) fn includes(&self, came: i64) -> bool {
        is_admitted(came, self.opened)
    }

    /// Whether this `ready` is known to be its own.
    pub(super) fn is_of(&self, ready: &zk::Stat) -> bool {
        self.ready == Some(ready.czxid)
    }

    /// Whether this `ready` may be its own.
    pub(super) fn may_go_on_with(&self, ready: &zk::Stat) -> bool {
        self.ready.is_none() || self.is_of(ready)
    }
}
