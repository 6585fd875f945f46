//! Options of an acquire.

use std::sync::Arc;
use std::time::Duration;

use crate::client::validate_node_data;
use crate::error::{Error, Result};
use crate::lock::holding::state::SuspectPolicy;

/// Options for the acquires of a lock object, passed to its `with_options`.
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
/// The options apply to the lock object that `with_options` returns. To drop that object unused is an error where
/// `unused_must_use` is denied:
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
    /// Creates the default options: no maximum hold time, the client's identity as node data, and
    /// [`SuspectPolicy::Keep`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum hold time, counted from the grant. When it elapses, the client releases the lock by
    /// itself, and its guards are lost with [`LossReason::Deadline`](crate::LossReason::Deadline).
    ///
    /// [`LockGuard::extend`](crate::LockGuard::extend) prolongs a hold; re-entering the lock does not. Corresponds
    /// to Redisson's `leaseTime`. Without a maximum hold time, the session keeps the lock, in place of Redisson's
    /// watchdog.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Sets the data of the node with which the lock is held or waited for, by which others identify the
    /// contender. For a semaphore, the data of the permits' nodes. At most 512 KiB, and not `__REVOKE__`, which is
    /// the request to give a lock back.
    ///
    /// Corresponds to Curator's `getLockNodeBytes`, `lockData` and `setNodeData`.
    pub fn node_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.node_data = Some(data.into().into());
        self
    }

    /// Sets what guards do when the lock becomes [suspect](crate::LockState::Suspect).
    ///
    /// Corresponds to Curator's `ConnectionStateErrorPolicy`.
    pub fn suspect_policy(mut self, policy: SuspectPolicy) -> Self {
        self.suspect_policy = policy;
        self
    }

    /// # Errors
    /// - [`Error::InvalidArgument`]: the maximum hold time is zero, or the node data is not allowed.
    pub(crate) fn validated(self) -> Result<Self> {
        if self.max_hold.is_some_and(|max_hold| max_hold.is_zero()) {
            let reason = "it must be greater than zero; leave it out for no limit".into();
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
