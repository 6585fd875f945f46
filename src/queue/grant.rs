//! What the granted place in a queue leaves in the hands of the holder.

use super::membership::Membership;
use super::passing::PassOn;
use crate::client::EphemeralNode;
use crate::error::Result;

/// A node by which somebody holds. Dropping it removes the node and lets those on who wait for it.
#[derive(Debug)]
pub(crate) struct Grant {
    // Dropped in this order: a waiter that is let on finds the node gone.
    pub(crate) node: EphemeralNode,
    pub(crate) membership: Option<Membership>,
    /// The transaction that created the node. Of a writer that has become a reader, that of the writer.
    pub(crate) czxid: i64,
}

impl Grant {
    /// To be removed: says when those in the line are let in who wait for it.
    pub(crate) fn passing_on(mut self, when: PassOn) -> Self {
        match (when, self.membership.take()) {
            (PassOn::WhenGone, Some(membership)) => self.node.keep_until_gone(membership),
            (_, membership) => self.membership = membership,
        }
        self
    }

    /// The node is known to be gone: another one of the same name is somebody else's.
    pub(crate) fn forget(self) {
        self.node.forget();
    }

    /// Deletes the node and waits for the confirmation. Returns whether it had still been there.
    ///
    /// # Errors
    /// As [`EphemeralNode::remove`].
    ///
    /// # Cancel safety
    /// As [`EphemeralNode::remove`].
    pub(crate) async fn remove(self) -> Result<bool> {
        self.node.remove(self.membership).await
    }
}
