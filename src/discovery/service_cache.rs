//! The instances of one service, kept up to date in memory.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::instance::ServiceInstance;
use super::instances::{self, Instances};
use super::plain::is_short;
use crate::cache::{Cache, CacheOptions, CacheState, CachedNode, Snapshot};
use crate::client::{Client, Room};
use crate::error::Result;
use crate::watch::Watch;

/// The instances of one service, kept up to date in memory. From [`ServiceDiscovery::cache`](super::ServiceDiscovery::cache).
///
/// Reads make no request. A lost connection leaves the instances as they were; see [`watch_state`](Self::watch_state).
///
/// The cache ends with [`Error::CacheTooLarge`](crate::Error::CacheTooLarge) if the service has more than a million nodes,
/// or 512 MiB of them at the servers.
///
/// ```no_run
/// # async fn example(services: zk_recipes::discovery::ServiceDiscovery) -> zk_recipes::Result<()> {
/// let orders = services.cache("orders")?;
/// let mut instances = orders.wait_loaded().await?;
/// loop {
///     println!("{} instances", instances.len());
///     instances = orders.wait_changed(&instances).await?;
/// }
/// # }
/// ```
///
/// Source: Curator's `ServiceCache`.
pub struct ServiceCache<T = ()> {
    cache: Cache,
    /// The full path of the service.
    full_path: Arc<str>,
    read: Mutex<Read<T>>,
}

debug_by!(<T> ServiceCache<T>, |it| path: it.full_path, state: it.cache.state());

/// What was read from one node.
struct ReadNode<T> {
    node: Arc<CachedNode>,
    instance: Result<Arc<ServiceInstance<T>>>,
    /// How much room it takes that is limited; `None` if there was too little.
    taken: Option<usize>,
}

/// What was read from a snapshot.
struct Read<T> {
    snapshot: Arc<Snapshot>,
    nodes: Vec<ReadNode<T>>,
    instances: Arc<Instances<T>>,
}

impl<T: DeserializeOwned> ServiceCache<T> {
    pub(super) fn new(client: &Client, path: &str) -> Result<Self> {
        // Decompressed by us, so that what strangers have compressed does not fill the cache.
        let cache = Cache::start(client, path, CacheOptions::children().decompress(false))?;
        let read = Read { snapshot: Arc::default(), nodes: Vec::new(), instances: Arc::default() };
        Ok(Self { cache, full_path: client.full_path(path)?, read: Mutex::new(read) })
    }

    /// Returns the instances. Makes no request. None until the cache [has loaded](Self::wait_loaded).
    pub fn instances(&self) -> Arc<Instances<T>> {
        let mut read = self.read.lock();
        // Under the lock, so that no one puts back an earlier one.
        let snapshot = self.cache.current();
        if !Arc::ptr_eq(&read.snapshot, &snapshot) {
            read.update(snapshot.children(self.cache.path()), |node, room| {
                instances::instance(&self.full_path, node.name(), node.data(), room).map(Arc::new)
            });
            read.snapshot = snapshot;
        }
        read.instances.clone()
    }

    /// Waits until the instances have been read, and returns them. Returns immediately after that, also while the
    /// connection is lost.
    ///
    /// # Errors
    /// Those of [`Cache::wait_loaded`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_loaded(&self) -> Result<Arc<Instances<T>>> {
        self.wait_until(|_| true).await
    }

    /// Waits until the instances are others than `seen`, and returns them. `seen` is what this cache has returned before.
    ///
    /// # Errors
    /// Those of [`Cache::wait_loaded`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_changed(&self, seen: &Arc<Instances<T>>) -> Result<Arc<Instances<T>>> {
        self.wait_until(|instances| !Arc::ptr_eq(instances, seen)).await
    }

    /// Waits until `is_met` returns true for the instances, and returns them.
    ///
    /// # Errors
    /// Those of [`Cache::wait_loaded`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_until(
        &self,
        mut is_met: impl FnMut(&Arc<Instances<T>>) -> bool,
    ) -> Result<Arc<Instances<T>>> {
        let mut met = None;
        let found = self.cache.wait_until(|_| {
            met = Some(self.instances()).filter(&mut is_met);
            met.is_some()
        });
        found.await?;
        Ok(met.unwrap_or_default())
    }
}

impl<T> ServiceCache<T> {
    /// Follows how up to date the instances are. See [`Cache::watch_state`].
    pub fn watch_state(&self) -> Watch<CacheState> {
        self.cache.watch_state()
    }
}

impl<T> Read<T> {
    /// Reads only the nodes that differ from those before.
    fn update<'a>(
        &mut self,
        nodes: impl Iterator<Item = &'a Arc<CachedNode>>,
        parse: impl Fn(&CachedNode, &mut Room) -> Result<Arc<ServiceInstance<T>>>,
    ) {
        let mut room = Room::default();
        let mut before = std::mem::take(&mut self.nodes).into_iter().peekable();
        let mut is_same = true;
        for node in nodes {
            // Both are sorted.
            while before.next_if(|known| known.node.name() < node.name()).is_some() {
                is_same = false;
            }
            let known = before.next_if(|known| {
                is_same_version(&known.node, node)
                    && match known.taken {
                        Some(taken) => room.take(taken),
                        None => is_short(&room),
                    }
            });
            self.nodes.push(known.unwrap_or_else(|| {
                is_same = false;
                let (left, is_short) = (room.left(), is_short(&room));
                let instance = parse(node, &mut room);
                // It is read again once there is more room.
                let taken = (instance.is_ok() || !is_short).then(|| left - room.left());
                ReadNode { node: node.clone(), instance, taken }
            }));
        }
        if !is_same || before.next().is_some() {
            self.instances = Arc::new(self.nodes.iter().map(|read| read.instance.clone()).collect());
        }
    }
}

fn is_same_version(one: &CachedNode, other: &CachedNode) -> bool {
    one.name() == other.name()
        && one.created_by() == other.created_by()
        && one.modified_by() == other.modified_by()
        && one.is_readable() == other.is_readable()
}
