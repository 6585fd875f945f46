//! zk-recipes.

use std::time::Duration;

use zk_recipes::{Client, InterProcessMutex, LockGuard, MultiLock, SemaphoreMutex};

use super::library::{Kind, Library, members};
use crate::Result;

pub(crate) struct Ours;

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
        Ok(Client::builder().session_timeout(Duration::from_secs(30)).connect(servers).await?)
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
