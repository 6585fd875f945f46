//! An integer that processes share.

use std::time::Duration;

use zookeeper_client as zk;

use super::observer;
use super::state::SharedState;
use super::value::SharedValue;
use super::version::{CompareAndSet, Versioned};
use crate::client::{Client, Session, Watcher, decompressed};
use crate::error::{Error, Result};
use crate::failure::if_exists;
use crate::watch::Watch;

/// An integer in a node of its own, which all processes can read, change and watch. It can serve as the limit of a
/// [`Semaphore`](crate::Semaphore).
///
/// The format is that of Curator's `SharedCount`: a [`SharedValue`] with four bytes, big-endian. The first process
/// that needs the node creates it, with the seed as its value.
///
/// ```no_run
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::shared::SharedCount;
///
/// let limit = SharedCount::new(&client, "/licences/limit", 10)?;
/// println!("{} licences", limit.get().await?);
/// limit.set(12).await?;
/// limit.update(|licences| licences + 1).await?;
/// # Ok(())
/// # }
/// ```
///
/// Sources: Curator's `SharedCount` and `SharedValue`.
#[derive(Clone)]
pub struct SharedCount {
    value: SharedValue,
}

debug_by!(SharedCount, |it| path: it.path());

impl SharedCount {
    /// Creates a handle on the number at `path`, below the client's namespace. Makes no request.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath).
    pub fn new(client: &Client, path: &str, seed: i32) -> Result<Self> {
        Ok(Self { value: SharedValue::new(client, path, seed.to_be_bytes())? })
    }

    /// Returns a handle on the same number whose calls try for this long while other clients write or delete. See [`SharedValue::with_timeout`].
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { value: self.value.with_timeout(timeout) }
    }

    /// Returns the current number. It includes every change made before the call, also those made through another
    /// server, as far as a `sync` goes (see [how new a value is](crate::guide::values#how-new-a-value-is)). One
    /// round trip.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected) if the
    /// number cannot be read; [`Error::NotACount`](crate::Error::NotACount) if the node holds something else;
    /// [`Error::Contended`](crate::Error::Contended) if someone deleted the node whenever it was created;
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    /// The node may have been created.
    pub async fn get(&self) -> Result<i32> {
        self.get_versioned().await.map(Versioned::into_value)
    }

    /// Returns the current number with its version, to be passed to [`compare_and_set`](Self::compare_and_set). One
    /// round trip.
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    ///
    /// # Cancel safety
    /// The node may have been created.
    pub async fn get_versioned(&self) -> Result<Versioned<i32>> {
        self.count(self.value.get_versioned().await?)
    }

    /// Sets the number, whatever its current value. See [`SharedValue::set`].
    ///
    /// # Errors
    /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected) if the
    /// number cannot be written; [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    /// The number may have been changed.
    pub async fn set(&self, count: i32) -> Result<()> {
        self.value.set(count.to_be_bytes()).await
    }

    /// Sets the number if nothing was written since it was `seen`, and returns it with its new version. Otherwise
    /// returns the current number as the inner error. See [`SharedValue::compare_and_set`].
    ///
    /// # Errors
    /// Same as [`SharedValue::compare_and_set`], and [`Error::NotACount`](crate::Error::NotACount) if the node holds
    /// something else now.
    ///
    /// # Cancel safety
    /// The number may have been changed.
    pub async fn compare_and_set(&self, seen: &Versioned<i32>, new: i32) -> Result<CompareAndSet<i32>> {
        let seen = seen.clone().map(|count| count.to_be_bytes().to_vec());
        match self.value.compare_and_set(&seen, new.to_be_bytes()).await? {
            Ok(written) => Ok(Ok(self.count(written)?)),
            Err(current) => Ok(Err(self.count(current)?)),
        }
    }

    /// Replaces the number by what `new` makes of it, and returns the new number with its version. If another client
    /// writes in between, `new` is called again. See [`SharedValue::update`].
    ///
    /// # Errors
    /// Same as [`SharedValue::update`], and [`Error::NotACount`](crate::Error::NotACount) if the node holds something
    /// else.
    ///
    /// # Cancel safety
    /// The number may have been changed.
    pub async fn update(&self, mut new: impl FnMut(i32) -> i32) -> Result<Versioned<i32>> {
        let update = self.value.try_update(|old| {
            let old = parse(&old).ok_or_else(|| self.not_a_count())?;
            Ok(new(old).to_be_bytes().to_vec())
        });
        self.count(self.value.node.client().unless_closed(update).await?)
    }

    /// Follows the number. See [`SharedValue::watch_state`]. While the node
    /// holds something else, the state is [`Stale`](SharedState::Stale) with
    /// [`Error::NotACount`](crate::Error::NotACount).
    pub fn watch_state(&self) -> Watch<SharedState<i32>> {
        let count = self.detached();
        observer::watch(&self.value.node, move |data| parse(&data).ok_or_else(|| count.not_a_count()))
    }

    /// Returns the full path of the node, namespace included.
    pub fn path(&self) -> &str {
        self.value.path()
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(crate) fn detached(&self) -> Self {
        Self { value: self.value.detached() }
    }

    /// Whether this count belongs to the given client.
    pub(crate) fn is_of(&self, client: &Client) -> bool {
        self.value.node.client().is_same(client)
    }

    pub(crate) fn cannot_read(&self, source: zk::Error) -> Error {
        self.value.node.error("read the count at", source)
    }

    /// The error for a node that holds something else.
    pub(crate) fn not_a_count(&self) -> Error {
        Error::NotACount { path: self.path().to_owned() }
    }

    /// Returns the number; `None` if the node holds something else.
    pub(crate) async fn read(&self, session: &Session) -> Result<Option<i32>, zk::Error> {
        let node = &self.value.node;
        loop {
            match node.look(session).await? {
                Some(seen) => return Ok(parse(seen.value())),
                None => node.make(session, &self.value.seed).await?,
            }
        }
    }

    /// Reads as [`read`](Self::read) does, and watches the number.
    pub(crate) async fn watch_on(&self, session: &Session) -> Result<(Option<i32>, Watcher), zk::Error> {
        let node = &self.value.node;
        loop {
            match if_exists(session.watch_data(self.path()).await)? {
                Some((data, _, watcher)) => return Ok((parse(&data), watcher)),
                None => node.make(session, &self.value.seed).await?,
            }
        }
    }

    fn count(&self, seen: Versioned<Vec<u8>>) -> Result<Versioned<i32>> {
        seen.try_map(|data| parse(&data).ok_or_else(|| self.not_a_count()))
    }
}

/// Returns the number in the data of a node; `None` if it is none. Compressed data is understood also by clients that do
/// not compress.
fn parse(data: &[u8]) -> Option<i32> {
    let plain = decompressed(data);
    plain.as_deref().unwrap_or(data).try_into().ok().map(i32::from_be_bytes)
}
