//! Options of atomic values.

use std::sync::Arc;
use std::time::Duration;

use super::promotion::Promotion;
use crate::client::Client;
use crate::error::Result;

/// How long an atomic value tries while other clients write to it, and how. For
/// [`DistributedAtomicLong::with_options`](super::DistributedAtomicLong::with_options) and
/// [`DistributedAtomicValue::with_options`](super::DistributedAtomicValue::with_options).
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until they are given to an atomic value"]
pub struct AtomicOptions {
    timeout: Option<Duration>,
    lock_path: Option<String>,
}

impl AtomicOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets for how long a call tries while other clients write first each time. Then it fails with
    /// [`Error::Contended`](crate::Error::Contended). By default, the
    /// [connection timeout](crate::ClientBuilder::connection_timeout) of the client.
    ///
    /// The time does not bound how long a call waits for the servers: the [retry policy](crate::RetryPolicy) does.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Has a call that has failed to write several times acquire an
    /// [`InterProcessMutex`](crate::InterProcessMutex) at this path, below the client's namespace, and go on while it
    /// holds the lock. So those that fail line up, and the one in front has fewer competitors. The lock does not stop
    /// calls that succeed without it, nor hold up calls of other handles on the same number.
    ///
    /// Operations on a number that are written together line up together. Each call waits for the lock within its own
    /// [time](Self::timeout), and gives its place up when it ends or is cancelled; a call that is not polled keeps it.
    ///
    /// Curator's `PromotedToLock`; with the same path, both line up together.
    pub fn promoted_to_lock(mut self, path: impl Into<String>) -> Self {
        self.lock_path = Some(path.into());
        self
    }
}

/// Options that were checked.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) timeout: Duration,
    pub(super) lock: Option<Arc<Promotion>>,
}

impl Settings {
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath) of the lock.
    pub(super) fn new(client: &Client, options: AtomicOptions) -> Result<Self> {
        let lock = options.lock_path.map(|path| Promotion::new(client, &path)).transpose()?;
        let timeout = options.timeout.unwrap_or_else(|| client.connection_timeout());
        Ok(Self { timeout, lock: lock.map(Arc::new) })
    }
}
