//! What the reply to a request means, or its absence.

use zookeeper_client as zk;

/// Maps the error of a request that got no reply. If the connection ends while a request is on its way to the task
/// that serves it, the request is never answered, and `zookeeper-client` reports an internal error.
pub(super) fn lost(error: zk::Error) -> zk::Error {
    match error {
        zk::Error::UnexpectedError(reason) if reason.ends_with("expect response, but got none") => {
            zk::Error::ConnectionLoss
        }
        error => error,
    }
}

/// Whether the reply proves that a majority of the servers has committed the write. A write that the leader finds
/// impossible is committed, too, as a transaction that does nothing.
///
/// A missing permission proves nothing: a server may be configured to check it by itself (`enableEagerACLCheck`).
pub(super) fn is_committed<T>(answer: &Result<T, zk::Error>) -> bool {
    use zk::Error::{BadVersion, NoChildrenForEphemerals, NoNode, NodeExists, NotEmpty};
    matches!(answer, Ok(_) | Err(BadVersion | NoChildrenForEphemerals | NoNode | NodeExists | NotEmpty))
}
