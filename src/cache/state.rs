//! How up to date a cache is.

use tokio::time::Instant;

use crate::error::Error;

/// How up to date a [`Cache`](super::Cache) is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheState {
    /// Not everything has been read yet. The snapshot is empty until then.
    Loading,
    /// The snapshot is what the client's server has, but for changes that are on their way, and for nodes that have become
    /// [unreadable](super::Cache#permissions).
    Current,
    /// The snapshot may be out of date: the connection was lost, or changes were missed, and not everything has been
    /// read again since. The cache keeps trying.
    Stale {
        /// When that was noticed. A connection that has fallen silent is noticed after up to two fifths of the session
        /// timeout.
        since: Instant,
    },
    /// The cache has ended for this reason. The snapshot stays as it was, and is not kept up to date. Make a new cache
    /// when the reason is gone.
    Failed(Error),
}

impl CacheState {
    /// Whether it is [`Current`](Self::Current).
    pub fn is_current(&self) -> bool {
        *self == Self::Current
    }
}
