//! What a cache holds.

use std::sync::Arc;

use crate::error::{Error, Result};

pub(super) type Filter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What a [`Cache`](super::Cache) holds, and how much of it.
///
/// ```no_run
/// use zk_recipes::cache::{Cache, CacheOptions};
///
/// # fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let services = CacheOptions::tree().depth(2).filter(|path| !path.ends_with("/draining"));
/// let services = Cache::start(&client, "/services", services.max_nodes(10_000))?;
/// # Ok(())
/// # }
/// ```
///
/// Sources: the builders of Curator's `TreeCache` and `CuratorCache`.
#[derive(Clone)]
#[must_use = "options do nothing until a cache is made with them"]
pub struct CacheOptions {
    /// How far below the root.
    pub(super) depth: usize,
    pub(super) with_data: bool,
    pub(super) decompresses: bool,
    pub(super) max_nodes: usize,
    pub(super) max_bytes: usize,
    pub(super) buffer: usize,
    /// Whether a node is held.
    pub(super) filter: Option<Filter>,
    /// Whether the children of a node are held.
    pub(super) descend: Option<Filter>,
}

debug_by!(CacheOptions, |it|
    depth: it.depth, with_data: it.with_data, decompresses: it.decompresses, max_nodes: it.max_nodes,
    max_bytes: it.max_bytes, buffer: it.buffer, has_filter: it.filter.is_some(), has_descend: it.descend.is_some()
);

/// Deeper than any path.
const ANY_DEPTH: usize = usize::MAX - 1;
/// The most changes that can be kept for those who are late.
const MAX_BUFFER: usize = 1 << 20;

impl CacheOptions {
    /// Holds the node and everything below it.
    pub fn tree() -> Self {
        Self {
            depth: ANY_DEPTH,
            with_data: true,
            decompresses: true,
            max_nodes: 1_000_000,
            max_bytes: 512 << 20,
            buffer: 1024,
            filter: None,
            descend: None,
        }
    }

    /// Holds the node alone. Curator's `NodeCache`, and `SINGLE_NODE_CACHE` of `CuratorCache`.
    pub fn node() -> Self {
        Self::tree().depth(0)
    }

    /// Holds the node and its children. Curator's `PathChildrenCache`, which does not hold the node itself.
    pub fn children() -> Self {
        Self::tree().depth(1)
    }

    /// Holds nodes that are at most so many levels below the path of the cache: 0 is that node alone.
    pub fn depth(mut self, levels: usize) -> Self {
        self.depth = levels.min(ANY_DEPTH);
        self
    }

    /// Holds only nodes for whose path `filter` returns true, besides the one at the path of the cache. What is below
    /// another one is not held either.
    ///
    /// The path is below the client's namespace. `filter` is called again and again, on a thread of the client: let it
    /// decide quickly, always the same, by the path alone. If it panics, the cache fails.
    ///
    /// Curator's `TreeCacheSelector.acceptChild`.
    pub fn filter(mut self, filter: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Holds the children only of nodes for whose path `descend` returns true. As with [`filter`](Self::filter)
    /// otherwise. Curator's `TreeCacheSelector.traverseChildren`.
    pub fn descend(mut self, descend: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.descend = Some(Arc::new(descend));
        self
    }

    /// Holds paths, versions and times, but no data. Each node then takes a request of its own to load, with a small
    /// reply, where otherwise up to 8 nodes share one.
    pub fn without_data(mut self) -> Self {
        self.with_data = false;
        self
    }

    /// Whether data that is gzip is decompressed, as of nodes that Curator has written with compression. True by default:
    /// data of any other form stays as it is. Set it to false for nodes that hold gzip files as such.
    pub fn decompress(mut self, decompresses: bool) -> Self {
        self.decompresses = decompresses;
        self
    }

    /// Limits the number of nodes, 1,000,000 by default. A cache that would hold more fails with
    /// [`Error::CacheTooLarge`], rather than hold a part.
    ///
    /// While it catches up, as after a reconnect or with a transaction, a cache may have nodes that have come beside others
    /// whose end it has yet to see. So the limit counts when everything has been read, and until then twice the limit: a
    /// cache fails, although the servers never had more than the limit, only if that is not enough, as when one large
    /// value moves on from node to node faster than they are read.
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = nodes;
        self
    }

    /// Limits the bytes of all data and paths together, 512 MiB by default. As with [`max_nodes`](Self::max_nodes)
    /// otherwise. Nodes take more memory than that, and so do replies until they are taken in, and the old and new nodes in
    /// the [buffer](Self::buffer) of a reader of changes that does not read.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how many changes are kept for readers of [`changes`](super::Cache::changes) that are late, 1024 by default,
    /// at most 2^20. A reader that is later than that starts over with a snapshot.
    ///
    /// While there is a reader that does not read, so many changes are kept in memory, each with its old and its new node.
    pub fn buffer(mut self, changes: usize) -> Self {
        self.buffer = changes;
        self
    }

    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(super) fn validate(&self) -> Result<()> {
        let invalid =
            |argument, reason: &str| Err(Error::InvalidArgument { argument, reason: reason.into() });
        match self {
            Self { max_nodes: 0, .. } => invalid("max_nodes", "it must be greater than zero"),
            Self { max_bytes: 0, .. } => invalid("max_bytes", "it must be greater than zero"),
            Self { buffer: 0 | MAX_BUFFER.., .. } if self.buffer != MAX_BUFFER => {
                invalid("buffer", "it must be from 1 to 1048576 changes")
            }
            _ => Ok(()),
        }
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self::tree()
    }
}
