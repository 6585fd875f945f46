//! `testing::MemoryEnsemble`: servers in memory on a paused clock.

mod client;
mod histories;
mod one_server;
mod three_servers;
