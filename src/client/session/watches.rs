//! The one-shot watches of a session, by path.
//!
//! Two events for a path that come while a request for a watch on it is on its way, and that no watch of the client is for,
//! make `zookeeper-client` use freed memory ("A dangling key" in `docs/upstream.md`). A watch tells one event, so it takes a
//! watch on the data and one on the children that are being removed at the same time. Where a path has both kinds, those
//! that are given up are therefore removed one kind after the other, each when the removals before it are confirmed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::{replace, take};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use zookeeper_client::EventType;

use super::super::connection::Connection;
use super::connectivity::Connectivity;

/// What a watch waits for.
pub(super) type Event = Pin<Box<dyn Future<Output = EventType> + Send + Sync>>;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A node: its existence or its data.
    Node,
    Children,
}

/// The paths on which there are watches, or will be.
pub(super) struct Watches {
    paths: Mutex<HashMap<Arc<str>, OnPath>>,
    /// Of the session: watches of an adopted one outlive its connections.
    connectivity: watch::Receiver<Connectivity>,
}

/// The watches on one path.
#[derive(Default)]
struct OnPath {
    /// How many of each kind are being set, are set, are to be removed, or are being removed.
    counts: [usize; 2],
    /// Those that are to be removed; `None` if it remains to be confirmed.
    given_up: Vec<(Kind, Option<Event>)>,
    /// Whether a task removes them.
    is_removing: bool,
}

/// One watch, from before it is requested until its event, or until its removal is confirmed.
pub(super) struct Place {
    watches: Arc<Watches>,
    path: Arc<str>,
    kind: Kind,
}

/// A request for a watch. If it is dropped before the answer, it goes on in the background: `zookeeper-client` would remove
/// the watch when the answer comes, unseen from here.
pub(super) struct Setting<F: Future<Output: Send> + Send + 'static> {
    watches: Arc<Watches>,
    runtime: Handle,
    request: Option<Pin<Box<F>>>,
    is_sent: bool,
}

impl Watches {
    pub(super) fn new(connectivity: watch::Receiver<Connectivity>) -> Self {
        Self { paths: Mutex::default(), connectivity }
    }

    fn connection(&self) -> Option<Arc<Connection>> {
        self.connectivity.borrow().usable().ok().cloned()
    }

    /// Makes a request for a watch.
    pub(super) fn set<F: Future<Output: Send> + Send + 'static>(
        self: &Arc<Self>,
        path: &str,
        kind: Kind,
        connection: Arc<Connection>,
        ask: impl FnOnce(Arc<Connection>, Place) -> F,
    ) -> Setting<F> {
        let runtime = connection.runtime.clone();
        let request = Some(Box::pin(ask(connection, self.place(path, kind))));
        Setting { watches: self.clone(), runtime, request, is_sent: false }
    }

    fn place(self: &Arc<Self>, path: &str, kind: Kind) -> Place {
        let mut paths = self.paths.lock();
        let path: Arc<str> = match paths.get_key_value(path) {
            Some((path, _)) => path.clone(),
            None => path.into(),
        };
        paths.entry(path.clone()).or_default().counts[kind as usize] += 1;
        Place { watches: self.clone(), path, kind }
    }

    /// Returns the next watches that are to be removed, which are of one kind, when the removal of so many others is
    /// confirmed.
    fn next(&self, path: &str, confirmed: Option<(Kind, usize)>) -> Option<(Kind, Vec<Option<Event>>)> {
        let mut paths = self.paths.lock();
        let on_path = paths.get_mut(path)?;
        if let Some((kind, count)) = confirmed {
            on_path.counts[kind as usize] -= count;
        }
        let Some(&(kind, _)) = on_path.given_up.first() else {
            on_path.is_removing = false;
            if on_path.counts == [0, 0] {
                paths.remove(path);
            }
            return None;
        };
        let (next, later): (Vec<_>, _) =
            take(&mut on_path.given_up).into_iter().partition(|(other, _)| *other == kind);
        on_path.given_up = later;
        Some((kind, next.into_iter().map(|(_, event)| event).collect()))
    }

    /// Removes the watches on a path that are given up, until there are none.
    async fn remove(self: Arc<Self>, path: Arc<str>) {
        let mut confirmed = None;
        while let Some((kind, events)) = self.next(&path, confirmed) {
            confirmed = Some((kind, events.len()));
            drop(events);
            // Its answer comes after those to the removals. The connection is not kept: that would keep the session from
            // ending.
            let asking = self.connection().map(|connection| connection.zookeeper.check_stat(&path));
            if let Some(asking) = asking {
                let _ = asking.await;
            }
        }
    }

    /// Does the same without a connection, where nothing can be confirmed.
    fn discard(&self, path: &str) {
        let mut discarded = None;
        while let Some((kind, events)) = self.next(path, discarded) {
            discarded = Some((kind, events.len()));
        }
    }
}

impl Place {
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether there is no watch of the other kind.
    fn is_alone(&self, on_path: &OnPath) -> bool {
        let other = match self.kind {
            Kind::Node => Kind::Children,
            Kind::Children => Kind::Node,
        };
        on_path.counts[other as usize] == 0
    }

    /// Removes the watch.
    pub(super) fn give_up(self, event: Event) {
        let is_alone = self.watches.paths.lock().get(&self.path).is_none_or(|on_path| self.is_alone(on_path));
        // Not under the lock: this drops the waker of the task that has awaited it.
        let event = (!is_alone).then_some(event);
        let mut paths = self.watches.paths.lock();
        let Some(on_path) = paths.get_mut(&self.path) else { return };
        // Of one that has come meanwhile, the request may have been sent before the removal.
        if event.is_none() && self.is_alone(on_path) {
            return;
        }
        on_path.counts[self.kind as usize] += 1;
        on_path.given_up.push((self.kind, event));
        if !replace(&mut on_path.is_removing, true) {
            drop(paths);
            match self.watches.connection() {
                Some(connection) => {
                    let removing = self.watches.clone().remove(self.path.clone());
                    connection.runtime.spawn(removing);
                }
                None => self.watches.discard(&self.path),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut paths = self.watches.paths.lock();
        if let Entry::Occupied(mut on_path) = paths.entry(self.path.clone()) {
            on_path.get_mut().counts[self.kind as usize] -= 1;
            if on_path.get().counts == [0, 0] {
                on_path.remove();
            }
        }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Setting<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.is_sent = true;
        let Some(request) = &mut self.request else { return Poll::Pending };
        let polled = request.as_mut().poll(cx);
        if polled.is_ready() {
            self.request = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Setting<F> {
    fn drop(&mut self) {
        let Some(request) = self.request.take().filter(|_| self.is_sent) else { return };
        let mut connectivity = self.watches.connectivity.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                answer = request => drop(answer),
                // It must not keep the session from ending.
                _ = connectivity.wait_for(|now| matches!(now, Connectivity::Over)) => {}
            }
        });
    }
}
