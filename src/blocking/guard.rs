//! The guard of a held lock, for threads.

use std::time::Duration;

use super::transaction::Transaction;
use super::wait::{wait, wait_within};
use crate::error::Result;

/// A held lock, or permits of a semaphore. The lock is released when its last guard is dropped or
/// [released](Self::release), on any thread. The blocking twin of [`LockGuard`](crate::LockGuard).
///
/// A thread cannot be stopped when the lock is lost. Check between steps of the work with
/// [`is_valid`](Self::is_valid), and protect what it writes with the [fencing token](Self::fencing_token) or a
/// [transaction](Self::transaction).
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    pub(super) inner: crate::LockGuard,
}

validity_twin!(LockGuard);

impl LockGuard {
    /// Returns a number that grows with every grant of the lock. See
    /// [`LockGuard::fencing_token`](crate::LockGuard::fencing_token).
    pub fn fencing_token(&self) -> i64 {
        self.inner.fencing_token()
    }

    /// Returns how often the lock was granted before by the same node. Does not block. See
    /// [`LockGuard::turn`](crate::LockGuard::turn).
    pub fn turn(&self) -> u64 {
        self.inner.turn()
    }

    /// Returns the full path of the node by which the lock is held, including the namespace. For a multi-lock,
    /// this is the node of its first member.
    pub fn node_path(&self) -> &str {
        self.inner.node_path()
    }

    /// Returns the async guards of a multi-lock's members, or of several permits. See
    /// [`LockGuard::members`](crate::LockGuard::members).
    pub fn members(&self) -> &[crate::LockGuard] {
        self.inner.members()
    }

    /// Splits the guard of several permits into a guard of each. Any other guard stays as it is. See
    /// [`LockGuard::into_permits`](crate::LockGuard::into_permits).
    pub fn into_permits(self) -> Vec<Self> {
        self.inner.into_permits().into_iter().map(Self::from).collect()
    }

    /// Returns the number of guards on this hold. It is more than one after the thread has re-entered the lock.
    pub fn hold_count(&self) -> usize {
        self.inner.hold_count()
    }

    /// Starts a transaction of writes to ZooKeeper that are applied only while the lock is held, whatever this
    /// process believes.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self.inner.transaction())
    }

    /// Returns how much longer the lock can be held. Does not block. See
    /// [`LockGuard::remaining_hold`](crate::LockGuard::remaining_hold).
    pub fn remaining_hold(&self) -> Option<Duration> {
        self.inner.remaining_hold()
    }

    /// Sets the remaining hold time. Does not block. See [`LockGuard::extend`](crate::LockGuard::extend).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn extend(&self, max_hold: Duration) -> Result<()> {
        self.inner.extend(max_hold)
    }

    /// Blocks the thread until another client asks for the lock. The blocking version of
    /// [`LockGuard::revoke_requested`](crate::LockGuard::revoke_requested).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn revoke_requested(&self) -> Result<()> {
        wait(self.inner.revoke_requested())
    }

    /// Blocks the thread until another client asks for the lock, for at most `within`. Returns whether one has
    /// asked.
    ///
    /// # Errors
    /// Same as [`revoke_requested`](Self::revoke_requested).
    pub fn revoke_requested_within(&self, within: Duration) -> Result<bool> {
        Ok(wait_within(within, self.inner.revoke_requested())?.is_some())
    }

    /// Releases the lock, blocking the thread for the round trip. The blocking version of
    /// [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    ///   The lock is then released in the background.
    pub fn release(self) -> Result<()> {
        wait(self.inner.release())
    }
}
