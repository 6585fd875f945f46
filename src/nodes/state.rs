//! The state of a kept node.

use crate::error::Error;

/// The state of a kept node. Watch it with [`PersistentNode::watch_state`](super::PersistentNode::watch_state).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The node does not exist: it was not created yet, or the session to which it belonged has ended, and there is no
    /// other yet.
    Absent,
    /// The node exists. While there is no connection, it is taken to exist until its session is known to have ended, and
    /// one that belongs to no session until the next connection shows that it is gone; see
    /// [`Client::watch_connection`](crate::Client::watch_connection).
    Present {
        /// The full path of the node, namespace included, and what the server has appended to it.
        path: String,
        /// The transaction that created the node. Another one means another node, so that its watchers have seen it
        /// disappear.
        czxid: i64,
    },
    /// The node cannot be created, or one with a time to live cannot be kept, for this reason, which waiting alone is not
    /// likely to change: a missing permission, an invalid ACL, a quota, an ephemeral parent, servers without such nodes, or
    /// [someone else's node](Error::NodeTaken) at the path. It is tried again, with pauses of up to 5 seconds; and as soon as
    /// someone else's node is gone, or within 6 seconds if that may not be read.
    Blocked(Error),
    /// The value was closed or dropped, or the client was closed. This is the last state.
    Closed,
}

impl NodeState {
    /// Returns whether the node exists.
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Present { .. })
    }

    /// Its name in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Present { .. } => "present",
            Self::Blocked(_) => "blocked",
            Self::Closed => "closed",
        }
    }
}
