//! Several locks as one.

use std::sync::Arc;
use std::time::Duration;

use super::inter_process_lock::{InterProcessLock, inter_process_lock};
use super::mutex::InterProcessMutex;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::lock::acquiring::together::Together;
use crate::lock::acquiring::wait::{Wait, unending};
use crate::lock::acquiring::{attempt, one_by_one};
use crate::lock::holding::guard::LockGuard;
use crate::lock::operating::participant::Participant;

/// Several locks that are acquired and released as one: all or none.
///
/// The locks are acquired in the order of their paths, whatever order you give them in, so two multi-locks cannot
/// deadlock. One deadline bounds the whole acquire. If one of the locks cannot be acquired, those acquired so far
/// are released.
///
/// Compatible with other users of each path. Curator's `InterProcessMultiLock` acquires its paths in the order in
/// which they are given; give it sorted paths where it meets a multi-lock.
///
/// # Requests
///
/// A multi-lock of [plain paths](Self::new) enters all queues in one transaction. That is one round trip if all
/// locks are available immediately; with servers before 3.8.2 it is two. If it has to wait for one member, it
/// leaves the queues behind that member, and enters them again when its turn comes. Curator needs two round trips
/// for each path. A release deletes all nodes in one transaction, in one round trip. If one of the nodes is gone, the
/// servers refuse the transaction, and each node is deleted by itself, in a second round trip. A multi-lock [of existing
/// locks](Self::of) is released by one transaction for each client.
///
/// No other caller of the client takes the places of one that gives up, as with other locks: wait for longer than a few
/// cycles where several clients want it.
///
/// ```no_run
/// use zk_recipes::{Client, MultiLock};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let both = MultiLock::new(&client, ["/accounts/17", "/accounts/4"])?;
/// let guard = both.acquire().await?;
/// for member in guard.members() {
///     println!("{} with token {}", member.node_path(), member.fencing_token());
/// }
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Corresponds to Curator's `InterProcessMultiLock`.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct MultiLock {
    /// In the order in which everybody acquires them; at least one.
    locks: Arc<[Arc<dyn InterProcessLock>]>,
    /// Of plain paths: how they are acquired in one transaction. Otherwise, one lock is acquired after the other, each for
    /// its own owner.
    together: Option<Together>,
}

debug_by!(MultiLock, |it| paths: it.paths());

impl MultiLock {
    /// Creates a multi-lock of the locks at these paths, below the client's namespace, each like an
    /// [`InterProcessMutex`](crate::InterProcessMutex). Makes no request.
    ///
    /// It is re-entrant, as they are: an owner that holds all of them through this object can acquire them again.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: one of the paths is not valid.
    /// - [`Error::InvalidArgument`]: there are no paths, or one path is given twice.
    pub fn new<P: AsRef<str>>(client: &Client, paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let mutex = |path: P| InterProcessMutex::new(client, path.as_ref());
        let mut mutexes = paths.into_iter().map(mutex).collect::<Result<Vec<_>>>()?;
        in_order(&mut mutexes, |mutex| mutex)?;
        let members = mutexes.iter().map(|mutex| mutex.reentrant().clone()).collect();
        let locks = mutexes.into_iter().map(|mutex| Arc::new(mutex) as _).collect();
        Ok(Self { locks, together: Some(members) })
    }

    /// Creates a multi-lock of existing locks, of any kind and any client, which are acquired one after the other
    /// in the order of their paths. Two locks with the same path are refused, even if their clients use different
    /// servers.
    ///
    /// After the last lock is granted, the servers are asked whether all locks are still held, which takes one
    /// more round trip. If one was lost, the acquire starts over after a pause. While waiting for another lock, it
    /// starts over as soon as the loss is noticed.
    ///
    /// The [maximum hold time](LockOptions::max_hold) of a member counts from the member's own grant, so it must be
    /// longer than the wait for those that come after it.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: there are no locks, two of them have the same path, or one of them is a multi-lock
    ///   whose paths do not all come before those of the next lock: the order of the paths could not be kept.
    pub fn of(locks: impl IntoIterator<Item = Arc<dyn InterProcessLock>>) -> Result<Self> {
        let mut locks: Vec<_> = locks.into_iter().collect();
        in_order(&mut locks, |lock| &**lock)?;
        Ok(Self { locks: locks.into(), together: None })
    }

    /// Returns a handle to the same lock object that acquires with these options.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: a time is zero, the node data is not allowed (see [`LockOptions::node_data`]), an
    ///   option is set that only an [`InterProcessMutex`](crate::InterProcessMutex) has, or this multi-lock was made
    ///   [of existing locks](Self::of), on which you set the options instead.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        let Some(together) = &self.together else {
            // A hold time of all would run while the next lock is waited for.
            let reason = "set them on the locks that this one is made of".into();
            return Err(Error::InvalidArgument { argument: "options", reason });
        };
        let together = together.iter().map(|member| member.with_options(options.clone()));
        Ok(Self { locks: self.locks.clone(), together: Some(together.collect::<Result<_>>()?) })
    }

    /// Returns a handle to the same lock object that acquires for this owner instead of the current task. See
    /// [`InterProcessMutex::owned_by`](crate::InterProcessMutex::owned_by).
    pub fn owned_by(&self, owner: &Owner) -> Self {
        let owned = |members: &Together| members.iter().map(|member| member.owned_by(owner)).collect();
        let together = self.together.as_ref().map(owned);
        let locks = match together {
            Some(_) => self.locks.clone(),
            None => self.locks.iter().map(|lock| lock.owned_by(owner)).collect(),
        };
        Self { locks, together }
    }

    /// Acquires all locks, waiting until they are available.
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire), or the error of the lock that
    /// failed, and:
    /// - [`Error::LockLost`]: the maximum hold time of an existing lock elapsed before all were held.
    /// - [`Error::Several`]: in addition, releasing the locks acquired so far failed before it was confirmed.
    ///
    /// # Cancel safety
    /// If cancelled, the places in the queues are given up, and neither a node nor a watch is left behind.
    pub async fn acquire(&self) -> Result<LockGuard> {
        unending(self.take(Wait::Forever).await)
    }

    /// Acquires all locks if all are available immediately; returns `None` otherwise.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.take(Wait::No).await
    }

    /// Acquires all locks, waiting at most `within`. Returns `None` if that time elapsed in
    /// the queues.
    ///
    /// The bound holds even while the servers are down or do not respond. Releasing what was acquired so far may
    /// take another round trip, at most 100 ms for plain paths. Zero is the same as
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and:
    /// - [`Error::NotConnected`]: no queue was reached within this time, or not that of one of the existing locks; so it
    ///   is unknown whether another owner holds the lock.
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        self.take(Wait::at_most(within)).await
    }

    async fn take(&self, wait: Wait) -> Result<Option<LockGuard>> {
        match &self.together {
            Some(together) => attempt::try_acquire(together, &together[0].owner(), wait).await,
            None => one_by_one::try_acquire(&self.locks, wait).await,
        }
    }

    /// Returns the participants of each lock, one lock after the other in the order of their paths.
    ///
    /// # Errors
    /// Same as [`is_locked`](Self::is_locked).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let mut participants = Vec::new();
        for lock in &*self.locks {
            participants.extend(lock.participants().await?);
        }
        Ok(participants)
    }

    /// Returns whether any of the locks is held, in any process. A lock whose path [does not
    /// exist](Self::path_exists) is not held, which is no error.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: a queue cannot be read.
    /// - [`Error::NotConnected`]: the servers cannot be reached.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.holder().await?.is_some())
    }

    /// Returns the holder of the first lock that is held, in any process. `None` if all locks are free or their
    /// paths [do not exist](Self::path_exists).
    ///
    /// # Errors
    /// Same as [`is_locked`](Self::is_locked).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn holder(&self) -> Result<Option<Participant>> {
        for lock in &*self.locks {
            let holder = lock.holder().await?;
            if holder.is_some() {
                return Ok(holder);
            }
        }
        Ok(None)
    }

    /// Returns whether the paths of all locks exist, which tells free locks from a mistyped path. See
    /// [`InterProcessMutex::path_exists`](crate::InterProcessMutex::path_exists).
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the server refuses a request or cannot be reached.
    /// - [`Error::NotConnected`]: the servers cannot be reached, and nothing could be sent.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn path_exists(&self) -> Result<bool> {
        for lock in &*self.locks {
            if !lock.path_exists().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether each of the locks is held through its lock object. Makes no request.
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.locks.iter().all(|lock| lock.is_acquired_in_this_process())
    }

    /// Returns whether this owner holds each of the locks through its lock object. Makes no request.
    pub fn is_owned_by(&self, owner: &Owner) -> bool {
        self.locks.iter().all(|lock| lock.is_owned_by(owner))
    }

    /// Returns the full paths of the locks in the order in which they are acquired, including the namespaces.
    pub fn paths(&self) -> Vec<&str> {
        self.locks.iter().flat_map(|lock| lock.paths()).collect()
    }
}

/// Sorts members by their paths.
///
/// # Errors
/// - [`Error::InvalidArgument`]: there are no members, two of them have the same path, or one of them is a multi-lock
///   with a path that comes after one of the next member's, so that not all would be acquired in one order.
fn in_order<M>(members: &mut [M], lock: impl Fn(&M) -> &dyn InterProcessLock) -> Result<()> {
    let paths = |member: &M| lock(member).absolute_paths();
    members.sort_by_cached_key(paths);
    let acquired: Vec<String> = members.iter().flat_map(paths).collect();
    let mut all = acquired.clone();
    all.sort_unstable();
    let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
    let disorder = acquired.windows(2).find(|pair| pair[0] > pair[1]);
    let reason = match (twice, disorder) {
        (Some(pair), _) => format!("{} is there twice, and would wait for itself", pair[0]),
        (None, Some(pair)) => format!(
            "{} would be acquired before {}, and others acquire them the other way round; put the locks themselves in, \
             not a multi-lock of them",
            pair[0], pair[1]
        ),
        (None, None) if all.is_empty() => "a multi-lock needs at least one lock".into(),
        (None, None) => return Ok(()),
    };
    Err(Error::InvalidArgument { argument: "members of a multi-lock", reason })
}

inter_process_lock!(
    MultiLock,
    |it| it.locks[0].first_client(),
    it.paths(),
    it.locks.iter().flat_map(|lock| lock.absolute_paths()).collect()
);
