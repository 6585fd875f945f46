//! An integer that processes share.

use std::sync::Arc;

use zookeeper_client as zk;

use crate::client::{Client, Session, Watcher, decompressed};
use crate::error::{Error, Result};

const READ: &str = "read the count at";

/// An integer in a node of its own, which all processes can read and change. It can serve as the limit of a
/// [`Semaphore`](crate::Semaphore).
///
/// The format is that of Curator's `SharedCount`: a persistent node with four bytes, big-endian. The first process
/// that needs the node creates it, with the seed as its value.
///
/// ```no_run
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::SharedCount;
///
/// let limit = SharedCount::new(&client, "/licences/limit", 10)?;
/// println!("{} licences", limit.get().await?);
/// limit.set(12).await?;
/// # Ok(())
/// # }
/// ```
///
/// Sources: Curator's `SharedCount` and `SharedValue`.
#[derive(Clone, Debug)]
pub struct SharedCount {
    client: Client,
    /// The full path.
    path: Arc<str>,
    seed: i32,
}

impl SharedCount {
    /// Creates a handle on the number at `path`, below the client's namespace. Sends nothing.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath).
    pub fn new(client: &Client, path: &str, seed: i32) -> Result<Self> {
        Ok(Self { client: client.clone(), path: client.full_path(path)?, seed })
    }

    /// Returns the current number. It includes every change made before the call, also those made through another
    /// server.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected) if the
    /// number cannot be read; [`Error::NotACount`](crate::Error::NotACount) if the node holds something else;
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    /// The node may have been created.
    pub async fn get(&self) -> Result<i32> {
        let get = self.client.request(READ, &self.path, |session| async move {
            session.sync(&self.path).await?;
            self.read(&session).await
        });
        self.client.unless_closed(get).await?.ok_or_else(|| self.not_a_count())
    }

    /// Sets the number, whatever its current value.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected) if the
    /// number cannot be written; [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    /// The number may have been changed.
    pub async fn set(&self, count: i32) -> Result<()> {
        let set = self.client.request("write the count at", &self.path, |session| async move {
            loop {
                match session.set_data(&self.path, &self.client.node_data(&count.to_be_bytes()), None).await {
                    Err(zk::Error::NoNode) => self.make(&session).await?,
                    written => return written,
                }
            }
        });
        self.client.unless_closed(set).await
    }

    /// Returns the full path of the node, namespace included.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(crate) fn detached(&self) -> Self {
        Self { client: self.client.detached(), ..self.clone() }
    }

    /// Whether this count belongs to the given client.
    pub(crate) fn is_of(&self, client: &Client) -> bool {
        self.client.is_same(client)
    }

    pub(crate) fn cannot_read(&self, source: zk::Error) -> Error {
        Error::ZooKeeper { operation: READ, path: self.path.to_string(), source }
    }

    /// The error for a node that holds something else.
    pub(crate) fn not_a_count(&self) -> Error {
        Error::NotACount { path: self.path.to_string() }
    }

    /// Returns the number; `None` if the node holds something else.
    pub(crate) async fn read(&self, session: &Session) -> Result<Option<i32>, zk::Error> {
        loop {
            match session.data(&self.path).await {
                Err(zk::Error::NoNode) => self.make(session).await?,
                read => return Ok(parse(&read?.0)),
            }
        }
    }

    /// Reads as [`read`](Self::read) does, and watches the number.
    pub(crate) async fn watch(&self, session: &Session) -> Result<(Option<i32>, Watcher), zk::Error> {
        loop {
            match session.watch_data(&self.path).await {
                Err(zk::Error::NoNode) => self.make(session).await?,
                read => {
                    let (data, _, watcher) = read?;
                    return Ok((parse(&data), watcher));
                }
            }
        }
    }

    /// Creates the node with the seed, and its parents.
    async fn make(&self, session: &Session) -> Result<(), zk::Error> {
        let acl = self.client.acl_of(&self.path);
        let seed = self.seed.to_be_bytes();
        let seed = self.client.node_data(&seed);
        loop {
            match session.create_persistent(&self.path, &seed, &acl).await {
                Err(zk::Error::NoNode) => {
                    let (parent, _) = self.path.rsplit_once('/').unwrap_or_default();
                    self.client.make_parents(session, parent).await.map_err(|(_, source)| source)?;
                }
                Err(zk::Error::NodeExists) => return Ok(()),
                made => return made,
            }
        }
    }
}

/// Returns the number in the data of a node; `None` if it is none.
fn parse(data: &[u8]) -> Option<i32> {
    let plain = decompressed(data);
    plain.as_deref().unwrap_or(data).try_into().ok().map(i32::from_be_bytes)
}
