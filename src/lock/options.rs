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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a lock is given them"]
pub struct LockOptions {
    max_hold: Option<Duration>,
    node_data: Option<Arc<[u8]>>,
    suspect_policy: SuspectPolicy,
    linger: Option<Duration>,
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

    /// Lets the lock linger: after a release, this client keeps the lock's node for up to `time`, as long as no one
    /// else is in the queue. An acquire of this client within that time is granted without a request, in less than
    /// a microsecond, whichever owner makes it and through whichever lock object for the same path with the same
    /// options. For locks that one process uses again and again, and others seldom.
    ///
    /// Others see a lock that lingers as held. When someone enters the queue, this client is notified by a watch
    /// and deletes the node: immediately if no one holds, or else at the end of that hold. So the first acquire of
    /// another client takes about one more round trip. A [request](crate::operate::ask) to give the lock back
    /// frees it immediately, too. A suspect session ends the lingering, and so does a lost connection, except that of
    /// an adopted session ([`Client::from_zookeeper`](crate::Client::from_zookeeper)), whose watches outlast it.
    ///
    /// A hold by a node that lingered is as good as any other: it is valid, and is lost, under the same conditions.
    /// Its [fencing token](crate::LockGuard::fencing_token) is that of the node, so it is **the same for
    /// successive holders**. If you fence by the token, compare the pair of token and
    /// [turn](crate::LockGuard::turn), which grows with each grant.
    ///
    /// - With [`max_hold`](Self::max_hold), each hold has that time.
    /// - A hold is released for good, without lingering, after a [transaction](crate::LockGuard::transaction) with
    ///   an unknown outcome, and while a receiver of
    ///   [`watch_state`](crate::LockGuard::watch_state) exists.
    /// - A [ticket](crate::Ticket) always enters the queue.
    /// - A lock lingers only as long as a lock object with these options exists. The last one that is dropped deletes
    ///   the node, and a guard that outlives it releases the lock for good.
    /// - Children of the lock's path that are no contenders keep it from lingering.
    ///
    /// For each node that it is granted, the client lists and watches the children of the path, and watches the
    /// node when it first lingers. If a release comes before the list is answered, others wait for the rest of that
    /// round trip; callers of this client that come during it are not served in their order. So for a lock that several
    /// clients compete for, leave this out: where two of them take turns, a cycle takes about five requests instead of
    /// three.
    ///
    /// Others see a lock that lingers as held:
    /// - A client that only tries ([`try_acquire`](crate::InterProcessMutex::try_acquire)) fails, and each try ends
    ///   the lingering. But if this client acquires the lock again before the next try, that one fails, too, and so
    ///   may all of them, although no one holds at those moments. So let a lock linger that others wait for, or
    ///   seldom want.
    /// - If this client dies or is cut off while the lock lingers, others wait until its session times out, although
    ///   no one held the lock.
    ///
    /// ```
    /// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
    /// use std::time::Duration;
    /// use zk_recipes::{InterProcessMutex, LockOptions};
    ///
    /// let options = LockOptions::new().linger(Duration::from_secs(2));
    /// let mutex = InterProcessMutex::new(&client, "/locks/shard-17")?.with_options(options)?;
    /// for _ in 0..1_000_000 {
    ///     let guard = mutex.acquire().await?;
    ///     println!("{:?}", (guard.fencing_token(), guard.turn()));
    ///     guard.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The `with_options` of an [`InterProcessMutex`](crate::InterProcessMutex) refuses a `time` of zero with
    /// [`Error::InvalidArgument`], and that of any other lock refuses any `time`: others may hold beside a reader
    /// or a permit, and a multi-lock enters its queues together. A multi-lock [of existing
    /// locks](crate::MultiLock::of) may have members that linger.
    ///
    /// Java's biased locking is the same idea. Curator has nothing like it.
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = Some(time);
        self
    }

    /// # Errors
    /// - [`Error::InvalidArgument`]: the maximum hold time is zero, the node data is not allowed, or the lock is to
    ///   linger.
    pub(crate) fn validated(self) -> Result<Self> {
        if self.linger.is_some() {
            let reason = "only an `InterProcessMutex` can linger; leave it out for any other lock".into();
            return Err(Error::InvalidArgument { argument: "linger", reason });
        }
        self.validated_for_mutex()
    }

    /// Validates the options of a mutex, which may linger.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: one of the times is zero, or the node data is not allowed.
    pub(crate) fn validated_for_mutex(self) -> Result<Self> {
        if self.linger.is_some_and(|linger| linger.is_zero()) {
            let reason = "it must be greater than zero; leave it out for a lock that does not linger".into();
            return Err(Error::InvalidArgument { argument: "linger", reason });
        }
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

    pub(crate) fn linger_time(&self) -> Option<Duration> {
        self.linger
    }

    pub(crate) fn on_suspect(&self) -> SuspectPolicy {
        self.suspect_policy
    }
}
