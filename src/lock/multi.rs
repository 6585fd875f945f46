//! Several locks as one.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select, select_all};
use tokio::time::Instant;

use super::InterProcessLock;
use super::deadline::from_now;
use super::inter_process_lock::inter_process_lock;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::{Client, sleep_until};
use crate::error::{Error, Result};
use crate::lock::acquiring::attempt::{self, Contending, Entry, LEAVE_GRACE};
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::holding::guard::{LockGuard, release_all};
use crate::lock::operating::participant::Participant;
use crate::queue::{Caller, Kind, MUTEX, MultiWaiter};

/// How long a wait must last before the locks acquired so far are worth a watch each.
const BRIEF_WAIT: Duration = Duration::from_millis(100);

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
/// for each path. A release is one delete per path, all sent at once.
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
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct MultiLock {
    members: Members,
    /// All paths, separated by commas.
    path: String,
}

#[derive(Clone, Debug)]
enum Members {
    /// Mutexes of one client; at least one.
    Joint(Arc<[Reentrant]>),
    /// Locks of any kind; at least one.
    Mixed(Arc<[Arc<dyn InterProcessLock>]>),
}

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
        let member = |path: P| Reentrant::new(client, path.as_ref(), &MUTEX, Kind::Exclusive);
        let mut members = paths.into_iter().map(member).collect::<Result<Vec<_>>>()?;
        let path = in_order(&mut members, Reentrant::path)?;
        Ok(Self { members: Members::Joint(members.into()), path })
    }

    /// Creates a multi-lock of existing locks, of any kind and any client, which are acquired one after the other
    /// in the order of their paths. Two locks with the same path are refused, even if their clients use different
    /// servers.
    ///
    /// After the last lock is granted, the servers are asked whether all locks are still held, which takes one
    /// more round trip. If one was lost, the acquire starts over. While waiting for another lock, it starts over
    /// as soon as the loss is noticed.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: there are no locks, or two of them have the same path.
    pub fn of(locks: impl IntoIterator<Item = Arc<dyn InterProcessLock>>) -> Result<Self> {
        let mut members: Vec<_> = locks.into_iter().collect();
        let path = in_order(&mut members, |lock| lock.path())?;
        Ok(Self { members: Members::Mixed(members.into()), path })
    }

    /// Returns a handle to the same lock object that acquires with these options.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the maximum hold time is zero, the node data is not allowed (see
    ///   [`LockOptions::node_data`]), or this multi-lock was made [of existing locks](Self::of), on which you set
    ///   the options instead.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        let Members::Joint(members) = &self.members else {
            let reason = "set them on the locks that this one is made of".into();
            return Err(Error::InvalidArgument { argument: "options", reason });
        };
        let members =
            members.iter().map(|member| member.with_options(options.clone())).collect::<Result<_>>()?;
        Ok(Self { members: Members::Joint(members), path: self.path.clone() })
    }

    /// Acquires all locks for the current task, waiting until they are available.
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire), or the error of the lock that
    /// failed, and:
    /// - [`Error::Several`]: in addition, releasing the locks acquired so far failed before it was confirmed.
    ///
    /// # Cancel safety
    /// If cancelled, the places in the queues are given up, and neither a node nor a watch is left behind.
    pub async fn acquire(&self) -> Result<LockGuard> {
        match &self.members {
            Members::Joint(members) => {
                attempt::acquire(members[0].client(), |caller| enter(members, caller)).await
            }
            Members::Mixed(locks) => loop {
                if let Some(guard) = take_each(locks, Wait::Forever).await? {
                    return Ok(guard);
                }
            },
        }
    }

    /// Acquires all locks for the current task if all are available immediately; returns `None` otherwise.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        match &self.members {
            Members::Joint(members) => {
                attempt::try_acquire(members[0].client(), |caller| enter(members, caller)).await
            }
            Members::Mixed(locks) => take_each(locks, Wait::No).await,
        }
    }

    /// Acquires all locks for the current task, waiting at most `within`. Returns `None` if that time elapsed in
    /// the queues.
    ///
    /// The bound holds even while the servers are down or do not respond. Releasing what was acquired so far may
    /// take another round trip, at most 100 ms for plain paths. Zero is the same as
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and:
    /// - [`Error::NotConnected`]: a queue was not reached within this time, so it is unknown whether another owner
    ///   holds its lock.
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        match &self.members {
            Members::Joint(members) => {
                attempt::try_acquire_for(members[0].client(), within, |caller| enter(members, caller)).await
            }
            Members::Mixed(_) if within.is_zero() => self.try_acquire().await,
            Members::Mixed(locks) => take_each(locks, Wait::Until(from_now(within))).await,
        }
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
        for member in 0..self.len() {
            let holder = match &self.members {
                Members::Joint(members) => members[member].holder().await?,
                Members::Mixed(locks) => locks[member].holder().await?,
            };
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
        for member in 0..self.len() {
            let exists = match &self.members {
                Members::Joint(members) => members[member].path_exists().await?,
                Members::Mixed(locks) => locks[member].path_exists().await?,
            };
            if !exists {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether each of the locks is held through its lock object. Makes no request.
    pub fn is_acquired_in_this_process(&self) -> bool {
        match &self.members {
            Members::Joint(members) => members.iter().all(Reentrant::is_acquired_in_this_process),
            Members::Mixed(locks) => locks.iter().all(|lock| lock.is_acquired_in_this_process()),
        }
    }

    /// Returns the full paths of the locks, sorted and separated by commas, including the namespaces.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn len(&self) -> usize {
        match &self.members {
            Members::Joint(members) => members.len(),
            Members::Mixed(locks) => locks.len(),
        }
    }
}

/// Sorts members by their paths, and returns the paths.
///
/// # Errors
/// - [`Error::InvalidArgument`]: there are no members, or two of them have the same path.
fn in_order<M>(members: &mut [M], path: impl Fn(&M) -> &str) -> Result<String> {
    members.sort_by(|a, b| path(a).cmp(path(b)));
    let paths: Vec<&str> = members.iter().map(path).collect();
    let reason = match paths.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => format!("{} is there twice, and would wait for itself", pair[0]),
        None if paths.is_empty() => "a multi-lock needs at least one lock".into(),
        None => return Ok(paths.join(",")),
    };
    Err(Error::InvalidArgument { argument: "members of a multi-lock", reason })
}

/// The acquire of a waiting owner.
#[derive(Debug)]
struct Turn {
    members: Arc<[Reentrant]>,
    owner: Owner,
    joint: MultiWaiter,
    /// The guard by which the owner re-entered, if it acquired the locks through another call meanwhile.
    entered: Option<LockGuard>,
}

/// Returns another guard if the owner already holds all members.
fn enter_again(members: &[Reentrant], owner: &Owner) -> Result<Option<LockGuard>> {
    let again = members.iter().map(|member| member.enter_again(owner)).collect::<Result<Option<Vec<_>>>>()?;
    Ok(again.map(LockGuard::of_all))
}

async fn enter(members: &Arc<[Reentrant]>, caller: Caller) -> Result<Entry<Turn>> {
    let owner = Owner::current();
    if let Some(again) = enter_again(members, &owner)? {
        return Ok(Entry::Granted(again));
    }
    members.iter().try_for_each(|member| member.ensure_can_be_granted(&owner))?;
    let queues = members.iter().map(|member| member.internals().clone()).collect();
    let joint = MultiWaiter::enter(&queues, members[0].options().data(), caller).await?;
    Ok(Entry::Queued(Turn { members: members.clone(), owner, joint, entered: None }))
}

impl Contending for Turn {
    type Guard = LockGuard;

    fn ensure_no_deadlock(&self) -> Result<()> {
        let Some((place, member)) = self.joint.waiting() else { return Ok(()) };
        self.members[member].ensure_no_deadlock(place.czxid(), &self.owner)
    }

    fn take(&mut self) -> Option<LockGuard> {
        if self.entered.is_some() {
            return self.entered.take();
        }
        let grants = self.joint.take_grants()?.into_iter();
        let guards = self.members.iter().zip(grants).map(|(member, grant)| member.hold(grant, &self.owner));
        Some(LockGuard::of_all(guards.collect()))
    }

    async fn wait(&mut self) -> Result<()> {
        self.ensure_no_deadlock()?;
        let Self { members, owner, joint, entered } = self;
        let Some((place, member)) = joint.waiting() else { return joint.wait().await };
        tracing::debug!(path = members[member].path(), position = place.position(), "waiting");
        let waiting = members[member].wait_as(owner);
        // A lost hold does not end the wait.
        let enter_again = || ready(Ok(enter_again(members, owner).unwrap_or_default()));
        *entered = waiting.until(pin!(joint.wait()), enter_again).await?;
        Ok(())
    }

    async fn leave(self) -> Result<()> {
        Error::all(self.joint.leave().await).map_or(Ok(()), Err)
    }
}

/// How long to wait for the locks.
#[derive(Clone, Copy)]
enum Wait {
    No,
    Until(Instant),
    Forever,
}

impl Wait {
    async fn take(self, lock: &dyn InterProcessLock) -> Result<Option<LockGuard>> {
        match self {
            Self::No => lock.try_acquire().await,
            Self::Until(deadline) => {
                let within = deadline.saturating_duration_since(Instant::now());
                // At the very deadline this is `try_acquire`, which has no bound of its own.
                self.finish(lock.try_acquire_for(within)).await.unwrap_or(Ok(None))
            }
            Self::Forever => lock.acquire().await.map(Some),
        }
    }

    /// Runs a final step, within what is left of the time plus the grace period.
    async fn finish<T>(self, last: impl Future<Output = T>) -> Option<T> {
        match self {
            Self::No | Self::Forever => Some(last.await),
            Self::Until(deadline) => {
                let deadline = pin!(sleep_until(deadline.max(Instant::now()) + LEAVE_GRACE));
                match select(pin!(last), deadline).await {
                    Either::Left((done, _)) => Some(done),
                    Either::Right(((), _)) => None,
                }
            }
        }
    }
}

/// Acquires one lock after the other. Starts over if one is lost while waiting for another.
async fn take_each(locks: &[Arc<dyn InterProcessLock>], wait: Wait) -> Result<Option<LockGuard>> {
    'anew: loop {
        let mut taken = Vec::with_capacity(locks.len());
        for lock in locks {
            let next = tokio::select! {
                biased;
                next = wait.take(&**lock) => next,
                () = any_lost(&taken) => continue 'anew,
            };
            match next {
                Ok(Some(guard)) => taken.push(guard),
                Ok(None) => {
                    let mut failed = give_back(taken, wait).await;
                    // Members that were lost need no release.
                    failed.retain(|error| !matches!(error, Error::LockLost { .. }));
                    return Error::all(failed).map_or(Ok(None), Err);
                }
                Err(error) => {
                    let mut failed = give_back(taken, wait).await;
                    failed.retain(|other| *other != error);
                    return Err(error.with(failed));
                }
            }
        }
        let guard = LockGuard::of_all(taken);
        if wait.finish(guard.look()).await.is_none() {
            return Ok(None);
        }
        if guard.loss().is_none() {
            return Ok(Some(guard));
        }
    }
}

/// Waits until one of the locks is lost. Sets a watch on their nodes only if this takes long enough to be worth
/// it.
async fn any_lost(taken: &[LockGuard]) {
    sleep_until(Instant::now() + BRIEF_WAIT).await;
    match taken {
        [] => pending().await,
        taken => drop(select_all(taken.iter().map(|guard| Box::pin(guard.lost()))).await),
    }
}

/// Releases the locks acquired so far after the next one could not be acquired, and returns the errors.
async fn give_back(taken: Vec<LockGuard>, wait: Wait) -> Vec<Error> {
    wait.finish(release_all(taken)).await.unwrap_or_default()
}

inter_process_lock!(MultiLock);
