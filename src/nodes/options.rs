//! How a node is kept.

use std::time::Duration;

/// The options of a [`PersistentNode`](super::PersistentNode).
///
/// ```
/// use zk_recipes::nodes::{NodeMode, OnStranger, PersistentNodeOptions};
///
/// let options = PersistentNodeOptions::new().mode(NodeMode::EphemeralSequential).on_stranger(OnStranger::Wait);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until a node is started with them"]
pub struct PersistentNodeOptions {
    pub(super) mode: NodeMode,
    pub(super) on_stranger: OnStranger,
    pub(super) creates_parents: bool,
}

/// The kind of a kept node.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodeMode {
    /// The servers remove the node when the session ends; the next session of the client makes it again.
    #[default]
    Ephemeral,
    /// The same, and the servers append a number to the path, once: the node that is made again has the same name. The
    /// name begins with `_c_`, a UUID and `-`, by which the node is identified when the reply to its create is lost.
    EphemeralSequential,
    /// The node belongs to no session and stays when the process dies. It is made again only when someone deletes it.
    ///
    /// Such a node does not say whose it is. One that is there already is taken over, with its czxid, and gets the data of
    /// the value; two values at one path would overwrite each other. Closing the client deletes it as well. If the value ends
    /// before it was [present](super::NodeState::Present), a node that was there already is left.
    ///
    /// If the reply to a create was lost, and the value ends before it is known what became of that, or within two session
    /// timeouts, a node at the path counts as the one of that create if it has the same data and no one has written to it:
    /// it is deleted, up to two session timeouts later.
    Persistent,
}

/// What to report if someone else's node is at the path. It is never touched, and the kept node is created as soon as it is
/// gone, whatever is chosen here.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStranger {
    /// [`wait_present`](super::PersistentNode::wait_present) fails with [`Error::NodeTaken`](crate::Error::NodeTaken).
    #[default]
    Fail,
    /// It waits until the other node is gone, such as that of an earlier run of this process, whose session has not
    /// expired yet.
    Wait,
}

impl PersistentNodeOptions {
    /// The default options: an ephemeral node, [`OnStranger::Fail`], and parents that are created.
    pub fn new() -> Self {
        Self { mode: NodeMode::default(), on_stranger: OnStranger::default(), creates_parents: true }
    }

    /// Sets the kind of the node. The default is [`NodeMode::Ephemeral`].
    pub fn mode(self, mode: NodeMode) -> Self {
        Self { mode, ..self }
    }

    /// Sets what to report if someone else's node is at the path. The default is [`OnStranger::Fail`].
    pub fn on_stranger(self, on_stranger: OnStranger) -> Self {
        Self { on_stranger, ..self }
    }

    /// Sets whether missing parents are created, as containers. The default is true. Otherwise, the node is
    /// [blocked](super::NodeState::Blocked) while its parent is missing.
    pub fn create_parents(self, creates_parents: bool) -> Self {
        Self { creates_parents, ..self }
    }
}

/// The options of a [`PersistentTtlNode`](super::PersistentTtlNode).
///
/// ```
/// use std::time::Duration;
///
/// use zk_recipes::nodes::PersistentTtlNodeOptions;
///
/// let options = PersistentTtlNodeOptions::new(Duration::from_secs(600)).child_name("alive");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until a node is started with them"]
pub struct PersistentTtlNodeOptions {
    pub(super) ttl: Duration,
    pub(super) child_name: String,
    pub(super) creates_parents: bool,
}

impl PersistentTtlNodeOptions {
    /// The options for a time to live, in whole milliseconds: at least one, and less than 2^40, which is almost 35 years.
    ///
    /// Servers look for nodes whose time is over once a minute (`znode.container.checkIntervalMs`), so a node lives up to
    /// two minutes longer. An outage that is longer than the time to live may take the node away, which is made again after
    /// it. The node is touched twice in its time to live, so a time below seconds costs requests, and gains nothing.
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, child_name: "touch".to_owned(), creates_parents: true }
    }

    /// Sets the name of the child that is rewritten. The default is `touch`, as in Curator.
    pub fn child_name(self, child_name: impl Into<String>) -> Self {
        Self { child_name: child_name.into(), ..self }
    }

    /// Sets whether missing parents are created, as containers. The default is true. Otherwise, the node is
    /// [blocked](super::NodeState::Blocked) while its parent is missing.
    pub fn create_parents(self, creates_parents: bool) -> Self {
        Self { creates_parents, ..self }
    }
}

impl Default for PersistentNodeOptions {
    fn default() -> Self {
        Self::new()
    }
}
