//! zk-recipes.

use std::time::Duration;

use tokio::runtime::Handle;
use zk_recipes::{Client, ClientBuilder, InterProcessMutex, LockGuard, MultiLock, SemaphoreMutex};

use super::library::{Kind, Library, members};
use crate::Result;

pub(crate) struct Ours;

/// With clients that live on the runtime of their callers.
pub(crate) struct OnTheRuntime;

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
            Kind::Mutex => Lock::Mutex(InterProcessMutex::new(client, path)?),
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

fn builder() -> ClientBuilder {
    Client::builder().session_timeout(Duration::from_secs(30))
}
