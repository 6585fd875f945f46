//! Follows a value in the background.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::sleep;

use super::node::ValueNode;
use super::state::SharedState;
use super::version::Versioned;
use crate::client::{Failures, Session, Watcher};
use crate::error::Result;

const WATCH: &str = "watch the value at";

/// Returns a receiver of what is known of the value. The node is watched for as long as there are receivers.
pub(super) fn watch<T>(
    node: &ValueNode,
    parse: impl Fn(Vec<u8>) -> Result<T> + Send + Sync + 'static,
) -> watch::Receiver<SharedState<T>>
where
    T: Clone + PartialEq + Send + Sync + 'static,
{
    let nothing = SharedState::Stale { last: None, error: None };
    let (sender, mut receiver) = watch::channel(nothing.clone());
    receiver.mark_changed();
    let observer = Observer { node: node.detached(), parse, sender: Arc::new(sender) };
    node.client().spawn(async move {
        let closing = observer.node.client().closing();
        let mut shown = nothing;
        tokio::select! {
            () = observer.observe(&mut shown) => {}
            () = observer.sender.closed() => {}
            () = closing.cancelled() => {}
        }
        // What it has shown last is not current any more.
        if !shown.is_stale() {
            let state = shown.stale(None);
            observer.show(&mut shown, state).await;
        }
    });
    receiver
}

/// A look at the value.
struct Look<T> {
    seen: Result<Option<Versioned<T>>>,
    /// Fires when the value has changed.
    change: Watcher,
    /// When to look again nevertheless: the servers drop a watch without a word if the value changes while the client is
    /// not permitted to read it.
    holds_for: Duration,
}

struct Observer<T, P> {
    /// Does not keep the client open.
    node: ValueNode,
    parse: P,
    sender: Arc<watch::Sender<SharedState<T>>>,
}

impl<T, P> Observer<T, P>
where
    T: Clone + PartialEq + Send + Sync + 'static,
    P: Fn(Vec<u8>) -> Result<T>,
{
    /// Goes on until it is dropped.
    async fn observe(&self, shown: &mut SharedState<T>) {
        let mut failures = Failures::default();
        let mut watch = None;
        loop {
            match self.look(shown).await {
                Ok(Look { seen, change, holds_for }) => {
                    failures.reset();
                    // Only now the one before is dropped, so that it need not be removed at the servers.
                    let change = watch.insert(change);
                    let state = match seen {
                        Ok(Some(value)) => SharedState::Known(value),
                        Ok(None) => SharedState::Missing,
                        Err(error) => shown.stale(Some(error)),
                    };
                    self.show(shown, state).await;
                    tokio::select! {
                        // A change comes before the loss of the connection on which it came.
                        biased;
                        _ = change.changed() => {}
                        () = self.node.client().disconnected() => {
                            let state = shown.stale(None);
                            self.show(shown, state).await;
                        }
                        () = sleep(holds_for) => {}
                    }
                }
                Err(error) if error.ends_session() => {
                    let state = shown.stale(None);
                    self.show(shown, state).await;
                }
                Err(error) => {
                    let state = shown.stale(Some(error.clone()));
                    self.show(shown, state).await;
                    failures.pause_in_background(error).await;
                }
            }
        }
    }

    /// Reads the value, and watches it.
    async fn look(&self, shown: &mut SharedState<T>) -> Result<Look<T>> {
        let session = self.session(shown).await?;
        let watched = self.node.watch(&session).await;
        let (seen, change) = watched.map_err(|source| self.node.error(WATCH, source))?;
        let seen = seen.map(|seen| seen.try_map(&self.parse)).transpose();
        // At random, so that the watches of a client do not look at the same time.
        let holds_for = session.timeout().mul_f64(1.0 + fastrand::f64());
        Ok(Look { seen, change, holds_for })
    }

    /// Waits for a session. Until there is one, what is shown is stale.
    async fn session(&self, shown: &mut SharedState<T>) -> Result<Arc<Session>> {
        let mut session = pin!(self.node.client().session());
        if let Some(session) = session.as_mut().now_or_never() {
            return session;
        }
        // What is stale already may say why.
        if !shown.is_stale() {
            let state = shown.stale(None);
            self.show(shown, state).await;
        }
        session.await
    }

    async fn show(&self, shown: &mut SharedState<T>, state: SharedState<T>) {
        if *shown == state {
            return;
        }
        *shown = state.clone();
        let sender = self.sender.clone();
        self.node.client().home().told(move || drop(sender.send_replace(state))).await;
    }
}
