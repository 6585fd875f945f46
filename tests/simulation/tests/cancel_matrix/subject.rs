//! The locks, and what keeps them out.

use std::sync::Arc;

use zk_recipes::shared::SharedCount;
use zk_recipes::zookeeper_client as zk;
use zk_recipes::{Client, InterProcessMutex, ReadWriteLock, Result, Semaphore, Ticket};

use super::every_kind::{self, Lock};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Reader,
    Writer,
    /// A reader that was a writer.
    Downgraded,
    Permit,
    /// Three permits at once.
    Permits,
    /// A permit of a semaphore whose limit is shared.
    SharedCount,
    SemaphoreMutex,
    /// A multi-lock of three paths.
    Joint,
    /// A multi-lock of locks of three kinds.
    Mixed,
}

/// Who keeps a lock out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Somebody who holds it; of a multi-lock, the last one of its members.
    Last,
    /// Of a multi-lock the first of its members; of a semaphore, somebody at the gate.
    First,
}

const PERMITS: u32 = 4;

impl Kind {
    pub(crate) fn lock(self, client: &Client, path: &str) -> Lock {
        let semaphore = || Semaphore::new(client, path, PERMITS).unwrap();
        let kind = match self {
            Self::Permit => return Arc::new(semaphore()),
            Self::Permits => return Arc::new(semaphore().many(3).unwrap()),
            Self::SharedCount => {
                let count = SharedCount::new(client, &format!("{path}-count"), PERMITS as i32).unwrap();
                return Arc::new(Semaphore::with_shared_count(client, path, &count).unwrap());
            }
            Self::Mutex => every_kind::Kind::Mutex,
            Self::Reader => every_kind::Kind::Reader,
            Self::Writer => every_kind::Kind::Writer,
            Self::Downgraded => every_kind::Kind::Downgraded,
            Self::SemaphoreMutex => every_kind::Kind::SemaphoreMutex,
            Self::Joint => every_kind::Kind::Paths,
            Self::Mixed => every_kind::Kind::Mixed,
        };
        kind.lock_at(client, path)
    }

    /// Queues for it with a ticket. `None` if it has none.
    pub(crate) async fn enqueue(self, client: &Client, path: &str) -> Option<Result<Ticket>> {
        let read_write = || ReadWriteLock::new(client, path).unwrap();
        match self {
            Self::Mutex => Some(InterProcessMutex::new(client, path).unwrap().enqueue().await),
            Self::Reader => Some(read_write().read().enqueue().await),
            Self::Writer => Some(read_write().write().enqueue().await),
            _ => None,
        }
    }

    pub(crate) fn has_tickets(self) -> bool {
        matches!(self, Self::Mutex | Self::Reader | Self::Writer)
    }

    /// Who can keep it out.
    pub(crate) fn holders(self) -> &'static [Holder] {
        match self {
            Self::Mutex | Self::Reader | Self::Writer | Self::Downgraded => &[Holder::Last],
            _ => &[Holder::Last, Holder::First],
        }
    }

    /// Whether it is one of permits.
    pub(crate) fn has_permits(self) -> bool {
        matches!(self, Self::Permit | Self::Permits | Self::SharedCount | Self::SemaphoreMutex)
    }

    /// The nodes of a holder: what comes before their numbers, and how many.
    fn nodes_of(self, holder: Holder, path: &str) -> (String, u32) {
        let (queue, marker, count) = match (self, holder) {
            (Self::Mutex, _) | (Self::Joint | Self::Mixed, Holder::First) => ("", "lock-", 1),
            (Self::Reader | Self::Downgraded, _) => ("", "__WRIT__", 1),
            (Self::Writer, _) => ("", "__READ__", 1),
            (_, Holder::First) => ("/locks", "lock-", 1),
            (Self::Permit | Self::SharedCount, _) => ("/leases", "lease-", PERMITS),
            (Self::Permits, _) => ("/leases", "lease-", 2),
            (Self::SemaphoreMutex, _) => ("/leases", "lease-", 1),
            (Self::Joint, _) => ("-c", "lock-", 1),
            (Self::Mixed, _) => ("-c", "__READ__", 1),
        };
        (format!("{path}{queue}/_c_00000000-0000-0000-0000-000000000000-{marker}"), count)
    }

    /// Keeps the lock out, as another library would: its nodes are not watched, so that each watch is one of the client
    /// that goes away. Answers the nodes.
    pub(crate) async fn occupy(self, holder: Holder, zookeeper: &zk::Client, path: &str) -> Vec<String> {
        let (prefix, count) = self.nodes_of(holder, path);
        let mode = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
        let mut nodes = Vec::new();
        for _ in 0..count {
            let (_, sequence) = zookeeper.create(&prefix, b"", &mode).await.unwrap();
            nodes.push(format!("{prefix}{sequence}"));
        }
        nodes
    }
}
