//! What a holder has, until it is released or lost.

pub(super) mod books;
pub(super) mod guard;
pub(super) mod held_node;
pub(super) mod hold;
pub(super) mod keeper;
pub(super) mod minder;
pub(super) mod published;
pub(super) mod state;
pub(super) mod transaction;
