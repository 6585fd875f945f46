//! A node that is there as long as a value lives.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use zookeeper_client::CreateMode;

use super::keeping::{IsSame, Keeper, Progress, Touch, Wanted};
use super::options::{NodeMode, OnStranger, PersistentNodeOptions};
use super::state::NodeState;
use crate::client::{Client, Write, of_write};
use crate::error::{Error, Result};
use crate::waker::guarded;
use crate::watch::Watch;

/// A node that exists as long as this value lives: over lost connections, ended sessions, and deletions by others. Other
/// processes see by it that this one is there, and where.
///
/// The node belongs to the session of the client, so that the servers remove it when this process dies. When the session
/// has ended, the next session makes it again; if the node of the ended session is still there, it is replaced in one
/// transaction, so watchers see no gap. A node that belongs to another session is left alone: every write and every delete
/// follows a look, and fails if the node has another version by then. ZooKeeper cannot compare owners, so one case is not
/// noticed: within the round trip after the look, someone deletes the node and creates one that has the same version, or any
/// version if this client may not read it.
///
/// ```no_run
/// use zk_recipes::Client;
/// use zk_recipes::nodes::{PersistentNode, PersistentNodeOptions};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let options = PersistentNodeOptions::new();
/// let node = PersistentNode::start(&client, "/services/web/7", "10.0.0.7:8080", options)?;
/// node.wait_present().await?; // an error if it cannot be created
/// # async fn serve() {}
/// serve().await;
/// node.close().await // deletes it
/// # }
/// ```
///
/// # What others do to it
/// If someone deletes the node, it is made again. If someone writes other data to it, the data of this value are written
/// back. Both happen at once the first time, and after growing pauses, of up to 5 seconds, if someone goes on doing so.
/// Meanwhile, the state shows within about a second what has become of the node. A client that compresses takes data that
/// decompress to those of the value for its own.
///
/// # Cost
/// Creating it takes one round trip, in which it is watched as well; a numbered one takes two. A reconnect within the
/// session takes one read, and no write unless the data differ: watchers of the node notice nothing. The replacement after
/// the end of a session takes three round trips.
///
/// Servers may tell nothing of a node that this client may not read. So the data of the node are read once, some seconds
/// after it was created; if that is not permitted, it is looked at every 4 to 6 seconds, and so is someone else's node for
/// as long as it is in the way. If someone takes away the permission later, this is noticed with the next request: at the
/// latest with new data or on the next connection.
///
/// Sources: Curator's `PersistentNode`, which also writes the data at each reconnect, takes a node of another session for
/// its own, deletes what is at the path when it is closed, and repeats refused creates without a pause.
#[must_use = "if unused, the node is deleted at once"]
pub struct PersistentNode {
    client: Client,
    path: Arc<str>,
    /// Of what is created along with the node.
    size_beside: usize,
    options: PersistentNodeOptions,
    wanted: watch::Sender<Wanted>,
    progress: watch::Receiver<Progress>,
    state: Watch<NodeState>,
    closing: CancellationToken,
    _close_on_drop: DropGuard,
}

debug_by!(PersistentNode, |it| path: it.path(), state: it.state());

impl PersistentNode {
    /// Starts to keep a node at `path`, below the client's namespace, and returns immediately. No connection is needed yet:
    /// the node is created as soon as there is one. Missing parents are created as containers.
    ///
    /// Later errors show in [`wait_present`](Self::wait_present) and [`watch_state`](Self::watch_state).
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: the data are larger than the servers accept, or than readers decompress if the client
    ///   compresses; or this client keeps a node at `path` already.
    pub fn start(
        client: &Client,
        path: &str,
        data: impl Into<Vec<u8>>,
        options: PersistentNodeOptions,
    ) -> Result<Self> {
        Self::start_with(client, client.full_path(path)?, data.into(), options, None, None)
    }

    /// The same as [`start`](Self::start) with [`NodeMode::Persistent`], but a node with other data than those of the value
    /// is someone else's: it is not taken over, and the node is given up to those who write other data to it.
    #[cfg(feature = "discovery")]
    pub(crate) fn start_unless_taken(
        client: &Client,
        path: &str,
        data: impl Into<Vec<u8>>,
        options: PersistentNodeOptions,
        is_same: IsSame,
    ) -> Result<Self> {
        let options = options.mode(NodeMode::Persistent);
        Self::start_with(client, client.full_path(path)?, data.into(), options, None, Some(is_same))
    }

    /// Starts to keep a node at a full path. It vanishes when it is not touched any more, if it is to be touched.
    pub(super) fn start_with(
        client: &Client,
        path: Arc<str>,
        data: Vec<u8>,
        options: PersistentNodeOptions,
        touch: Option<Touch>,
        is_same: Option<IsSame>,
    ) -> Result<Self> {
        let size_beside = touch.as_ref().map_or(0, |touch| touch.size(client));
        ensure_fits(client, &path, &data, size_beside)?;
        let (wanted, data) = watch::channel(Wanted { generation: 1, data: data.into() });
        let closing = match options.mode {
            NodeMode::Persistent => client.leaving().child_token(),
            NodeMode::Ephemeral | NodeMode::EphemeralSequential => CancellationToken::new(),
        };
        let (progress, state) =
            Keeper::start(client, &path, &options, touch, is_same, data, closing.clone())?;
        let _close_on_drop = closing.clone().drop_guard();
        let client = client.clone();
        Ok(Self { client, path, size_beside, options, wanted, progress, state, closing, _close_on_drop })
    }

    /// Waits until the node exists, and returns its full path, namespace included. Returns immediately if it does.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the servers refuse to create the node, for example because permission is missing. This is
    ///   returned immediately, while the node is still being tried again. Unreachable servers are no error here.
    /// - [`Error::NodeTaken`]: someone else's node is there, unless the [options](OnStranger::Wait) are to wait.
    /// - [`Error::Closed`], [`Error::AuthFailed`], [`Error::SessionOver`]: there will be no session.
    ///
    /// # Cancel safety
    /// Cancel safe: the node is kept all the same.
    pub async fn wait_present(&self) -> Result<String> {
        let waits = self.options.on_stranger == OnStranger::Wait;
        let is_settled = |state: &NodeState| match state {
            NodeState::Present { .. } | NodeState::Closed => true,
            NodeState::Blocked(Error::NodeTaken { .. }) => !waits,
            NodeState::Blocked(_) => true,
            NodeState::Absent => false,
        };
        match self.watch_state().wait_for(is_settled).await {
            Some(NodeState::Present { path, .. }) => Ok(path),
            Some(NodeState::Blocked(error)) => Err(error),
            Some(NodeState::Absent | NodeState::Closed) | None => Err(self.closed()),
        }
    }

    /// Replaces the data of the node, and waits until the servers have confirmed that the node exists with these data, or
    /// with those of a later call. The newest data always win, whatever else is in progress. Two round trips.
    ///
    /// While there is no connection or no session, this waits; so does it while [someone else's
    /// node](NodeState::Blocked) is there. Use `tokio::time::timeout` to limit that.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the data are larger than the servers accept, or than readers decompress if the client
    ///   compresses. The node keeps its earlier data.
    /// - [`Error::ZooKeeper`]: the servers refuse, for example because permission is missing. The data are still the
    ///   newest, and are written when the servers accept them.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// From the first poll on, the data are the newest, and are written even if this is dropped.
    pub async fn set_data(&self, data: impl Into<Vec<u8>>) -> Result<()> {
        let data = data.into();
        ensure_fits(&self.client, &self.path, &data, self.size_beside)?;
        let mut generation = 0;
        self.wanted.send_modify(|wanted| {
            wanted.generation += 1;
            wanted.data = data.into();
            generation = wanted.generation;
        });
        let is_refused = |progress: &Progress| {
            let refused = progress.refused.as_ref().filter(|(refused, _)| *refused >= generation);
            refused.filter(|(_, error)| !matches!(error, Error::NodeTaken { .. })).is_some()
        };
        let settled = self.progress(|progress| {
            progress.confirmed >= generation || is_refused(progress) || progress.ended.is_some()
        });
        let progress = settled.await?;
        if progress.confirmed >= generation {
            return Ok(());
        }
        match progress.refused {
            Some((refused, error)) if refused >= generation => Err(error),
            _ => Err(self.closed()),
        }
    }

    /// Returns the data that the node has, or is to have. Makes no request.
    pub fn data(&self) -> Vec<u8> {
        self.wanted.borrow().data.to_vec()
    }

    /// Returns the state of the node as far as this client knows. Makes no request.
    pub fn state(&self) -> NodeState {
        self.state.get()
    }

    /// Follows the state of the node. The last state is [`NodeState::Closed`], after which this ends.
    ///
    /// ```no_run
    /// # async fn example(node: zk_recipes::nodes::PersistentNode) {
    /// let mut states = node.watch_state();
    /// while let Some(state) = states.changed().await {
    ///     println!("{state:?}");
    /// }
    /// # }
    /// ```
    pub fn watch_state(&self) -> Watch<NodeState> {
        self.state.anew()
    }

    /// Returns the full path as it was given, namespace included. [`wait_present`](Self::wait_present) and
    /// [`state`](Self::state) return that of the node, which has a prefix and a number if it is numbered.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Deletes the node, if it is there and ours, and waits until it is gone: two round trips, or until its session is
    /// over. In that case this does not wait for servers that cannot be reached: by their clocks the session may end later,
    /// and others may see the node until then, or until the whole session timeout after a restart of the servers. Dropping the value does the same in the background. Someone who goes on writing to the node holds this up for
    /// a second or two; then it is deleted whatever he writes.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the servers refuse. An ephemeral node stays until the session ends.
    /// - [`Error::NotConnected`], [`Error::AuthFailed`]: a node of [`NodeMode::Persistent`] could not be deleted under the
    ///   retry policy. That is tried again in the background for as long as the client lives.
    /// - [`Error::Closed`]: the client was closed, with whose session an ephemeral node goes; if the session was adopted,
    ///   the node is deleted when this value is gone.
    ///
    /// # Cancel safety
    /// The deletion goes on in the background.
    pub async fn close(self) -> Result<()> {
        self.closing.cancel();
        let progress = self.progress(|progress| progress.ended.is_some()).await?;
        progress.ended.unwrap_or(Err(Error::Closed))
    }

    /// Waits for the keeper. Ends when that has ended in another way, as with its runtime.
    async fn progress(&self, is_done: impl Fn(&Progress) -> bool) -> Result<Progress> {
        let mut progress = self.progress.clone();
        let done = guarded(progress.wait_for(|progress| is_done(progress))).await;
        done.map(|progress| progress.clone()).map_err(|_| self.closed())
    }

    fn closed(&self) -> Error {
        if self.client.is_closed() {
            return Error::Closed;
        }
        Error::NodeClosed { path: self.path.to_string() }
    }
}

/// # Errors
/// [`Error::InvalidArgument`] if the servers would reject the create of a node with these data, or readers would not
/// decompress them.
fn ensure_fits(client: &Client, path: &str, data: &[u8], size_beside: usize) -> Result<()> {
    // A name may get a prefix and a number.
    const PROTECTION: usize = 64;
    client.ensure_readable("data", data)?;
    let acl = client.acl_of(path);
    let data = client.node_data(data);
    let create = Write::Create { path, data: &data, mode: CreateMode::Ephemeral, acl: &acl };
    let delete = Write::Delete { path, version: None };
    client.ensure_fits("data", [of_write(&create) + PROTECTION, of_write(&delete), size_beside])
}
