//! One grant of a lock.

use std::sync::Arc;

use super::books::Registration;
use crate::client::{Client, EphemeralNode};
use crate::error::{Error, Result};
use crate::queue::Grant;

/// One grant: the node by which a lock is held. Shared by the guards of one owner.
#[derive(Debug)]
pub(crate) struct Hold {
    // Dropped in this order: an owner that acquires again after the node is gone must not find the old hold.
    _registration: Registration<Hold>,
    node: EphemeralNode,
    node_path: Arc<str>,
    token: i64,
    client: Client,
}

impl Hold {
    pub(crate) fn new(
        client: &Client,
        grant: Grant,
        node_path: Arc<str>,
        registration: Registration<Self>,
    ) -> Self {
        let Grant { node, czxid } = grant;
        Self { _registration: registration, node, node_path, token: czxid, client: client.clone() }
    }

    pub(crate) fn token(&self) -> i64 {
        self.token
    }

    pub(crate) fn node_path(&self) -> &str {
        &self.node_path
    }

    /// # Errors
    /// [`Error::LockLost`] when the hold is known to be lost.
    pub(crate) fn ensure_held(&self) -> Result<()> {
        if self.node.session().is_over() {
            return Err(Error::LockLost { path: self.node_path.to_string() });
        }
        Ok(())
    }

    /// Deletes the node and waits for the confirmation.
    ///
    /// # Cancel safety
    /// The node is deleted in any case.
    pub(crate) async fn release(self) -> Result<()> {
        let Self { _registration: registration, node, node_path, client, .. } = self;
        drop(registration);
        match client.unless_closed(node.remove()).await? {
            true => Ok(()),
            false => Err(Error::LockLost { path: node_path.to_string() }),
        }
    }
}
