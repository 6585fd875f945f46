//! Nodes that are kept up to date in memory: Curator's `CuratorCache`, and so `TreeCache`, `PathChildrenCache` and
//! `NodeCache`. See [`Cache`] and [the guide](crate::guide::caches).

#[expect(clippy::module_inception, reason = "it is the type of that name")]
mod cache;
mod change;
mod changes;
mod driver;
mod index;
mod node;
mod options;
mod pure;
mod requests;
mod shared;
mod snapshot;
mod state;
mod tree;

pub use self::cache::Cache;
pub use self::change::Change;
pub use self::changes::{CacheEvent, Changes};
pub use self::node::CachedNode;
pub use self::options::CacheOptions;
pub use self::snapshot::Snapshot;
pub use self::state::CacheState;
