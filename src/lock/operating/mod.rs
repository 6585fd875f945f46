//! For operators: lists the participants of a lock, asks for it, and takes it away.

pub(crate) mod participant;
pub(super) mod revoke;
