//! The mutual exclusion lock.

use std::time::Duration;

use super::methods::reentrant_lock;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::Client;
use crate::error::Result;
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::acquiring::ticket::Ticket;
use crate::lock::holding::guard::LockGuard;
use crate::lock::operating::participant::Participant;
use crate::queue::{Kind, MUTEX};

/// A lock that one owner at a time holds, among all processes that use the same path.
///
/// Fair: first in, first out. Compatible with Curator's `InterProcessMutex` and go-zookeeper's `Lock` on the
/// same path, in both directions.
///
/// Re-entrant: an [`Owner`], by default the tokio task, that holds the lock can acquire it again through the
/// same object; the last of its guards releases. So it does not exclude futures of one task from each other,
/// unless each acquires it [for an owner of its own](Self::acquire_as).
///
/// A handle that can be cloned; clones are the same lock object. Two objects on one path, in one process or
/// in two, are two parties to the lock. To have one lock for each of many ids, and to make it where you need it, use
/// [`Locks`](crate::Locks).
///
/// On the wire, an acquire is a create, if nobody is before it and no other client has been in the queue since
/// this one was; otherwise a list is sent right behind the create. A release is a delete; a re-entrant acquire is
/// nothing. Within a client a release lets the next one in at once. The first of its client in the queue
/// watches the contender before it and its own node, or the last but one before it. Curator needs two round trips to
/// acquire, and one to release.
///
/// From the second acquire on, and for as long as there is a lock object for it in the client, the path itself is
/// watched for being removed and made again.
///
/// ```no_run
/// use zk_recipes::{Client, InterProcessMutex};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/orders")?;
///
/// let guard = mutex.acquire().await?;
/// println!("we hold it, with token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Sources: Curator's `InterProcessMutex` and `LockInternals`; the lock recipe of "ZooKeeper Recipes and
/// Solutions".
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct InterProcessMutex {
    lock: Reentrant,
}

impl InterProcessMutex {
    /// A lock at `path`, below the client's namespace. Nothing is sent. The path and its parents are made by
    /// the first acquire, as containers: the server removes them when they have been empty for a while.
    ///
    /// The path must be used for nothing else, and by no other kind of recipe.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath).
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { lock: Reentrant::new(client, path, &MUTEX, Kind::Exclusive)? })
    }

    /// The same lock object as all that this gives for the path.
    pub(super) fn shared(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { lock: Reentrant::shared(client, path, &MUTEX, Kind::Exclusive)? })
    }

    /// Whether it is the same lock object.
    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.lock.is_same(&other.lock)
    }
}

reentrant_lock!(InterProcessMutex);
