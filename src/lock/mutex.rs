//! The mutual exclusion lock.

use super::inter_process_lock::inter_process_lock;
use super::methods::reentrant_methods;
use super::options::LockOptions;
use crate::client::Client;
use crate::error::Result;
use crate::lock::acquiring::acquirable::Acquirable;
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::holding::guard::LockGuard;
use crate::lock::holding::owners::Owners;
use crate::queue::MUTEX;

/// A lock that one owner at a time holds, among all processes that use the same path.
///
/// Fair: first come, first served. The place of a caller that gives up may go to another caller of the same client.
/// Compatible with Curator's `InterProcessMutex` and go-zookeeper's `Lock` on the same path, in both directions.
///
/// Re-entrant: an [`Owner`](crate::Owner) (by default the tokio task) that holds the lock can acquire it again through the same
/// object. The lock is released with the last of its guards. The lock therefore does not exclude futures of one
/// task from each other, unless each of them acquires it [for an owner of its own](Self::owned_by).
///
/// This is a handle that can be cloned; clones are the same lock object. Two objects on one path, in one process
/// or in two, are two separate contenders. For one lock per id, created where you need it, use
/// [`Locks`](crate::Locks).
///
/// # Requests
///
/// An acquire is one create, provided that the lock is uncontended and that no other client has entered the queue since
/// this client last did; otherwise a list is sent directly behind the create. A release is one delete. A re-entrant
/// acquire makes no request. Within a client, a release wakes the next waiter immediately. Each waiter watches its own
/// node; of each client, only the first waiter in the queue watches others: its predecessor and, if there is one, the
/// contender before that. It also asks for that node once within one to two session timeouts, in case the servers do not tell
/// of its end. A node that others of its client have waited behind for a second is watched and asked for as well. Curator
/// needs two round trips to acquire the lock and one to release it.
///
/// With [`LockOptions::linger`], a client acquires the lock again without a request, as long as no one else has come.
/// With [`LockOptions::cohort`], the tasks of a client hand the lock on among themselves without a request.
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
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct InterProcessMutex {
    lock: Reentrant,
}

debug_by!(InterProcessMutex, |it| path: it.path());
reentrant_methods!(InterProcessMutex);

impl InterProcessMutex {
    /// Creates a lock at `path`, below the client's namespace. Makes no request. The first acquire creates the
    /// path and its parents as containers, which the server removes after they have been empty for a while.
    ///
    /// The path must not be used for anything else, nor by another kind of recipe.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { lock: Reentrant::new(client, path, &MUTEX, Owners::new, None)? })
    }

    /// Returns the lock object that this function shares among all callers for the path.
    pub(super) fn shared(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { lock: Reentrant::new(client, path, &MUTEX, Owners::shared, None)? })
    }

    pub(super) fn reentrant(&self) -> &Reentrant {
        &self.lock
    }

    /// Returns a handle to the same lock object that acquires with these options. By default an acquire
    /// has no maximum hold time, and its node data is the client's identity.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): a time or the cohort is zero, there is a
    ///   time of the cohort without a cohort, or the node data is not allowed (see
    ///   [`LockOptions::node_data`](crate::LockOptions::node_data)).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { lock: self.lock.with_options_of_mutex(options)? })
    }

    /// Acquires the lock, waiting until it is available.
    ///
    /// The owner is the current tokio task; outside of a task, the thread. Under another executor, all futures that run
    /// on one thread are therefore one owner and re-enter each other's locks; give each an [`Owner`](crate::Owner) there,
    /// with [`owned_by`](Self::owned_by).
    ///
    /// If the owner acquires the lock through another call or ticket while this call waits, this call
    /// re-enters the lock and gives up its place in the queue.
    ///
    /// A lost connection, an expired session or a deleted node does not end the wait. The place in the
    /// queue is kept as long as the session lives; otherwise the wait continues from the end of the queue.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the server refuses the request, for example
    ///   because permission is missing, which is reported immediately; or it cannot be reached, and the
    ///   client's [retry policy](crate::RetryPolicy) is exhausted.
    /// - [`Error::NotConnected`](crate::Error::NotConnected): the server cannot be reached, the retry
    ///   policy is exhausted, and nothing could be sent.
    /// - [`Error::WouldDeadlock`](crate::Error::WouldDeadlock): the same owner holds this path through
    ///   another lock object of this client, or holds the read lock while acquiring the write lock. Or other owners of
    ///   this client, for whom it would wait, wait for what it holds; only with
    ///   [`LockOptions::detect_deadlocks`](crate::LockOptions::detect_deadlocks).
    /// - [`Error::KindConflict`](crate::Error::KindConflict): another kind of recipe uses this path.
    ///   Either a contender of that kind comes first in the queue, or this client has acquired the path
    ///   through a lock object of that kind that still exists.
    /// - [`Error::LockLost`](crate::Error::LockLost): the owner already held the lock, and that hold was
    ///   lost.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed, or is closed while waiting.
    ///
    /// # Cancel safety
    /// If cancelled, the place in the queue is given up, and neither a node nor a watch is left behind.
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.lock.acquire().await
    }

    /// Returns whether both are the same lock object.
    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.lock.is_same(&other.lock)
    }
}

inter_process_lock!(InterProcessMutex, |it| it.lock.client());
