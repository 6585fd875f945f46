//! Follows a value in the background.

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use zookeeper_client::EventType;

use super::node::ValueNode;
use super::state::SharedState;
use super::version::Versioned;
use crate::client::{Failures, LatestWatch, Session, Watcher};
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
    let first = SharedState::Stale { last: None, error: None };
    let observing = node.detached();
    // What it has shown last is not current any more.
    node.client().follow(first, |watched| observe(observing, parse, watched), SharedState::out_of_touch)
}

/// Goes on until it is dropped.
async fn observe<T: Clone + PartialEq>(
    node: ValueNode,
    parse: impl Fn(Vec<u8>) -> Result<T>,
    watched: Watched<SharedState<T>>,
) {
    let is_stale = |error: Option<Error>| watched.show(watched.get().stale(error));
    let mut failures = Failures::default();
    let mut watch = LatestWatch::default();
    loop {
        match look(&node, &watched).await {
            Ok((session, (seen, change))) => {
                failures.reset();
                match seen.map(|seen| seen.try_map(&parse)).transpose() {
                    Ok(Some(value)) => watched.show(SharedState::Known(value)),
                    Ok(None) => watched.show(SharedState::Missing),
                    Err(error) => is_stale(Some(error)),
                }
                if watch.wait(node.client(), &session, change).await == Some(EventType::Session) {
                    is_stale(None);
                }
            }
            Err(error) if error.ends_session() => is_stale(None),
            Err(error) => {
                is_stale(Some(error.clone()));
                failures.pause_in_background(error).await;
            }
        }
    }
}

/// Reads the value, and watches it. Until there is a session, what is shown is stale.
async fn look<T: Clone + PartialEq>(
    node: &ValueNode,
    watched: &Watched<SharedState<T>>,
) -> Result<(Arc<Session>, (Option<Versioned<Vec<u8>>>, Watcher))> {
    let mut session = pin!(node.client().session());
    let session = match session.as_mut().now_or_never() {
        Some(session) => session?,
        None => {
            watched.show(watched.get().out_of_touch());
            session.await?
        }
    };
    let looked = node.watch(&session).await.map_err(|source| node.error(WATCH, source))?;
    Ok((session, looked))
}
