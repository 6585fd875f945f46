//! Values that processes share, each in a node of its own: bytes ([`SharedValue`]) and a number ([`SharedCount`]).
//!
//! Each read asks the servers, and each write can be made conditional on what was read. [`SharedValue::watch_state`]
//! follows a value as it changes, without requests of yours.
//!
//! To count, or to have several processes draw numbers, take [`DistributedAtomicLong`](crate::atomic), whose writes
//! are cheaper.
//!
//! # Versions
//!
//! A [`Version`] identifies one write to one node. The version number that ZooKeeper keeps for each node does not: it
//! begins anew when a node is deleted and created again, and it overflows. So a [`Version`] also knows which node was
//! written, and by which transaction.
//!
//! # Lost replies
//!
//! If the connection is lost, a conditional write is repeated under the same condition, so that the servers carry it
//! out at most once. When the condition does not hold any more, the node usually shows who was first. When it does not,
//! the error is [`Error::WriteOutcomeUnknown`](crate::Error::WriteOutcomeUnknown), never a wrong answer.

mod contention;
mod count;
mod node;
mod observer;
mod settle;
mod state;
mod value;
mod version;

pub(crate) use self::contention::{Contention, pause};
pub use self::count::SharedCount;
pub(crate) use self::node::{Outcome, ValueNode};
pub use self::state::SharedState;
pub use self::value::SharedValue;
pub use self::version::{CompareAndSet, Version, Versioned};
