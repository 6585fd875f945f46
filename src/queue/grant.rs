//! What a granted place in a queue leaves to the holder.

use super::pure::passing::PassOn;
use super::shared_local_queue::LocalSlot;
use crate::client::{DeleteTogether, EphemeralNode, Failures};
use crate::error::Result;

/// The node of a holder. Dropping it removes the node and lets the local waiters behind it go on.
#[derive(Debug)]
pub(crate) struct Grant {
    // Dropped in this order: a waiter that is woken finds the node gone.
    pub(crate) node: EphemeralNode,
    /// Its place in the local queue. Dropping it records that the node is being deleted.
    pub(crate) slot: Option<LocalSlot>,
    /// The transaction that created the node. For a downgraded reader, the one that created the writer's node.
    pub(crate) czxid: i64,
}

impl Grant {
    /// Prepares the removal: sets when the local waiters behind this holder are let in.
    pub(crate) fn passing_on(mut self, when: PassOn) -> Self {
        match (when, self.slot.take()) {
            (PassOn::WhenGone, Some(slot)) => self.node.keep_until_gone(slot),
            (_, slot) => self.slot = slot,
        }
        self
    }

    /// Gives up a node that is known to be gone: a node of the same name would be another contender's.
    pub(crate) fn forget(self) {
        self.node.forget();
    }

    /// Deletes the node and waits for the confirmation. Returns whether the node still existed. The first attempt is the
    /// transaction, which has been sent, if it deletes this node.
    ///
    /// # Errors
    /// Same as [`EphemeralNode::remove`].
    ///
    /// # Cancel safety
    /// Same as [`EphemeralNode::remove`].
    pub(crate) async fn remove(self, transaction: Option<DeleteTogether>) -> Result<bool> {
        self.node.remove_with(transaction, self.slot, Failures::default()).await
    }

    /// Drops grants, whose nodes are removed in the background: those of one session in one transaction.
    pub(crate) fn drop_together(grants: impl IntoIterator<Item = Self>) {
        let parts = |grant: Self| (grant.node, grant.slot);
        EphemeralNode::abandon_together(grants.into_iter().map(parts).collect());
    }
}
