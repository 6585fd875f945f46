//! What a place knows of its own node.

use std::future::pending;

use zookeeper_client as zk;

use super::super::blocker::{cannot_watch, watch_state};
use super::super::pure::contender::WatchState;
use super::super::shared_local_queue::LocalSlot;
use super::Place;
use crate::client::{EphemeralNode, PAUSE};
use crate::error::Result;

impl Place {
    pub(super) fn own_watch_state(&mut self) -> WatchState {
        self.node.as_mut().and_then(EphemeralNode::watcher).map_or(WatchState::Unwatched, watch_state)
    }

    /// Watches our node, unless it is watched already, and returns what is known of it. Needs a connection.
    ///
    /// # Cancel safety
    /// The watch may have been set.
    pub(crate) async fn watch_own(&mut self) -> Result<WatchState> {
        let watched = self.own_watch_state();
        if matches!(watched, WatchState::There | WatchState::Gone) {
            return Ok(watched);
        }
        let Some(node) = &mut self.node else { return Ok(WatchState::Gone) };
        let seen = match node.watch().await {
            Ok(()) => Ok(self.own_watch_state()),
            // A client that may not read a node gets no event at its end.
            Err(zk::Error::NoAuth) => {
                // An earlier watch that has fired would be no event to wait for.
                drop(node.take_watch());
                let seen = node.session().stat(&node.path()).await;
                seen.map(|stat| stat.map_or(WatchState::Gone, |_| WatchState::Unwatched))
            }
            Err(zk::Error::NoNode) => Ok(WatchState::Gone),
            Err(source) => Err(source),
        };
        seen.map_err(|source| cannot_watch(self.node_path().unwrap_or_default(), source))
    }

    /// Waits until the watch on our node has fired; forever if there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn own_changed(&mut self) {
        match self.node.as_mut().and_then(EphemeralNode::watcher) {
            Some(watcher) => drop(watcher.changed().await),
            None => pending().await,
        }
    }

    /// Waits until our node is known to be gone; forever if that cannot be determined.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn gone(&mut self) {
        loop {
            if !matches!(self.own_watch_state(), WatchState::There | WatchState::Gone) {
                self.ready().await;
            }
            match self.watch_own().await {
                Ok(WatchState::Gone) => return,
                Ok(_) => self.own_changed().await,
                Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
                Err(_) => pending().await,
            }
        }
    }

    /// Whether our node is in the local queue, so that others wait for it as they must.
    pub(super) fn is_in_local_queue(&self) -> bool {
        self.slot.as_ref().is_some_and(LocalSlot::is_in_local_queue)
    }
}
