//! The decisions of a queue, as state machines and functions: no I/O, no clock.
//!
//! Who may believe to hold a lock is decided here and nowhere else. `tests/thorough/model` checks these very files; histories of
//! `tests/simulation` check those about several queues: `all_or_none`, `permits`, `quorum` and `stock`.

pub(crate) mod all_or_none;
pub(crate) mod connection;
pub(crate) mod contender;
pub(crate) mod dates;
pub(crate) mod linger;
pub(crate) mod local_queue;
pub(crate) mod name;
pub(crate) mod order;
pub(crate) mod passing;
pub(crate) mod permits;
pub(crate) mod quorum;
pub(crate) mod rule;
pub(crate) mod stock;
