//! What a contender is told.

use super::super::connection::Connection;
use super::super::local_queue::{Moment, Rank};
use super::super::order::Queued;

/// The outcome of the last action, or something that happened meanwhile.
///
/// The reply to a request about the queue carries the moment at which the request was sent, or its connection.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The contender enters the queue.
    Start,
    /// Our node exists and is in the local queue. `children` is the list that was sent right behind the create, if
    /// its reply came.
    Created { own: Queued, rank: Rank, children: Option<Vec<String>>, at: Moment },
    /// Our node was created in one transaction with the parent of the queue, which did not exist. It is in the local
    /// queue.
    CreatedWithQueue { own: Queued, rank: Rank, at: Moment },
    /// The reply to the create was lost.
    CreateUnknown,
    /// The parent of the queue does not exist.
    ParentMissing,
    /// The parents have been created, were found to exist, or are created along with the node.
    ParentsMade,
    /// The search for the node whose create was in doubt is done. If the node exists, it is in the local queue.
    Settled(Option<(Queued, Rank)>),
    /// The children of the queue.
    Listed { children: Vec<String>, at: Moment },
    /// The creation dates of the contenders asked for, which were `asked` in number. Those that are gone by now are
    /// missing.
    Dated { created: Vec<(Queued, i64)>, asked: usize },
    /// The watches that were asked for are set, on nodes as described. Our own node was looked at last.
    Watched { own: WatchState, blocker: WatchState, on: Connection },
    /// The local queue or a watch woke us. The states say what the watches have reported; our own node was looked
    /// at last.
    Woken { own: WatchState, blocker: WatchState },
    /// The session of our node is over.
    SessionOver,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchState {
    /// It exists and is watched.
    There,
    /// It is gone.
    Gone,
    /// It, or something around it, has changed.
    Changed,
    /// It is not watched.
    Unwatched,
}
