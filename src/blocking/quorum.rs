//! A lock over independent ensembles, for threads.

use std::time::Duration;

use super::client::Client;
use super::wait::wait;
use crate::ensembles::Ensembles;
use crate::error::Result;
use crate::lock::LockOptions;

/// A lock over independent ensembles. Its holder is the client that holds it on more than half of them. The blocking
/// twin of [`QuorumLock`](crate::QuorumLock).
///
/// ```no_run
/// use zk_recipes::Ensembles;
/// use zk_recipes::blocking::{Client, QuorumLock};
///
/// # fn example(ensembles: Ensembles<Client>) -> zk_recipes::Result<()> {
/// let lock = QuorumLock::new(&ensembles, "/locks/settlement")?;
/// let guard = lock.acquire()?;
/// println!("{:?}", guard.fencing_tokens().collect::<Vec<_>>());
/// guard.release()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct QuorumLock {
    inner: crate::QuorumLock,
}

twin!(QuorumLock);

/// A held [`QuorumLock`]. The lock is released when the guard is dropped or [released](Self::release), on any thread. The
/// blocking twin of [`QuorumGuard`](crate::QuorumGuard).
///
/// A thread cannot be stopped when the lock is lost. Check between steps of the work with
/// [`is_valid`](Self::is_valid), and protect what it writes with the [fencing tokens](Self::fencing_tokens).
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct QuorumGuard {
    inner: crate::QuorumGuard,
}

validity_twin!(QuorumGuard);

impl QuorumLock {
    /// Creates a lock over these ensembles, at `path` on each of them. Does not block. See
    /// [`QuorumLock::new`](crate::QuorumLock::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(ensembles: &Ensembles<Client>, path: &str) -> Result<Self> {
        let ensembles = Ensembles::new(ensembles.iter().map(|(name, client)| (name, client.inner.clone())))?;
        crate::QuorumLock::new(&ensembles, path).map(Self::from)
    }

    /// Returns a handle to the same lock object that acquires with these options on each ensemble.
    ///
    /// # Errors
    /// Same as [`QuorumLock::with_options`](crate::QuorumLock::with_options).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        self.inner.with_options(options).map(Self::from)
    }

    /// Returns a handle to the same lock object that skips an ensemble if it does not answer for this long.
    ///
    /// # Errors
    /// Same as [`QuorumLock::with_response_timeout`](crate::QuorumLock::with_response_timeout).
    pub fn with_response_timeout(&self, response_timeout: Duration) -> Result<Self> {
        self.inner.with_response_timeout(response_timeout).map(Self::from)
    }

    /// Acquires the lock, blocking the thread until it is available and more than half of the ensembles answer. The
    /// blocking version of [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn acquire(&self) -> Result<QuorumGuard> {
        wait(self.inner.acquire()).map(QuorumGuard::from)
    }

    /// Acquires the lock if more than half of the ensembles grant it immediately; returns `None` otherwise. Blocks the
    /// thread for the round trips. The blocking version of
    /// [`QuorumLock::try_acquire`](crate::QuorumLock::try_acquire).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn try_acquire(&self) -> Result<Option<QuorumGuard>> {
        Ok(wait(self.inner.try_acquire())?.map(QuorumGuard::from))
    }

    /// Acquires the lock, blocking the thread for at most `within`. Returns `None` if that time elapsed in the queues. The
    /// blocking version of [`QuorumLock::try_acquire_for`](crate::QuorumLock::try_acquire_for).
    ///
    /// # Errors
    /// Same as [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_for(&self, within: Duration) -> Result<Option<QuorumGuard>> {
        Ok(wait(self.inner.try_acquire_for(within))?.map(QuorumGuard::from))
    }

    /// Returns the names of the ensembles, and the full path of the lock on each, in the order in which they are taken.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &str)> {
        self.inner.paths()
    }
}

impl QuorumGuard {
    /// Returns the ensembles on which the lock was granted, with the async guard of each. See
    /// [`QuorumGuard::members`](crate::QuorumGuard::members).
    pub fn members(&self) -> impl Iterator<Item = (&str, &crate::LockGuard)> {
        self.inner.members()
    }

    /// Returns the fencing token of each ensemble on which the lock was granted. See
    /// [`QuorumGuard::fencing_tokens`](crate::QuorumGuard::fencing_tokens) for how to compare them.
    pub fn fencing_tokens(&self) -> impl Iterator<Item = (&str, i64)> {
        self.inner.fencing_tokens()
    }

    /// Releases the lock on all ensembles, blocking the thread until those that answer have confirmed it. The blocking
    /// version of [`QuorumGuard::release`](crate::QuorumGuard::release).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    ///   The lock is then released in the background.
    pub fn release(self) -> Result<()> {
        wait(self.inner.release())
    }
}
