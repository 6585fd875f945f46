//! A ZooKeeper in memory: one server or several, for tests only.

mod acl;
mod builder;
mod code;
mod connections;
mod database;
mod digest;
mod ensemble;
mod execute;
mod multi;
mod request;
mod running;
mod serve;
mod server;
mod sessions;
mod settings;
mod tree;
mod update;
mod version;
mod watches;
mod words;

pub use builder::MemoryServerBuilder;
pub use ensemble::{MemoryEnsemble, MemoryEnsembleBuilder, NodeInfo, Observed, ObservedKind};
pub use server::MemoryServer;
pub use version::MemoryVersion;
