//! The watch on a contender of another session.

use tokio::time::sleep;
use zookeeper_client::{self as zk, EventType};

use super::pure::connection::Connection;
use super::pure::contender::WatchState;
use crate::client::{Session, Watcher};
use crate::error::{Error, Result};
use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct BlockerWatch {
    name: String,
    watcher: Watcher,
    on: Connection,
    /// Whether it is a watch on the queue, since the node may not be read.
    is_on_queue: bool,
    /// Whether it may tell nothing.
    is_doubted: bool,
}

impl BlockerWatch {
    /// Watches the contender of that name in the queue at that path, on that connection. Returns what is known of
    /// it, and the watch if it exists.
    pub(crate) async fn set(
        queue: &str,
        session: &Session,
        name: &str,
        on: Connection,
    ) -> Result<(WatchState, Option<Self>)> {
        let path = format!("{queue}/{name}");
        let there = |watcher, is_on_queue| {
            let name = name.to_owned();
            (WatchState::There, Some(Self { name, watcher, on, is_on_queue, is_doubted: false }))
        };
        match session.watch_data(&path).await {
            Ok((_, _, watcher)) => Ok(there(watcher, false)),
            Err(zk::Error::NoNode) => Ok((WatchState::Gone, None)),
            // A client that may not read a node gets no event at its end, but it does get one for changes of the
            // queue.
            Err(zk::Error::NoAuth) => match session.watch_list(queue).await {
                Ok((children, watcher)) if children.iter().any(|child| child == name) => {
                    Ok(there(watcher, true))
                }
                Ok(_) | Err(zk::Error::NoNode) => Ok((WatchState::Changed, None)),
                Err(source) => Err(cannot_watch(path, source)),
            },
            Err(source) => Err(cannot_watch(path, source)),
        }
    }

    /// Whether it watches that contender, was set on that connection, and will tell or has told of the end of that node.
    pub(crate) fn tells_of(&mut self, name: Option<&str>, on: Connection) -> bool {
        Some(&*self.name) == name
            && self.on == on
            && matches!(self.state(), WatchState::There | WatchState::Gone)
    }

    /// Waits until it has fired, or may tell nothing: the servers drop it without a word if there is a change while the
    /// client may not read the node.
    pub(crate) async fn changed(&mut self, queue: &str, session: &Session) {
        loop {
            tokio::select! {
                _ = self.watcher.changed() => return,
                () = Box::pin(sleep(session.watch_holds_for())), if !self.is_on_queue => {}
            }
            let path = format!("{queue}/{}", self.name);
            match Box::pin(session.stat(&path)).await {
                Ok(Some(_)) => {}
                Err(error) if Failure::of(&error).is_passing() => {}
                Ok(None) | Err(_) => {
                    self.is_doubted = true;
                    return;
                }
            }
        }
    }

    pub(crate) fn state(&mut self) -> WatchState {
        match watch_state(&mut self.watcher) {
            WatchState::There if self.is_doubted => WatchState::Changed,
            state => state,
        }
    }
}

/// Returns what a watch has reported of its node.
pub(crate) fn watch_state(watcher: &mut Watcher) -> WatchState {
    match watcher.seen() {
        None => WatchState::There,
        Some(EventType::NodeDeleted) => WatchState::Gone,
        // It ended with its connection, and says nothing about the node.
        Some(EventType::Session) => WatchState::Unwatched,
        Some(_) => WatchState::Changed,
    }
}

pub(crate) fn cannot_watch(path: String, source: zk::Error) -> Error {
    Error::ZooKeeper { operation: "watch", path, source }
}
