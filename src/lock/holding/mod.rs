//! The guards by which locks are held, until they are released or lost.

pub(super) mod claims;
mod cycle;
pub(super) mod guard;
pub(super) mod held_node;
pub(super) mod hold;
pub(super) mod line;
pub(super) mod lingering;
pub(super) mod minder;
pub(super) mod monitor;
pub(super) mod owners;
pub(super) mod quorum_guard;
pub(super) mod state;
pub(super) mod transaction;
