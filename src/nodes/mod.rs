//! Nodes that are there as long as a value of this process lives.
//!
//! | you need | take |
//! |---|---|
//! | an ephemeral node that outlasts sessions: an address, a presence | [`PersistentNode`] |
//! | a group of processes that see each other | [`Group`] |

mod group;
mod keeping;
mod options;
mod persistent_node;
mod state;

pub use self::group::{Group, GroupMember, Member, MemberChange, Members};
pub use self::options::{NodeMode, OnStranger, PersistentNodeOptions};
pub use self::persistent_node::PersistentNode;
pub use self::state::NodeState;
