//! A watch on a node.

use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::Poll;

use futures_util::FutureExt;
use zookeeper_client::{self as zk, EventType};

use super::super::connection::{Connection, Server};

/// A watch. Reports a change, or the end of the connection, after which the watch must be set again. Dropping it
/// removes the watch.
pub(crate) struct Watcher {
    event: Pin<Box<dyn Future<Output = EventType> + Send + Sync>>,
    /// Not the connection: holding it would keep the session from ending.
    server: Server,
    seen: Option<EventType>,
}

impl Watcher {
    pub(super) fn new(watcher: zk::OneshotWatcher, connection: &Connection) -> Self {
        // An adopted session may be served by another runtime than the client's.
        let event = AssertUnwindSafe(watcher.changed()).catch_unwind();
        let event = event.map(|event| event.map_or(EventType::Session, |event| event.event_type));
        Self { event: Box::pin(event), server: connection.server().clone(), seen: None }
    }

    /// Waits for the event.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn changed(&mut self) -> EventType {
        if let Some(seen) = self.seen {
            return seen;
        }
        let Self { event, server, .. } = self;
        let event = poll_fn(|cx| match server.while_it_lasts(|| event.as_mut().poll(cx)) {
            Some(polled) => polled,
            None => Poll::Ready(EventType::Session),
        })
        .await;
        self.seen = Some(event);
        event
    }

    /// Returns the event, if it has occurred.
    pub(crate) fn seen(&mut self) -> Option<EventType> {
        self.changed().now_or_never()
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("seen", &self.seen).finish_non_exhaustive()
    }
}
