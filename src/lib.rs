#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs, rustdoc::broken_intra_doc_links)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
mod error;
mod failure;
pub mod guide;
mod host_failure;
mod leader;
mod lock;
mod queue;
mod shared_count;
#[cfg(feature = "testing")]
pub mod testing;

pub use zookeeper_client;
pub use zookeeper_client::{Acl, AuthId, CreateMode, Permission};

pub use self::client::{Client, ClientBuilder, ConnectionState, KeepAlive, RetryPolicy};
pub use self::error::{Error, LossReason, Result, WorkError};
pub use self::host_failure::{ConnectFailure, HostFailure};
pub use self::leader::{
    CloseMode, LeaderLatch, LeaderObserver, LeaderOptions, LeaderSelector, LeaderState, Leadership,
    Observation,
};
pub use self::lock::{
    InterProcessLock, InterProcessMutex, LockGuard, LockOptions, LockState, Locks, MultiLock, Owner,
    Participant, ReadLock, ReadWriteLock, Revoker, Semaphore, SemaphoreMutex, SuspectPolicy, Ticket,
    Transaction, WriteLock, force_release, force_release_participant,
};
pub use self::shared_count::SharedCount;
