//! A persistent watch on a node and everything below it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::RwLock;
use zookeeper_client::{self as zk, EventType};

use super::super::connection::Server;
use super::Session;
use super::reply::lost;
use crate::meters::Request;

/// A persistent watch on a node and everything below it, on one connection. It reports each creation, deletion and
/// change of data until the connection ends. Then it must be set again, and everything be read again:
/// `zookeeper-client` does not set it again, and no server tells what has happened in between.
///
/// For sessions without one-shot watches only. Before ZooKeeper 3.9, a server knows one kind of watch for each path of
/// a connection (ZOOKEEPER-4466): a watch of one kind may end one of the other, and no event tells of it.
#[derive(Debug)]
pub(crate) struct TreeWatch {
    /// `None` when it is being dropped.
    watcher: Option<zk::PersistentWatcher>,
    /// Not the connection: holding it would keep the session from ending.
    server: Server,
    being_set: BeingSet,
    runtime: Option<Handle>,
}

/// Held for reading while a watch is being set. Dropping the last watch on a path removes it at the server, and would
/// remove one that is just being set on the same path.
type BeingSet = Arc<RwLock<()>>;

/// The persistent watches of a session.
#[derive(Debug, Default)]
pub(super) struct TreeWatches(BeingSet);

impl TreeWatch {
    /// Polls for the next event; `None` if the connection has ended. In the order of the server, and never later than a
    /// reply that came after it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<zk::WatchedEvent>> {
        let Some(watcher) = &mut self.watcher else { return Poll::Ready(None) };
        let next = || catch_unwind(AssertUnwindSafe(|| pin!(watcher.changed()).poll(cx)));
        match self.server.while_it_lasts(next) {
            Some(Ok(Poll::Ready(event))) if event.event_type != EventType::Session => {
                Poll::Ready(Some(event))
            }
            Some(Ok(Poll::Pending)) => Poll::Pending,
            _ => Poll::Ready(None),
        }
    }
}

impl Drop for TreeWatch {
    fn drop(&mut self) {
        let Some(watcher) = self.watcher.take() else { return };
        if let Ok(_none_is_being_set) = self.being_set.clone().try_write() {
            drop(watcher);
        } else if let Some(runtime) = &self.runtime {
            let being_set = self.being_set.clone();
            runtime.spawn(async move {
                let _none_is_being_set = being_set.write().await;
                drop(watcher);
            });
        }
    }
}

impl Session {
    /// Sets a [`TreeWatch`]. The node need not exist.
    ///
    /// # Errors
    /// [`Unimplemented`](zk::Error::Unimplemented) from servers before 3.6, and as every request.
    ///
    /// # Cancel safety
    /// Run it to its end: a watch that is given up is removed when its reply arrives, and may take others on the same
    /// path with it.
    pub(crate) async fn watch_tree(&self, path: &str) -> Result<TreeWatch, zk::Error> {
        let being_set = self.tree_watches.0.clone();
        let _setting = being_set.read().await;
        let connection = self.connected_for(Request::Watch)?;
        let mode = zk::AddWatchMode::PersistentRecursive;
        let watcher = connection.zookeeper().watch(path, mode).await.map_err(lost)?;
        let (server, being_set) = (connection.server().clone(), being_set.clone());
        Ok(TreeWatch { watcher: Some(watcher), server, being_set, runtime: Handle::try_current().ok() })
    }
}
