//! Nodes that are there as long as a value of this process lives, for threads. See [`nodes`](crate::nodes).

mod group;
mod persistent_node;
mod persistent_ttl_node;

pub use self::group::{Group, GroupMember};
pub use self::persistent_node::PersistentNode;
pub use self::persistent_ttl_node::PersistentTtlNode;
