//! A lock over independent ensembles.

mod by_majority;

use std::sync::Arc;
use std::time::Duration;

use self::by_majority::Member;
use super::options::LockOptions;
use crate::client::Client;
use crate::ensembles::Ensembles;
use crate::error::{Error, Result};
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::acquiring::wait::{Wait, unending};
use crate::lock::holding::owners::Owners;
use crate::lock::holding::quorum_guard::QuorumGuard;
use crate::queue::{MUTEX, Quorum};

/// How long an ensemble may take to answer by default.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A lock over independent ensembles. Its holder is the client that holds it on more than half of them.
///
/// It outlives the loss of any minority of the ensembles, during an acquire and during a hold. **One ensemble with its
/// servers in three zones does so, too, at a lower price**, so read [when to use
/// which](crate::guide::scale#a-lock-over-independent-ensembles) first.
///
/// On each ensemble, its member is a mutex at the same path. One contender holds it at a time, since two majorities have
/// an ensemble in common. How long a hold is valid follows from the sessions, as for every lock of this crate, and from
/// no wall clock: this is what differs from Redlock.
///
/// ```no_run
/// use zk_recipes::{Client, Ensembles, QuorumLock};
///
/// # async fn settle(tokens: Vec<(&str, i64)>) {}
/// # async fn example() -> zk_recipes::Result<()> {
/// // Not `connect`, which fails if this ensemble is down. The lock does not need all of them.
/// let ensembles = Ensembles::new([
///     ("berlin", Client::connect_lazily("b1:2181,b2:2181,b3:2181")?),
///     ("oslo", Client::connect_lazily("o1:2181,o2:2181,o3:2181")?),
///     ("paris", Client::connect_lazily("p1:2181,p2:2181,p3:2181")?),
/// ])?;
/// let lock = QuorumLock::new(&ensembles, "/locks/settlement")?;
///
/// let guard = lock.acquire().await?;
/// // If the lock is lost, the work is stopped where it awaits.
/// guard.run(settle(guard.fencing_tokens().collect())).await?;
/// guard.release().await
/// # }
/// ```
///
/// # The same ensembles everywhere
///
/// All programs must use the same ensembles under the same names. The ensembles are taken in the order of their names,
/// whatever order you give them in, so contenders cannot deadlock. The path must be used by quorum locks only: a client
/// that holds it on a single ensemble, with an [`InterProcessMutex`](crate::InterProcessMutex), does not exclude the
/// holder of the quorum lock, but can make others wait.
///
/// Not re-entrant: an owner that acquires the lock again waits for itself.
///
/// # How it is acquired
///
/// The ensembles are taken one after the other, each first come, first served.
///
/// - An ensemble that does not answer within the [response timeout](Self::with_response_timeout) is skipped. So is one
///   whose connection is lost for that long while the call waits in its queue. After that, it is skipped immediately
///   until its client is connected again.
/// - One that answers, and whose lock another contender holds, is waited for. Once more than half of the ensembles are
///   held, each of the others is waited for only up to the response timeout.
/// - So all ensembles that answer are taken, not just a majority, and the hold outlives the loss of any minority of all.
/// - At the end, more than half of **all** ensembles must be held at the same moment, those that do not answer included.
///   A member that was lost while others were waited for does not count. If there are too few, what was taken is
///   released, and the call starts over after a random pause.
///
/// # Requests
///
/// An acquire without contention takes one round trip for each ensemble, one after the other; if the call had to wait,
/// one more to all of them together. A release is one round trip, to all of them together. An ensemble that has just
/// become silent costs the response timeout.
///
/// # Ensembles that lose their data
///
/// An ensemble that forgets its nodes, because its servers were set up anew or restored from a backup, forgets who holds
/// the lock, and can give it to another holder. Its fencing tokens begin again as well. ZooKeeper writes to disk before it
/// answers, so restarts and power failures are no such case. If it has happened, keep that ensemble disconnected from all
/// programs until no hold from before is left, and clear the tokens of it that resources have stored.
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct QuorumLock {
    /// In the order in which everybody takes them.
    members: Arc<[Member]>,
    quorum: Quorum,
    response_timeout: Duration,
}

debug_by!(QuorumLock, |it| paths: it.paths().collect::<Vec<_>>());

impl QuorumLock {
    /// Creates a lock over these ensembles, at `path` on each of them, below the namespace of its client. Makes no request.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the number of ensembles is even or less than three; or two of them are seen to be
    ///   the same: they have one client, their connect strings have a server in common, or their clients have
    ///   [adopted](crate::ClientBuilder::from_zookeeper) one session.
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    pub fn new(ensembles: &Ensembles<Client>, path: &str) -> Result<Self> {
        let refuse = |reason| Error::InvalidArgument { argument: "ensembles", reason };
        let mut ensembles: Vec<_> = ensembles.iter().collect();
        let quorum = Quorum::of(ensembles.len()).ok_or_else(|| {
            refuse(format!("there are {}; a majority needs an odd number, three at least", ensembles.len()))
        })?;
        ensembles.sort_unstable_by_key(|(name, _)| *name);
        for (index, (name, client)) in ensembles.iter().enumerate() {
            if let Some((same, _)) = ensembles[..index].iter().find(|(_, other)| client.has_servers_of(other))
            {
                return Err(refuse(format!("{same:?} and {name:?} are the same; give each its own servers")));
            }
        }
        let member = |(name, client): (&str, &Client)| {
            Ok(Member::new(name, Reentrant::new(client, path, &MUTEX, Owners::new, None)?))
        };
        let members = ensembles.into_iter().map(member).collect::<Result<_>>()?;
        Ok(Self { members, quorum, response_timeout: RESPONSE_TIMEOUT })
    }

    /// Returns a handle to the same lock object that acquires with these options on each ensemble.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: a time is zero, the node data is not allowed (see [`LockOptions::node_data`]), an
    ///   option is set that only an [`InterProcessMutex`](crate::InterProcessMutex) has, or a
    ///   [maximum hold time](LockOptions::max_hold), which would run while the next ensemble is waited for.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        if options.max_hold.is_some() {
            let reason = "a lock over several ensembles has none; release it when the time is over".into();
            return Err(Error::InvalidArgument { argument: "max_hold", reason });
        }
        let member =
            |member: &Member| Ok(Member::new(&member.name, member.lock.with_options(options.clone())?));
        Ok(Self { members: self.members.iter().map(member).collect::<Result<_>>()?, ..self.clone() })
    }

    /// Returns a handle to the same lock object that skips an ensemble if it does not answer for this long. Two seconds by
    /// default.
    ///
    /// Give it more than an answer takes across the slowest link, and than an ensemble needs to elect a leader, if such a
    /// moment is not to cost a member. It does not bound the wait for a holder.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: it is zero.
    pub fn with_response_timeout(&self, response_timeout: Duration) -> Result<Self> {
        if response_timeout.is_zero() {
            let reason = "it must be greater than zero, or no ensemble could answer in time".into();
            return Err(Error::InvalidArgument { argument: "response timeout", reason });
        }
        Ok(Self { response_timeout, ..self.clone() })
    }

    /// Acquires the lock, waiting until it is available and more than half of the ensembles answer, however long that
    /// takes.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: one of the ensembles refuses the request, for example because permission is missing. That an
    ///   ensemble cannot be reached is no error.
    /// - [`Error::KindConflict`]: another kind of recipe uses this path on one of them.
    /// - [`Error::SessionOver`]: so many adopted sessions have ended that the others are no majority.
    /// - [`Error::Closed`]: one of the clients is closed.
    ///
    /// # Cancel safety
    /// If cancelled, the places in the queues are given up, and neither a node nor a watch is left behind.
    pub async fn acquire(&self) -> Result<QuorumGuard> {
        unending(self.acquire_by_majority(Wait::Forever).await)
    }

    /// Acquires the lock if more than half of the ensembles grant it immediately; returns `None` otherwise. Goes through
    /// the ensembles once.
    ///
    /// If several contenders try at the same time, it can happen that none of them is granted a majority.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and:
    /// - [`Error::NotConnected`]: more than half of the ensembles did not answer in time, so it is unknown whether another
    ///   owner holds the lock.
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left behind.
    pub async fn try_acquire(&self) -> Result<Option<QuorumGuard>> {
        self.acquire_by_majority(Wait::No).await
    }

    /// Acquires the lock, waiting at most `within`. Returns `None` if that time elapsed in the queues.
    ///
    /// If more than half of the ensembles are held when the time elapses, the lock is acquired. To release what was taken
    /// in vain may take another round trip, at most 100 ms, and as much again if members were lost meanwhile. Zero is the
    /// same as [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// Same as [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<QuorumGuard>> {
        self.acquire_by_majority(Wait::at_most(within)).await
    }

    /// Returns the names of the ensembles, and the full path of the lock on each, including the namespace, in the order
    /// in which they are taken.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().map(|member| (&*member.name, member.lock.path()))
    }
}
