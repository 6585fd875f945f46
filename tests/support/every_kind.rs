//! Each kind of lock, and what keeps it out, so that what every lock must do is written once.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use zk_recipes::{
    Client, InterProcessLock, InterProcessMutex, LockGuard, MultiLock, ReadWriteLock, Result, Semaphore,
    SemaphoreMutex,
};

/// What must happen, happens within this time even on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

pub type Lock = Arc<dyn Subject>;

/// A lock, or a way to use one.
#[async_trait]
pub trait Subject: Debug + Send + Sync {
    /// By which it is seen.
    fn as_lock(&self) -> &dyn InterProcessLock;

    async fn acquire(&self) -> Result<LockGuard> {
        self.as_lock().acquire().await
    }

    async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.as_lock().try_acquire().await
    }

    async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        self.as_lock().try_acquire_for(within).await
    }
}

impl<L: InterProcessLock> Subject for L {
    fn as_lock(&self) -> &dyn InterProcessLock {
        self
    }
}

/// A kind of lock, and what keeps it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Mutex,
    /// Kept out by a reader.
    Writer,
    /// Kept out by a writer.
    Reader,
    /// A writer that goes on as a reader, kept out by a writer.
    Downgraded,
    SemaphoreMutex,
    /// One of several permits, kept out by somebody who has them all.
    Permit,
    Paths,
    /// Several paths, of which only the last one is taken.
    LastOfPaths,
    /// Locks of several kinds.
    Mixed,
    /// The same, of which only the last one is taken.
    LastOfMixed,
}

pub const PERMITS: u32 = 3;

impl Kind {
    pub const ALL: [Self; 10] = [
        Self::Mutex,
        Self::Writer,
        Self::Reader,
        Self::Downgraded,
        Self::SemaphoreMutex,
        Self::Permit,
        Self::Paths,
        Self::LastOfPaths,
        Self::Mixed,
        Self::LastOfMixed,
    ];

    /// Above all nodes of this kind.
    pub fn root(self) -> String {
        format!("/{self:?}")
    }

    pub fn path(self) -> String {
        format!("/{self:?}/a")
    }

    /// Of several members.
    pub fn last_path(self) -> String {
        format!("{}-c", self.path())
    }

    pub fn lock(self, client: &Client) -> Lock {
        self.lock_at(client, &self.path())
    }

    pub fn lock_at(self, client: &Client, path: &str) -> Lock {
        self.try_lock_at(client, path).unwrap()
    }

    pub fn try_lock_at(self, client: &Client, path: &str) -> Result<Lock> {
        let (second, last) = (format!("{path}-b"), format!("{path}-c"));
        Ok(match self {
            Self::Mutex => Arc::new(InterProcessMutex::new(client, path)?),
            Self::Writer => Arc::new(ReadWriteLock::new(client, path)?.write().clone()),
            Self::Reader => Arc::new(ReadWriteLock::new(client, path)?.read().clone()),
            Self::Downgraded => Arc::new(Downgraded(ReadWriteLock::new(client, path)?)),
            Self::SemaphoreMutex => Arc::new(SemaphoreMutex::new(client, path)?),
            Self::Permit => Arc::new(Semaphore::new(client, path, PERMITS)?),
            Self::Paths | Self::LastOfPaths => {
                Arc::new(MultiLock::new(client, in_any_order([path, &second, &last]))?)
            }
            Self::Mixed | Self::LastOfMixed => {
                let members: [Arc<dyn InterProcessLock>; 3] = [
                    Arc::new(InterProcessMutex::new(client, path)?),
                    Arc::new(SemaphoreMutex::new(client, &second)?),
                    Arc::new(ReadWriteLock::new(client, &last)?.write().clone()),
                ];
                Arc::new(MultiLock::of(in_any_order(members))?)
            }
        })
    }

    /// Takes it in a way that lets nobody else have any of it.
    pub async fn take_all(self, client: Client) -> Vec<LockGuard> {
        match self {
            Self::Permit => {
                let semaphore = Semaphore::new(&client, &self.path(), PERMITS).unwrap();
                vec![semaphore.many(PERMITS).unwrap().acquire().await.unwrap()]
            }
            Self::Reader => take(Self::Writer.lock_at(&client, &self.path())).await,
            _ => take(self.lock(&client)).await,
        }
    }

    /// Takes what keeps the lock out.
    pub async fn occupy(self, client: &Client) -> Vec<LockGuard> {
        let last = self.last_path();
        match self {
            Self::Writer => take(Self::Reader.lock_at(client, &self.path())).await,
            Self::Downgraded => take(Self::Writer.lock_at(client, &self.path())).await,
            Self::LastOfPaths => take(Self::Mutex.lock_at(client, &last)).await,
            Self::LastOfMixed => take(Self::Writer.lock_at(client, &last)).await,
            _ => self.take_all(client.clone()).await,
        }
    }
}

fn in_any_order<T>(mut members: [T; 3]) -> [T; 3] {
    fastrand::shuffle(&mut members);
    members
}

pub async fn acquired(lock: &Lock) -> LockGuard {
    timeout(BOUND, lock.acquire()).await.expect("it does not come").unwrap()
}

pub async fn take(lock: Lock) -> Vec<LockGuard> {
    vec![acquired(&lock).await]
}

#[derive(Debug)]
struct Downgraded(ReadWriteLock);

impl Downgraded {
    async fn downgrade(&self, writing: Option<LockGuard>) -> Result<Option<LockGuard>> {
        let Some(writing) = writing else { return Ok(None) };
        let reading = self.0.read().acquire().await?;
        writing.release().await?;
        Ok(Some(reading))
    }
}

#[async_trait]
impl Subject for Downgraded {
    fn as_lock(&self) -> &dyn InterProcessLock {
        self.0.read()
    }

    async fn acquire(&self) -> Result<LockGuard> {
        let writing = self.0.write().acquire().await?;
        self.downgrade(Some(writing)).await.map(Option::unwrap)
    }

    async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        let writing = self.0.write().try_acquire().await?;
        self.downgrade(writing).await
    }

    async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        let writing = self.0.write().try_acquire_for(within).await?;
        self.downgrade(writing).await
    }
}
