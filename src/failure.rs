//! What a failed request says about the node it was about, and about trying again.

use zookeeper_client as zk;

/// The meaning of an error of `zookeeper-client`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server refused, and would refuse again. Nothing was changed.
    Refused,
    /// The server did not do it now, but may do it later. Nothing was changed.
    Postponed,
    /// No reply: it may have been done or not.
    Unknown,
    /// The session is over, and with it all that belonged to it.
    SessionOver,
}

/// The server's answer when it gave up waiting for its own quorum (`RequestTimeoutException`,
/// `OperationTimeoutException`): the request may still be carried out.
const SERVER_TIMEOUTS: [i32; 2] = [-7, -122];

impl Failure {
    pub(crate) fn of(error: &zk::Error) -> Self {
        use zk::Error::*;
        match error {
            NoNode
            | NoAuth
            | BadVersion
            | NoChildrenForEphemerals
            | NodeExists
            | NotEmpty
            | InvalidAcl
            | NoWatcher
            | QuotaExceeded
            | MarshallingError
            | Unimplemented
            | ReconfigDisabled
            | RuntimeInconsistent
            | BadArguments(_) => Self::Refused,
            SessionMoved | Throttled | NotReadOnly => Self::Postponed,
            SessionExpired | AuthFailed | ClientClosed => Self::SessionOver,
            UnexpectedErrorCode(code) if !SERVER_TIMEOUTS.contains(code) => Self::Refused,
            // A broken connection shows in many forms: ConnectionLoss, but also the I/O error itself.
            _ => Self::Unknown,
        }
    }

    /// Whether trying again may help.
    pub(crate) fn is_passing(self) -> bool {
        matches!(self, Self::Postponed | Self::Unknown)
    }
}
