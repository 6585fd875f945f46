//! A watch on a node.

use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Polls for the event. The last context that was passed is the one that is woken.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<EventType> {
        if let Some(seen) = self.seen {
            return Poll::Ready(seen);
        }
        let Self { event, server, .. } = self;
        let event = server.while_it_lasts(|| event.as_mut().poll(cx));
        let event = ready!(event.unwrap_or(Poll::Ready(EventType::Session)));
        self.seen = Some(event);
        Poll::Ready(event)
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
