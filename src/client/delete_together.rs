//! A transaction that deletes several nodes.

use futures_util::future::{BoxFuture, Shared};
use zookeeper_client as zk;

use super::session::BeforeSending;

/// A transaction that has been sent. Each of its nodes awaits it, and is deleted by itself if the outcome does not tell
/// that it is gone.
#[derive(Clone, Debug)]
pub(crate) struct DeleteTogether {
    pub(super) outcome: Shared<BoxFuture<'static, DeletedTogether>>,
    pub(super) before: BeforeSending,
}

/// The outcome for each of the nodes.
#[derive(Clone, Debug)]
pub(crate) enum DeletedTogether {
    All,
    /// The transaction was refused because of one of the nodes: that one is gone, or may not be deleted.
    None,
    /// As of a request that deletes only this node.
    Failed(zk::Error),
}
