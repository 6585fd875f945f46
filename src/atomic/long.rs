//! A number that processes change together.

use std::sync::Arc;

use tokio::task::yield_now;

use super::batch::{Answer, Op};
use super::line::{CHANGE, Line, Submitted, parse};
use super::options::{AtomicOptions, Settings};
use super::tries::Tries;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::shared::{Outcome, ValueNode};

const GET: &str = "read the number at";
const INITIALIZE: &str = "initialize the number at";
const FORCE_SET: &str = "set the number at";

/// A number in a node of its own, which all processes can add to, compare and exchange.
///
/// The format is that of Curator's `DistributedAtomicLong`: a persistent node with eight bytes, big-endian. A node that
/// does not exist, or has no data, counts as zero, and the first write creates it.
///
/// ```no_run
/// use zk_recipes::atomic::DistributedAtomicLong;
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let orders = DistributedAtomicLong::new(&client, "/counters/orders")?;
/// let number = orders.increment().await?; // no other call, in any process, returns the same
/// println!("order {number}; {} so far", orders.get().await?);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
///
/// A change takes one round trip as long as no other client writes to the node: what this client has written last is
/// remembered for ten seconds, by the handles on the path. So keep a handle: one that is made for each call may take two
/// round trips, a read and a write; for [`fetch_update`](Self::fetch_update) it takes three. After a change by another
/// client any of them takes three: the attempt, a read, and a write.
///
/// All handles of one client on one path share a line. While a write is under way, further operations wait, and are
/// written together next: a hundred tasks that increment at once take two round trips. Each of them gets a number of its
/// own.
///
/// Clients that write at the same time disturb each other: one succeeds, the others try again, until the
/// [time](AtomicOptions::timeout) is over. For many increments in several processes, take a
/// [`CachedAtomicLong`](super::CachedAtomicLong), or one counter for each process.
///
/// # Deleting the node
///
/// Do not delete the node, or replace it, while clients count. The servers compare the version of a node, and not which
/// node it is. So a client that has changed or compared the number within the last ten seconds may overwrite a new node
/// that has come to the same version meanwhile. It learns that, as [`Error::NodeReplaced`]; but the new number is lost, and
/// clients that have got numbers from the new node get the same ones again. To restart a counter, use
/// [`swap`](Self::swap) or [`force_set`](Self::force_set), which keep the node.
///
/// Sources: Curator's `DistributedAtomicLong`.
#[derive(Clone)]
#[must_use = "a number does nothing by itself"]
pub struct DistributedAtomicLong {
    node: ValueNode,
    line: Arc<Line>,
    settings: Settings,
}

debug_by!(DistributedAtomicLong, |it| path: it.path());

impl DistributedAtomicLong {
    /// Creates a handle on the number at `path`, below the client's namespace. Makes no request.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        let node = ValueNode::new(client, path)?;
        let settings = Settings::new(client, AtomicOptions::new())?;
        Ok(Self { line: Line::of(&node), node, settings })
    }

    /// Returns a handle on the same number with these options.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: the path of the [lock](AtomicOptions::promoted_to_lock) is not valid.
    pub fn with_options(&self, options: AtomicOptions) -> Result<Self> {
        Ok(Self { settings: Settings::new(self.node.client(), options)?, ..self.clone() })
    }

    /// Returns the current number. It includes every change made before the call, also those made through another
    /// server, as far as a `sync` goes (see [how new a value is](crate::guide::values#how-new-a-value-is)). One
    /// round trip. Does not create the node.
    ///
    /// # Errors
    /// - [`Error::NotANumber`]: the node holds one to seven bytes.
    /// - [`Error::ZooKeeper`] and [`Error::NotConnected`]: the number cannot be read.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn get(&self) -> Result<i64> {
        match self.node.client().unless_closed(self.node.get(GET)).await? {
            Some(seen) => parse(&self.node, seen.value()),
            None => Ok(0),
        }
    }

    /// Adds `delta`, and returns the number before that. `delta` may be negative.
    ///
    /// # Errors
    /// - [`Error::Overflow`]: the sum would not fit. Nothing was added.
    /// - [`Error::WriteOutcomeUnknown`]: a reply was lost, and the node does not show whether the write was done. It was
    ///   done at most once. All operations that were written together get this error.
    /// - [`Error::Contended`]: other clients wrote first each time, until the [time](AtomicOptions::timeout) was over.
    ///   Nothing was added.
    /// - [`Error::NodeReplaced`]: the node was [deleted](Self#deleting-the-node) and created again since this client wrote
    ///   to it or read it last, and the new one, which had the same version, was overwritten.
    /// - [`Error::NotANumber`]: the node holds one to seven bytes. Nothing was added.
    /// - [`Error::ZooKeeper`] and [`Error::NotConnected`]: the servers refuse, or cannot be reached. Nothing was added.
    /// - [`Error::Closed`]: the client is closed. If it was closed during the call, the number may have been changed.
    ///
    /// With a [lock](AtomicOptions::promoted_to_lock), also those of
    /// [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancel safety
    /// If the operation was not sent yet, it is not done. If it was, it may be done. Operations of other callers are not
    /// affected.
    pub async fn fetch_add(&self, delta: i64) -> Result<i64> {
        match self.submit(Op::Add(delta)).await? {
            Answer::Done(before) => Ok(before),
            Answer::Overflow(value) | Answer::Mismatch(value) => {
                Err(Error::Overflow { path: self.path().to_owned(), value, delta })
            }
        }
    }

    /// Adds `delta`, and returns the number after that. Otherwise the same as [`fetch_add`](Self::fetch_add).
    ///
    /// # Errors
    /// Same as [`fetch_add`](Self::fetch_add).
    ///
    /// # Cancel safety
    /// Same as [`fetch_add`](Self::fetch_add).
    pub async fn add(&self, delta: i64) -> Result<i64> {
        // What was written fits.
        self.fetch_add(delta).await.map(|before| before.wrapping_add(delta))
    }

    /// Adds one, and returns the number after that. Same as [`add(1)`](Self::add).
    ///
    /// # Errors
    /// Same as [`fetch_add`](Self::fetch_add).
    ///
    /// # Cancel safety
    /// Same as [`fetch_add`](Self::fetch_add).
    pub async fn increment(&self) -> Result<i64> {
        self.add(1).await
    }

    /// Subtracts one, and returns the number after that. Same as [`add(-1)`](Self::add).
    ///
    /// # Errors
    /// Same as [`fetch_add`](Self::fetch_add).
    ///
    /// # Cancel safety
    /// Same as [`fetch_add`](Self::fetch_add).
    pub async fn decrement(&self) -> Result<i64> {
        self.add(-1).await
    }

    /// Sets the number, and returns the one before that.
    ///
    /// # Errors
    /// Same as [`fetch_add`](Self::fetch_add), without [`Error::Overflow`].
    ///
    /// # Cancel safety
    /// Same as [`fetch_add`](Self::fetch_add).
    pub async fn swap(&self, new: i64) -> Result<i64> {
        match self.submit(Op::Swap(new)).await? {
            Answer::Done(before) | Answer::Mismatch(before) | Answer::Overflow(before) => Ok(before),
        }
    }

    /// Sets the number to `new` if it is `current`. Returns the number before the call: as `Ok` if it was set, and as
    /// the inner `Err` if it is another one. A node that does not exist counts as zero.
    ///
    /// # Errors
    /// Same as [`fetch_add`](Self::fetch_add), without [`Error::Overflow`].
    ///
    /// # Cancel safety
    /// Same as [`fetch_add`](Self::fetch_add).
    pub async fn compare_exchange(&self, current: i64, new: i64) -> Result<Result<i64, i64>> {
        match self.submit(Op::Exchange { expected: current, new }).await? {
            Answer::Done(before) => Ok(Ok(before)),
            Answer::Mismatch(value) | Answer::Overflow(value) => Ok(Err(value)),
        }
    }

    /// Sets the number to what `new` makes of it, unless that is `None`. Returns the number before the call: as `Ok` if
    /// it was set, and as the inner `Err` if `new` has returned `None` for it.
    ///
    /// `new` may be called several times. It is first called with the number that is expected, if this client has used it
    /// within the last ten seconds; that may be one that other calls are about to write. If that is not the one that is
    /// found, or `new` returns `None`, `new` is called again with one that is there.
    ///
    /// ```no_run
    /// # async fn example(stock: zk_recipes::atomic::DistributedAtomicLong) -> zk_recipes::Result<()> {
    /// let take_one = |left: i64| if left > 0 { Some(left - 1) } else { None };
    /// match stock.fetch_update(take_one).await? {
    ///     Ok(before) => println!("taken; {} are left", before - 1),
    ///     Err(_) => println!("none is left"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`fetch_add`](Self::fetch_add), without [`Error::Overflow`]. [`Error::Contended`]: other clients, or other
    /// calls of this one, changed the number each time, until the [time](AtomicOptions::timeout) was over.
    ///
    /// # Cancel safety
    /// Same as [`fetch_add`](Self::fetch_add).
    pub async fn fetch_update(&self, mut new: impl FnMut(i64) -> Option<i64>) -> Result<Result<i64, i64>> {
        let update = async {
            let mut tries = Tries::new(&self.settings, CHANGE, self.path());
            // A number that was there during the call.
            let mut seen = None;
            loop {
                let conflicts = self.line.conflicts();
                let foreseen = self.line.foresee();
                let guess = foreseen.and_then(|foreseen| Some((foreseen.value, new(foreseen.value)?)));
                let (expected, next, foreseen) = match guess {
                    Some((expected, next)) => (expected, next, foreseen),
                    // What is foreseen may not come about: it is no reason to leave the number as it is.
                    None => {
                        let current = match seen {
                            Some(current) => current,
                            None => self.get().await?,
                        };
                        let Some(next) = new(current) else { return Ok(Err(current)) };
                        (current, next, None)
                    }
                };
                let exchange = Op::Exchange { expected, new: next };
                // The lock, if any, is for all tries: it is not tried by one of them.
                match self.line.submit(exchange, foreseen, tries.time(), false).await? {
                    Submitted::Answered(Answer::Done(before)) => return Ok(Ok(before)),
                    Submitted::Answered(Answer::Mismatch(value) | Answer::Overflow(value)) => {
                        seen = Some(value);
                        let is_conflict = self.line.conflicts() != conflicts;
                        tries.mismatch(is_conflict).await?;
                    }
                    Submitted::Overtaken => {
                        tries.mismatch(false).await?;
                        // There is nothing else to wait for.
                        yield_now().await;
                    }
                    Submitted::Failing => {}
                }
            }
        };
        self.node.client().unless_closed(update).await
    }

    /// Creates the node with this number. Returns false, and leaves the number as it is, if the node exists.
    ///
    /// # Errors
    /// - [`Error::WriteOutcomeUnknown`]: a reply was lost, and it is not known whether this call has created the node.
    /// - [`Error::ZooKeeper`] and [`Error::NotConnected`]: the servers refuse, or cannot be reached.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// The node may have been created.
    pub async fn initialize(&self, number: i64) -> Result<bool> {
        let data = number.to_be_bytes();
        let initialize = self.node.write(INITIALIZE, None, &data);
        let outcome = self.node.client().unless_closed(initialize).await;
        // If it has created the node, what was known is of another one.
        self.line.forget();
        let outcome = outcome?;
        Ok(matches!(outcome, Outcome::Written(_)))
    }

    /// Sets the number, whatever the node holds, also if that is no number. If a reply is lost, the number is written
    /// again, possibly over a change that was made in between. One round trip.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`] and [`Error::NotConnected`]: the number cannot be written.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// The number may have been changed.
    pub async fn force_set(&self, number: i64) -> Result<()> {
        let data = number.to_be_bytes();
        let set = self.node.overwrite(FORCE_SET, &data);
        let set = self.node.client().unless_closed(set).await;
        self.line.forget();
        set.map(drop)
    }

    /// Returns the full path of the node, namespace included.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    pub(super) fn client(&self) -> &Client {
        self.node.client()
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(super) fn detached(&self) -> Self {
        Self { node: self.node.detached(), ..self.clone() }
    }

    async fn submit(&self, op: Op) -> Result<Answer> {
        let submit = async {
            let mut tries = Tries::new(&self.settings, CHANGE, self.path());
            loop {
                let lock = tries.lock();
                match self.line.submit(op, None, tries.time(), lock.is_some()).await? {
                    Submitted::Answered(answer) => return Ok(answer),
                    Submitted::Overtaken => {}
                    Submitted::Failing => {
                        if let Some(lock) = lock {
                            tries.promote(lock.join()).await?;
                        }
                    }
                }
            }
        };
        self.node.client().unless_closed(submit).await
    }
}
