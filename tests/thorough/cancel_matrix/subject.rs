//! The locks, and what keeps them out.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use zk_recipes::shared::SharedCount;
use zk_recipes::{
    Client, InterProcessLock, InterProcessMutex, LockGuard, MultiLock, ReadLock, ReadWriteLock, Result,
    Semaphore, SemaphoreMutex, Ticket, WriteLock,
};
use zookeeper_client as zk;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// Somebody who holds it; of a multi-lock, the last one of its members.
    Last,
    /// Of a multi-lock the first of its members; of a semaphore, somebody at the gate.
    First,
}

#[derive(Clone, Debug)]
pub(crate) enum Lock {
    Mutex(InterProcessMutex),
    Reader(ReadLock),
    Writer(WriteLock),
    Plain(Arc<dyn InterProcessLock>),
    /// Acquired by writers that go on as readers.
    Downgraded(ReadWriteLock),
}

const PERMITS: u32 = 4;

impl Kind {
    pub(crate) const ALL: [Self; 10] = [
        Self::Mutex,
        Self::Reader,
        Self::Writer,
        Self::Downgraded,
        Self::Permit,
        Self::Permits,
        Self::SharedCount,
        Self::SemaphoreMutex,
        Self::Joint,
        Self::Mixed,
    ];

    pub(crate) fn lock(self, client: &Client, path: &str) -> Lock {
        let read_write = || ReadWriteLock::new(client, path).unwrap();
        let semaphore = || Semaphore::new(client, path, PERMITS).unwrap();
        let [first, second, third] = members(path);
        Lock::Plain(match self {
            Self::Mutex => return Lock::Mutex(InterProcessMutex::new(client, path).unwrap()),
            Self::Reader => return Lock::Reader(read_write().read().clone()),
            Self::Writer => return Lock::Writer(read_write().write().clone()),
            Self::Downgraded => return Lock::Downgraded(read_write()),
            Self::Permit => Arc::new(semaphore()),
            Self::Permits => Arc::new(semaphore().many(3).unwrap()),
            Self::SharedCount => {
                let count = SharedCount::new(client, &format!("{path}-count"), PERMITS as i32).unwrap();
                Arc::new(Semaphore::with_shared_count(client, path, &count).unwrap())
            }
            Self::SemaphoreMutex => Arc::new(SemaphoreMutex::new(client, path).unwrap()),
            Self::Joint => Arc::new(MultiLock::new(client, [first, second, third]).unwrap()),
            Self::Mixed => {
                let members: [Arc<dyn InterProcessLock>; 3] = [
                    Arc::new(InterProcessMutex::new(client, &first).unwrap()),
                    Arc::new(SemaphoreMutex::new(client, &second).unwrap()),
                    Arc::new(ReadWriteLock::new(client, &third).unwrap().write().clone()),
                ];
                Arc::new(MultiLock::of(members).unwrap())
            }
        })
    }

    /// Where its nodes are.
    pub(crate) fn queues(self, path: &str) -> Vec<String> {
        let [first, second, third] = members(path);
        match self {
            Self::Mutex | Self::Reader | Self::Writer | Self::Downgraded => vec![path.to_owned()],
            Self::Permit | Self::Permits | Self::SharedCount | Self::SemaphoreMutex => {
                vec![format!("{path}/locks"), format!("{path}/leases")]
            }
            Self::Joint => vec![first, second, third],
            Self::Mixed => vec![first, format!("{second}/locks"), format!("{second}/leases"), third],
        }
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

    /// Whether one can queue for it with a ticket.
    pub(crate) fn has_tickets(self) -> bool {
        matches!(self, Self::Mutex | Self::Reader | Self::Writer)
    }

    /// The nodes of a holder as another library would make them: their queue, how they are named, and how many. They
    /// are not watched, so that each watch on the server is one of the client that goes away.
    fn nodes_of(self, holder: Holder, path: &str) -> (String, &'static str, u32) {
        let [first, _, third] = members(path);
        let gate = (format!("{path}/locks"), "lock-", 1);
        let leases = |count| (format!("{path}/leases"), "lease-", count);
        match (self, holder) {
            (Self::Mutex, _) => (path.to_owned(), "lock-", 1),
            (Self::Reader | Self::Downgraded, _) => (path.to_owned(), "__WRIT__", 1),
            (Self::Writer, _) => (path.to_owned(), "__READ__", 1),
            (Self::Permit | Self::Permits | Self::SharedCount | Self::SemaphoreMutex, Holder::First) => gate,
            (Self::Permit | Self::SharedCount, Holder::Last) => leases(PERMITS),
            (Self::Permits, Holder::Last) => leases(2),
            (Self::SemaphoreMutex, Holder::Last) => leases(1),
            (Self::Joint | Self::Mixed, Holder::First) => (first, "lock-", 1),
            (Self::Joint, Holder::Last) => (third, "lock-", 1),
            (Self::Mixed, Holder::Last) => (third, "__READ__", 1),
        }
    }

    /// Keeps the lock out. Answers the nodes that do so.
    pub(crate) async fn occupy(self, holder: Holder, zookeeper: &zk::Client, path: &str) -> Vec<String> {
        let (queue, marker, count) = self.nodes_of(holder, path);
        let mode = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
        let mut nodes = Vec::new();
        for _ in 0..count {
            let prefix = format!("{queue}/_c_{}-{marker}", Uuid::new_v4());
            let (_, sequence) = zookeeper.create(&prefix, b"", &mode).await.unwrap();
            nodes.push(format!("{prefix}{sequence}"));
        }
        nodes
    }
}

fn members(path: &str) -> [String; 3] {
    ["a", "b", "c"].map(|member| format!("{path}/{member}"))
}

impl Lock {
    pub(crate) async fn acquire(&self) -> Result<Vec<LockGuard>> {
        let guard = match self {
            Self::Mutex(lock) => lock.acquire().await?,
            Self::Reader(lock) => lock.acquire().await?,
            Self::Writer(lock) => lock.acquire().await?,
            Self::Plain(lock) => lock.acquire().await?,
            Self::Downgraded(lock) => downgrade(lock, lock.write().acquire().await?).await?,
        };
        Ok(vec![guard])
    }

    /// Nothing, if it is taken.
    pub(crate) async fn try_acquire(&self) -> Result<Vec<LockGuard>> {
        let guard = match self {
            Self::Mutex(lock) => lock.try_acquire().await?,
            Self::Reader(lock) => lock.try_acquire().await?,
            Self::Writer(lock) => lock.try_acquire().await?,
            Self::Plain(lock) => lock.try_acquire().await?,
            Self::Downgraded(lock) => match lock.write().try_acquire().await? {
                Some(writing) => Some(downgrade(lock, writing).await?),
                None => None,
            },
        };
        Ok(guard.into_iter().collect())
    }

    /// Nothing, if it is taken for so long.
    pub(crate) async fn try_acquire_for(&self, within: Duration) -> Result<Vec<LockGuard>> {
        let guard = match self {
            Self::Mutex(lock) => lock.try_acquire_for(within).await?,
            Self::Reader(lock) => lock.try_acquire_for(within).await?,
            Self::Writer(lock) => lock.try_acquire_for(within).await?,
            Self::Plain(lock) => lock.try_acquire_for(within).await?,
            Self::Downgraded(lock) => match lock.write().try_acquire_for(within).await? {
                Some(writing) => Some(downgrade(lock, writing).await?),
                None => None,
            },
        };
        Ok(guard.into_iter().collect())
    }

    pub(crate) async fn enqueue(&self) -> Result<Ticket> {
        match self {
            Self::Mutex(lock) => lock.enqueue().await,
            Self::Reader(lock) => lock.enqueue().await,
            Self::Writer(lock) => lock.enqueue().await,
            Self::Plain(_) | Self::Downgraded(_) => unreachable!("it has no tickets"),
        }
    }
}

async fn downgrade(lock: &ReadWriteLock, writing: LockGuard) -> Result<LockGuard> {
    let reading = lock.read().acquire().await?;
    writing.release().await?;
    Ok(reading)
}
