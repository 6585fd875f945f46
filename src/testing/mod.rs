//! Real ZooKeeper servers for tests: start, stop, kill, pause and inspect them, and let the network to them fail.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use zk_recipes::testing::TestingServer;
//!
//! let mut server = TestingServer::start().await?;
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
//! # } // dropped: killed, and its data removed
//! ```
//!
//! A [`TestingServer`] is one server, a [`TestingCluster`] an ensemble of several. Both are quick (a tick of 100 ms, so that
//! sessions may be as short as 200 ms, and no waiting for the disk) and reachable from this machine only. They need
//! `/bin/sh` and signals, that is a Unix, and a tokio runtime with time and I/O enabled whose clock is not paused.
//!
//! A [`FaultProxy`] stands between clients and a server, and lets their network fail: it cuts and refuses connections,
//! delays and withholds what is sent, and loses single requests and replies.
//!
//! # Which ZooKeeper
//!
//! Versions 3.8 and 3.9 are tested. The class path is the first of
//!
//! 1. the builder's `class_path`,
//! 2. the environment variable `ZK_CLASSPATH`,
//! 3. the jars in `lib` of the folder in the environment variable `ZOOKEEPER_HOME`, and those in the folder itself,
//! 4. Debian's packages `libzookeeper-java` and `libslf4j-java`.
//!
//! `java` is that of `JAVA_HOME`, if set, or else that of `PATH`.
//!
//! # Nothing is left behind
//!
//! A server ends with the value that stands for it, also after a panic. Each is watched by a small shell process that
//! notices when the process that started it is gone, for whatever reason, and then kills the server and removes its data.
//! Only the data of a server that was stopped at that moment stay in the temporary folder.

mod builder;
mod cluster;
mod config;
mod fault_proxy;
mod four_letter;
mod jars;
mod kill_session;
mod links;
mod logging;
mod ports;
mod process;
mod server;
mod settings;

pub use builder::{TestingClusterBuilder, TestingServerBuilder};
pub use cluster::TestingCluster;
pub use fault_proxy::{Fate, FaultProxy, Intercepted, ProxiedConnection, Request, Traffic};
pub use kill_session::kill_session;
pub use server::TestingServer;
