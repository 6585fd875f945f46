//! `testing::MemoryServer`, held to real servers.

#[path = "../interop/installed.rs"]
mod installed;
#[path = "../support/mod.rs"]
mod support;

mod differences;
mod ensemble;
mod faults;
mod history;
mod operation;
mod recipes;
mod servers;
mod wire;
