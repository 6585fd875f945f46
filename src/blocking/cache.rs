//! Nodes that are kept up to date in memory, for threads.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::client::Client;
use super::wait::{wait, wait_within};
use crate::cache::{CacheEvent, CacheOptions, CacheState, Snapshot};
use crate::error::Result;
use crate::watch::Watch;

/// A node, its children, or a tree of nodes, kept up to date in memory. The blocking twin of
/// [`Cache`](crate::cache::Cache).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::cache::Cache;
/// use zk_recipes::cache::CacheOptions;
///
/// let settings = Cache::start(&client, "/settings", CacheOptions::children())?;
/// println!("{} settings", settings.wait_loaded()?.children("/settings").count());
/// // Later, without a request:
/// let limit = settings.current().data("/settings/limit").map(<[u8]>::to_vec);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a cache that is dropped is not kept up to date"]
pub struct Cache {
    inner: crate::cache::Cache,
}

twin!(Cache of crate::cache);

impl Cache {
    /// Starts a cache. Does not block. See [`Cache::start`](crate::cache::Cache::start).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn start(client: &Client, path: &str, options: CacheOptions) -> Result<Self> {
        crate::cache::Cache::start(&client.inner, path, options).map(Self::from)
    }

    /// Returns the path, below the client's namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }

    /// Returns what the cache holds now. Does not block. See [`Cache::current`](crate::cache::Cache::current).
    pub fn current(&self) -> Arc<Snapshot> {
        self.inner.current()
    }

    /// Returns how up to date the snapshot is. Does not block.
    pub fn state(&self) -> CacheState {
        self.inner.state()
    }

    /// Follows the state. See
    /// [`Cache::watch_state`](crate::cache::Cache::watch_state).
    pub fn watch_state(&self) -> Watch<CacheState> {
        self.inner.watch_state()
    }

    /// Returns the changes from now on, beginning with a snapshot. See
    /// [`Cache::changes`](crate::cache::Cache::changes).
    pub fn changes(&self) -> Changes {
        Changes { inner: self.inner.changes() }
    }

    /// Blocks the thread until the cache has loaded. The blocking version of
    /// [`Cache::wait_loaded`](crate::cache::Cache::wait_loaded).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn wait_loaded(&self) -> Result<Arc<Snapshot>> {
        wait(self.inner.wait_loaded())
    }

    /// Blocks the thread until `is_met` returns true for the snapshot. The blocking version of
    /// [`Cache::wait_until`](crate::cache::Cache::wait_until).
    ///
    /// # Errors
    /// Same as [`wait_loaded`](Self::wait_loaded).
    pub fn wait_until(&self, is_met: impl FnMut(&Snapshot) -> bool) -> Result<Arc<Snapshot>> {
        wait(self.inner.wait_until(is_met))
    }

    /// Blocks the thread until the cache is current. The blocking version of
    /// [`Cache::wait_current`](crate::cache::Cache::wait_current).
    ///
    /// # Errors
    /// Same as [`wait_loaded`](Self::wait_loaded).
    pub fn wait_current(&self) -> Result<Arc<Snapshot>> {
        wait(self.inner.wait_current())
    }
}

/// The changes of a [`Cache`], one after the other. The blocking twin of [`Changes`](crate::cache::Changes).
pub struct Changes {
    inner: crate::cache::Changes,
}

debug_as_inner!(Changes);

impl Changes {
    /// Blocks the thread until the next event. Returns `None` when no more events will come. The blocking version of
    /// [`Changes::next`](crate::cache::Changes::next).
    ///
    /// # Errors
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<CacheEvent>> {
        wait(self.inner.next().map(Ok))
    }

    /// Like [`next`](Self::next), for at most `within`. Returns `None` also if there was no event within that time.
    ///
    /// # Errors
    /// Same as [`next`](Self::next).
    pub fn next_within(&mut self, within: Duration) -> Result<Option<CacheEvent>> {
        Ok(wait_within(within, self.inner.next().map(Ok))?.flatten())
    }

    /// Returns the next event if there is one at the moment. Does not block.
    pub fn try_next(&mut self) -> Option<CacheEvent> {
        self.inner.try_next()
    }
}
