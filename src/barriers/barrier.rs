//! A barrier that one process sets and removes for all.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::EventType;

use crate::client::{Client, Failures, LatestWatch};
use crate::error::{Error, Result};
use crate::failure::if_exists;

/// A barrier at which processes wait while it is set. One process may set it, and another remove it.
///
/// Without a barrier the way is open: [`wait`](Self::wait) returns at once. So set it before the others come. It stays
/// set when the process that has set it dies; for one that opens then, keep an ephemeral
/// [`PersistentNode`](crate::nodes::PersistentNode) at the path instead, at which others wait in the same way.
///
/// ```no_run
/// use zk_recipes::Client;
/// use zk_recipes::barriers::Barrier;
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let migration = Barrier::new(&client, "/barriers/migration")?;
/// # async fn migrate() {}
/// // In one process:
/// migration.set().await?;
/// migrate().await;
/// migration.remove().await?;
///
/// // In the others:
/// migration.wait().await?;
/// # Ok(())
/// # }
/// ```
///
/// Sources: Curator's `DistributedBarrier`, with the same node. It leaves a watch behind for each wait at a barrier that is
/// not set, overlooks a barrier that is removed and set again at once, and ends waits when the connection is lost.
#[derive(Clone)]
#[must_use = "a barrier does nothing until it is used"]
pub struct Barrier {
    client: Client,
    path: Arc<str>,
}

debug_by!(Barrier, |it| path: it.path());

impl Barrier {
    /// Creates a handle on the barrier at `path`, below the client's namespace. Makes no request.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { client: client.clone(), path: client.full_path(path)? })
    }

    /// Sets the barrier, unless it is set already. Missing parents are created as containers. One round trip.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the servers refuse, or cannot be reached under the retry policy. If the connection was lost,
    ///   the barrier may have been set.
    /// - [`Error::NotConnected`]: the servers cannot be reached, and nothing could be sent.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// The barrier may have been set.
    pub async fn set(&self) -> Result<()> {
        let setting = self.client.request("set the barrier at", &self.path, |session| async move {
            self.client.make_node(&session, &self.path, self.client.identity()).await
        });
        self.client.unless_closed(setting).await
    }

    /// Removes the barrier, if it is set, which lets all waiters through. One round trip.
    ///
    /// # Errors
    /// Same as [`set`](Self::set).
    ///
    /// # Cancel safety
    /// The barrier may have been removed.
    pub async fn remove(&self) -> Result<()> {
        let removing = self.client.request("remove the barrier at", &self.path, |session| async move {
            if_exists(session.delete(&self.path).await).map(drop)
        });
        self.client.unless_closed(removing).await
    }

    /// Returns whether the barrier is set. It includes every change made before the call: it looks behind a commit, even
    /// if the leader has been replaced. Under [`KeepAlive::Leader`](crate::KeepAlive::Leader) it does not. One round
    /// trip.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the servers refuse or cannot be reached.
    /// - [`Error::NotConnected`]: the servers cannot be reached, and nothing could be sent.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn is_set(&self) -> Result<bool> {
        let looking = self.client.request("look for", &self.path, |session| async move {
            Ok(session.confirmed(session.stat(&self.path)).await?.is_some())
        });
        self.client.unless_closed(looking).await
    }

    /// Waits while the barrier is set. Returns at once if it is not. One round trip, and none when it opens. It looks as
    /// [`is_set`](Self::is_set) does, and again after one to two session timeouts: the servers tell nothing of a barrier that
    /// is removed while this client is not permitted to read it.
    ///
    /// The wait outlasts lost connections and ended sessions. If the barrier was removed and set again meanwhile, it has
    /// been open, and the wait ends.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the barrier may not be read.
    /// - [`Error::NotConnected`]: the servers cannot be reached under the retry policy.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: no watch is left behind.
    pub async fn wait(&self) -> Result<()> {
        self.client.unless_closed(self.opened(|_| {})).await
    }

    /// Waits as [`wait`](Self::wait) does, for up to `within`. Returns whether the way is open; false if it is known to
    /// have been closed the whole time. With a time of zero, it waits for nothing but a look at the barrier.
    ///
    /// The servers tell when the barrier opens. If they fall silent, that is noticed after two fifths of the session timeout:
    /// so `false` may be that old.
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait); also [`Error::NotConnected`] if there is no connection at the end of that time, or the
    /// servers have not answered yet: the barrier may be open.
    ///
    /// # Cancel safety
    /// Cancel safe: no watch is left behind.
    pub async fn wait_within(&self, within: Duration) -> Result<bool> {
        if within.is_zero() {
            return Ok(!self.is_set().await?);
        }
        let mut is_known = false;
        let opened = self.client.unless_closed(self.opened(|is_known_now| is_known = is_known_now));
        match self.client.within(within, opened).await {
            Some(opened) => opened.map(|()| true),
            None if is_known => Ok(false),
            None => Err(self.client.not_connected(within)),
        }
    }

    /// Returns the full path of the barrier, including the namespace.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits until the way is open, and shows whether it is known to be closed at the moment.
    async fn opened(&self, mut is_known: impl FnMut(bool)) -> Result<()> {
        // That of the first look.
        let mut first = None;
        let mut failures = Failures::default();
        let mut watch = LatestWatch::default();
        loop {
            let session = self.client.session_after(&mut failures).await?;
            let looking = session.confirmed(async { if_exists(session.watch_data(&self.path).await) });
            let looked = match self.client.attempt_one(&session, looking).await {
                Ok(looked) => looked,
                Err(source) => {
                    is_known(false);
                    let path = self.path.to_string();
                    let error = Error::ZooKeeper { operation: "wait at the barrier", path, source };
                    if !error.ends_session() {
                        failures.pause_after(error, self.client.retry_policy()).await?;
                    }
                    continue;
                }
            };
            failures.reset();
            is_known(true);
            let Some((_, barrier, watcher)) = looked else { return Ok(()) };
            // Another one was set after the first one had been removed.
            if *first.get_or_insert(barrier.czxid) != barrier.czxid {
                return Ok(());
            }
            match watch.wait(&self.client, &session, watcher).await {
                Some(EventType::NodeDeleted) => return Ok(()),
                Some(_) => is_known(false),
                None => {}
            }
        }
    }
}
