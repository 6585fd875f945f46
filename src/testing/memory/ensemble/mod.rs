//! Several ZooKeeper servers in memory, for simulations.

mod agenda;
mod builder;
mod election;
mod follower;
mod host;
mod leader;
mod log;
mod network;
mod pipeline;
mod replica;
mod state;
mod truth;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::DropGuard;

use self::log::Action;
use super::acl::{self, Acl};
use super::request::{Create, Write};
use super::tree::{Kind, Tree};

pub(super) use self::host::{Clock, Core};

pub use self::builder::MemoryEnsembleBuilder;
pub use self::truth::{NodeInfo, Observed, ObservedKind};

/// An ensemble of ZooKeeper servers in memory, **for tests only**, that repeats itself: the same seed leads to the
/// same outcome.
///
/// Its servers have no ports, no threads and no clocks of their own. [`serve`](Self::serve) connects a client to one
/// of them by a stream, and all of them go by tokio's clock, which a test can pause. In a
/// runtime with one thread and a paused clock, everything that happens follows from the seed and from what the
/// clients do.
///
/// The servers replicate as ZooKeeper's do. A leader numbers the writes, which are committed when a majority has
/// logged them. Each server answers reads from what it has heard of, so a follower may show the past; `sync` waits
/// until it has caught up. A leader that is cut off from the majority answers reads and `sync` until it notices. A
/// server without a leader closes its connections and refuses new ones. Sessions expire at the leader, even if the
/// server of their client, cut off from it, still answers pings.
///
/// # Differences to real servers
///
/// - An election, and the transfer of what a server has missed, take the
///   [election time](MemoryEnsembleBuilder::election_time) and no messages: the servers that take part agree at once.
/// - What a server has logged is on its disk at once. Only [`wipe`](Self::wipe) loses it.
/// - A write is checked by each server that makes it, in the same way, and not by the leader in advance.
/// - A request of a session that has moved to another server closes its connection without being logged.
/// - A request that cannot be decoded is answered with an error. A real follower closes the connection at some of them.
/// - There is neither reconfiguration nor an observer, and `/zookeeper/config` is empty.
///
/// The tests of this crate play random histories on a follower of three servers in memory and of three real ones, and
/// compare each reply and each event.
///
/// Servers have indices from 0. Methods panic at an index that is too large. Clones of this value are handles of the
/// same ensemble, which ends when the last one is dropped.
///
/// ```
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use zk_recipes::testing::MemoryEnsemble;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// tokio::time::pause();
/// let ensemble = MemoryEnsemble::builder().servers(1).seed(42).start()?;
/// let (mut client, stream) = tokio::io::duplex(4096);
/// tokio::spawn(ensemble.serve(0, stream));
/// client.write_all(b"ruok").await?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).await?;
/// assert_eq!(answer, "imok");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "if unused, the ensemble ends at once"]
pub struct MemoryEnsemble {
    core: Arc<Core>,
    _end: Arc<DropGuard>,
}

debug_by!(MemoryEnsemble, |it| servers: it.servers(), leader: it.leader());

impl MemoryEnsemble {
    /// Returns a builder for an ensemble.
    pub fn builder() -> MemoryEnsembleBuilder {
        MemoryEnsembleBuilder::default()
    }

    /// Returns the number of servers.
    pub fn servers(&self) -> usize {
        self.core.with(|state| state.replicas.len())
    }

    /// Serves a client at the other end of a stream until either side closes it. A server that is stopped, or that
    /// has no leader, closes it at once.
    ///
    /// The stream is served by the task that awaits the returned future.
    pub fn serve<S>(&self, server: usize, stream: S) -> impl Future<Output = ()> + use<S>
    where
        S: AsyncRead + AsyncWrite,
    {
        self.core.serve(server, stream)
    }

    /// Returns the server that leads, if one does: of several that believe it, the one that was elected last.
    pub fn leader(&self) -> Option<usize> {
        self.core.with(|state| state.leader())
    }

    /// Returns whether a server accepts clients: it is running, and has a leader or is one. Also true while it is
    /// [paused](Self::set_paused).
    pub fn is_serving(&self, server: usize) -> bool {
        self.core.with(|state| state.is_open(server))
    }

    /// Pauses or resumes a server. While it is paused, its connections stay open, but it neither sends nor receives.
    pub fn set_paused(&self, server: usize, is_paused: bool) {
        self.core.set_paused(server, is_paused);
    }

    /// Stops a server: its connections are closed, and new ones refused. It keeps what it has logged. Does nothing if
    /// the server is not running.
    pub fn stop(&self, server: usize) {
        self.core.with(|state| state.stop(server));
    }

    /// Starts a server that was [stopped](Self::stop) or [wiped](Self::wipe). Does nothing if it is running.
    pub fn start(&self, server: usize) {
        self.core.start(server);
    }

    /// Stops a server and removes all that it has logged.
    ///
    /// As with real servers, this can lose writes that were acknowledged, if too few of the others have logged them.
    pub fn wipe(&self, server: usize) {
        self.core.with(|state| state.wipe(server));
    }

    /// Splits the network between the servers: only servers that are in the same group hear each other. A server in no
    /// group is cut off from all others. Replaces an earlier partition. Clients still reach every server.
    pub fn partition(&self, groups: &[&[usize]]) {
        self.core.with(|state| state.partition(groups));
    }

    /// Ends a [partition](Self::partition).
    pub fn heal(&self) {
        let all: Vec<_> = (0..self.servers()).collect();
        self.partition(&[&all]);
    }

    /// Sets how much later than the others a follower hears of commits. Until then, what its clients read is in the
    /// past. Has no effect on a leader.
    pub fn set_lag(&self, server: usize, lag: Duration) {
        self.core.with(|state| state.replicas[server].lag = lag);
    }

    /// Sets whether a server leaves out the reply to the next create, and goes on answering that connection. ZooKeeper
    /// does so when it takes the outcome of another request for that of the create.
    pub fn omit_reply(&self, server: usize, omits: bool) {
        self.core.with(|state| state.replicas[server].database.omits_reply = omits);
    }

    /// Closes all client connections of a server. Clients can connect again immediately.
    pub fn cut_connections(&self, server: usize) {
        self.core.with(|state| state.replicas[server].database.cut_all());
    }

    /// Moves the wall clock of a server forward. It stamps the nodes that are created or changed while the server
    /// leads, and decides when their time to live is over. Session timeouts do not depend on it.
    pub fn advance_wall_clock(&self, server: usize, by: Duration) {
        self.core.with(|state| state.replicas[server].ahead += by);
    }

    /// Returns a node of the newest committed state.
    pub fn node(&self, path: &str) -> Option<NodeInfo> {
        self.with_truth(|tree| tree.node(path).ok().map(NodeInfo::of))
    }

    /// Returns the names of a node's children in the newest committed state, sorted. `None` if there is no such node.
    pub fn children(&self, path: &str) -> Option<Vec<String>> {
        self.with_truth(|tree| {
            let mut names: Vec<_> = tree.node(path).ok()?.names().into_iter().map(String::from).collect();
            names.sort_unstable();
            Some(names)
        })
    }

    /// Returns all nodes below a path in the newest committed state, sorted by their paths.
    pub fn nodes_below(&self, path: &str) -> Vec<(String, NodeInfo)> {
        self.with_truth(|tree| {
            let paths = tree.paths_below(path).into_iter();
            paths.filter_map(|path| Some((path.to_owned(), NodeInfo::of(tree.node(path).ok()?)))).collect()
        })
    }

    /// Returns how many nodes the newest committed state has, with the four that every server begins with.
    pub fn node_count(&self) -> usize {
        self.with_truth(Tree::len)
    }

    fn with_truth<R>(&self, look: impl FnOnce(&Tree) -> R) -> R {
        self.core.with(|state| look(&state.newest().tree))
    }

    /// Returns the ids of the sessions in the newest committed state, sorted.
    pub fn session_ids(&self) -> Vec<i64> {
        self.core.with(|state| state.newest().sessions.ids().collect())
    }

    /// Returns how many watches the clients have set at all servers. The watches of one session on one path count at
    /// most twice: once for the node, for its existence or its data, and once for its children.
    pub fn watch_count(&self) -> usize {
        self.core.with(|state| state.replicas.iter().map(|replica| replica.database.watches.len()).sum())
    }

    /// Returns how many packets all servers have received from clients. Pings count, and so do four-letter words.
    pub fn packets(&self) -> u64 {
        self.core.with(|state| state.replicas.iter().map(|replica| replica.database.received).sum())
    }

    /// Calls a function for each change that is committed from now on, once and in their order.
    ///
    /// The function can look at the ensemble, whose state may be newer than the change. If it makes a change, it is
    /// called for that after it has returned.
    pub fn observe(&self, observer: impl FnMut(&Observed) + Send + 'static) {
        self.core.observe(Box::new(observer));
    }

    /// Creates a persistent node, or a container, as another client would that may do everything. Has no effect if
    /// the node exists, or if its parent does not.
    ///
    /// Returns false if there is no leader. Otherwise the leader has proposed the change, which a single server has
    /// committed when this returns.
    pub fn create(&self, path: &str, data: &[u8], is_container: bool) -> bool {
        let kind = if is_container { Kind::Container } else { Kind::Persistent };
        self.operate(Action::Write(Write::Create(Create {
            path: path.into(),
            data: Some(data.to_vec()),
            acl: vec![Acl::of_everyone(acl::ALL)],
            kind,
            is_sequential: false,
            returns_stat: false,
        })))
    }

    /// Sets the data of a node. Returns the same as [`create`](Self::create).
    pub fn set_data(&self, path: &str, data: &[u8]) -> bool {
        let (path, data) = (path.into(), Some(data.to_vec()));
        self.operate(Action::Write(Write::SetData { path, data, version: -1 }))
    }

    /// Deletes a node with everything below it, in one transaction. Returns the same as [`create`](Self::create).
    pub fn delete(&self, path: &str) -> bool {
        self.operate(Action::DeleteAll(path.into()))
    }

    fn operate(&self, action: Action) -> bool {
        self.core.with(|state| state.operate(action, 0))
    }

    /// Ends a session with its ephemeral nodes, as if it had expired. Returns the same as [`create`](Self::create).
    pub fn end_session(&self, session: i64) -> bool {
        self.core.with(|state| state.end_session(session))
    }
}
