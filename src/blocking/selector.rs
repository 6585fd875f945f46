//! A candidate that runs a piece of work on a thread while it leads.

use super::client::Client;
use super::leadership::Leadership;
use super::wait::wait;
use crate::error::{Result, WorkError};
use crate::leader::LeaderOptions;

/// A candidate for the leadership among all processes that use the same path, which calls a closure while it
/// leads, on a new thread for each term. The blocking twin of [`LeaderSelector`](crate::LeaderSelector).
///
/// The closure cannot be stopped. When it is to end, [`Leadership::is_resigning`] returns `true`, and the node
/// stays until the closure has returned or the session ends. When the leadership is lost, [`Leadership::is_valid`]
/// returns `false`: from then on another candidate may lead while the closure continues. The closure is not called
/// again before it has returned.
///
/// The selector does not keep the client open: dropping the last handle of the client, and of everything created
/// from it, asks the closure to end. The closure is dropped when the candidate has left. If it captures a handle to its own
/// selector, that handle keeps the candidate standing until the selector or the client is [closed](Self::close).
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
#[derive(Clone)]
#[must_use = "if unused, the candidate leaves the election at once"]
pub struct LeaderSelector {
    inner: crate::LeaderSelector,
}

candidate_twin!(LeaderSelector);

impl LeaderSelector {
    /// Starts a candidate whose work blocks. Does not block itself, and needs no runtime. See
    /// [`LeaderSelector::start`](crate::LeaderSelector::start).
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the [id](LeaderOptions::id) is not allowed as
    ///   node data.
    ///
    /// Later errors show in [`watch_state`](Self::watch_state).
    pub fn start<W, E>(client: &Client, path: &str, options: LeaderOptions, work: W) -> Result<Self>
    where
        W: FnMut(Leadership) -> Result<(), E> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let work = on_thread(work);
        crate::LeaderSelector::start_on_threads(&client.inner, path, &options, true, work).map(Self::from)
    }

    /// Starts a candidate that leads once, and whose work blocks. See
    /// [`LeaderSelector::start_once`](crate::LeaderSelector::start_once).
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub fn start_once<W, E>(client: &Client, path: &str, options: LeaderOptions, work: W) -> Result<Self>
    where
        W: FnMut(Leadership) -> Result<(), E> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let work = on_thread(work);
        crate::LeaderSelector::start_on_threads(&client.inner, path, &options, false, work).map(Self::from)
    }

    /// Makes the candidate stand again. Does not block. See
    /// [`LeaderSelector::requeue`](crate::LeaderSelector::requeue).
    pub fn requeue(&self) -> bool {
        self.inner.requeue()
    }

    /// Asks the work to end if it is running, so that the next candidate leads. Does not block.
    pub fn interrupt_leadership(&self) {
        self.inner.interrupt_leadership();
    }

    /// Leaves the election for good, blocking the thread until the work has ended. So do not call it in the work, which
    /// would wait for itself. At the end of a program, close the client instead. The blocking version of
    /// [`LeaderSelector::close`](crate::LeaderSelector::close).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    ///   The selector is then not closed.
    pub fn close(&self) -> Result<()> {
        wait(self.inner.close())
    }
}

/// Returns the work with the error that async candidates have.
fn on_thread<W, E>(mut work: W) -> impl FnMut(crate::Leadership) -> Result<(), WorkError> + Send + 'static
where
    W: FnMut(Leadership) -> Result<(), E> + Send + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |leadership| work(leadership.into()).map_err(WorkError::new)
}
