//! The watch on a contender of another session.

use tokio::time::{Instant, sleep_until};
use zookeeper_client::{self as zk, EventType};

use super::pure::connection::Connection;
use super::pure::contender::WatchState;
use crate::client::{Session, Watcher};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(crate) struct BlockerWatch {
    name: String,
    watcher: Watcher,
    on: Connection,
    /// When to look at the node although the watch has told nothing.
    next_look: Instant,
    /// Whether the node was found to be gone by that.
    is_missing: bool,
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
        let there = |watcher| {
            let name = name.to_owned();
            let next_look = Instant::now() + session.watch_holds_for();
            (WatchState::There, Some(Self { name, watcher, on, next_look, is_missing: false }))
        };
        match session.watch_data(&path).await {
            Ok((_, _, watcher)) => Ok(there(watcher)),
            Err(zk::Error::NoNode) => Ok((WatchState::Gone, None)),
            // A client that may not read a node gets no event at its end, but it does get one for changes of the
            // queue.
            Err(zk::Error::NoAuth) => match session.watch_list(queue).await {
                Ok((children, watcher)) if children.iter().any(|child| child == name) => Ok(there(watcher)),
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

    /// Waits until it has fired, or the node is gone: the servers drop a watch without a word if there is a change while the
    /// client may not read what it is set on.
    ///
    /// # Cancel safety
    /// A look that is due is made when this is called again.
    pub(crate) async fn changed(&mut self, queue: &str, session: &Session) {
        while !self.is_missing {
            tokio::select! {
                _ = self.watcher.changed() => return,
                () = Box::pin(sleep_until(self.next_look)) => {}
            }
            // An error says nothing: rights come back, and the watch tells of the end of the session.
            let path = format!("{queue}/{}", self.name);
            self.is_missing = matches!(Box::pin(session.stat(&path)).await, Ok(None));
            self.next_look = Instant::now() + session.watch_holds_for();
        }
    }

    pub(crate) fn state(&mut self) -> WatchState {
        match watch_state(&mut self.watcher) {
            WatchState::There if self.is_missing => WatchState::Changed,
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
