//! A place in the queue of a lock, for threads.

use super::guard::LockGuard;
use super::wait::wait;
use crate::error::Result;
use crate::watch::Watch;

/// A place in the queue of a lock. Dropping it leaves the queue. The blocking twin of [`Ticket`](crate::Ticket).
///
/// ```no_run
/// # fn example(mutex: zk_recipes::blocking::InterProcessMutex) -> zk_recipes::Result<()> {
/// let ticket = mutex.enqueue()?;
/// println!("{} before us", ticket.position()?);
/// let guard = ticket.acquired()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "if unused, the place in the queue is given up at once"]
pub struct Ticket {
    inner: crate::Ticket,
}

twin!(Ticket);

impl Ticket {
    /// Returns the number of contenders ahead of this one. The blocking version of
    /// [`Ticket::position`](crate::Ticket::position).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn position(&self) -> Result<usize> {
        wait(self.inner.position())
    }

    /// Follows the position, for use on a thread other than the waiting one. See
    /// [`Ticket::watch_position`](crate::Ticket::watch_position).
    pub fn watch_position(&self) -> Watch<usize> {
        self.inner.watch_position()
    }

    /// Blocks the thread until it is this contender's turn, and returns the lock. The blocking version of
    /// [`Ticket::acquired`](crate::Ticket::acquired).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    ///   The place is then given up.
    pub fn acquired(self) -> Result<LockGuard> {
        wait(self.inner.acquired()).map(LockGuard::from)
    }
}
