//! zk-recipes.

use std::time::Duration;

use tokio::runtime::Handle;
use zk_recipes::blocking;
use zk_recipes::{
    Client, ClientBuilder, InterProcessMutex, LockGuard, LockOptions, MultiLock, SemaphoreMutex,
};

use super::library::{Kind, Library, members, unsupported};
use crate::Result;

pub(crate) struct Ours;

/// With clients that live on the runtime of their callers.
pub(crate) struct OnTheRuntime;

/// With mutexes that have a cohort.
pub(crate) struct InACohort;

/// Its twins for threads.
pub(crate) struct Blocking;

pub(crate) enum BlockingLock {
    Mutex(blocking::InterProcessMutex),
    Semaphore(blocking::SemaphoreMutex),
    Multi(blocking::MultiLock),
}

pub(crate) enum Lock {
    Mutex(InterProcessMutex),
    Semaphore(SemaphoreMutex),
    Multi(MultiLock),
}

impl Library for Ours {
    type Session = Client;
    type Lock = Lock;
    type Held = LockGuard;

    async fn connect(servers: &str) -> Result<Client> {
        Ok(builder().connect(servers).await?)
    }

    fn lock(client: &Client, kind: Kind, path: &str) -> Result<Lock> {
        Ok(match kind {
            Kind::Mutex | Kind::FreshMutex => Lock::Mutex(InterProcessMutex::new(client, path)?),
            Kind::Lingering => Lock::Mutex(InterProcessMutex::new(client, path)?.with_options(lingering())?),
            Kind::Semaphore => Lock::Semaphore(SemaphoreMutex::new(client, path)?),
            Kind::Multi => Lock::Multi(MultiLock::new(client, members(path))?),
        })
    }

    async fn acquire(lock: &Lock) -> Result<LockGuard> {
        Ok(match lock {
            Lock::Mutex(mutex) => mutex.acquire().await?,
            Lock::Semaphore(mutex) => mutex.acquire().await?,
            Lock::Multi(locks) => locks.acquire().await?,
        })
    }

    async fn release(guard: LockGuard) -> Result<()> {
        Ok(guard.release().await?)
    }

    async fn close(client: Client) {
        client.close().await;
    }
}

impl Library for OnTheRuntime {
    type Session = Client;
    type Lock = Lock;
    type Held = LockGuard;

    async fn connect(servers: &str) -> Result<Client> {
        Ok(builder().runtime(Handle::current()).connect(servers).await?)
    }

    fn lock(client: &Client, kind: Kind, path: &str) -> Result<Lock> {
        Ours::lock(client, kind, path)
    }

    async fn acquire(lock: &Lock) -> Result<LockGuard> {
        Ours::acquire(lock).await
    }

    async fn release(guard: LockGuard) -> Result<()> {
        Ours::release(guard).await
    }

    async fn close(client: Client) {
        Ours::close(client).await;
    }
}

impl Library for InACohort {
    type Session = Client;
    type Lock = InterProcessMutex;
    type Held = LockGuard;

    async fn connect(servers: &str) -> Result<Client> {
        Ours::connect(servers).await
    }

    fn lock(client: &Client, kind: Kind, path: &str) -> Result<InterProcessMutex> {
        match kind {
            Kind::Mutex => {
                let options = LockOptions::new().cohort(100);
                Ok(InterProcessMutex::new(client, path)?.with_options(options)?)
            }
            _ => unsupported(kind),
        }
    }

    async fn acquire(mutex: &InterProcessMutex) -> Result<LockGuard> {
        Ok(mutex.acquire().await?)
    }

    async fn release(guard: LockGuard) -> Result<()> {
        Ours::release(guard).await
    }

    async fn close(client: Client) {
        Ours::close(client).await;
    }
}

impl Library for Blocking {
    type Session = blocking::Client;
    type Lock = BlockingLock;
    type Held = blocking::LockGuard;

    async fn connect(servers: &str) -> Result<blocking::Client> {
        Ok(builder().connect_blocking(servers)?)
    }

    fn lock(client: &blocking::Client, kind: Kind, path: &str) -> Result<BlockingLock> {
        Ok(match kind {
            Kind::Mutex | Kind::FreshMutex => {
                BlockingLock::Mutex(blocking::InterProcessMutex::new(client, path)?)
            }
            Kind::Lingering => {
                let mutex = blocking::InterProcessMutex::new(client, path)?;
                BlockingLock::Mutex(mutex.with_options(lingering())?)
            }
            Kind::Semaphore => BlockingLock::Semaphore(blocking::SemaphoreMutex::new(client, path)?),
            Kind::Multi => BlockingLock::Multi(blocking::MultiLock::new(client, members(path))?),
        })
    }

    async fn acquire(lock: &BlockingLock) -> Result<blocking::LockGuard> {
        Ok(match lock {
            BlockingLock::Mutex(mutex) => mutex.acquire()?,
            BlockingLock::Semaphore(mutex) => mutex.acquire()?,
            BlockingLock::Multi(locks) => locks.acquire()?,
        })
    }

    async fn release(guard: blocking::LockGuard) -> Result<()> {
        Ok(guard.release()?)
    }

    async fn close(client: blocking::Client) {
        // It is refused to tasks only.
        let _ = client.close();
    }
}

fn lingering() -> LockOptions {
    LockOptions::new().linger(Duration::from_secs(10))
}

fn builder() -> ClientBuilder {
    Client::builder().session_timeout(Duration::from_secs(30))
}
