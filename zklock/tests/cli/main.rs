//! The command `zklock`, run as a process.

#[path = "../../../tests/interop/installed.rs"]
mod installed;
#[path = "../../../tests/interop/peer.rs"]
mod peer;
#[path = "../../../tests/security/pki.rs"]
#[allow(dead_code, reason = "some is for other tests")]
mod pki;
#[path = "../../../tests/security/stage.rs"]
#[allow(dead_code, reason = "some is for other tests")]
mod stage;
#[path = "../../../tests/support/mod.rs"]
mod support;
#[path = "../../../tests/security/wiretap.rs"]
#[allow(dead_code, reason = "some is for other tests")]
mod wiretap;

mod all_recipes;
mod completions;
mod deadlocks;
mod doctor;
mod election;
mod encrypted;
mod help;
mod holding;
mod live;
mod looking;
mod operating;
mod others;
mod running;
mod secrets;
mod servers_gone;
mod signals;
mod terminal;
mod unread;
mod waiting;
mod zklock;
