//! One grant of a lock.

use std::sync::Arc;

use super::books::Registration;
use super::held_node::HeldNode;
use crate::error::Result;

/// One grant. Shared by the guards of one owner.
#[derive(Debug)]
pub(crate) struct Hold {
    // Dropped in this order: an owner that acquires again after the node is gone must not find the old hold.
    registration: Registration<Hold>,
    node: Removing,
}

/// Removes the node in the end, whoever else looks at it at that moment.
#[derive(Debug)]
struct Removing(Arc<HeldNode>);

impl Drop for Removing {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

impl Hold {
    pub(crate) fn new(registration: Registration<Self>, node: Arc<HeldNode>) -> Self {
        Self { registration, node: Removing(node) }
    }

    pub(crate) fn token(&self) -> i64 {
        self.registration.token()
    }

    pub(crate) fn node(&self) -> &HeldNode {
        &self.node.0
    }

    /// Deletes the node and waits for the confirmation.
    ///
    /// # Errors
    /// As [`HeldNode::release`].
    ///
    /// # Cancel safety
    /// The node is deleted in any case.
    pub(crate) async fn release(self) -> Result<()> {
        let Self { registration, node } = self;
        drop(registration);
        node.0.release().await
    }
}
