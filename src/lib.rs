//! Fair distributed locks and leader election for tokio, on ZooKeeper, on the same paths as Apache Curator.
//!
//! Services in Rust can share a lock with services that use Curator, kazoo or go-zookeeper, first come first served. A
//! holder knows that it has lost its lock before another client can have it: see [losing a lock](guide::losing_a_lock).
//!
//! ```no_run
//! use std::time::Duration;
//! use zk_recipes::{Client, InterProcessMutex};
//!
//! #[tokio::main]
//! async fn main() -> zk_recipes::Result<()> {
//!     let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
//!     let done = work(&client).await;
//!     client.close().await; // also after an error
//!     done
//! }
//!
//! async fn work(client: &Client) -> zk_recipes::Result<()> {
//!     let mutex = InterProcessMutex::new(client, "/locks/orders")?;
//!     let Some(guard) = mutex.try_acquire_for(Duration::from_secs(5)).await? else {
//!         println!("another process ships the orders");
//!         return Ok(());
//!     };
//!     // If the lock is lost, the work is stopped where it awaits, before another client can hold the lock.
//!     guard.run(ship_orders(guard.fencing_token())).await?;
//!     guard.release().await // an error if the lock was lost
//! }
//!
//! async fn ship_orders(token: i64) {
//!     println!("ships the orders, with token {token}");
//! }
//! ```
//!
//! # Which type to take
//!
//! | you need | take |
//! |---|---|
//! | one holder, re-entrant | [`InterProcessMutex`] |
//! | one lock for each order, user or file | [`Locks`] |
//! | many readers or one writer | [`ReadWriteLock`] |
//! | a limited number of permits | [`Semaphore`], with a fixed number or a [`SharedCount`](shared::SharedCount) |
//! | one holder, on a path of Curator's `InterProcessSemaphoreMutex` | [`SemaphoreMutex`] |
//! | several locks, all or none | [`MultiLock`] |
//! | any of these, as an object | [`InterProcessLock`] |
//! | one process that does a piece of work | [`LeaderSelector`] |
//! | one process that leads until told otherwise | [`LeaderLatch`] |
//! | a job that runs once per period in a fleet | [`job::ScheduledJob`] |
//! | to see who leads, without standing for election | [`LeaderObserver`] |
//! | a value or a setting that processes share and follow | [`shared`] |
//! | a counter, or ids | [`atomic`] |
//! | a node that exists as long as this process does | [`nodes::PersistentNode`] |
//! | a node that outlasts this process for a time to live, or that several keep | [`nodes::PersistentTtlNode`] |
//! | to know which processes there are | [`nodes::Group`] |
//! | processes that wait until one opens the way | [`barriers::Barrier`] |
//! | processes that begin together and end together | [`barriers::DoubleBarrier`] |
//! | to ask holders for a lock, or to take it away | [`operate`] |
//! | nodes kept up to date in memory | [`cache::Cache`] |
//! | to register services and find them | `discovery::ServiceDiscovery` |
//! | more locks than one ensemble carries | [`Ensembles`] |
//! | one holder, over independent ensembles | [`QuorumLock`] |
//!
//! All of them work on a [`Client`], which is one session. An acquire returns a [`LockGuard`], an election a
//! [`Leadership`]: both have a fencing token, a validity, `lost`, `run` and `transaction`.
//!
//! ```no_run
//! use zk_recipes::{Client, MultiLock, ReadWriteLock, Semaphore};
//!
//! # async fn examples(client: &Client) -> zk_recipes::Result<()> {
//! let catalogue = ReadWriteLock::new(client, "/locks/catalogue")?;
//! let writing = catalogue.write().acquire().await?;
//! let reading = catalogue.read().acquire().await?;
//! writing.release().await?; // a reader now, and no other writer was in between
//! reading.release().await?;
//!
//! let licences = Semaphore::new(client, "/semaphores/licences", 10)?;
//! let _three = licences.many(3)?.acquire().await?; // all of them or none
//!
//! let accounts = MultiLock::new(client, ["/accounts/17", "/accounts/4"])?;
//! let _both = accounts.acquire().await?; // in the order of their paths, however they are given
//! # Ok(())
//! # }
//! ```
//!
//! # The guide
//!
//! - [Losing a lock](guide::losing_a_lock): what is guaranteed, what is not, and how to protect what you write
//! - [Leaders](guide::leaders), [nodes and groups](guide::nodes), [barriers](guide::barriers), [caches](guide::caches),
//!   [values](guide::values), service discovery (`guide::discovery`, with the feature `discovery`)
//! - [From Curator](guide::from_curator), [from Redisson, Redis or a database row](guide::from_redisson),
//!   [with kazoo and others](guide::kazoo)
//! - [Cost and tuning](guide::cost), [scale](guide::scale), [observing](guide::observing),
//!   [operations](guide::operations), [troubleshooting](guide::troubleshooting), [the command zklock](guide::zklock),
//!   [testing](guide::testing), [simulation](guide::simulation)
//! - [What is missing](guide::missing)
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `blocking` | the same types for threads, without `async`: `zk_recipes::blocking` |
//! | `testing` | servers for your own tests, real ones and one in memory: `zk_recipes::testing` |
//! | `metrics` | [metrics](guide::observing) of waits, holds, losses, leaders and connections, by the crate `metrics` |
//! | `discovery` | service discovery in the format of Curator: `zk_recipes::discovery` |
//! | `cron` | cron expressions as schedules: `job::ScheduledJob::by_cron` |
//! | `tls` | encrypted connections: `ClientBuilder::tls` |
//! | `sasl-digest-md5` | authentication by SASL with a password: `ClientBuilder::sasl` |
//! | `sasl-gssapi` | authentication by SASL with Kerberos: `ClientBuilder::sasl`. Needs a GSSAPI library of the system, and clang to build |
//!
//! # Versions
//!
//! Types of [`zookeeper_client`] and of tokio are part of this crate's API: [`Acl`], [`AuthId`], [`CreateMode`],
//! [`Permission`], the results of [`Transaction::commit`], what [`Client::zookeeper`] returns, and the receivers and
//! instants of tokio. A new major version of one of them is therefore a new major version of this crate. The version of
//! `zookeeper-client` is fixed, because how it serves a connection is relied on; use it as
//! `zk_recipes::zookeeper_client`.

// Shows on docs.rs which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs, rustdoc::broken_intra_doc_links)]

#[macro_use]
mod cut;

pub mod atomic;
pub mod barriers;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod cache;
mod client;
#[cfg(feature = "discovery")]
pub mod discovery;
mod ensembles;
mod error;
mod failure;
pub mod guide;
mod host_failure;
pub mod job;
mod leader;
mod lock;
mod meters;
pub mod nodes;
pub mod operate;
mod queue;
pub mod shared;
#[cfg(feature = "testing")]
pub mod testing;
mod waker;
mod watch;

pub use zookeeper_client;
pub use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

pub use self::client::{Client, ClientBuilder, ClientHealth, ConnectionState, KeepAlive, RetryPolicy};
pub use self::ensembles::Ensembles;
pub use self::error::{Error, LossReason, OwnerWaits, Result, WorkError, report};
pub use self::host_failure::{ConnectFailure, HostFailure};
pub use self::leader::{
    CloseMode, LeaderHealth, LeaderLatch, LeaderObserver, LeaderOptions, LeaderRole, LeaderSelector,
    LeaderState, Leadership, Observation,
};
pub use self::lock::{
    InterProcessLock, InterProcessMutex, LockGuard, LockOptions, LockState, Locks, MultiLock, Owner,
    Participant, QuorumGuard, QuorumLock, ReadLock, ReadWriteLock, Semaphore, SemaphoreMutex, SuspectPolicy,
    Ticket, Transaction, WriteLock,
};
pub use self::watch::Watch;

/// Compiles the programs of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
