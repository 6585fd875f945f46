//! Bytes that processes share.

use std::sync::Arc;
use std::time::Duration;

use super::contention::Contention;
use super::node::{Outcome, ValueNode};
use super::observer;
use super::state::SharedState;
use super::version::{CompareAndSet, Versioned};
use crate::client::{Client, Session};
use crate::error::Result;
use crate::watch::Watch;

const GET: &str = "read the value at";
const SET: &str = "write the value at";
const COMPARE_AND_SET: &str = "compare and set the value at";
const UPDATE: &str = "update the value at";

/// Bytes in a node of their own, which all processes can read, change and watch.
///
/// The format is that of Curator's `SharedValue`: a persistent node with these bytes. The first process that needs the
/// node creates it, with the seed as its value. A node that was deleted is created again in the same way.
///
/// ```no_run
/// use zk_recipes::shared::{SharedState, SharedValue};
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let motd = SharedValue::new(&client, "/config/motd", "hello")?;
/// motd.update(|old| [old, b"!"].concat()).await?;
///
/// let mut changes = motd.watch_state();
/// while let Some(state) = changes.changed().await {
///     match state {
///         SharedState::Known(value) => println!("{}", String::from_utf8_lossy(value.value())),
///         SharedState::Missing => println!("the node was deleted"),
///         _ => println!("not connected: the value may have changed"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// The client's ACLs apply to the node, and if the client [compresses](crate::ClientBuilder::enable_compression), so
/// does this. All clients that share a value must compress, or none. A value has at most 1 MiB before compression, too.
///
/// Sources: Curator's `SharedValue`.
#[derive(Clone)]
pub struct SharedValue {
    pub(super) node: ValueNode,
    pub(super) seed: Arc<[u8]>,
    timeout: Duration,
}

debug_by!(SharedValue, |it| path: it.path());

impl SharedValue {
    /// Creates a handle on the value at `path`, below the client's namespace. Makes no request.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the seed is larger than the servers accept, about
    ///   1 MiB.
    pub fn new(client: &Client, path: &str, seed: impl Into<Vec<u8>>) -> Result<Self> {
        let (node, seed) = (ValueNode::new(client, path)?, seed.into());
        node.ensure_fits("seed", &seed)?;
        Ok(Self { node, seed: seed.into(), timeout: client.connection_timeout() })
    }

    /// Returns a handle on the same value whose calls try for this long while other clients write or delete.
    /// By default, that is the [connection timeout](crate::ClientBuilder::connection_timeout).
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// Returns the current value. It includes every change made before the call, also those made through another
    /// server, as far as a `sync` goes (see [how new a value is](crate::guide::values#how-new-a-value-is)).
    ///
    /// This takes one round trip; to read often, [watch](Self::watch_state) the value.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the value cannot be read, or the node cannot be created.
    /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached.
    /// - [`Error::Contended`](crate::Error::Contended): someone deleted the node whenever it was created, until the
    ///   [time](Self::with_timeout) was over.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// The node may have been created.
    pub async fn get(&self) -> Result<Vec<u8>> {
        self.get_versioned().await.map(Versioned::into_value)
    }

    /// Returns the current value with its version, to be passed to [`compare_and_set`](Self::compare_and_set). One
    /// round trip.
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    ///
    /// # Cancel safety
    /// The node may have been created.
    pub async fn get_versioned(&self) -> Result<Versioned<Vec<u8>>> {
        let mut contention = self.contention(GET);
        let seen = self.node.client().unless_closed(self.look(&mut contention)).await?;
        Ok(self.plain(seen))
    }

    /// Sets the value, whatever its current value. One round trip.
    ///
    /// If a reply is lost, the value is written again, possibly over a change that was made in between.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the value is larger than the servers accept, about
    ///   1 MiB. Nothing was sent.
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected): the
    ///   value cannot be written. It may have been written if the connection was lost.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// The value may have been changed.
    pub async fn set(&self, value: impl AsRef<[u8]>) -> Result<()> {
        let value = value.as_ref();
        self.node.ensure_fits("value", value)?;
        let set = self.node.overwrite(SET, value);
        self.node.client().unless_closed(set).await.map(drop)
    }

    /// Sets the value if nothing was written since it was `seen`, and returns it with its new version. Otherwise
    /// returns the current value as the inner error; nothing was written then.
    ///
    /// ```no_run
    /// # async fn example(value: zk_recipes::shared::SharedValue) -> zk_recipes::Result<()> {
    /// let seen = value.get_versioned().await?;
    /// match value.compare_and_set(&seen, "new").await? {
    ///     Ok(_) => println!("set"),
    ///     Err(current) => println!("another process has set it to {:?}", current.value()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// This takes two round trips: a node that was deleted and created again can have the same version number, so the
    /// node is looked at first.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the value is larger than the servers accept, about
    ///   1 MiB. Nothing was sent.
    /// - [`Error::WriteOutcomeUnknown`](crate::Error::WriteOutcomeUnknown): a reply was lost, and the node does not show
    ///   whether the value was written: somebody has written the same, or written twice, or deleted the node.
    /// - [`Error::NodeReplaced`](crate::Error::NodeReplaced): the node was deleted and created again between the two
    ///   round trips, and the new one was overwritten.
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected): the
    ///   servers refuse or cannot be reached. Nothing was written.
    /// - [`Error::Contended`](crate::Error::Contended): as for [`get`](Self::get). Nothing was written.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed. If it was closed during the call, the value may
    ///   have been written.
    ///
    /// # Cancel safety
    /// The value may have been changed.
    pub async fn compare_and_set(
        &self,
        seen: &Versioned<Vec<u8>>,
        new: impl AsRef<[u8]>,
    ) -> Result<CompareAndSet<Vec<u8>>> {
        let new = new.as_ref();
        self.node.ensure_fits("value", new)?;
        let set = async {
            let mut contention = self.contention(COMPARE_AND_SET);
            let current = self.look(&mut contention).await?;
            if current.version() != seen.version() {
                return Ok(Err(self.plain(current)));
            }
            match self.node.write(COMPARE_AND_SET, Some(current.version()), new).await? {
                Outcome::Written(version) => Ok(Ok(Versioned::new(new.to_vec(), version))),
                Outcome::Conflict | Outcome::Nothing => {
                    Ok(Err(self.plain(self.look(&mut contention).await?)))
                }
            }
        };
        self.node.client().unless_closed(set).await
    }

    /// Replaces the value by what `new` makes of it, and returns the new value with its version. If another client
    /// writes in between, `new` is called again with the value that is there then.
    ///
    /// Two round trips without other writers.
    ///
    /// # Errors
    /// Same as [`compare_and_set`](Self::compare_and_set), and:
    /// - [`Error::Contended`](crate::Error::Contended): other clients wrote first each time, until the
    ///   [time](Self::with_timeout) was over. Nothing was written.
    ///
    /// # Cancel safety
    /// The value may have been changed.
    pub async fn update(&self, mut new: impl FnMut(&[u8]) -> Vec<u8>) -> Result<Versioned<Vec<u8>>> {
        let try_new = |old: Vec<u8>| Ok(new(&old));
        let update = self.try_update(try_new);
        self.node.client().unless_closed(update).await
    }

    pub(super) async fn try_update(
        &self,
        mut new: impl FnMut(Vec<u8>) -> Result<Vec<u8>>,
    ) -> Result<Versioned<Vec<u8>>> {
        let mut contention = self.contention(UPDATE);
        loop {
            let current = self.look(&mut contention).await?;
            let version = current.version();
            let value = new(self.plain(current).into_value())?;
            self.node.ensure_fits("value", &value)?;
            match self.node.write(UPDATE, Some(version), &value).await? {
                Outcome::Written(version) => return Ok(Versioned::new(value, version)),
                Outcome::Conflict | Outcome::Nothing => contention.conflict().await?,
            }
        }
    }

    /// Follows the value, of which nothing is known at first. Ends with the client.
    ///
    /// The value is followed in the background until the [`Watch`] and its clones are dropped. Each change costs one read;
    /// of several changes within a round trip, only the last may be seen. Without a connection the state is
    /// [`Stale`](SharedState::Stale). This does not create the node.
    ///
    /// The servers do not tell of a change that is made while this client is not permitted to read the node. So the value
    /// is read again also when nothing is told, after one to two session timeouts.
    pub fn watch_state(&self) -> Watch<SharedState<Vec<u8>>> {
        let client = self.node.client().detached();
        observer::watch(&self.node, move |data| Ok(client.user_data(data)))
    }

    /// Returns the full path of the node, namespace included.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(super) fn detached(&self) -> Self {
        Self { node: self.node.detached(), ..self.clone() }
    }

    /// Returns what the node holds, and creates it if it does not exist.
    async fn look(&self, contention: &mut Contention<'_>) -> Result<Versioned<Vec<u8>>> {
        let operation = contention.operation();
        let make = |session: Arc<Session>| async move { self.node.make(&session, &self.seed).await };
        let mut is_made = false;
        loop {
            if let Some(seen) = self.node.get(operation).await? {
                return Ok(seen);
            }
            // Someone may delete the node whenever it is created.
            if std::mem::replace(&mut is_made, true) {
                contention.conflict().await?;
            }
            self.node.client().request(operation, self.path(), make).await?;
        }
    }

    fn contention(&self, operation: &'static str) -> Contention<'_> {
        Contention::new(operation, self.path(), self.timeout)
    }

    fn plain(&self, seen: Versioned<Vec<u8>>) -> Versioned<Vec<u8>> {
        seen.map(|data| self.node.client().user_data(data))
    }
}
