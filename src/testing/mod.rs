//! ZooKeeper servers for tests, real ones and one in memory. Start, stop, kill, pause and inspect them, and simulate
//! failures of their network.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use zk_recipes::testing::MemoryServer;
//!
//! let mut server = MemoryServer::start()?; // or TestingServer::start().await?
//! let connect_string = server.connect_string(); // connect clients
//!
//! server.pause()?; // silent, but alive
//! server.resume()?;
//! server.kill().await?; // connections are refused
//! server.restart().await?; // the same port and data
//!
//! assert_eq!(server.watch_count().await?, 0);
//! println!("{}", server.four_letter_word("mntr").await?);
//! # Ok(())
//! # }
//! ```
//!
//! A [`TestingServer`] is one server, a [`TestingCluster`] an ensemble of several. Both are fast: a tick is 100 ms,
//! so sessions can be as short as 200 ms, and writes do not wait for the disk. They can be reached from this
//! machine only. They need a Unix, with `/bin/sh` and signals, and a tokio runtime with time and I/O enabled whose
//! clock is not paused.
//!
//! A [`MemoryServer`] is a ZooKeeper in this process, which needs none of that.
//!
//! A [`MemoryEnsemble`] is several of them for simulations: they go by tokio's clock, which can be paused, are reached
//! by streams instead of ports, and do the same again for the same seed.
//!
//! A [`FaultProxy`] between clients and a server simulates network failures: it cuts and refuses connections,
//! delays and withholds traffic, and loses single requests and replies.
//!
//! # Which server
//!
//! | | [`MemoryServer`] | [`TestingServer`], [`TestingCluster`] |
//! |---|---|---|
//! | needs | nothing | Java, ZooKeeper, a Unix, a tokio runtime |
//! | is ready in | less than a millisecond | half a second, a second |
//! | is | this crate's imitation of ZooKeeper 3.9, one server | ZooKeeper |
//! | has | sessions, all kinds of nodes, watches, transactions, ACLs with digests | everything, such as TLS, SASL, quotas |
//! | for | most tests of a program | ensembles; what must be true of ZooKeeper itself |
//!
//! To switch a test, replace `TestingServer::start().await` by `MemoryServer::start()`. All other methods of the
//! `MemoryServer` are called as those of the `TestingServer`; what only a process has, such as `pid`, it lacks.
//! A proxy is put in front of it by [`FaultProxy`].
//!
//! The tests of this crate play random histories of several clients on both, and compare each reply and each event.
//!
//! # Which ZooKeeper
//!
//! Versions 3.8 and 3.9 are tested. The class path is the first of these that is set or found:
//!
//! 1. the builder's `class_path`,
//! 2. the environment variable `ZK_CLASSPATH`,
//! 3. the jars in `lib` of the folder in the environment variable `ZOOKEEPER_HOME`, and those in the folder itself,
//! 4. Debian's packages `libzookeeper-java` and `libslf4j-java`.
//!
//! `java` is taken from `JAVA_HOME` if that is set, and otherwise from `PATH`.
//!
//! # Nothing is left behind
//!
//! A server ends when its value is dropped, also in a panic. A small shell process watches each server: when the
//! process that started the server is gone, for whatever reason, it kills the server and removes its data. Only the
//! data of a server that was stopped at that moment stays in the temporary folder.

mod builder;
mod cluster;
mod config;
mod fault_proxy;
mod four_letter;
mod jars;
mod jute;
mod kill_session;
mod links;
mod logging;
mod manual_clock;
mod memory;
mod opcode;
mod ports;
mod process;
mod server;
mod settings;

pub use builder::{TestingClusterBuilder, TestingServerBuilder};
pub use cluster::TestingCluster;
pub use fault_proxy::{Fate, FaultProxy, Intercepted, ProxiedConnection, Request, Traffic};
pub use kill_session::kill_session;
pub use manual_clock::ManualClock;
pub use memory::{
    MemoryEnsemble, MemoryEnsembleBuilder, MemoryServer, MemoryServerBuilder, MemoryVersion, NodeInfo,
    Observed, ObservedKind,
};
pub use server::TestingServer;
