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
/// Fair: first in, first out. Compatible with Curator's `InterProcessMutex` and go-zookeeper's `Lock` on the same
/// path, in both directions.
///
/// Re-entrant: an [`Owner`] (by default the tokio task) that holds the lock can acquire it again through the same
/// object. The lock is released with the last of its guards. The lock therefore does not exclude futures of one
/// task from each other, unless each of them acquires it [for an owner of its own](Self::acquire_as).
///
/// This is a handle that can be cloned; clones are the same lock object. Two objects on one path, in one process
/// or in two, are two separate contenders. For one lock per id, created where you need it, use
/// [`Locks`](crate::Locks).
///
/// # Requests
///
/// An acquire is one create, provided that the lock is uncontended and that no other client has entered the queue
/// since this client last did; otherwise a list is sent directly behind the create. A release is one delete. A
/// re-entrant acquire makes no request. Within a client, a release wakes the next waiter immediately. Of each
/// client, only the first waiter in the queue sets watches: on its predecessor, and on its own node or on the
/// contender before its predecessor. Curator needs two round trips to acquire the lock and one to release it.
///
/// From the second acquire on, and as long as the client has a lock object for the path, the path itself is
/// watched, to notice that it is removed and created again.
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
/// Corresponds to Curator's `InterProcessMutex` and `LockInternals`; see also the lock recipe of "ZooKeeper
/// Recipes and Solutions".
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct InterProcessMutex {
    lock: Reentrant,
}

impl InterProcessMutex {
    /// Creates a lock at `path`, below the client's namespace. Makes no request. The first acquire creates the
    /// path and its parents as containers, which the server removes after they have been empty for a while.
    ///
    /// The path must not be used for anything else, nor by another kind of recipe.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { lock: Reentrant::new(client, path, &MUTEX, Kind::Exclusive)? })
    }

    /// Returns the lock object that this function shares among all callers for the path.
    pub(super) fn shared(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { lock: Reentrant::shared(client, path, &MUTEX, Kind::Exclusive)? })
    }

    /// Returns whether both are the same lock object.
    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.lock.is_same(&other.lock)
    }
}

reentrant_lock!(InterProcessMutex);
