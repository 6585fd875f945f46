//! Who leads, for those who do not stand, for threads.

use super::client::Client;
use super::twin::twin;
use super::wait::wait;
use super::watch::Watch;
use crate::error::Result;
use crate::leader::Observation;
use crate::lock::Participant;

/// Sees who leads at a path without standing for election there. See [`LeaderObserver`](crate::LeaderObserver).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::LeaderObserver;
///
/// let mut leader = LeaderObserver::new(&client, "/leaders/reports")?.watch();
/// while let Some(seen) = leader.next()? {
///     println!("{seen:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an observer does nothing until it is asked"]
pub struct LeaderObserver {
    inner: crate::LeaderObserver,
}

twin!(LeaderObserver);

impl LeaderObserver {
    /// As [`LeaderObserver::new`](crate::LeaderObserver::new).
    ///
    /// # Errors
    /// As there.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::LeaderObserver::new(&client.inner, path).map(Self::from)
    }

    /// As [`LeaderObserver::leader`](crate::LeaderObserver::leader), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn leader(&self) -> Result<Option<Participant>> {
        wait(self.inner.leader())
    }

    /// As [`LeaderObserver::participants`](crate::LeaderObserver::participants), and blocks the thread.
    ///
    /// # Errors
    /// As [`leader`](Self::leader).
    pub fn participants(&self) -> Result<Vec<Participant>> {
        wait(self.inner.participants())
    }

    /// As [`LeaderObserver::path_exists`](crate::LeaderObserver::path_exists), and blocks the thread.
    ///
    /// # Errors
    /// As [`leader`](Self::leader).
    pub fn path_exists(&self) -> Result<bool> {
        wait(self.inner.path_exists())
    }

    /// Who leads, now and from now on. See [`LeaderObserver::watch`](crate::LeaderObserver::watch).
    pub fn watch(&self) -> Watch<Observation> {
        self.inner.watch().into()
    }
}
