//! The guards by which locks are held, until they are released or lost.

pub(super) mod books;
pub(super) mod guard;
pub(super) mod held_node;
pub(super) mod hold;
pub(super) mod keeper;
pub(super) mod minder;
pub(super) mod published;
pub(super) mod state;
pub(super) mod transaction;
