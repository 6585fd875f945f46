//! Classifies the errors of requests: what they say about the node, and whether a retry may help.

use zookeeper_client as zk;

/// The meaning of an error of `zookeeper-client`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server refused, and would refuse again. Nothing changed.
    Refused,
    /// The server did not do it now, but may do it later. Nothing changed.
    Postponed,
    /// The reply is missing: the request may have been carried out.
    Unknown,
    /// The session is over, and everything that belonged to it.
    SessionOver,
}

/// Error codes of a server that gave up waiting for its own quorum (`RequestTimeoutException`,
/// `OperationTimeoutException`). The request may still be carried out.
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
            // A broken connection has many forms: `ConnectionLoss`, but also the I/O error itself.
            _ => Self::Unknown,
        }
    }

    /// Whether a retry may help.
    pub(crate) fn is_passing(self) -> bool {
        matches!(self, Self::Postponed | Self::Unknown)
    }
}

/// Returns the answer to a request about a node; `None` if the node does not exist.
pub(crate) fn if_exists<T>(answer: Result<T, zk::Error>) -> Result<Option<T>, zk::Error> {
    match answer {
        Err(zk::Error::NoNode) => Ok(None),
        answer => answer.map(Some),
    }
}
