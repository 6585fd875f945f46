//! The kinds of requests.

use crate::testing::opcode;

/// The kind of a request of ZooKeeper's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Any create: of a plain node, a container, or a node with a time to live; with or without its `Stat` in the
    /// reply.
    Create,
    /// A delete.
    Delete,
    /// A check whether a node exists, possibly with a watch.
    Exists,
    /// A read of a node's data, possibly with a watch.
    GetData,
    /// A write of a node's data.
    SetData,
    /// A list of a node's children, with or without the node's `Stat`, possibly with a watch.
    GetChildren,
    /// A sync with the leader.
    Sync,
    /// A transaction of several operations.
    Multi,
    /// The transaction with which this library confirms a session: it only checks that `/` exists.
    Confirm,
    /// The removal of watches.
    RemoveWatches,
    /// Any other request, by its opcode; for instance, −11 ends the session. An opcode of one of the kinds above is
    /// equivalent to that kind.
    Other(i32),
}

/// A header with the opcode of a check, the path and any version, and the header that ends the transaction.
const CHECK_OF_ROOT: &[u8] =
    b"\0\0\0\x0d\0\xff\xff\xff\xff\0\0\0\x01/\xff\xff\xff\xff\xff\xff\xff\xff\x01\xff\xff\xff\xff";

/// The path of a `sync`.
const ROOT: &[u8] = b"\0\0\0\x01/";

impl Request {
    /// A ping, or the `sync` of `/` that this library sends in place of one.
    pub(super) const PING: Self = Self::Other(opcode::PING);

    /// Returns the kind of a request with this opcode, which these bytes follow.
    pub(super) fn of(operation: i32, body: &[u8]) -> Self {
        match operation {
            opcode::CREATE | opcode::CREATE_2 | opcode::CREATE_CONTAINER | opcode::CREATE_TTL => Self::Create,
            opcode::DELETE => Self::Delete,
            opcode::EXISTS => Self::Exists,
            opcode::GET_DATA => Self::GetData,
            opcode::SET_DATA => Self::SetData,
            opcode::GET_CHILDREN | opcode::GET_CHILDREN_2 => Self::GetChildren,
            opcode::SYNC if body == ROOT => Self::PING,
            opcode::SYNC => Self::Sync,
            opcode::MULTI if body == CHECK_OF_ROOT => Self::Confirm,
            opcode::MULTI => Self::Multi,
            opcode::REMOVE_WATCHES => Self::RemoveWatches,
            other => Self::Other(other),
        }
    }

    /// Returns the one value for what several values can stand for.
    pub(super) fn normal(self) -> Self {
        match self {
            Self::Other(operation) => Self::of(operation, &[]),
            named => named,
        }
    }
}
