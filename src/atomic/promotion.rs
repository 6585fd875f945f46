//! The lock to which calls are promoted when they keep failing.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

use crate::client::Client;
use crate::error::Result;
use crate::lock::{InterProcessMutex, LockGuard, Owner};

type Acquiring = BoxFuture<'static, Result<Arc<LockGuard>>>;

/// A place in the queue of the lock, and the lock once it is acquired. Given up when all who share it have dropped it.
pub(super) type Place = Shared<Acquiring>;

/// The lock, and the place that calls share.
#[derive(Debug)]
pub(super) struct Promotion {
    /// Does not keep the client open.
    mutex: InterProcessMutex,
    shared: Mutex<Option<WeakShared<Acquiring>>>,
}

impl Promotion {
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath).
    pub(super) fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { mutex: InterProcessMutex::new(&client.detached(), path)?, shared: Mutex::default() })
    }

    /// Returns the place of the calls that are written together. A call that comes when the lock is already acquired begins
    /// another place, so that other clients get their turn.
    pub(super) fn join(&self) -> Place {
        // Dropped after the lock, since it may be the last one.
        let joined;
        let mut shared = self.shared.lock();
        joined = shared.as_ref().and_then(WeakShared::upgrade);
        if let Some(place) = joined.as_ref().filter(|place| place.peek().is_none()) {
            return place.clone();
        }
        let place = self.line_up();
        *shared = place.downgrade();
        place
    }

    /// Returns a place of its own.
    pub(super) fn line_up(&self) -> Place {
        // Calls of one task that run side by side are several owners.
        let mutex = self.mutex.owned_by(&Owner::new());
        async move { mutex.acquire().await.map(Arc::new) }.boxed().shared()
    }
}
