//! The error codes of ZooKeeper's protocol that this server uses.

use crate::testing::jute::Malformed;

/// Why a request failed. The numbers are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Code {
    /// Another operation of the same transaction failed before this one.
    RuntimeInconsistency = -2,
    Marshalling = -5,
    Unimplemented = -6,
    BadArguments = -8,
    NoNode = -101,
    NoAuth = -102,
    BadVersion = -103,
    NoChildrenForEphemerals = -108,
    NodeExists = -110,
    NotEmpty = -111,
    SessionExpired = -112,
    InvalidAcl = -114,
    AuthFailed = -115,
    NoWatcher = -121,
    ReconfigDisabled = -123,
}

impl From<Malformed> for Code {
    fn from(_: Malformed) -> Self {
        Self::Marshalling
    }
}
