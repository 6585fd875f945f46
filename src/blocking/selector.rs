//! A candidate that does a piece of work while it leads, on a thread.

use std::borrow::Cow;

use super::candidate::candidate;
use super::client::Client;
use super::leadership::Leadership;
use super::twin::twin;
use super::wait::wait;
use super::watch::Watch;
use crate::error::{Result, WorkError};
use crate::leader::{LeaderOptions, LeaderState};
use crate::lock::Participant;

/// A candidate for the leadership among all processes that use the same path, which calls a closure while it leads, on a
/// thread of its own for each term. See [`LeaderSelector`](crate::LeaderSelector).
///
/// The closure cannot be stopped. When it is to end, [`Leadership::is_resigning`] says so, and the node stays until it has
/// returned, or the session ends. When the leadership is lost, [`Leadership::is_valid`] says so: another one may lead from
/// then on, while the closure goes on. It is not called again before it has returned.
///
/// It does not keep the client open: the drop of the last handle of the client, and of all made from it, asks it to end.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::LeaderOptions;
/// use zk_recipes::blocking::{Client, LeaderSelector};
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// # fn step(_token: i64) -> std::io::Result<()> { Ok(()) }
/// # fn wait_for_the_end() {}
/// let options = LeaderOptions::new().id("node-7");
/// let _selector = LeaderSelector::start(&client, "/leaders/imports", options, |leadership| {
///     while !leadership.is_resigning() && leadership.is_valid() {
///         step(leadership.fencing_token())?;
///     }
///     Ok::<(), std::io::Error>(())
/// })?;
/// wait_for_the_end();
/// client.close()
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "if unused, the candidate leaves the election at once"]
pub struct LeaderSelector {
    inner: crate::LeaderSelector,
}

impl LeaderSelector {
    /// As [`LeaderSelector::start`](crate::LeaderSelector::start), for work that blocks. It does not block itself, and needs
    /// no runtime.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath). What goes wrong later shows in [`watch`](Self::watch).
    pub fn start<W, E>(client: &Client, path: &str, options: LeaderOptions, work: W) -> Result<Self>
    where
        W: FnMut(Leadership) -> Result<(), E> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::start_queueing(client, path, &options, true, work)
    }

    /// As [`LeaderSelector::start_once`](crate::LeaderSelector::start_once), for work that blocks.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_once<W, E>(client: &Client, path: &str, options: LeaderOptions, work: W) -> Result<Self>
    where
        W: FnMut(Leadership) -> Result<(), E> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::start_queueing(client, path, &options, false, work)
    }

    fn start_queueing<W, E>(
        client: &Client,
        path: &str,
        options: &LeaderOptions,
        is_automatic: bool,
        mut work: W,
    ) -> Result<Self>
    where
        W: FnMut(Leadership) -> Result<(), E> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let work = move |leadership: crate::Leadership| work(leadership.into()).map_err(WorkError::new);
        crate::LeaderSelector::start_on_threads(&client.inner, path, options, is_automatic, work)
            .map(Self::from)
    }

    /// As [`LeaderSelector::requeue`](crate::LeaderSelector::requeue). It does not block.
    pub fn requeue(&self) -> bool {
        self.inner.requeue()
    }

    /// Asks the work to end if it runs, so that the next one leads. It does not block.
    pub fn interrupt_leadership(&self) {
        self.inner.interrupt_leadership();
    }

    /// As [`LeaderSelector::close`](crate::LeaderSelector::close), and blocks the thread until the work has ended. At
    /// the end of a program, close the client instead.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime): then it is not closed.
    pub fn close(&self) -> Result<()> {
        wait(self.inner.close())
    }
}

candidate!(LeaderSelector);
