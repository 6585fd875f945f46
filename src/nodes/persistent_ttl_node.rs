//! A node that outlasts its process, for a time to live.

use std::time::Duration;

use super::keeping::Touch;
use super::options::{NodeMode, PersistentNodeOptions, PersistentTtlNodeOptions};
use super::persistent_node::PersistentNode;
use super::state::NodeState;
use crate::client::{Client, validate_path};
use crate::cut::cut;
use crate::error::{Error, Result};
use crate::watch::Watch;

/// The longest that servers accept: they have 40 bits for it.
const LONGEST_TTL: Duration = Duration::from_millis((1 << 40) - 1);

/// A node that exists as long as this value lives, and for a time to live after it. It belongs to no session, so it outlasts
/// the end of a session and a restart of the process, and several processes can keep the same one: it vanishes when the last
/// of them has been gone for that time.
///
/// The servers must run with `zookeeper.extendedTypesEnabled=true`, and be ZooKeeper 3.5.3 or later.
///
/// A host in maintenance, a tenant with a running import, a feature that is switched on: something that is to be seen for as
/// long as anyone stands by it, and not to flicker when a process is restarted.
///
/// ```no_run
/// use std::time::Duration;
///
/// use zk_recipes::Client;
/// use zk_recipes::nodes::{PersistentTtlNode, PersistentTtlNodeOptions};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// // The process that assigns work looks here. A deployment that restarts the importer within ten minutes does not
/// // show.
/// let options = PersistentTtlNodeOptions::new(Duration::from_secs(600));
/// let node = PersistentTtlNode::start(&client, "/imports/tenant-42", "importer-3", options)?;
/// node.wait_present().await?; // an error if it cannot be created, or kept
/// # async fn import() {}
/// import().await;
/// drop(node); // the servers remove it in ten minutes, unless someone else keeps it
/// # Ok(())
/// # }
/// ```
///
/// # How it is kept
/// The node has a child, `touch`, with the same time to live. The value writes to that child twice in this time. Servers do
/// not remove a node that has a child, and who watches the node sees nothing of these writes. When they end, the servers
/// first remove the child and then the node, each at one of their checks, which are a minute apart by default. Other
/// children of the node keep it as well.
///
/// The node and the child are created in one transaction, so nothing stays for ever if the process dies at any point; only
/// parents may, if they have never had a child.
///
/// All that keep one node must give the same time to live. The servers do not tell the one that a node has, and that of
/// the client that created the child counts: while it is shorter than that of another, the node may vanish for a moment
/// when its creator has gone.
///
/// # What others do to it
/// Same as for a [`PersistentNode`]: a node that was deleted is made again, and other data are replaced by those of this
/// value. So give the same data to all values that keep one node. A node that is at the path already is kept from then on,
/// the client that created it; a persistent one without a time to live never vanishes. An ephemeral one is left alone
/// ([`Error::NodeTaken`]).
///
/// # Cost
/// Creating it takes one round trip. Then it takes one in half of the time to live, of a write and a look.
///
/// Sources: Curator's `PersistentTtlNode`, which hides errors, touches the node for the first time after half of its time to
/// live, and before 5.9 leaves it for ever if the process dies before that.
#[must_use = "if unused, the node is kept no longer than its time to live"]
pub struct PersistentTtlNode {
    node: PersistentNode,
}

debug_by!(PersistentTtlNode, |it| path: it.path(), state: it.state());

impl PersistentTtlNode {
    /// Starts to keep a node at `path`, below the client's namespace, and returns immediately. No connection is needed yet:
    /// the node is created as soon as there is one. Missing parents are created as containers.
    ///
    /// Later errors show in [`wait_present`](Self::wait_present) and [`watch_state`](Self::watch_state).
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: the time to live is none that servers accept, the name of the child is not valid, the
    ///   data are larger than the servers accept, or this client keeps a node at `path` already.
    pub fn start(
        client: &Client,
        path: &str,
        data: impl Into<Vec<u8>>,
        options: PersistentTtlNodeOptions,
    ) -> Result<Self> {
        let PersistentTtlNodeOptions { ttl, child_name, creates_parents } = options;
        let path = client.full_path(path)?;
        let touch = Touch::new(in_millis(ttl)?, child(&path, &child_name)?.into());
        let options = PersistentNodeOptions::new().mode(NodeMode::Persistent).create_parents(creates_parents);
        PersistentNode::start_with(client, path, data.into(), options, Some(touch), None)
            .map(|node| Self { node })
    }

    /// Waits until the node exists and was touched, and returns its full path, namespace included. Returns immediately if
    /// it is kept already.
    ///
    /// # Errors
    /// - [`Error::TtlUnsupported`]: the servers do not have such nodes.
    /// - All others of [`PersistentNode::wait_present`]. [`Error::ZooKeeper`] also if the child cannot be written to.
    ///
    /// # Cancel safety
    /// Cancel safe: the node is kept all the same.
    pub async fn wait_present(&self) -> Result<String> {
        self.node.wait_present().await
    }

    /// Replaces the data of the node, and waits until that is confirmed. See [`PersistentNode::set_data`]. Two round trips.
    ///
    /// # Errors
    /// Same as [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    /// From the first poll on, the data are the newest, and are written even if this is dropped.
    pub async fn set_data(&self, data: impl Into<Vec<u8>>) -> Result<()> {
        self.node.set_data(data).await
    }

    /// Returns the data that the node has, or is to have. Makes no request.
    pub fn data(&self) -> Vec<u8> {
        self.node.data()
    }

    /// Returns the state of the node as far as this client knows. Makes no request.
    pub fn state(&self) -> NodeState {
        self.node.state()
    }

    /// Follows the state of the node. See [`PersistentNode::watch_state`].
    pub fn watch_state(&self) -> Watch<NodeState> {
        self.node.watch_state()
    }

    /// Returns the full path of the node, namespace included.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Stops keeping the node, and waits until this client does nothing about it any more. The servers remove it after its
    /// time to live. Dropping the value does the same in the background.
    ///
    /// # Errors
    /// - [`Error::Closed`]: the client ended before this did. The node goes in the same way.
    ///
    /// # Cancel safety
    /// The node is not kept any more.
    pub async fn close(self) -> Result<()> {
        self.node.close().await
    }
}

/// # Errors
/// [`Error::InvalidArgument`] if servers have no such time to live.
fn in_millis(ttl: Duration) -> Result<Duration> {
    let millis = Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    if millis.is_zero() || millis > LONGEST_TTL {
        let reason = format!("it is {ttl:?}; give at least 1 ms and at most {} ms", LONGEST_TTL.as_millis());
        return Err(Error::InvalidArgument { argument: "ttl", reason });
    }
    Ok(millis)
}

/// # Errors
/// [`Error::InvalidArgument`] if the name is none of a node.
fn child(path: &str, name: &str) -> Result<String> {
    let child = format!("{path}/{name}");
    if name.contains('/') || validate_path(&child).is_err() {
        let reason = format!("{:?} is not the name of a node; give a name without '/'", cut(name));
        return Err(Error::InvalidArgument { argument: "child_name", reason });
    }
    Ok(child)
}
