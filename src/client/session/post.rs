//! A persistent watch that serves one-shot watches on its own node, too.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use zookeeper_client::{self as zk, EventType};

use super::super::connection::Server;

/// A persistent watch, shared by its [`TreeWatch`](super::TreeWatch) and those who watch its node once.
///
/// Whoever of them is polled first takes the events from `zookeeper-client`, so that each of them sees an event no later
/// than a reply that came after it. An event wakes the [`TreeWatch`](super::TreeWatch), which tells the others.
pub(super) struct Post {
    path: Arc<str>,
    waker: AtomicWaker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// From the reply of the server until the end. The connection is not held: that would keep the session from ending.
    set: Option<(zk::PersistentWatcher, Server)>,
    events: VecDeque<zk::WatchedEvent>,
    locals: Vec<oneshot::Sender<EventType>>,
    is_displaced: bool,
    /// Whether the server tells the numbers of transactions. Then it is a 3.9 or later, on which one-shot watches do
    /// not displace persistent ones.
    tells_zxids: bool,
    has_ended: bool,
}

/// A one-shot watch that is served by a persistent one.
#[derive(Debug)]
pub(super) struct Local {
    post: Arc<Post>,
    event: oneshot::Receiver<EventType>,
}

impl Post {
    pub(super) fn new(path: Arc<str>) -> Self {
        Self { path, waker: AtomicWaker::new(), state: Mutex::default() }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The server has set the watch.
    pub(super) fn set(&self, watcher: zk::PersistentWatcher, server: Server) {
        self.state.lock().set = Some((watcher, server));
    }

    /// Whether `zookeeper-client` has the watch.
    pub(super) fn is_set(&self) -> bool {
        self.state.lock().set.is_some()
    }

    /// Watches the node once, if the watch is set and has not been displaced.
    pub(super) fn watch(self: &Arc<Self>) -> Option<Local> {
        let mut state = self.state.lock();
        let serves = state.set.is_some() && !state.is_displaced && !state.has_ended;
        serves.then(|| {
            let (sender, event) = oneshot::channel();
            // Of those that have been given up, not more than of those that have not are kept.
            if state.locals.len() == state.locals.capacity() {
                state.locals.retain(|local| !local.is_closed());
            }
            state.locals.push(sender);
            Local { post: self.clone(), event }
        })
    }

    /// A one-shot watch may have ended this one at the server, or will do so.
    pub(super) fn displace(&self) {
        let mut state = self.state.lock();
        if !state.tells_zxids {
            state.is_displaced = true;
            state.locals.clear();
        }
        drop(state);
        self.waker.wake();
    }

    pub(super) fn is_displaced(&self) -> bool {
        self.state.lock().is_displaced
    }

    /// Removes the watch.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        state.locals.clear();
        state.set = None;
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Returns the next event; `None` if the connection has ended. Only one task may call this.
    pub(super) fn poll(self: &Arc<Self>, cx: &Context<'_>) -> Poll<Option<zk::WatchedEvent>> {
        self.waker.register(cx.waker());
        self.pump();
        let mut state = self.state.lock();
        match state.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if state.has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Takes the events that have come, and tells those who watch the node.
    fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let State { set, events, locals, tells_zxids, has_ended, .. } = &mut *state;
        let Some((watcher, server)) = set else { return };
        // It wakes the owner of the watch, whoever takes the events.
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        let mut has_news = false;
        loop {
            // An adopted session may be served by another runtime than the client's.
            let next = || catch_unwind(AssertUnwindSafe(|| pin!(watcher.changed()).poll(&mut cx)));
            match server.while_it_lasts(next) {
                Some(Ok(Poll::Ready(event))) if event.event_type != EventType::Session => {
                    *tells_zxids |= event.zxid > 0;
                    if *event.path == *self.path {
                        for local in locals.drain(..) {
                            // It may have been given up.
                            let _ = local.send(event.event_type);
                        }
                    }
                    events.push_back(event);
                    has_news = true;
                }
                Some(Ok(Poll::Pending)) => break,
                _ => {
                    *has_ended = true;
                    locals.clear();
                    has_news = true;
                    break;
                }
            }
        }
        drop(state);
        if has_news {
            self.waker.wake();
        }
    }
}

impl Wake for Post {
    fn wake(self: Arc<Self>) {
        self.waker.wake();
    }
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Local {
    /// Polls for the event; `Session` if the node has to be watched anew.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<EventType> {
        self.post.pump();
        Pin::new(&mut self.event).poll(cx).map(|event| event.unwrap_or(EventType::Session))
    }
}
