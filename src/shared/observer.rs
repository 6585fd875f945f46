//! Follows a value in the background.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::sleep;

use super::node::ValueNode;
use super::state::SharedState;
use super::version::Versioned;
use crate::client::{Failures, Session, Watcher};
use crate::error::{Error, Result};
use crate::watch::{Watch, Watched};

const WATCH: &str = "watch the value at";

/// Follows what is known of the value. The node is watched for as long as that is followed.
pub(super) fn watch<T>(
    node: &ValueNode,
    parse: impl Fn(Vec<u8>) -> Result<T> + Send + Sync + 'static,
) -> Watch<SharedState<T>>
where
    T: Clone + PartialEq + Send + Sync + 'static,
{
    let watched = Watched::new(SharedState::Stale { last: None, error: None });
    let watch = watched.watch();
    let observer = Observer { node: node.detached(), parse, watched };
    node.client().spawn(async move {
        let closing = observer.node.client().closing();
        observer.watched.while_watched(closing, observer.observe()).await;
        // What it has shown last is not current any more.
        observer.loses_touch();
    });
    watch
}

/// A look at the value.
struct Look<T> {
    seen: Result<Option<Versioned<T>>>,
    /// Fires when the value has changed.
    change: Watcher,
    holds_for: Duration,
}

struct Observer<T, P> {
    /// Does not keep the client open.
    node: ValueNode,
    parse: P,
    watched: Watched<SharedState<T>>,
}

impl<T, P> Observer<T, P>
where
    T: Clone + PartialEq + Send + Sync + 'static,
    P: Fn(Vec<u8>) -> Result<T>,
{
    /// Goes on until it is dropped.
    async fn observe(&self) {
        let mut failures = Failures::default();
        let mut watch = None;
        loop {
            match self.look().await {
                Ok(Look { seen, change, holds_for }) => {
                    failures.reset();
                    // Only now the one before is dropped, so that it need not be removed at the servers.
                    let change = watch.insert(change);
                    match seen {
                        Ok(Some(value)) => self.watched.show(SharedState::Known(value)),
                        Ok(None) => self.watched.show(SharedState::Missing),
                        Err(error) => self.is_stale(Some(error)),
                    }
                    tokio::select! {
                        // A change comes before the loss of the connection on which it came.
                        biased;
                        _ = change.changed() => {}
                        () = self.node.client().disconnected() => self.is_stale(None),
                        () = sleep(holds_for) => {}
                    }
                }
                Err(error) if error.ends_session() => self.is_stale(None),
                Err(error) => {
                    self.is_stale(Some(error.clone()));
                    failures.pause_in_background(error).await;
                }
            }
        }
    }

    /// Reads the value, and watches it.
    async fn look(&self) -> Result<Look<T>> {
        let session = self.session().await?;
        let watched = self.node.watch(&session).await;
        let (seen, change) = watched.map_err(|source| self.node.error(WATCH, source))?;
        let seen = seen.map(|seen| seen.try_map(&self.parse)).transpose();
        Ok(Look { seen, change, holds_for: session.watch_holds_for() })
    }

    /// Waits for a session. Until there is one, what is shown is stale.
    async fn session(&self) -> Result<Arc<Session>> {
        let mut session = pin!(self.node.client().session());
        if let Some(session) = session.as_mut().now_or_never() {
            return session;
        }
        self.loses_touch();
        session.await
    }

    /// Shows that changes can go unnoticed. What is stale already may say why.
    fn loses_touch(&self) {
        if !self.watched.get().is_stale() {
            self.is_stale(None);
        }
    }

    fn is_stale(&self, error: Option<Error>) {
        self.watched.show(self.watched.get().stale(error));
    }
}
