//! A node in a cache.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use zookeeper_client as zk;

/// A node as a [`Cache`](super::Cache) has it.
///
/// It has what the servers tell of changes. The number of children, for one, is not part of it: ask the
/// [`Snapshot`](super::Snapshot).
#[derive(Clone, PartialEq, Eq)]
pub struct CachedNode {
    path: Arc<str>,
    /// Where the name begins in the path: it is asked for at each step of a search.
    name_at: u32,
    data: Option<Box<[u8]>>,
    is_readable: bool,
    version: i32,
    data_length: u32,
    created: i64,
    modified: i64,
    created_ms: i64,
    modified_ms: i64,
    owner: i64,
}

// Without the data, which may be large or secret.
debug_by!(CachedNode, |it|
    path: it.path, version: it.version, data_length: it.data_length, is_readable: it.is_readable,
    modified_by: it.modified
);

impl CachedNode {
    pub(super) fn new(path: Arc<str>, data: Option<Vec<u8>>, is_readable: bool, stat: &zk::Stat) -> Self {
        Self {
            data: data.map(Vec::into_boxed_slice),
            is_readable,
            version: stat.version,
            data_length: stat.data_length.try_into().unwrap_or_default(),
            created: stat.czxid,
            modified: stat.mzxid,
            created_ms: stat.ctime,
            modified_ms: stat.mtime,
            owner: stat.ephemeral_owner,
            ..Self::hidden(path)
        }
    }

    /// A node that may not be read, at a server that tells nothing else of such nodes.
    pub(super) fn hidden(path: Arc<str>) -> Self {
        let name_at = path.rfind('/').map_or(0, |slash| slash + 1);
        Self {
            path,
            // Requests are limited to 1 MiB.
            name_at: name_at.try_into().unwrap_or(u32::MAX),
            data: None,
            is_readable: false,
            version: 0,
            data_length: 0,
            created: 0,
            modified: 0,
            created_ms: 0,
            modified_ms: 0,
            owner: 0,
        }
    }

    /// Whether the servers have told no more of it than that it is there.
    pub(super) fn is_unknown(&self) -> bool {
        !self.is_readable && self.created == 0
    }

    /// The same node, which may be read now, or may not be read any more.
    pub(super) fn with_readable(&self, is_readable: bool) -> Self {
        Self { data: self.data.clone().filter(|_| is_readable), is_readable, ..self.clone() }
    }

    #[cfg(test)]
    pub(super) fn for_tests(path: &str, version: i32) -> Self {
        let stat = zk::Stat {
            czxid: 1,
            mzxid: 1,
            pzxid: 1,
            ctime: 0,
            mtime: 0,
            version,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 0,
            data_length: 0,
            num_children: 0,
        };
        Self::new(path.into(), None, true, &stat)
    }

    /// Returns the path, below the client's namespace: in the form in which paths are given to the cache.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn shared_path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns the last element of the path; empty for `/`.
    pub fn name(&self) -> &str {
        self.path.get(self.name_at as usize..).unwrap_or_default()
    }

    /// Its place in a [`Tree`](super::tree::Tree): the path of its parent, and its name. Those of the root are empty.
    pub(super) fn key(&self) -> (&str, &str) {
        let parent = match self.name_at {
            1 if self.path.len() > 1 => "/",
            at => self.path.get(..at.saturating_sub(1) as usize).unwrap_or_default(),
        };
        (parent, self.name())
    }

    /// Returns the data, decompressed unless the [options](super::CacheOptions::decompress) say otherwise. `None` if the
    /// cache holds [no data](super::CacheOptions::without_data), or may not read the node.
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    /// Returns whether the client may read the node. The data and the children of one that it may not read are not
    /// known, and the servers may not tell when such a node changes: see
    /// [`Snapshot::unreadable`](super::Snapshot::unreadable). Newer servers tell nothing at all of such a node but that it is
    /// there: its version, length, transactions and times are 0 then, or as they were when it could be read.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Returns how often the data was changed since the node was created, for conditional writes.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// Returns the length of the data in bytes, as it is at the servers.
    pub fn data_length(&self) -> usize {
        self.data_length as usize
    }

    /// Returns the number of the transaction that created the node (its `czxid`). A node that was deleted and created
    /// again has another one. It is 0 for the nodes that servers begin with: `/`, `/zookeeper`, and what comes with it.
    pub fn created_by(&self) -> i64 {
        self.created
    }

    /// Returns the number of the transaction that changed the data last (its `mzxid`).
    pub fn modified_by(&self) -> i64 {
        self.modified
    }

    /// Returns when the node was created, by the clock of the servers.
    pub fn created_at(&self) -> SystemTime {
        time(self.created_ms)
    }

    /// Returns when the data was changed last, by the clock of the servers.
    pub fn modified_at(&self) -> SystemTime {
        time(self.modified_ms)
    }

    /// Returns the session that the node ends with; `None` if it is not ephemeral.
    pub fn ephemeral_owner(&self) -> Option<i64> {
        // Servers say 0 of all others, containers and nodes with a time to live included.
        Some(self.owner).filter(|owner| *owner != 0)
    }

    /// What it counts for the limit of bytes.
    pub(super) fn bytes(&self) -> usize {
        self.path.len() + self.data.as_ref().map_or(0, |data| data.len())
    }
}

fn time(ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms.try_into().unwrap_or_default())
}
