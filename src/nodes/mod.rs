//! Nodes that are there as long as a value of this process lives.
//!
//! | you need | take |
//! |---|---|
//! | an ephemeral node that outlasts sessions: an address, a presence | [`PersistentNode`] |
//! | a node that outlasts this process for a while, or that several processes keep | [`PersistentTtlNode`] |
//! | a group of processes that see each other | [`Group`] |

mod group;
mod keeping;
mod options;
mod persistent_node;
mod persistent_ttl_node;
mod state;

pub use self::group::{Group, GroupMember, Member, MemberChange, Members};
pub use self::options::{NodeMode, OnStranger, PersistentNodeOptions, PersistentTtlNodeOptions};
pub use self::persistent_node::PersistentNode;
pub use self::persistent_ttl_node::PersistentTtlNode;
pub use self::state::NodeState;
