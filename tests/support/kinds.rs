//! The kinds of locks, so that what all holders must hear is written once.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::{
    Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, LossReason, MultiLock,
    Participant, ReadWriteLock, Result, SemaphoreMutex,
};

pub type Lock = Arc<dyn InterProcessLock>;

/// A kind of lock, at a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Mutex,
    Read,
    Write,
    Permit,
    /// Its second member is the one that others want.
    Multi,
}

pub const KINDS: [Kind; 5] = [Kind::Mutex, Kind::Read, Kind::Write, Kind::Permit, Kind::Multi];

impl Kind {
    /// What others want.
    pub fn path(self) -> &'static str {
        match self {
            Self::Mutex => "/locks/mutex",
            Self::Read => "/locks/read",
            Self::Write => "/locks/write",
            Self::Permit => "/locks/permit",
            Self::Multi => "/locks/multi-b",
        }
    }

    /// Where others wait.
    pub fn queue(self) -> String {
        match self {
            Self::Permit => format!("{}/locks", self.path()),
            _ => self.path().to_owned(),
        }
    }

    pub fn lock(self, client: &Client, options: LockOptions) -> Result<Lock> {
        let path = self.path();
        Ok(match self {
            Self::Mutex => Arc::new(InterProcessMutex::new(client, path)?.with_options(options)?),
            Self::Read => Arc::new(ReadWriteLock::new(client, path)?.read().with_options(options)?),
            Self::Write => Arc::new(ReadWriteLock::new(client, path)?.write().with_options(options)?),
            Self::Permit => Arc::new(SemaphoreMutex::new(client, path)?.with_options(options)?),
            Self::Multi => Arc::new(MultiLock::new(client, ["/locks/multi-a", path])?.with_options(options)?),
        })
    }

    pub fn unlimited(self, client: &Client) -> Lock {
        self.lock(client, LockOptions::new()).unwrap()
    }

    pub fn limited(self, client: &Client, max_hold: Duration) -> Lock {
        self.lock(client, LockOptions::new().max_hold(max_hold)).unwrap()
    }

    /// What the lock excludes.
    pub fn rival(self, client: &Client) -> Lock {
        match self {
            Self::Read => Arc::new(ReadWriteLock::new(client, self.path()).unwrap().write().clone()),
            Self::Multi => Arc::new(InterProcessMutex::new(client, self.path()).unwrap()),
            kind => kind.unlimited(client),
        }
    }

    /// The node of the lock that others want.
    pub fn node(self, guard: &LockGuard) -> &str {
        guard.members().last().unwrap_or(guard).node_path()
    }

    /// How many nodes it is held by.
    pub fn nodes(self) -> usize {
        if self == Self::Multi { 2 } else { 1 }
    }
}

pub fn in_task(lock: Lock) -> JoinHandle<Result<LockGuard>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// The nodes that an error says to be lost, and how.
pub fn losses(error: &Error) -> Vec<(&str, LossReason)> {
    match error {
        Error::LockLost { path, reason } => vec![(path, *reason)],
        Error::Several { first, others } => {
            losses(first).into_iter().chain(others.iter().flat_map(losses)).collect()
        }
        other => panic!("{other}"),
    }
}

pub fn assert_lost(error: &Error, reason: LossReason) {
    assert!(losses(error).iter().all(|loss| loss.1 == reason), "{error}");
}

pub fn node_paths(participants: &[Participant]) -> Vec<&str> {
    participants.iter().map(Participant::node_path).collect()
}
