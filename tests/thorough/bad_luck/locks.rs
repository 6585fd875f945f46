//! All kinds of locks, to be acquired alike.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes::{
    Client, InterProcessMutex, LockGuard, LockOptions, MultiLock, Owner, ReadLock, ReadWriteLock, Result,
    Semaphore, SemaphoreMutex, Ticket, WriteLock,
};

use crate::run::ROOT;

/// The lock objects of one client.
pub(crate) struct Locks {
    pub(crate) mutexes: [InterProcessMutex; 3],
    pub(crate) read_write: [ReadWriteLock; 2],
    one: Semaphore,
    three: Semaphore,
    single: SemaphoreMutex,
    together: MultiLock,
    mixed: MultiLock,
}

#[derive(Clone)]
pub(crate) enum Lock {
    Mutex(InterProcessMutex),
    Read(ReadLock),
    /// With the other side, for its downgrades.
    Write(WriteLock, ReadLock),
    Permit(Semaphore),
    Permits(Semaphore, u32),
    Single(SemaphoreMutex),
    Together(MultiLock),
    Mixed(MultiLock),
}

impl Locks {
    pub(crate) fn of(client: &Client) -> Self {
        let path = |name: &str| format!("{ROOT}/{name}");
        let mutex =
            |number: usize| InterProcessMutex::new(client, &path(&format!("mutex-{number}"))).unwrap();
        let read_write =
            |number: usize| ReadWriteLock::new(client, &path(&format!("read-write-{number}"))).unwrap();
        let mutexes = [0, 1, 2].map(mutex);
        let single = SemaphoreMutex::new(client, &path("semaphore-mutex")).unwrap();
        Self {
            read_write: [0, 1].map(read_write),
            one: Semaphore::new(client, &path("semaphore-of-one"), 1).unwrap(),
            three: Semaphore::new(client, &path("semaphore-of-three"), 3).unwrap(),
            together: MultiLock::new(client, [path("mutex-0"), path("mutex-1")]).unwrap(),
            mixed: MultiLock::of([Arc::new(mutexes[2].clone()) as _, Arc::new(single.clone()) as _]).unwrap(),
            mutexes,
            single,
        }
    }

    /// Each of them once.
    pub(crate) fn all(&self) -> Vec<Lock> {
        let mut all: Vec<_> = self.mutexes.iter().cloned().map(Lock::Mutex).collect();
        for lock in &self.read_write {
            all.push(Lock::Read(lock.read().clone()));
            all.push(Lock::Write(lock.write().clone(), lock.read().clone()));
        }
        all.push(Lock::Permit(self.one.clone()));
        all.push(Lock::Permit(self.three.clone()));
        all.push(Lock::Permits(self.three.clone(), 2));
        all.push(Lock::Single(self.single.clone()));
        all.push(Lock::Together(self.together.clone()));
        all.push(Lock::Mixed(self.mixed.clone()));
        all
    }
}

impl Lock {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Mutex(_) => "acquired: mutex",
            Self::Read(_) => "acquired: read lock",
            Self::Write(..) => "acquired: write lock",
            Self::Permit(semaphore) if semaphore.path().ends_with("one") => "acquired: one permit of one",
            Self::Permit(_) => "acquired: one permit of three",
            Self::Permits(..) => "acquired: several permits",
            Self::Single(_) => "acquired: semaphore mutex",
            Self::Together(_) => "acquired: mutexes together",
            Self::Mixed(_) => "acquired: mixed locks",
        }
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        match self {
            Self::Read(_) | Self::Permits(..) => false,
            Self::Permit(semaphore) => semaphore.path().ends_with("one"),
            _ => true,
        }
    }

    /// The same with options, if it takes any.
    pub(crate) fn with_options(self, options: LockOptions) -> Self {
        match self {
            Self::Mutex(lock) => Self::Mutex(lock.with_options(options).unwrap()),
            Self::Read(lock) => Self::Read(lock.with_options(options).unwrap()),
            Self::Write(lock, read) => Self::Write(lock.with_options(options).unwrap(), read),
            Self::Permit(lock) => Self::Permit(lock.with_options(options).unwrap()),
            Self::Permits(lock, permits) => Self::Permits(lock.with_options(options).unwrap(), permits),
            Self::Single(lock) => Self::Single(lock.with_options(options).unwrap()),
            Self::Together(lock) => Self::Together(lock.with_options(options).unwrap()),
            Self::Mixed(lock) => Self::Mixed(lock),
        }
    }

    /// The owner counts for those that know one; a multi-lock is that of the task.
    pub(crate) async fn acquire(&self, owner: &Owner) -> Result<Vec<LockGuard>> {
        match self {
            Self::Mutex(lock) => lock.acquire_as(owner).await.map(one),
            Self::Read(lock) => lock.acquire_as(owner).await.map(one),
            Self::Write(lock, _) => lock.acquire_as(owner).await.map(one),
            Self::Permit(lock) => lock.acquire().await.map(one),
            Self::Permits(lock, permits) => lock.acquire_many(*permits).await,
            Self::Single(lock) => lock.acquire().await.map(one),
            Self::Together(lock) | Self::Mixed(lock) => lock.acquire().await.map(one),
        }
    }

    /// Without guards if it is not to be had.
    pub(crate) async fn try_acquire(&self, owner: &Owner) -> Result<Vec<LockGuard>> {
        match self {
            Self::Mutex(lock) => lock.try_acquire_as(owner).await.map(if_any),
            Self::Read(lock) => lock.try_acquire_as(owner).await.map(if_any),
            Self::Write(lock, _) => lock.try_acquire_as(owner).await.map(if_any),
            Self::Permit(lock) => lock.try_acquire().await.map(if_any),
            Self::Permits(lock, permits) => {
                lock.try_acquire_many(*permits).await.map(Option::unwrap_or_default)
            }
            Self::Single(lock) => lock.try_acquire().await.map(if_any),
            Self::Together(lock) | Self::Mixed(lock) => lock.try_acquire().await.map(if_any),
        }
    }

    pub(crate) async fn try_acquire_for(&self, owner: &Owner, within: Duration) -> Result<Vec<LockGuard>> {
        match self {
            Self::Mutex(lock) => lock.try_acquire_for_as(owner, within).await.map(if_any),
            Self::Read(lock) => lock.try_acquire_for_as(owner, within).await.map(if_any),
            Self::Write(lock, _) => lock.try_acquire_for_as(owner, within).await.map(if_any),
            Self::Permit(lock) => lock.try_acquire_for(within).await.map(if_any),
            Self::Permits(lock, permits) => {
                lock.try_acquire_many_for(*permits, within).await.map(Option::unwrap_or_default)
            }
            Self::Single(lock) => lock.try_acquire_for(within).await.map(if_any),
            Self::Together(lock) | Self::Mixed(lock) => lock.try_acquire_for(within).await.map(if_any),
        }
    }

    /// `None` for those that have no tickets.
    pub(crate) async fn enqueue(&self, owner: &Owner) -> Result<Option<Ticket>> {
        match self {
            Self::Mutex(lock) => lock.enqueue_as(owner).await.map(Some),
            Self::Read(lock) => lock.enqueue_as(owner).await.map(Some),
            Self::Write(lock, _) => lock.enqueue_as(owner).await.map(Some),
            _ => Ok(None),
        }
    }
}

fn one(guard: LockGuard) -> Vec<LockGuard> {
    vec![guard]
}

fn if_any(guard: Option<LockGuard>) -> Vec<LockGuard> {
    guard.into_iter().collect()
}
