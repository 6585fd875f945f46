//! A change of the content of a cache.

use std::fmt;
use std::sync::Arc;

use super::node::CachedNode;
use crate::cut::line;

/// A change of the content of a cache, from [`Changes`](super::Changes).
///
/// What is told is a tree at any time: a node is told as created after the one above it, and as deleted before that one.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The node was created.
    Created(Arc<CachedNode>),
    /// The data of the node was changed, or the client may read the node now, or may no longer.
    Changed {
        /// The node before. Changes in between may have been skipped. Of one that was
        /// [unreadable](CachedNode::is_readable), the transactions may be 0.
        old: Arc<CachedNode>,
        /// The node after.
        new: Arc<CachedNode>,
    },
    /// The node was deleted: this is how it was last.
    Deleted(Arc<CachedNode>),
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, node) = match self {
            Self::Created(node) => ("Created", node),
            Self::Changed { new, .. } => ("Changed", new),
            Self::Deleted(node) => ("Deleted", node),
        };
        line(f, |f| f.debug_tuple(name).field(node).finish())
    }
}
