//! The instances of one service, kept up to date in memory.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::instance::ServiceInstance;
use super::instances::{self, Instances};
use crate::cache::{Cache, CacheOptions, CacheState, CachedNode, Snapshot};
use crate::client::Client;
use crate::error::{Error, Result};

/// The instances of one service, kept up to date in memory. From [`ServiceDiscovery::cache`](super::ServiceDiscovery::cache).
///
/// Reads make no request. A lost connection leaves the instances as they were; see [`watch_state`](Self::watch_state).
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

type Parsed<T> = Result<Arc<ServiceInstance<T>>>;

/// What was read from a snapshot.
struct Read<T> {
    snapshot: Arc<Snapshot>,
    nodes: Vec<(Arc<CachedNode>, Parsed<T>)>,
    instances: Arc<Instances<T>>,
}

impl<T: DeserializeOwned> ServiceCache<T> {
    pub(super) fn new(client: &Client, path: &str) -> Result<Self> {
        let cache = Cache::new(client, path, CacheOptions::children())?;
        let read = Read { snapshot: Arc::default(), nodes: Vec::new(), instances: Arc::default() };
        Ok(Self { cache, full_path: client.full_path(path)?, read: Mutex::new(read) })
    }

    /// Returns the instances. Makes no request. None until the cache [has loaded](Self::wait_loaded).
    pub fn instances(&self) -> Arc<Instances<T>> {
        self.read(&self.cache.current())
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

    /// Returns the instances of a snapshot. Reads only the nodes that differ from those before.
    fn read(&self, snapshot: &Arc<Snapshot>) -> Arc<Instances<T>> {
        let mut read = self.read.lock();
        if !Arc::ptr_eq(&read.snapshot, snapshot) {
            let path = self.cache.path();
            read.update(snapshot.children(path), |node| self.parse(node));
            read.snapshot = snapshot.clone();
        }
        read.instances.clone()
    }

    fn parse(&self, node: &CachedNode) -> Parsed<T> {
        let Some(data) = node.data() else {
            let path = format!("{}/{}", self.full_path, node.name());
            return Err(Error::NotAnInstance { path, reason: "the permission to read it is missing".into() });
        };
        instances::instance(&self.full_path, node.name(), data).map(Arc::new)
    }
}

impl<T> ServiceCache<T> {
    /// Returns a receiver that tells how up to date the instances are. See [`Cache::watch_state`].
    pub fn watch_state(&self) -> watch::Receiver<CacheState> {
        self.cache.watch_state()
    }
}

impl<T> Read<T> {
    fn update<'a>(
        &mut self,
        nodes: impl Iterator<Item = &'a Arc<CachedNode>>,
        parse: impl Fn(&CachedNode) -> Parsed<T>,
    ) {
        let mut before = std::mem::take(&mut self.nodes).into_iter().peekable();
        let mut is_same = true;
        for node in nodes {
            // Both are sorted.
            while before.next_if(|(known, _)| known.name() < node.name()).is_some() {
                is_same = false;
            }
            match before.next_if(|(known, _)| is_same_version(known, node)) {
                Some(known) => self.nodes.push(known),
                None => {
                    is_same = false;
                    self.nodes.push((node.clone(), parse(node)));
                }
            }
        }
        if !is_same || before.next().is_some() {
            self.instances = Arc::new(self.nodes.iter().map(|(_, read)| read.clone()).collect());
        }
    }
}

fn is_same_version(one: &CachedNode, other: &CachedNode) -> bool {
    one.name() == other.name()
        && one.created_by() == other.created_by()
        && one.modified_by() == other.modified_by()
        && one.is_readable() == other.is_readable()
}

impl<T> fmt::Debug for ServiceCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCache").field("cache", &self.cache).finish_non_exhaustive()
    }
}
