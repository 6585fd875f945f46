//! A persistent watch on a node and everything below it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use zookeeper_client as zk;

use super::Session;
use super::reply::lost;
use super::trees::Registered;
use crate::meters::Request;

/// How many events are thrown away in one go while the watch cannot be removed.
const EVENTS_AT_ONCE: usize = 1000;

/// A persistent watch on a node and everything below it, on one connection. It reports each creation, deletion and
/// change of data until the connection ends. Then it must be set again, and everything be read again:
/// `zookeeper-client` does not set it again, and no server tells what has happened in between.
///
/// Poll it all the time: one-shot watches on its node are told by it. [Retire](Self::retire) it rather than drop it.
#[derive(Debug)]
pub(crate) struct TreeWatch {
    registered: Registered,
    has_told_displaced: bool,
}

/// What a [`TreeWatch`] reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TreeEvent {
    /// A node was created or deleted, or its data changed.
    Node(zk::WatchedEvent),
    /// A one-shot watch of this session may have ended this one: set it again, and read again. Reported once.
    Displaced,
    /// The connection has ended.
    Ended,
}

impl TreeWatch {
    /// Polls for the next event. In the order of the server, and never later than a reply that came after it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TreeEvent> {
        let post = self.registered.post();
        match post.poll(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(TreeEvent::Node(event)),
            Poll::Ready(None) => Poll::Ready(TreeEvent::Ended),
            Poll::Pending if !self.has_told_displaced && post.is_displaced() => {
                self.has_told_displaced = true;
                Poll::Ready(TreeEvent::Displaced)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Removes the watch, as soon as there is no one-shot watch of the session on its path: that would be removed with
    /// it, or keep it from being removed.
    pub(crate) async fn retire(mut self) {
        poll_fn(|cx| {
            for _ in 0..EVENTS_AT_ONCE {
                let polled = self.poll(cx);
                if polled == Poll::Ready(TreeEvent::Ended) || self.registered.remove() {
                    return Poll::Ready(());
                }
                if polled.is_pending() {
                    return Poll::Pending;
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl Session {
    /// Sets a [`TreeWatch`]. The node need not exist.
    ///
    /// # Errors
    /// [`Unimplemented`](zk::Error::Unimplemented) from servers before 3.6, and as every request.
    ///
    /// # Cancel safety
    /// Run it to its end: a watch that is given up is removed when its reply arrives, and may take one-shot watches on
    /// the same path with it.
    pub(crate) async fn watch_tree(&self, path: &str) -> Result<TreeWatch, zk::Error> {
        let connection = self.connected_for(Request::Watch)?;
        let registered = self.trees.register(path);
        let mode = zk::AddWatchMode::PersistentRecursive;
        let watcher = connection.zookeeper().watch(path, mode).await.map_err(lost)?;
        registered.post().set(watcher, connection.server().clone());
        Ok(TreeWatch { registered, has_told_displaced: false })
    }
}
