//! A persistent watch on a node and everything below it.

use std::mem::{forget, take};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use zookeeper_client::{self as zk, EventType};

use super::super::connection::{Connection, Server};

/// A persistent watch on a node and everything below it, on one connection. It reports each creation, deletion and
/// change of data until the connection ends. Then it must be set again, and everything be read again:
/// `zookeeper-client` does not set it again, and no server tells what has happened in between.
///
/// For sessions without one-shot watches only. Before ZooKeeper 3.9, a server knows one kind of watch for each path of
/// a connection (ZOOKEEPER-4466): a watch of one kind may end one of the other, and no event tells of it.
pub(crate) struct TreeWatch {
    watcher: OrForgotten<zk::PersistentWatcher>,
    /// Not the connection: holding it would keep the session from ending.
    server: Server,
    watches: Arc<TreeWatches>,
    runtime: Handle,
}

/// Forgets its value when it is dropped: with the tasks of a runtime that is shut down, in any order.
struct OrForgotten<T>(Option<T>);

/// The persistent watches of a session.
///
/// No watch is set while another is removed, up to the server's answer. Until then events of the removed watch arrive,
/// and `zookeeper-client` answers each by another removal. Two removals that wait there for a watch that is being set
/// are a use of freed memory ("A dangling key" in `docs/upstream.md`). Removing the last watch on a path would also remove
/// one that is just being set on the same path.
#[derive(Default)]
pub(super) struct TreeWatches {
    /// Held for reading while a watch is being set, and for writing while watches are being removed.
    being_set: Arc<RwLock<()>>,
    /// The watches to remove.
    dropped: Mutex<Vec<OrForgotten<zk::PersistentWatcher>>>,
}

impl TreeWatches {
    /// Waits until no watch is being removed; none is while what this returns lives.
    pub(super) async fn none_is_removed(&self) -> OwnedRwLockReadGuard<()> {
        self.being_set.clone().read_owned().await
    }

    /// Removes the watches that have been dropped, all in one round trip.
    async fn remove_dropped(self: Arc<Self>) {
        let none_is_being_set = OrForgotten::new(self.being_set.clone().write_owned().await);
        let dropped = take(&mut *self.dropped.lock());
        // A drop would not wait for the answer.
        #[allow(deprecated)]
        let removed =
            join_all(dropped.into_iter().filter_map(OrForgotten::into_inner).map(|watcher| watcher.remove()));
        // It fails if there is no such watch any more, or no such connection.
        removed.await;
        drop(none_is_being_set.into_inner());
    }
}

impl<T> OrForgotten<T> {
    fn new(value: T) -> Self {
        Self(Some(value))
    }

    fn into_inner(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Drop for OrForgotten<T> {
    fn drop(&mut self) {
        forget(self.0.take());
    }
}

impl TreeWatch {
    /// Sets a watch; the node need not exist. Must be called on the runtime of the session, and run to its end: given up
    /// half-way, it leaks its request, and no watch of the session is removed any more.
    pub(super) async fn set(
        watches: &Arc<TreeWatches>,
        being_set: OwnedRwLockReadGuard<()>,
        connection: Arc<Connection>,
        path: &str,
    ) -> Result<Self, zk::Error> {
        let (server, path) = (connection.server.clone(), path.to_owned());
        let mode = zk::AddWatchMode::PersistentRecursive;
        let setting = Box::pin(async move { connection.zookeeper.watch(&path, mode).await });
        let mut setting = OrForgotten::new((setting, being_set));
        let Some((watcher, _)) = &mut setting.0 else { return Err(zk::Error::ConnectionLoss) };
        let watcher = watcher.await;
        drop(setting.into_inner());
        let watcher = OrForgotten::new(watcher?);
        Ok(Self { watcher, server, watches: watches.clone(), runtime: Handle::current() })
    }

    /// Polls for the next event; `None` if the connection has ended. In the order of the server, and never later than a
    /// reply that came after it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<zk::WatchedEvent>> {
        let Some(watcher) = &mut self.watcher.0 else { return Poll::Ready(None) };
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
        let mut dropped = self.watches.dropped.lock();
        dropped.push(OrForgotten(self.watcher.0.take()));
        // A task that has been spawned takes those that come until it begins.
        if dropped.len() == 1 {
            self.runtime.spawn(self.watches.clone().remove_dropped());
        }
    }
}
