//! A node that outlasts its process, for a time to live, for threads.

use std::time::Duration;

use crate::blocking::client::Client;
use crate::blocking::wait::{wait, wait_within};
use crate::error::Result;
use crate::nodes::{NodeState, PersistentTtlNodeOptions};
use crate::watch::Watch;

/// A node that exists as long as this value lives, and for a time to live after it. The blocking twin of
/// [`nodes::PersistentTtlNode`](crate::nodes::PersistentTtlNode).
///
/// ```no_run
/// use std::time::Duration;
///
/// use zk_recipes::blocking::Client;
/// use zk_recipes::blocking::nodes::PersistentTtlNode;
/// use zk_recipes::nodes::PersistentTtlNodeOptions;
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let options = PersistentTtlNodeOptions::new(Duration::from_secs(600));
/// let node = PersistentTtlNode::start(&client, "/imports/tenant-42", "importer-3", options)?;
/// node.wait_present()?;
/// # fn import() {}
/// import();
/// node.close() // the servers remove it in ten minutes
/// # }
/// ```
#[must_use = "if unused, the node is kept no longer than its time to live"]
pub struct PersistentTtlNode {
    inner: crate::nodes::PersistentTtlNode,
}

twin!(PersistentTtlNode of crate::nodes);

impl PersistentTtlNode {
    /// Starts to keep a node at `path`. Does not block. See
    /// [`PersistentTtlNode::start`](crate::nodes::PersistentTtlNode::start).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn start(
        client: &Client,
        path: &str,
        data: impl Into<Vec<u8>>,
        options: PersistentTtlNodeOptions,
    ) -> Result<Self> {
        crate::nodes::PersistentTtlNode::start(&client.inner, path, data, options).map(Self::from)
    }

    /// Blocks the thread until the node exists and was touched. The blocking version of
    /// [`PersistentTtlNode::wait_present`](crate::nodes::PersistentTtlNode::wait_present).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn wait_present(&self) -> Result<String> {
        wait(self.inner.wait_present())
    }

    /// Blocks the thread until the node exists, for at most `within`. Returns `None` if it does not exist by then; it is
    /// still to be created.
    ///
    /// # Errors
    /// Same as [`wait_present`](Self::wait_present).
    pub fn wait_present_within(&self, within: Duration) -> Result<Option<String>> {
        wait_within(within, self.inner.wait_present())
    }

    /// Replaces the data of the node, and blocks the thread until that is confirmed. The blocking version of
    /// [`PersistentTtlNode::set_data`](crate::nodes::PersistentTtlNode::set_data).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
    ///   node keeps its earlier data.
    pub fn set_data(&self, data: impl Into<Vec<u8>>) -> Result<()> {
        wait(self.inner.set_data(data))
    }

    /// Returns the data that the node has, or is to have. Does not block.
    pub fn data(&self) -> Vec<u8> {
        self.inner.data()
    }

    /// Returns the state of the node as far as this client knows. Does not block.
    pub fn state(&self) -> NodeState {
        self.inner.state()
    }

    /// Follows the state of the node. See
    /// [`PersistentTtlNode::watch_state`](crate::nodes::PersistentTtlNode::watch_state).
    pub fn watch_state(&self) -> Watch<NodeState> {
        self.inner.watch_state()
    }

    /// Returns the full path of the node, namespace included.
    pub fn path(&self) -> &str {
        self.inner.path()
    }

    /// Stops keeping the node, blocking the thread until this client does nothing about it any more. The blocking version
    /// of [`PersistentTtlNode::close`](crate::nodes::PersistentTtlNode::close).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
    ///   node is not kept any more.
    pub fn close(self) -> Result<()> {
        wait(self.inner.close())
    }
}
