//! Many waiters of one session, for their memory to be looked at.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::library::{Kind, Library};
use crate::Result;
use crate::load::Outcome;

pub(crate) struct Park<L: Library> {
    holder: L::Session,
    held: L::Held,
    session: L::Session,
    lock: Arc<L::Lock>,
    waiters: usize,
    parked: JoinSet<()>,
}

impl<L: Library> Park<L> {
    pub(crate) async fn open(servers: &str, path: &str, waiters: usize) -> Result<Self> {
        let holder = L::connect(servers).await?;
        let held = L::acquire(&L::lock(&holder, Kind::Mutex, path)?).await?;
        let session = L::connect(servers).await?;
        let lock = Arc::new(L::lock(&session, Kind::Mutex, path)?);
        Ok(Self { holder, held, session, lock, waiters, parked: JoinSet::new() })
    }

    /// Does not wait until they are in the queue.
    pub(crate) fn run(&mut self) -> Result<Outcome> {
        for _ in 0..self.waiters {
            let lock = self.lock.clone();
            self.parked.spawn(async move {
                // Only the end of the session wakes it.
                drop(L::acquire(&lock).await);
            });
        }
        Ok(Outcome { cycles: self.waiters as u64, ..Outcome::default() })
    }

    pub(crate) async fn close(mut self) -> Result<()> {
        self.parked.shutdown().await;
        L::close(self.session).await;
        L::release(self.held).await?;
        L::close(self.holder).await;
        Ok(())
    }
}
