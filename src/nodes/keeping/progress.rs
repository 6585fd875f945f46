//! What the user wants of a kept node, and what has become of it.

use std::sync::Arc;

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

/// What has become of it, besides the state that users see.
#[derive(Clone, Debug, Default)]
pub(in crate::nodes) struct Progress {
    /// The generation of the data that the node is known to have got.
    pub(in crate::nodes) confirmed: u64,
    /// The latest generation that the servers have refused, and why.
    pub(in crate::nodes) refused: Option<(u64, Error)>,
    /// The outcome of the removal, once it is done.
    pub(in crate::nodes) ended: Option<Result<()>>,
}

/// Publishes the state and the progress. When it is dropped, the state is [`NodeState::Closed`].
#[derive(Debug)]
pub(super) struct Publisher {
    progress: watch::Sender<Progress>,
    state: Watched<NodeState>,
    meter: NodeMeter,
}

impl Publisher {
    /// Of the node at this full path, as it was given.
    pub(super) fn new(client: &Client, path: &str) -> Self {
        let state = NodeState::Absent;
        let mut meter = client.labels().node_meter(path);
        meter.is(state.name());
        Self { progress: watch::Sender::default(), state: Watched::new(state), meter }
    }

    pub(super) fn watch(&self) -> (watch::Receiver<Progress>, Watch<NodeState>) {
        (self.progress.subscribe(), self.state.watch())
    }

    pub(super) fn is_present(&self) -> bool {
        self.state.get().is_present()
    }

    /// Whether this node is shown as present.
    pub(super) fn shows(&self, shown: i64) -> bool {
        matches!(self.state.get(), NodeState::Present { czxid, .. } if czxid == shown)
    }

    /// Publishes a state. Returns whether it is another one than before.
    pub(super) fn show(&mut self, state: NodeState) -> bool {
        if self.state.get() == state {
            return false;
        }
        self.meter.is(state.name());
        self.state.show(state);
        true
    }

    /// The node is there, with the data of that generation.
    pub(super) fn is_kept(&mut self, path: &str, czxid: i64, generation: u64) {
        // Before the progress: it is shown when that changes.
        self.show(NodeState::Present { path: path.to_owned(), czxid });
        self.progress.send_modify(|progress| progress.confirmed = generation);
    }

    /// The servers refuse a request; with it, the data of that generation and those before.
    pub(super) fn refuses(&self, generation: u64, error: Error) {
        self.progress.send_modify(|progress| progress.refused = Some((generation, error)));
    }

    pub(super) fn ended(&mut self, outcome: Result<()>) {
        self.show(NodeState::Closed);
        self.progress.send_modify(|progress| progress.ended = Some(outcome));
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.show(NodeState::Closed);
    }
}
