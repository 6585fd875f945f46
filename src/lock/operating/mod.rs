//! For operators: who takes part in a lock, how to ask for it, and how to take it back.

pub(crate) mod participant;
pub(super) mod revoke;
