//! All kinds of locks, to be acquired alike.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes::{
    Client, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, MultiLock, Owner, ReadLock,
    ReadWriteLock, Result, Semaphore, SemaphoreMutex, Ticket, WriteLock,
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
pub(crate) struct Lock {
    pub(crate) kind: &'static str,
    pub(crate) rules: Rules,
    /// Of a write lock, for its downgrades.
    pub(crate) other_side: Option<ReadLock>,
    lock: Arc<dyn InterProcessLock>,
    /// The same, if it has tickets.
    queue: Option<Queue>,
}

#[derive(Clone)]
enum Queue {
    Mutex(InterProcessMutex),
    Read(ReadLock),
    Write(WriteLock),
}

/// Who may hold it beside whom.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// One owner, as often as it likes.
    Exclusive,
    /// Many owners, each as often as it likes.
    Shared,
    /// One holder.
    Single,
    /// Many holders.
    Permits,
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
        let mutex = |mutex: &InterProcessMutex| Lock {
            queue: Some(Queue::Mutex(mutex.clone())),
            ..Lock::new("acquired: mutex", Rules::Exclusive, mutex.clone())
        };
        let mut all: Vec<_> = self.mutexes.iter().map(mutex).collect();
        for lock in &self.read_write {
            all.push(Lock::reading(lock.read()));
            let write = Lock::new("acquired: write lock", Rules::Exclusive, lock.write().clone());
            let queue = Some(Queue::Write(lock.write().clone()));
            all.push(Lock { other_side: Some(lock.read().clone()), queue, ..write });
        }
        all.push(Lock::new("acquired: one permit of one", Rules::Single, self.one.clone()));
        all.push(Lock::new("acquired: one permit of three", Rules::Permits, self.three.clone()));
        all.push(Lock::new("acquired: several permits", Rules::Permits, self.three.many(2).unwrap()));
        all.push(Lock::new("acquired: semaphore mutex", Rules::Single, self.single.clone()));
        all.push(Lock::new("acquired: mutexes together", Rules::Single, self.together.clone()));
        all.push(Lock::new("acquired: mixed locks", Rules::Single, self.mixed.clone()));
        all
    }
}

impl Lock {
    fn new(kind: &'static str, rules: Rules, lock: impl InterProcessLock + 'static) -> Self {
        Self { kind, rules, other_side: None, lock: Arc::new(lock), queue: None }
    }

    pub(crate) fn reading(lock: &ReadLock) -> Self {
        let queue = Some(Queue::Read(lock.clone()));
        Self { queue, ..Self::new("acquired: read lock", Rules::Shared, lock.clone()) }
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.rules, Rules::Exclusive | Rules::Single)
    }

    pub(crate) fn is_reentrant(&self) -> bool {
        matches!(self.rules, Rules::Exclusive | Rules::Shared)
    }

    /// The same with options, if it takes any.
    pub(crate) fn with_options(self, options: LockOptions) -> Self {
        let queue = self.queue.map(|queue| match queue {
            Queue::Mutex(lock) => Queue::Mutex(lock.with_options(options.clone()).unwrap()),
            Queue::Read(lock) => Queue::Read(lock.with_options(options.clone()).unwrap()),
            Queue::Write(lock) => Queue::Write(lock.with_options(options.clone()).unwrap()),
        });
        // Mixed locks take none.
        let lock = self.lock.with_options(options).unwrap_or(self.lock);
        Self { lock, queue, ..self }
    }

    pub(crate) async fn acquire(&self, owner: &Owner) -> Result<LockGuard> {
        self.lock.owned_by(owner).acquire().await
    }

    pub(crate) async fn try_acquire(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        self.lock.owned_by(owner).try_acquire().await
    }

    pub(crate) async fn try_acquire_for(&self, owner: &Owner, within: Duration) -> Result<Option<LockGuard>> {
        self.lock.owned_by(owner).try_acquire_for(within).await
    }

    /// `None` for those that have no tickets.
    pub(crate) async fn enqueue(&self, owner: &Owner) -> Result<Option<Ticket>> {
        match &self.queue {
            Some(Queue::Mutex(lock)) => lock.owned_by(owner).enqueue().await.map(Some),
            Some(Queue::Read(lock)) => lock.owned_by(owner).enqueue().await.map(Some),
            Some(Queue::Write(lock)) => lock.owned_by(owner).enqueue().await.map(Some),
            None => Ok(None),
        }
    }
}
