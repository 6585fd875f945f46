//! The command `zklock`, run as a process.

#[path = "../interop/installed.rs"]
mod installed;
#[path = "../interop/peer.rs"]
mod peer;
#[path = "../support/mod.rs"]
mod support;

mod all_recipes;
mod completions;
mod deadlocks;
mod doctor;
mod election;
mod help;
mod live;
mod looking;
mod operating;
mod others;
mod running;
mod secrets;
mod servers_gone;
mod signals;
mod zklock;
