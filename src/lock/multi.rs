//! Several locks as one.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select, select_all};
use tokio::time::Instant;

use super::InterProcessLock;
use super::deadline::from_now;
use super::methods::inter_process_lock;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::{Client, sleep_until};
use crate::error::{Error, Result};
use crate::lock::acquiring::attempt::{self, Contending, Entry, LEAVE_GRACE};
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::holding::guard::{LockGuard, release_all};
use crate::lock::operating::participant::Participant;
use crate::queue::{Caller, Joint, Kind, MUTEX};

/// Whoever waits for longer than this has what it was given so far watched.
const BRIEF_WAIT: Duration = Duration::from_millis(100);

/// Several locks that one holds all of, or none.
///
/// They are taken in the order of their paths, whatever the order they are given in, so that two multi-locks
/// cannot wait for each other. One deadline bounds the whole acquire. What was taken is given back if the rest
/// cannot be had.
///
/// A multi-lock of [plain paths](Self::new) enters all queues in one transaction, which is one round trip if
/// nobody is to be waited for; with old servers (before 3.8.2) it is two. Where it has to wait, it leaves the
/// queues after that one and enters them again when its turn has come. Curator needs two round trips for each
/// path. A release is a delete for each, all sent at once.
///
/// Compatible with other users of each path, and with Curator's `InterProcessMultiLock` if that is given the
/// paths in their order: it takes them in the order given.
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
/// Source: Curator's `InterProcessMultiLock`.
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
    /// The locks at these paths, below the client's namespace, as those of an
    /// [`InterProcessMutex`](crate::InterProcessMutex) each. Nothing is sent. Re-entrant, as they are: an
    /// owner that holds them all through this object can acquire them again.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::InvalidArgument`]: no paths, or one of them twice.
    pub fn new<P: AsRef<str>>(client: &Client, paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let member = |path: P| Reentrant::new(client, path.as_ref(), &MUTEX, Kind::Exclusive);
        let mut members = paths.into_iter().map(member).collect::<Result<Vec<_>>>()?;
        let path = in_order(&mut members, Reentrant::path)?;
        Ok(Self { members: Members::Joint(members.into()), path })
    }

    /// These locks, of whatever kind and of whatever client, taken one after the other in the order of their
    /// paths. Those of the same path are refused, also where their clients have different servers.
    ///
    /// When the last one is granted, the servers are asked whether all are still held, which is one round trip
    /// more. If one was lost meanwhile, it starts anew; while it waits for another, as soon as it hears of that.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: no locks, or two with the same path.
    pub fn of(locks: impl IntoIterator<Item = Arc<dyn InterProcessLock>>) -> Result<Self> {
        let mut members: Vec<_> = locks.into_iter().collect();
        let path = in_order(&mut members, |lock| lock.path())?;
        Ok(Self { members: Members::Mixed(members.into()), path })
    }

    /// The same lock object, whose acquires have these options.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: a maximum hold time of zero; or the members are locks that were given, with
    /// options of their own.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        let Members::Joint(members) = &self.members else {
            let reason = "set them on the locks that this one is made of".into();
            return Err(Error::InvalidArgument { argument: "options", reason });
        };
        let members =
            members.iter().map(|member| member.with_options(options.clone())).collect::<Result<_>>()?;
        Ok(Self { members: Members::Joint(members), path: self.path.clone() })
    }

    /// Acquires all locks for the current task, waiting for as long as it takes.
    ///
    /// # Errors
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire), or as the lock that failed.
    /// [`Error::Several`]: and giving back what was taken failed as well, before it was confirmed.
    ///
    /// # Cancel safety
    /// The places in the queues are lost, and nothing stays behind: no node and no watch.
    pub async fn acquire(&self) -> Result<LockGuard> {
        match &self.members {
            Members::Joint(members) => {
                attempt::acquire(members[0].client(), |caller| enter(members, caller)).await
            }
            Members::Mixed(locks) => loop {
                if let Some(guard) = take_each(locks, Patience::Endless).await? {
                    return Ok(guard);
                }
            },
        }
    }

    /// Acquires all locks for the current task if nobody is to be waited for; `None` otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        match &self.members {
            Members::Joint(members) => {
                attempt::try_acquire(members[0].client(), |caller| enter(members, caller)).await
            }
            Members::Mixed(locks) => take_each(locks, Patience::None).await,
        }
    }

    /// Acquires all locks for the current task if that can be done within this time; `None` if it waited for others for
    /// all of it.
    ///
    /// The time bounds everything, also while the servers are down or silent. Giving back at its end may take
    /// a round trip more, 100 ms at most for plain paths. Zero is [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NotConnected`] also if a queue was not reached within this time: then it is
    /// not known whether anybody else has its lock.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        match &self.members {
            Members::Joint(members) => {
                attempt::try_acquire_for(members[0].client(), within, |caller| enter(members, caller)).await
            }
            Members::Mixed(_) if within.is_zero() => self.try_acquire().await,
            Members::Mixed(locks) => take_each(locks, Patience::Until(from_now(within))).await,
        }
    }

    /// Whether anybody holds any of the locks, in whatever process. Nobody holds one whose path
    /// [does not exist](Self::path_exists), which is no error.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] and [`Error::NotConnected`] when a queue cannot be read; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.holder().await?.is_some())
    }

    /// Who holds the first of the locks that anybody holds, in whatever process. `None` also if their paths
    /// [do not exist](Self::path_exists).
    ///
    /// # Errors
    /// As [`is_locked`](Self::is_locked).
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
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

    /// Whether the paths of all the locks exist, to tell locks that are free from a path that is mistyped. See
    /// [`InterProcessMutex::path_exists`](crate::InterProcessMutex::path_exists).
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] and [`Error::NotConnected`] when one cannot be looked for; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
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

    /// Whether each of the locks is held through its lock object. No request is made.
    pub fn is_acquired_in_this_process(&self) -> bool {
        match &self.members {
            Members::Joint(members) => members.iter().all(Reentrant::is_acquired_in_this_process),
            Members::Mixed(locks) => locks.iter().all(|lock| lock.is_acquired_in_this_process()),
        }
    }

    /// The full paths of the locks in their order, namespaces included, separated by commas.
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

/// Brings members into the order of their paths, and returns the paths.
///
/// # Errors
/// [`Error::InvalidArgument`]: there are none, or one is there twice.
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

/// The acquire of an owner who waits.
#[derive(Debug)]
struct Turn {
    members: Arc<[Reentrant]>,
    owner: Owner,
    joint: Joint,
    /// What the owner has come to hold meanwhile, through another acquire.
    entered: Option<LockGuard>,
}

/// Another guard on what the owner holds already, if that is all.
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
    let joint = Joint::enter(&queues, members[0].options().data(), caller).await?;
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
        // What was lost is no reason to wait no longer.
        let enter_again = || ready(Ok(enter_again(members, owner).unwrap_or_default()));
        *entered = waiting.until(pin!(joint.wait()), enter_again).await?;
        Ok(())
    }

    async fn leave(self) -> Result<()> {
        Error::all(self.joint.leave().await).map_or(Ok(()), Err)
    }
}

/// For how long others are waited for.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Until(Instant),
    Endless,
}

impl Patience {
    async fn take(self, lock: &dyn InterProcessLock) -> Result<Option<LockGuard>> {
        match self {
            Self::None => lock.try_acquire().await,
            Self::Until(deadline) => {
                let within = deadline.saturating_duration_since(Instant::now());
                // At the very deadline that is a try, which has no bound of its own.
                self.finish(lock.try_acquire_for(within)).await.unwrap_or(Ok(None))
            }
            Self::Endless => lock.acquire().await.map(Some),
        }
    }

    /// What is to be done in the end, as far as there is time for it.
    async fn finish<T>(self, last: impl Future<Output = T>) -> Option<T> {
        match self {
            Self::None | Self::Endless => Some(last.await),
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

/// Takes one lock after the other, and all of them anew if one is lost while waiting for another.
async fn take_each(locks: &[Arc<dyn InterProcessLock>], patience: Patience) -> Result<Option<LockGuard>> {
    'anew: loop {
        let mut taken = Vec::with_capacity(locks.len());
        for lock in locks {
            let next = tokio::select! {
                biased;
                next = patience.take(&**lock) => next,
                () = any_lost(&taken) => continue 'anew,
            };
            match next {
                Ok(Some(guard)) => taken.push(guard),
                Ok(None) => {
                    let mut failed = give_back(taken, patience).await;
                    // What is lost already needs no giving back.
                    failed.retain(|error| !matches!(error, Error::LockLost { .. }));
                    return Error::all(failed).map_or(Ok(None), Err);
                }
                Err(error) => {
                    let mut failed = give_back(taken, patience).await;
                    failed.retain(|other| *other != error);
                    return Err(error.with(failed));
                }
            }
        }
        let guard = LockGuard::of_all(taken);
        if patience.finish(guard.look()).await.is_none() {
            return Ok(None);
        }
        if guard.loss().is_none() {
            return Ok(Some(guard));
        }
    }
}

/// Waits until one of them is lost, if that takes long enough for their nodes to be worth a watch each.
async fn any_lost(taken: &[LockGuard]) {
    sleep_until(Instant::now() + BRIEF_WAIT).await;
    match taken {
        [] => pending().await,
        taken => drop(select_all(taken.iter().map(|guard| Box::pin(guard.lost()))).await),
    }
}

/// Gives back what was taken when the rest could not be had, and returns what went wrong.
async fn give_back(taken: Vec<LockGuard>, patience: Patience) -> Vec<Error> {
    patience.finish(release_all(taken)).await.unwrap_or_default()
}

inter_process_lock!(MultiLock);
