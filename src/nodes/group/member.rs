//! A member of a group.

use super::super::persistent_node::PersistentNode;
use super::super::state::NodeState;
use super::Group;
use crate::error::Result;
use crate::watch::Watch;

/// The membership of this client in a [`Group`]. Dropping it leaves the group in the background.
///
/// When the session has ended, the client joins again with the next one, and to others it has left and joined. If another
/// session has taken its id meanwhile, it is [no member](NodeState::Blocked) until that one has left.
///
/// Sources: Curator's `GroupMember`.
#[must_use = "if unused, the group is left at once"]
pub struct GroupMember {
    pub(super) group: Group,
    pub(super) id: String,
    pub(super) node: PersistentNode,
}

debug_by!(GroupMember, |it| group: it.group.path(), id: it.id, state: it.state());

impl GroupMember {
    /// Returns the id of this member.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Returns the payload that this member has, or is to have. Makes no request.
    pub fn payload(&self) -> Vec<u8> {
        self.node.data()
    }

    /// Replaces the payload, and waits until that is confirmed. See [`PersistentNode::set_data`]. Two round trips.
    ///
    /// # Errors
    /// Same as [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    /// From the first poll on, the payload is the newest, and is written even if this is dropped.
    pub async fn set_payload(&self, payload: impl Into<Vec<u8>>) -> Result<()> {
        self.node.set_data(payload).await
    }

    /// Returns whether this client is a member now, as far as it knows. Makes no request.
    pub fn is_member(&self) -> bool {
        self.node.state().is_present()
    }

    /// Returns the state of the node of this member. Makes no request.
    pub fn state(&self) -> NodeState {
        self.node.state()
    }

    /// Follows the state of the node of this member. See
    /// [`PersistentNode::watch_state`].
    pub fn watch_state(&self) -> Watch<NodeState> {
        self.node.watch_state()
    }

    /// Leaves the group, and waits until that is confirmed, as [`PersistentNode::close`] does. Two round trips.
    ///
    /// # Errors
    /// Same as [`PersistentNode::close`].
    ///
    /// # Cancel safety
    /// The client leaves in the background.
    pub async fn leave(self) -> Result<()> {
        self.node.close().await
    }
}
