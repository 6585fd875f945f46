//! The handle of a cache.

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::changes::Changes;
use super::driver::Driver;
use super::options::CacheOptions;
use super::pure::Rules;
use super::shared::Shared;
use super::snapshot::Snapshot;
use super::state::CacheState;
use crate::client::Client;
use crate::error::Result;
use crate::watch::Watch;

/// A node, its children, or a tree of nodes, kept up to date in memory.
///
/// Reads make no request. The [snapshot](Self::current) is what the client's server had a moment ago; its
/// [state](Self::state) tells whether that is so. [`changes`](Self::changes) yields what changes, one after the other,
/// and [`wait_until`](Self::wait_until) waits for something to become true. See [the guide](crate::guide::caches).
///
/// ```no_run
/// use zk_recipes::cache::{Cache, CacheOptions};
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let settings = Cache::start(&client, "/settings", CacheOptions::children())?;
/// let snapshot = settings.wait_loaded().await?;
/// for node in snapshot.children("/settings") {
///     println!("{}: {} bytes", node.name(), node.data_length());
/// }
/// // Later, without a request:
/// let limit = settings.current().data("/settings/limit").map(<[u8]>::to_vec);
/// # Ok(())
/// # }
/// ```
///
/// # Consistency
/// The cache shows each node as it was at some time, and never goes back. Different nodes may be of slightly different
/// times: a transaction that changes several nodes may be shown in parts. It lags behind the servers by the time of an
/// event and a read, and by more after a reconnect, when it says that it is [stale](CacheState::Stale). Several changes
/// of one node within that time may be shown as one. To act on what is true at this very moment, read the node, or make
/// the write conditional on [`CachedNode::version`](super::CachedNode::version).
///
/// After a lost connection or session, everything is read again; a node that was deleted and created again meanwhile is
/// told as both. The cache never holds a part of what its options describe without saying so: until it has loaded the
/// snapshot is empty, and a cache that would exceed its limits [fails](CacheState::Failed).
///
/// # Cost
/// To load, one read of each node, and a list for each node with children, up to 8 of them in one request; each change
/// costs one read, each deletion none. A reply has about 512 KiB at most if the nodes are as large as those before them, or
/// as they were. No one knows that before they are read: the worst reply has 8 of the largest nodes, 8 MiB with the
/// default limit of the servers (`jute.maxbuffer`), and the worst 8 replies that are under way at once have 64 MiB. After
/// one such reply, the nodes are read one by one until they are smaller again. After a reconnect all nodes are read
/// again; the lists only of nodes whose children have changed. Clients delay that by a random time, up to 2 s for large
/// caches, since all of them lose their connections at once when a server restarts. The server does a little more work
/// for each write, whatever its path, as long as any client has a cache.
///
/// Each node takes some memory besides its path and data, which `cargo bench --bench cache` measures. A snapshot shares
/// its memory with the cache, which copies some hundred pointers when it changes.
///
/// # Servers
/// It needs ZooKeeper 3.6.
///
/// All caches of a client share a second session, with a connection of its own, which the first of them opens and the end
/// of the client closes. Before 3.9, watches of caches and of locks on the same node of one session may end each other
/// (ZOOKEEPER-4466). So a cache may be current while the client is not connected, and the other way round. A client that
/// [adopted](Client::from_zookeeper) its session has no second one, and no caches.
///
/// # Permissions
/// A node that the client may not read is [held without data](super::Snapshot::unreadable). The servers tell nothing of a
/// change of permissions. If a node that was readable becomes unreadable, the cache goes on showing what it was, also while
/// it is [current](CacheState::Current), and servers from 3.8.4 and 3.9.2 on do not tell of later changes and of the
/// deletion of that node. It is noticed when the node is read next: after a reconnect at the latest. Do not rely on a cache
/// to forget what the client may no longer know. A node that becomes readable is noticed at the next change of it or below
/// it.
///
/// These servers do not tell which node an unreadable one is either. If another one has taken its place meanwhile, that is
/// noticed when it is readable, and only if it was readable before: what is known below it is told as deleted and created,
/// too. Otherwise it is told as [changed](super::Change::Changed).
///
/// # Ends
/// The cache is kept up to date until all of its handles are dropped, or the client is closed or its runtime shut down.
/// [`Changes`] and a [`Watch`] of the state do not keep it alive. Its watch is removed then.
///
/// Sources: Curator's `CuratorCache`, `TreeCache`, `PathChildrenCache` and `NodeCache`.
#[derive(Clone)]
#[must_use = "a cache that is dropped is not kept up to date"]
pub struct Cache {
    shared: Arc<Shared>,
    /// Dropped before the client.
    _alive: Arc<DropGuard>,
    /// Keeps the client open.
    _client: Client,
}

debug_by!(Cache, |it| path: it.path(), state: it.state());

impl Cache {
    /// Starts a cache of the node at `path`, below the client's namespace, and of what the options say. Returns
    /// immediately, and loads in the background. The node need not exist. The path may be `/`: see
    /// [the guide](crate::guide::caches#the-root).
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): a limit in the options is zero, or its buffer too
    ///   large, or the client [adopted](Client::from_zookeeper) its session.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    pub fn start(client: &Client, path: &str, options: CacheOptions) -> Result<Self> {
        let full_path = client.full_path_or_root(path)?;
        options.validate()?;
        if client.is_closed() {
            return Err(crate::Error::Closed);
        }
        let root: Arc<str> = path.into();
        let meters = client.labels().cache_meters(&full_path);
        let shared = Arc::new(Shared::new(root.clone(), options.buffer, meters));
        let dropped = CancellationToken::new();
        let driver = Driver::new(client.for_watches()?, Rules { root, full_path, options }, shared.clone());
        client.spawn(driver.run(dropped.clone()));
        Ok(Self { shared, _alive: Arc::new(dropped.drop_guard()), _client: client.clone() })
    }

    /// Returns the path, below the client's namespace.
    pub fn path(&self) -> &str {
        &self.shared.path
    }

    /// Returns what the cache holds now. Makes no request, and copies nothing, whatever the size. Empty until
    /// the cache has loaded: see [`wait_loaded`](Self::wait_loaded).
    pub fn current(&self) -> Arc<Snapshot> {
        self.shared.snapshot()
    }

    /// Returns how up to date the snapshot is.
    pub fn state(&self) -> CacheState {
        self.shared.state()
    }

    /// Follows the state. Ends when the cache does.
    pub fn watch_state(&self) -> Watch<CacheState> {
        self.shared.watch_state()
    }

    /// Returns the changes from now on, beginning with a snapshot. Each call returns a reader of its own.
    ///
    /// ```no_run
    /// use zk_recipes::cache::{Cache, CacheEvent, Change};
    ///
    /// # async fn example(cache: Cache) {
    /// let mut changes = cache.changes();
    /// while let Some(event) = changes.next().await {
    ///     match event {
    ///         CacheEvent::Reset(snapshot) => println!("{} nodes; forget what was before", snapshot.len()),
    ///         CacheEvent::Change(Change::Created(node)) => println!("new: {}", node.path()),
    ///         CacheEvent::Change(Change::Changed { new, .. }) => println!("changed: {}", new.path()),
    ///         CacheEvent::Change(Change::Deleted(node)) => println!("gone: {}", node.path()),
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn changes(&self) -> Changes {
        Changes::new(self.shared.clone())
    }

    /// Waits until the cache has loaded, and returns the snapshot. Returns immediately after that, also while the cache
    /// is stale.
    ///
    /// No time-out applies: without servers it waits for them. Limit it with `tokio::time::timeout`.
    ///
    /// # Errors
    /// - [`Error::CacheTooLarge`](crate::Error::CacheTooLarge): there is more than the options allow.
    /// - [`Error::CacheFilterPanicked`](crate::Error::CacheFilterPanicked): a filter in the options panicked.
    /// - [`Error::WatchUnsupported`](crate::Error::WatchUnsupported): the servers are older than 3.6.
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the servers refuse the requests.
    /// - [`Error::AuthFailed`](crate::Error::AuthFailed), [`Error::SessionOver`](crate::Error::SessionOver) and
    ///   [`Error::Closed`](crate::Error::Closed): the client has ended.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_loaded(&self) -> Result<Arc<Snapshot>> {
        self.wait_until(|_| true).await
    }

    /// Waits until `is_met` returns true for the snapshot of a cache that has loaded, and returns that snapshot. It is
    /// called for the first one and after each change, for the latest snapshot; those in between may be skipped.
    ///
    /// ```no_run
    /// # async fn example(cache: zk_recipes::cache::Cache) -> zk_recipes::Result<()> {
    /// let workers = cache.wait_until(|snapshot| snapshot.children("/workers").count() >= 3).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`wait_loaded`](Self::wait_loaded).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_until(&self, mut is_met: impl FnMut(&Snapshot) -> bool) -> Result<Arc<Snapshot>> {
        self.shared.wait_until(|snapshot, _| is_met(snapshot).then(|| snapshot.clone())).await
    }

    /// Waits until the cache is [current](CacheState::Current), and returns the snapshot.
    ///
    /// # Errors
    /// As [`wait_loaded`](Self::wait_loaded).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_current(&self) -> Result<Arc<Snapshot>> {
        self.shared.wait_until(|snapshot, state| state.is_current().then(|| snapshot.clone())).await
    }
}
