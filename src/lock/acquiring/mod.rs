//! How a lock is acquired.

pub(super) mod acquirable;
pub(super) mod attempt;
mod look;
mod observed;
pub(super) mod one_by_one;
pub(super) mod reentrant;
pub(super) mod ticket;
pub(super) mod together;
pub(super) mod wait;
