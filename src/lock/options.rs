//! How a lock is held.

use std::sync::Arc;
use std::time::Duration;

use crate::client::validate_node_data;
use crate::error::{Error, Result};
use crate::lock::holding::state::SuspectPolicy;

/// Settings of the acquires of a lock object, for its `with_options`.
///
/// ```
/// # fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
/// use std::time::Duration;
/// use zk_recipes::LockOptions;
///
/// let brief = mutex.with_options(LockOptions::new().max_hold(Duration::from_secs(30)))?;
/// # Ok(())
/// # }
/// ```
///
/// They are those of the lock object that `with_options` returns. One that is dropped unseen does not compile here:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
/// mutex.with_options(zk_recipes::LockOptions::new())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until a lock is given them"]
pub struct LockOptions {
    max_hold: Option<Duration>,
    node_data: Option<Arc<[u8]>>,
    suspect_policy: SuspectPolicy,
}

impl LockOptions {
    /// No limit, the client's identity as node data, and [`SuspectPolicy::Keep`].
    pub fn new() -> Self {
        Self::default()
    }

    /// For how long the lock is held at most, from the grant on. Then this client releases it by itself, and
    /// the guards on it are lost, for [`LossReason::Deadline`](crate::LossReason::Deadline).
    ///
    /// [`LockGuard::extend`](crate::LockGuard::extend) prolongs a hold. Entering again does not. Redisson's
    /// `leaseTime`; without it the session keeps the lock, which takes the place of Redisson's watchdog.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// The data of the node by which the lock is held or waited for, for others to see who that is. Of a
    /// semaphore, that of the permits. At most 512 KiB, and not `__REVOKE__`, by which holders are asked for their locks.
    ///
    /// Curator's `getLockNodeBytes`, `lockData` and `setNodeData`.
    pub fn node_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.node_data = Some(data.into().into());
        self
    }

    /// What the guards do when it becomes doubtful that the lock is held.
    ///
    /// Curator's `ConnectionStateErrorPolicy`.
    pub fn suspect_policy(mut self, policy: SuspectPolicy) -> Self {
        self.suspect_policy = policy;
        self
    }

    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn validated(self) -> Result<Self> {
        if self.max_hold.is_some_and(|max_hold| max_hold.is_zero()) {
            let reason = "a hold of no time is none; give more, or leave it out for no limit".into();
            return Err(Error::InvalidArgument { argument: "max_hold", reason });
        }
        if let Some(data) = &self.node_data {
            validate_node_data("node data", data)?;
        }
        Ok(self)
    }

    pub(crate) fn data(&self) -> Option<Arc<[u8]>> {
        self.node_data.clone()
    }

    pub(crate) fn hold_limit(&self) -> Option<Duration> {
        self.max_hold
    }

    pub(crate) fn on_suspect(&self) -> SuspectPolicy {
        self.suspect_policy
    }
}
