//! `testing::MemoryServer`, held to real servers.

mod differences;
mod ensemble;
mod faults;
mod history;
mod operation;
mod recipes;
mod servers;
mod wire;
