//! A node that is there as long as a value lives, for threads.

use std::time::Duration;

use crate::blocking::client::Client;
use crate::blocking::wait::{wait, wait_within};
use crate::error::Result;
use crate::nodes::{NodeState, PersistentNodeOptions};
use crate::watch::Watch;

/// A node that exists as long as this value lives. The blocking twin of
/// [`nodes::PersistentNode`](crate::nodes::PersistentNode).
///
/// ```no_run
/// use zk_recipes::blocking::Client;
/// use zk_recipes::blocking::nodes::PersistentNode;
/// use zk_recipes::nodes::PersistentNodeOptions;
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let options = PersistentNodeOptions::new();
/// let node = PersistentNode::start(&client, "/services/web/7", "10.0.0.7:8080", options)?;
/// println!("listed as {}", node.wait_present()?);
/// # fn serve() {}
/// serve();
/// node.close()
/// # }
/// ```
#[must_use = "if unused, the node is deleted at once"]
pub struct PersistentNode {
    inner: crate::nodes::PersistentNode,
}

twin!(PersistentNode of crate::nodes);

impl PersistentNode {
    /// Starts to keep a node at `path`. Does not block. See
    /// [`PersistentNode::start`](crate::nodes::PersistentNode::start).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn start(
        client: &Client,
        path: &str,
        data: impl Into<Vec<u8>>,
        options: PersistentNodeOptions,
    ) -> Result<Self> {
        crate::nodes::PersistentNode::start(&client.inner, path, data, options).map(Self::from)
    }

    /// Blocks the thread until the node exists. The blocking version of
    /// [`PersistentNode::wait_present`](crate::nodes::PersistentNode::wait_present).
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
    /// [`PersistentNode::set_data`](crate::nodes::PersistentNode::set_data).
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
    /// [`PersistentNode::watch_state`](crate::nodes::PersistentNode::watch_state).
    pub fn watch_state(&self) -> Watch<NodeState> {
        self.inner.watch_state()
    }

    /// Returns the full path as it was given, namespace included.
    pub fn path(&self) -> &str {
        self.inner.path()
    }

    /// Deletes the node, blocking the thread until it is gone. The blocking version of
    /// [`PersistentNode::close`](crate::nodes::PersistentNode::close).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
    ///   node is deleted in the background.
    pub fn close(self) -> Result<()> {
        wait(self.inner.close())
    }
}
