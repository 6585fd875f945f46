//! A place in the queue of a lock, for threads.

use super::guard::LockGuard;
use super::twin::twin;
use super::wait::wait;
use super::watch::Watch;
use crate::error::Result;

/// A place in the queue of a lock. Dropping it leaves the queue. See [`Ticket`](crate::Ticket).
///
/// ```no_run
/// # fn example(mutex: zk_recipes::blocking::InterProcessMutex) -> zk_recipes::Result<()> {
/// let ticket = mutex.enqueue()?;
/// println!("{} before us", ticket.position()?);
/// let guard = ticket.acquired()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "if unused, the place in the queue is given up at once"]
pub struct Ticket {
    inner: crate::Ticket,
}

twin!(Ticket);

impl Ticket {
    /// As [`Ticket::position`](crate::Ticket::position), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn position(&self) -> Result<usize> {
        wait(self.inner.position())
    }

    /// As [`Ticket::watch_position`](crate::Ticket::watch_position), for another thread than the one that waits.
    pub fn watch_position(&self) -> Watch<usize> {
        self.inner.watch_position().into()
    }

    /// As [`Ticket::acquired`](crate::Ticket::acquired), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime): then the place is given up.
    pub fn acquired(self) -> Result<LockGuard> {
        wait(self.inner.acquired()).map(LockGuard::from)
    }
}
