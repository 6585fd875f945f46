//! Bytes that processes change together.

use super::options::{AtomicOptions, Settings};
use super::tries::Tries;
use crate::client::Client;
use crate::error::Result;
use crate::shared::{Outcome, ValueNode, Version};

const GET: &str = "read the value at";
const CHANGE: &str = "change the value at";
const INITIALIZE: &str = "initialize the value at";
const FORCE_SET: &str = "set the value at";

/// What a compare-and-exchange of bytes found: the value before it, as `Ok` if it was replaced. `None` if the node did
/// not exist.
pub type CompareExchange = Result<Option<Vec<u8>>, Option<Vec<u8>>>;

/// Bytes in a node of their own, which all processes can compare and exchange.
///
/// The format is that of Curator's `DistributedAtomicValue`: a persistent node with these bytes. The first write creates
/// it; until then the value is `None`. To follow a value as it changes, take a
/// [`SharedValue`](crate::shared::SharedValue); to count, a [`DistributedAtomicLong`](super::DistributedAtomicLong).
///
/// ```no_run
/// use zk_recipes::atomic::DistributedAtomicValue;
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let owner = DistributedAtomicValue::new(&client, "/shards/7/owner")?;
/// match owner.compare_exchange(None, "host-a").await? {
///     Ok(_) => println!("this shard is ours"),
///     Err(other) => println!("it belongs to {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// Each change takes two round trips as long as no other client writes to the node: a read and a write.
///
/// Sources: Curator's `DistributedAtomicValue`.
#[derive(Clone)]
#[must_use = "a value does nothing by itself"]
pub struct DistributedAtomicValue {
    node: ValueNode,
    settings: Settings,
}

debug_by!(DistributedAtomicValue, |it| path: it.path());

impl DistributedAtomicValue {
    /// Creates a handle on the value at `path`, below the client's namespace. Makes no request.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        let settings = Settings::new(client, AtomicOptions::new())?;
        Ok(Self { node: ValueNode::new(client, path)?, settings })
    }

    /// Returns a handle on the same value with these options.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): the path of the [lock](AtomicOptions::promoted_to_lock) is
    ///   not valid.
    pub fn with_options(&self, options: AtomicOptions) -> Result<Self> {
        Ok(Self { settings: Settings::new(self.node.client(), options)?, ..self.clone() })
    }

    /// Returns the current value; `None` if the node does not exist. It includes every change made before the call,
    /// also those made through another server, as far as a `sync` goes (see [how new a value
    /// is](crate::guide::values#how-new-a-value-is)). One round trip.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected): the
    ///   value cannot be read.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn get(&self) -> Result<Option<Vec<u8>>> {
        let seen = self.node.client().unless_closed(self.look(GET)).await?;
        Ok(seen.map(|(value, _)| value))
    }

    /// Sets the value to `new` if it is `current`; `None` means that the node does not exist. Returns the value before
    /// the call, as the inner `Err` if it was another one.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the value is larger than the servers accept, about
    ///   1 MiB. Nothing was sent.
    /// - [`Error::WriteOutcomeUnknown`](crate::Error::WriteOutcomeUnknown): a reply was lost, and the node does not show
    ///   whether the value was written. It was written at most once.
    /// - [`Error::Contended`](crate::Error::Contended): other clients wrote first each time, until the
    ///   [time](AtomicOptions::timeout) was over. Nothing was written.
    /// - [`Error::NodeReplaced`](crate::Error::NodeReplaced): the node was deleted and created again between the read and
    ///   the write, and the new one was overwritten.
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected): the
    ///   servers refuse, or cannot be reached. Nothing was written.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed. If it was closed during the call, the value may
    ///   have been written.
    ///
    /// With a [lock](AtomicOptions::promoted_to_lock), also those of
    /// [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancel safety
    /// The value may have been changed.
    pub async fn compare_exchange(
        &self,
        current: Option<&[u8]>,
        new: impl AsRef<[u8]>,
    ) -> Result<CompareExchange> {
        let new = new.as_ref();
        self.node.ensure_fits("value", new)?;
        self.change(|old| (old == current).then(|| new.to_vec())).await
    }

    /// Sets the value, and returns the one before that.
    ///
    /// # Errors
    /// Same as [`compare_exchange`](Self::compare_exchange).
    ///
    /// # Cancel safety
    /// The value may have been changed.
    pub async fn swap(&self, new: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let new = new.as_ref();
        self.node.ensure_fits("value", new)?;
        let swapped = self.change(|_| Some(new.to_vec())).await?;
        Ok(swapped.unwrap_or_else(|current| current))
    }

    /// Sets the value to what `new` makes of it, unless that is `None`. Returns the value before the call, as the inner
    /// `Err` if `new` has returned `None`. If another client writes in between, `new` is called again.
    ///
    /// # Errors
    /// Same as [`compare_exchange`](Self::compare_exchange).
    ///
    /// # Cancel safety
    /// The value may have been changed.
    pub async fn fetch_update(
        &self,
        new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<CompareExchange> {
        self.change(new).await
    }

    /// Creates the node with this value. Returns false, and leaves the value as it is, if the node exists. One round
    /// trip.
    ///
    /// # Errors
    /// Same as [`compare_exchange`](Self::compare_exchange).
    ///
    /// # Cancel safety
    /// The node may have been created.
    pub async fn initialize(&self, value: impl AsRef<[u8]>) -> Result<bool> {
        let value = value.as_ref();
        self.node.ensure_fits("value", value)?;
        let initialize = self.node.write(INITIALIZE, None, value);
        let outcome = self.node.client().unless_closed(initialize).await?;
        Ok(matches!(outcome, Outcome::Written(_)))
    }

    /// Sets the value, whatever the node holds. If a reply is lost, the value is written again, possibly over a change
    /// that was made in between. One round trip.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the value is larger than the servers accept, about
    ///   1 MiB. Nothing was sent.
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected): the
    ///   value cannot be written.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// The value may have been changed.
    pub async fn force_set(&self, value: impl AsRef<[u8]>) -> Result<()> {
        let value = value.as_ref();
        self.node.ensure_fits("value", value)?;
        let set = self.node.overwrite(FORCE_SET, value);
        self.node.client().unless_closed(set).await.map(drop)
    }

    /// Returns the full path of the node, namespace included.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    async fn change(&self, mut new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<CompareExchange> {
        let change = async {
            let mut tries = Tries::new(&self.settings, CHANGE, self.path());
            loop {
                let (old, version) = self.look(CHANGE).await?.unzip();
                let Some(new) = new(old.as_deref()) else { return Ok(Err(old)) };
                self.node.ensure_fits("value", &new)?;
                match self.node.write(CHANGE, version, &new).await? {
                    Outcome::Written(_) => return Ok(Ok(old)),
                    Outcome::Conflict | Outcome::Nothing => tries.conflict().await?,
                }
            }
        };
        self.node.client().unless_closed(change).await
    }

    async fn look(&self, operation: &'static str) -> Result<Option<(Vec<u8>, Version)>> {
        let seen = self.node.get(operation).await?;
        Ok(seen.map(|seen| {
            let version = seen.version();
            (self.node.client().user_data(seen.into_value()), version)
        }))
    }
}
