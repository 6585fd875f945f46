//! `testing::MemoryEnsemble`: servers in memory on a paused clock.

mod client;
mod one_server;
