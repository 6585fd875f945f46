//! A ZooKeeper in memory: one server, for tests only.

mod acl;
mod builder;
mod code;
mod connections;
mod database;
mod digest;
mod execute;
mod jute;
mod opcode;
mod request;
mod serve;
mod server;
mod sessions;
mod tree;
mod watches;
mod words;
mod writes;

pub use builder::MemoryServerBuilder;
pub use server::MemoryServer;
