//! What operators see and do: who takes part, and how a lock is asked for or taken back.

pub(crate) mod participant;
pub(super) mod revoke;
