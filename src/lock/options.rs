//! Options of an acquire.

use std::sync::Arc;
use std::time::Duration;

use crate::client::validate_node_data;
use crate::error::{Error, Result};
use crate::lock::holding::state::SuspectPolicy;

/// For how long a cohort keeps others out, unless told otherwise.
const COHORT_TIME: Duration = Duration::from_millis(100);

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
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a lock is given them"]
pub struct LockOptions {
    pub(super) max_hold: Option<Duration>,
    pub(super) node_data: Option<Arc<[u8]>>,
    pub(super) suspect_policy: SuspectPolicy,
    pub(super) linger: Option<Duration>,
    cohort: Option<u32>,
    cohort_time: Option<Duration>,
    /// After which time of waiting to warn.
    pub(super) warn_wait: Option<Duration>,
    /// After which time of holding to warn.
    pub(super) warn_hold: Option<Duration>,
    pub(super) detect_deadlocks: bool,
}

debug_by!(LockOptions, |it|
    max_hold: it.max_hold, node_data_length: it.node_data.as_ref().map(|data| data.len()),
    suspect_policy: it.suspect_policy, linger: it.linger, cohort: it.cohort,
    detect_deadlocks: it.detect_deadlocks
);

impl LockOptions {
    /// Creates the default options: no maximum hold time, the client's identity as node data, and
    /// [`SuspectPolicy::Keep`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum hold time, counted from the grant. When it elapses, the client releases the lock by
    /// itself, and its guards are lost with [`LossReason::Deadline`](crate::LossReason::Deadline). If it elapses before the
    /// acquire is polled again, that fails with [`Error::LockLost`](crate::Error::LockLost).
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
    ///   an unknown outcome, and while a [`Watch`](crate::Watch) of
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

    /// Lets the acquires of this client hand the lock on among themselves: of those that wait through lock objects for
    /// the same path with the same options, only one is in the queue, and a release passes its node to the next of
    /// them, without a request. For a lock that many tasks of one process use at the same time.
    ///
    /// Within the client, it is first come, first served. **Towards others it is less fair:** while someone else may
    /// be in the queue, the node is handed on at most `hand_ons` times, and not after the
    /// [time of the cohort](Self::cohort_time), which is 100 ms unless set. Then the node is deleted, and this client
    /// enters the queue again, behind the others. So the next waiter in the queue waits for the hold during which it
    /// came, and then for `hand_ons` holds more; or for the time of the cohort and the hold that lasts at its end, if
    /// that is less. Both the number and the time count from when this client is notified of others. While no one else is
    /// in the queue, there is no limit. Without this option, the lock is fair, as its type describes.
    ///
    /// It costs others more than that, too:
    /// - They see the lock held between two holds of the cohort, so a client that only tries
    ///   ([`try_acquire`](crate::InterProcessMutex::try_acquire)) may fail again and again.
    /// - If this client dies or is cut off, others wait until its session times out. With many tasks on one lock, that
    ///   is so without a cohort as well.
    ///
    /// A hold by a node that was handed on is as good as any other: it is valid, and is lost, under the same
    /// conditions. Its [fencing token](crate::LockGuard::fencing_token) is that of the node, so it is **the same for
    /// successive holders**. If you fence by the token, compare the pair of token and
    /// [turn](crate::LockGuard::turn), which grows with each grant.
    ///
    /// - An acquire whose turn has come and that no one polls keeps the others of this client waiting, as with a
    ///   [`tokio::sync::Mutex`]. A node that was handed on to it keeps other clients waiting for the time of the cohort,
    ///   not longer. Poll each acquire until it is done, or drop it.
    /// - A [`try_acquire`](crate::InterProcessMutex::try_acquire) does not stand in line. It returns `None` without a
    ///   request while this client has the lock.
    /// - A [ticket](crate::Ticket) always enters the queue. It counts as someone else, and so do the acquires of this
    ///   client through lock objects with other options.
    /// - With [`linger`](Self::linger), the node stays after the last of the waiting acquires as well. Without, it is
    ///   deleted when no one of this client waits any more.
    /// - With [`max_hold`](Self::max_hold), each hold has that time.
    /// - A hold is released for good, without being handed on, after a
    ///   [transaction](crate::LockGuard::transaction) with an unknown outcome, while a [`Watch`](crate::Watch) of
    ///   [`watch_state`](crate::LockGuard::watch_state) exists, when someone
    ///   [asks](crate::operate::ask) for the lock, and if the session is suspect.
    /// - Children of the lock's path that are no contenders count as others.
    ///
    /// For each node that it is granted, the client lists and watches the children of the path, and watches the node. A
    /// hold that ends before that is answered is handed on when it is.
    ///
    /// ```
    /// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
    /// use zk_recipes::{InterProcessMutex, LockOptions};
    ///
    /// let options = LockOptions::new().cohort(100);
    /// let mutex = InterProcessMutex::new(&client, "/locks/ledger")?.with_options(options)?;
    /// for _ in 0..64 {
    ///     let mutex = mutex.clone();
    ///     tokio::spawn(async move {
    ///         let guard = mutex.acquire().await?;
    ///         println!("{:?}", (guard.fencing_token(), guard.turn()));
    ///         guard.release().await
    ///     });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The `with_options` of an [`InterProcessMutex`](crate::InterProcessMutex) refuses zero with
    /// [`Error::InvalidArgument`], and that of any other lock refuses any number. A multi-lock [of existing
    /// locks](crate::MultiLock::of) may have members with a cohort.
    ///
    /// Corresponds to the cohort locks of NUMA machines. Curator has nothing like it.
    pub fn cohort(mut self, hand_ons: u32) -> Self {
        self.cohort = Some(hand_ons);
        self
    }

    /// Sets for how long a [cohort](Self::cohort) hands the lock on while others may be in the queue. 100 ms unless
    /// set.
    ///
    /// # Errors
    /// The `with_options` of an [`InterProcessMutex`](crate::InterProcessMutex) refuses a `time` of zero, and any
    /// `time` without a cohort, with [`Error::InvalidArgument`]. That of any other lock refuses any `time`.
    pub fn cohort_time(mut self, time: Duration) -> Self {
        self.cohort_time = Some(time);
        self
    }

    /// Logs a warning, by `tracing`, about each acquire that waits for longer than `wait`, and about each hold that
    /// lasts longer than `hold`. `None` for no warning.
    ///
    /// The warning about a wait names the holder, which takes some requests: at most once a second for all waiters of one
    /// client. It is repeated after twice the time, four times the time and so on. The warning about a hold comes once. See the
    /// [guide](crate::guide::observing#spans-and-warnings) for all that is logged.
    ///
    /// ```
    /// # fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
    /// use std::time::Duration;
    /// use zk_recipes::LockOptions;
    ///
    /// let (wait, hold) = (Duration::from_secs(10), Duration::from_secs(60));
    /// let watched = mutex.with_options(LockOptions::new().warn_after(wait, hold))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The `with_options` of the lock refuses a time of zero with [`Error::InvalidArgument`].
    pub fn warn_after(
        mut self,
        wait: impl Into<Option<Duration>>,
        hold: impl Into<Option<Duration>>,
    ) -> Self {
        (self.warn_wait, self.warn_hold) = (wait.into(), hold.into());
        self
    }

    /// Sets whether the acquires and the holds of this lock object count when the client looks for deadlocks: owners that
    /// hold locks and wait for each other's. Off unless set.
    ///
    /// An acquire that would close such a cycle fails with [`Error::WouldDeadlock`], which names the owners and the paths,
    /// and leaves the queue; the others go on waiting. Release what the owner holds, so that they get it, and start over.
    /// The client knows this without a request, whichever kinds of locks are involved.
    ///
    /// **Use it where each [`Owner`](crate::Owner) does one thing at a time**, and releases by itself what it holds: then
    /// an owner that waits releases nothing. A task is one owner unless you name another. So these need owners of their
    /// own, or they are refused although no one would have waited for ever:
    /// - Futures that run side by side in one task, as by `join!`, `select!` or `buffer_unordered`.
    /// - A guard that you move to another task, which may release it while the owner waits.
    ///
    /// The client does not see a timeout around an acquire, as that of `tokio::time::timeout`. Use `try_acquire_for`.
    ///
    /// Under that rule, only what would last for ever is reported:
    /// - A wait with a deadline ([`try_acquire_for`](crate::InterProcessMutex::try_acquire_for)) and a hold with a
    ///   [maximum hold time](Self::max_hold) end by themselves, so there is no deadlock while one is part of the cycle.
    /// - A waiter for permits is stuck only if the permits of owners that go on are not enough for it. While the number of
    ///   permits is a [`SharedCount`](crate::shared::SharedCount), which may be raised, it counts as one that goes on.
    ///
    /// Not all of it is found. The client looks when an acquire begins to wait, or comes to wait for someone else; not
    /// when a deadline passes, or when one of several waits of an owner is granted. It does not see the places of tickets
    /// that are not awaited, the members of a [`QuorumLock`](crate::QuorumLock), and the owners of other clients: for
    /// these, use `zklock deadlocks`.
    ///
    /// With or without it, an owner that holds a path is refused there through another lock object.
    ///
    /// ```
    /// # fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
    /// use zk_recipes::{InterProcessMutex, LockOptions};
    ///
    /// let options = LockOptions::new().detect_deadlocks(true);
    /// let from = InterProcessMutex::new(&client, "/accounts/1")?.with_options(options.clone())?;
    /// let to = InterProcessMutex::new(&client, "/accounts/2")?.with_options(options)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Curator has nothing like it.
    pub fn detect_deadlocks(mut self, detect: bool) -> Self {
        self.detect_deadlocks = detect;
        self
    }

    /// # Errors
    /// - [`Error::InvalidArgument`]: the maximum hold time is zero, the node data is not allowed, or the lock is to
    ///   linger or to have a cohort.
    pub(crate) fn validated(self) -> Result<Self> {
        let is_set = [
            ("linger", self.linger.is_some()),
            ("cohort", self.cohort.is_some()),
            ("cohort_time", self.cohort_time.is_some()),
        ];
        if let Some((argument, _)) = is_set.into_iter().find(|(_, is_set)| *is_set) {
            let reason = "only for an `InterProcessMutex`; leave it out for any other lock".into();
            return Err(Error::InvalidArgument { argument, reason });
        }
        self.validated_for_mutex()
    }

    /// Validates the options of a mutex, which may linger and have a cohort.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the cohort or one of the times is zero, there is a time of the cohort without a
    ///   cohort, or the node data is not allowed.
    pub(crate) fn validated_for_mutex(self) -> Result<Self> {
        if self.linger.is_some_and(|linger| linger.is_zero()) {
            let reason = "it must be greater than zero; leave it out for a lock that does not linger".into();
            return Err(Error::InvalidArgument { argument: "linger", reason });
        }
        if self.cohort == Some(0) {
            let reason = "it must be greater than zero; leave it out for a fair lock".into();
            return Err(Error::InvalidArgument { argument: "cohort", reason });
        }
        if let Some(time) = self.cohort_time
            && (time.is_zero() || self.cohort.is_none())
        {
            let reason = if time.is_zero() { "it must be greater than zero" } else { "set `cohort` as well" };
            return Err(Error::InvalidArgument { argument: "cohort_time", reason: reason.into() });
        }
        if self.max_hold.is_some_and(|max_hold| max_hold.is_zero()) {
            let reason = "it must be greater than zero; leave it out for no limit".into();
            return Err(Error::InvalidArgument { argument: "max_hold", reason });
        }
        if [self.warn_wait, self.warn_hold].contains(&Some(Duration::ZERO)) {
            let reason = "the times must be greater than zero; use `None` for no warning".into();
            return Err(Error::InvalidArgument { argument: "warn_after", reason });
        }
        if let Some(data) = &self.node_data {
            validate_node_data("node data", data)?;
        }
        Ok(self)
    }

    pub(super) fn data(&self) -> Option<Arc<[u8]>> {
        self.node_data.clone()
    }

    /// How often a node is handed on while others may wait, and for how long; `None` without a cohort.
    pub(super) fn cohort_terms(&self) -> Option<(u32, Duration)> {
        Some((self.cohort?, self.cohort_time.unwrap_or(COHORT_TIME)))
    }
}
