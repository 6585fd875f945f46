//! The versions of ZooKeeper that servers in memory can be.

use crate::testing::opcode::*;

/// A version of ZooKeeper, where the behaviour of versions differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MemoryVersion {
    /// ZooKeeper 3.5: it has no persistent watches, reads one node in a request, and does not list the nodes of a session.
    V3_5,
    /// ZooKeeper 3.6 to 3.8.1: a transaction returns the paths of the plain and ephemeral nodes that it creates, and no
    /// stats.
    V3_6,
    /// ZooKeeper 3.9.1.
    #[default]
    V3_9,
}

impl MemoryVersion {
    pub(super) fn has_stats_in_multi(self) -> bool {
        self > Self::V3_6
    }

    /// Whether it knows a request of that number.
    pub(super) fn knows(self, operation: i32) -> bool {
        let is_of_3_6 = matches!(
            operation,
            ADD_WATCH | GET_ALL_CHILDREN_NUMBER | GET_EPHEMERALS | MULTI_READ | SET_WATCHES_2 | WHO_AM_I
        );
        self > Self::V3_5 || !is_of_3_6
    }
}
