//! Observing an election without taking part in it, for threads.

use super::client::Client;
use super::wait::wait;
use crate::error::Result;
use crate::leader::Observation;
use crate::lock::Participant;
use crate::watch::Watch;

/// Shows who leads at a path without standing for election there. The blocking twin of
/// [`LeaderObserver`](crate::LeaderObserver).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::LeaderObserver;
///
/// let mut leader = LeaderObserver::new(&client, "/leaders/reports")?.watch_leader();
/// while let Some(seen) = leader.blocking_changed()? {
///     println!("{seen:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "an observer does nothing until it is asked"]
pub struct LeaderObserver {
    inner: crate::LeaderObserver,
}

twin!(LeaderObserver);

impl LeaderObserver {
    /// Creates an observer of the election at `path`. Does not block. See
    /// [`LeaderObserver::new`](crate::LeaderObserver::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::LeaderObserver::new(&client.inner, path).map(Self::from)
    }

    /// Returns the leader. The blocking version of [`LeaderObserver::leader`](crate::LeaderObserver::leader).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn leader(&self) -> Result<Option<Participant>> {
        wait(self.inner.leader())
    }

    /// Returns all candidates in queue order. The blocking version of
    /// [`LeaderObserver::participants`](crate::LeaderObserver::participants).
    ///
    /// # Errors
    /// Same as [`leader`](Self::leader).
    pub fn participants(&self) -> Result<Vec<Participant>> {
        wait(self.inner.participants())
    }

    /// Returns whether the path exists. The blocking version of
    /// [`LeaderObserver::path_exists`](crate::LeaderObserver::path_exists).
    ///
    /// # Errors
    /// Same as [`leader`](Self::leader).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Follows the leader. See
    /// [`LeaderObserver::watch_leader`](crate::LeaderObserver::watch_leader).
    pub fn watch_leader(&self) -> Watch<Observation> {
        self.inner.watch_leader()
    }
}
