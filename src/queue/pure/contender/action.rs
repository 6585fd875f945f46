//! What a contender wants to have done.

use super::super::order::Queued;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Create a node with a fresh id, along with the requests that the local queue
    /// [asks for](super::super::local_queue::LocalQueue::prefetch).
    Create,
    /// Our node is gone: create another at the end of the queue, unless this has happened too often.
    Requeue,
    /// Create the parents of the queue.
    MakeParents,
    /// Find out whether the node whose create was in doubt exists.
    Settle,
    /// List the children of the queue.
    List,
    /// Watch the contender of that name if it exists, and list the children by a request right behind.
    WatchAndList(String),
    /// Fetch the creation dates of these contenders.
    Date(Vec<Queued>),
    /// Tell the caller that it holds, or that it must wait. In the latter case the caller continues with
    /// [`Contender::park`](super::Contender::park) if it wants to wait.
    Report,
    /// Watch our own node if `own` is set, and then the node named `blocker`; each only if it still exists.
    Watch { own: bool, blocker: Option<String> },
    /// Wait for a watch or for the local queue.
    Await,
    /// Leave the queue and fail: this child of the path belongs to another recipe.
    Refuse { child: String, found: &'static str },
}
