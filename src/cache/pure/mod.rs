//! What decides which nodes a cache has, and what to read next: no I/O, no clock.
//!
//! # Why it is exact
//! The persistent watch is set before anything is read. The servers send replies and events of one connection in the order
//! in which things happened, and the driver passes an event on no later than a reply that came after it. So
//! when a reply is applied, each event before it has been applied. An event that is applied while a read of its node is
//! under way may be older or newer than the reply: the node is read once more then. Whatever the reply says is applied
//! nevertheless, if it differs from what is known; else a node that changes all the time would never be shown.
//!
//! Creations and deletions are told apart by the transaction that created the node (`czxid`), changes by the one that
//! changed it last (`mzxid`). So nothing is told twice, and a node that was deleted and created again while no one
//! looked is told as both. That one number is higher than another one says nothing as long as the node was not read
//! since the watch was set: servers that have lost their data, or had them restored from a backup, count anew.
//!
//! What is told is a tree at any time: a node is put only below one that is known to be the one above it. After the
//! watch is set, that is not known of a node until it is read again, or is new. So nodes that have come below it
//! meanwhile wait until then. From then on, the events tell of its end before anything tells of what comes after it.

mod core;
mod event;
mod sizes;
#[cfg(test)]
mod tests;
mod want;

pub(super) use self::core::Core;
pub(super) use self::event::{Found, Op, Rules};
