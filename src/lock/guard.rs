//! What a holder holds.

use std::fmt;
use std::sync::Arc;

use super::hold::Hold;
use crate::error::Result;

/// A held lock. It is released when its last guard is dropped or [released](Self::release).
///
/// A guard belongs to no task and no thread: it can be moved anywhere and dropped anywhere, also outside of
/// the runtime. A guard that is leaked (`std::mem::forget`) holds the lock until the session ends.
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    hold: Arc<Hold>,
}

impl LockGuard {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
        Self { hold }
    }

    /// A number that grows with every grant of the lock: hand it to what the lock protects, and have that
    /// refuse numbers smaller than the greatest it has seen.
    ///
    /// It is the `czxid` of the holder's node: the transaction that created it. Guards of one hold have the
    /// same token. Tokens of one ensemble can be compared across all paths and processes.
    pub fn fencing_token(&self) -> i64 {
        self.hold.token()
    }

    /// The full path of the node by which the lock is held, namespace included.
    pub fn node_path(&self) -> &str {
        self.hold.node_path()
    }

    /// How many guards there are on this hold. More than one after the owner has entered again.
    pub fn hold_count(&self) -> usize {
        Arc::strong_count(&self.hold)
    }

    /// Releases the lock and waits for ZooKeeper's confirmation. A guard that is not the last one of its
    /// hold only counts down, without a request.
    ///
    /// Dropping a guard releases as well: the request is sent at once, and repeated in the background until
    /// it is done. Release explicitly to know when others can have the lock, or that it was lost before.
    ///
    /// # Errors
    /// - [`Error::LockLost`](crate::Error::LockLost): the lock had been lost before.
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the server refuses, or cannot be reached under the
    ///   client's retry policy; then the background goes on trying.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// The lock is released in any case, in the background if this is cancelled.
    pub async fn release(self) -> Result<()> {
        // Exactly one of several guards that are released at the same time is the last.
        match Arc::into_inner(self.hold) {
            Some(hold) => hold.release().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("node_path", &self.node_path())
            .field("fencing_token", &self.fencing_token())
            .field("hold_count", &self.hold_count())
            .finish_non_exhaustive()
    }
}
