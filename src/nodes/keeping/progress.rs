//! What the user wants of a kept node, and what has become of it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::super::state::NodeState;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::meters::NodeMeter;
use crate::watch::{Watch, Watched};

/// The data that the node is to have.
#[derive(Clone, Debug)]
pub(in crate::nodes) struct Wanted {
    pub(in crate::nodes) generation: u64,
    pub(in crate::nodes) data: Arc<[u8]>,
}

/// What has become of it, of which users see the state.
#[derive(Clone, Debug)]
pub(in crate::nodes) struct Progress {
    pub(in crate::nodes) state: NodeState,
    /// The generation of the data that the node is known to have got.
    pub(in crate::nodes) confirmed: u64,
    /// The latest generation that the servers have refused, and why.
    pub(in crate::nodes) refused: Option<(u64, Error)>,
    /// The outcome of the removal, once it is done.
    pub(in crate::nodes) ended: Option<Result<()>>,
}

/// What the handle has of a keeper.
#[derive(Debug)]
pub(in crate::nodes) struct Kept {
    pub(in crate::nodes) progress: watch::Receiver<Progress>,
    pub(in crate::nodes) state: Watch<NodeState>,
}

/// Publishes the progress. When it is dropped, the state is [`NodeState::Closed`].
#[derive(Debug)]
pub(super) struct Publisher {
    progress: watch::Sender<Progress>,
    watched: Watched<NodeState>,
    meter: Mutex<NodeMeter>,
}

impl Publisher {
    /// Of the node at this full path, as it was given.
    pub(super) fn new(client: &Client, path: &str) -> Self {
        let state = NodeState::Absent;
        let mut meter = client.labels().node_meter(path);
        meter.is(state.name());
        let watched = Watched::new(state.clone());
        let progress = Progress { state, confirmed: 0, refused: None, ended: None };
        Self { progress: watch::Sender::new(progress), watched, meter: Mutex::new(meter) }
    }

    pub(super) fn kept(&self) -> Kept {
        Kept { progress: self.progress.subscribe(), state: self.watched.watch() }
    }

    pub(super) fn is_present(&self) -> bool {
        self.progress.borrow().state.is_present()
    }

    /// Whether this node is shown as present.
    pub(super) fn shows(&self, shown: i64) -> bool {
        matches!(self.progress.borrow().state, NodeState::Present { czxid, .. } if czxid == shown)
    }

    /// Publishes a state, to watchers first: it is shown when the progress changes.
    /// Returns whether it is another one than before.
    pub(super) fn show(&self, state: NodeState) -> bool {
        if self.progress.borrow().state == state {
            return false;
        }
        self.meter.lock().is(state.name());
        self.watched.show(state.clone());
        self.progress.send_modify(|progress| progress.state = state);
        true
    }

    /// The node is there, with the data of that generation.
    pub(super) fn is_kept(&self, path: &str, czxid: i64, generation: u64) {
        self.show(NodeState::Present { path: path.to_owned(), czxid });
        self.progress.send_modify(|progress| progress.confirmed = generation);
    }

    /// The servers refuse a request; with it, the data of that generation and those before.
    pub(super) fn refuses(&self, generation: u64, error: Error) {
        self.progress.send_modify(|progress| progress.refused = Some((generation, error)));
    }

    pub(super) fn ended(&self, outcome: Result<()>) {
        self.show(NodeState::Closed);
        self.progress.send_modify(|progress| progress.ended = Some(outcome));
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.show(NodeState::Closed);
    }
}
