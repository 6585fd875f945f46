//! A watch on a node.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use tokio::time::sleep;
use zookeeper_client::{self as zk, EventType};

use super::super::connection::{Connection, Server};
use super::super::handle::Client;
use super::Session;
use super::watches::{Event, Place};

/// A watch. Reports a change, or the end of the connection, after which the watch must be set again. Dropping it
/// removes the watch.
pub(crate) struct Watcher {
    /// `None` once it was seen.
    event: Option<(Event, Place)>,
    /// Not the connection: holding it would keep the session from ending.
    server: Server,
    seen: EventType,
}

debug_by!(Watcher, |it| seen: it.event.is_none().then_some(it.seen));

impl Watcher {
    pub(super) fn new(watcher: zk::OneshotWatcher, connection: &Connection, place: Place) -> Self {
        // An adopted session may be served by another runtime than the client's.
        let event = AssertUnwindSafe(watcher.changed()).catch_unwind();
        let event = event.map(|event| event.map_or(EventType::Session, |event| event.event_type));
        Self {
            event: Some((Box::pin(event), place)),
            server: connection.server.clone(),
            seen: EventType::Session,
        }
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
        if let Some((event, _)) = &mut self.event {
            let event = self.server.while_it_lasts(|| event.as_mut().poll(cx));
            self.seen = ready!(event.unwrap_or(Poll::Ready(EventType::Session)));
            self.event = None;
        }
        Poll::Ready(self.seen)
    }

    /// Returns the event, if it has occurred.
    pub(crate) fn seen(&mut self) -> Option<EventType> {
        self.changed().now_or_never()
    }
}

/// The latest watch of one who looks again and again. It is kept until the next look has set another, so that it need not be
/// removed at the servers.
#[derive(Default)]
pub(crate) struct LatestWatch(Option<Watcher>);

impl LatestWatch {
    /// Waits until it is time to look again. Returns what this watch of the latest look has told, or
    /// [`EventType::Session`] if the connection is lost; `None` if there was nothing for so long that the servers may have
    /// dropped the watch.
    pub(crate) async fn wait(
        &mut self,
        client: &Client,
        session: &Session,
        watcher: Watcher,
    ) -> Option<EventType> {
        let watcher = self.0.insert(watcher);
        tokio::select! {
            // A change comes before the loss of the connection on which it came.
            biased;
            event = watcher.changed() => Some(event),
            // The watch would report it only at the end of the session.
            () = client.disconnected() => Some(EventType::Session),
            () = sleep(session.watch_holds_for()) => None,
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some((event, place)) = self.event.take() {
            place.give_up(event);
        }
    }
}
