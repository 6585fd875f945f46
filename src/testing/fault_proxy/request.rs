//! The kinds of requests.

/// The kind of a request of ZooKeeper's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Any create: of a plain node, a container, or one with a time to live; with or without its `Stat` in the reply.
    Create,
    /// A delete.
    Delete,
    /// A look whether a node exists, perhaps with a watch.
    Exists,
    /// A read of a node's data, perhaps with a watch.
    GetData,
    /// A write of a node's data.
    SetData,
    /// A list of a node's children, with or without the node's `Stat`, perhaps with a watch.
    GetChildren,
    /// A sync with the leader.
    Sync,
    /// Several changes at once.
    Multi,
    /// The transaction by which this library has a session confirmed: it only checks that `/` exists.
    Confirm,
    /// The removal of watches.
    RemoveWatches,
    /// Any other, by its opcode: −11 ends the session, for instance. The opcode of a kind above means that kind.
    Other(i32),
}

/// A header with the opcode of a check, the path and any version, and the header that ends the transaction.
const CHECK_OF_ROOT: &[u8] =
    b"\0\0\0\x0d\0\xff\xff\xff\xff\0\0\0\x01/\xff\xff\xff\xff\xff\xff\xff\xff\x01\xff\xff\xff\xff";

/// A path, and no watch.
const LOOK_AT_ROOT: &[u8] = b"\0\0\0\x01/\0";

impl Request {
    /// Or what this library sends in place of one, a look at `/`.
    pub(super) const PING: Self = Self::Other(11);

    pub(super) fn of(opcode: i32) -> Self {
        match opcode {
            1 | 15 | 19 | 21 => Self::Create,
            2 => Self::Delete,
            3 => Self::Exists,
            4 => Self::GetData,
            5 => Self::SetData,
            8 | 12 => Self::GetChildren,
            9 => Self::Sync,
            14 => Self::Multi,
            18 => Self::RemoveWatches,
            other => Self::Other(other),
        }
    }

    /// What the bytes behind the opcode tell about the kind.
    pub(super) fn with_body(self, body: &[u8]) -> Self {
        match self {
            Self::Multi if body == CHECK_OF_ROOT => Self::Confirm,
            Self::Exists if body == LOOK_AT_ROOT => Self::PING,
            other => other,
        }
    }

    /// The one value for what several could stand for.
    pub(super) fn normal(self) -> Self {
        match self {
            Self::Other(opcode) => Self::of(opcode),
            named => named,
        }
    }
}
