//! How a lock is acquired.

pub(super) mod attempt;
pub(super) mod reentrant;
pub(super) mod ticket;
