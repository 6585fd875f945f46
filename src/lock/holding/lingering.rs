//! Keeps the node of a mutex that no one holds for the next holder of this client.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::held_node::HeldNode;
use super::monitor::NodeWatch;
use super::state::LockState;
use crate::client::{Client, Watcher};
use crate::lock::deadline::from_now;
use crate::lock::options::LockOptions;
use crate::queue::{Circumstances, Linger, LingerAction, LingerEvent, LockInternals, is_alone};

/// What the lock objects of one mutex with the same options share: the node by which the lock was granted last.
/// [`Linger`] decides whether it stays and who may hold by it.
///
/// Only lock objects keep this alive. With the last of them it is dropped, and a node that no one holds with it.
#[derive(Debug)]
pub(crate) struct Lingering {
    queue: Arc<LockInternals>,
    options: LockOptions,
    time: Duration,
    node: Mutex<Option<Node>>,
    /// Notifies those who await the list of the queue that it may have come.
    looked: Notify,
    registry: Arc<Registry>,
}

/// The node of the latest grant, until it is deleted. While it is held, the guards keep it as well.
struct Node {
    held: Arc<HeldNode>,
    token: i64,
    linger: Linger,
    /// Until when it lingers, if no one holds.
    until: Instant,
    /// The watch on the children of the queue, from the list on.
    watch: Option<Watcher>,
    /// Whether the node itself was to be watched: from the first time it stays.
    is_watched: bool,
    /// Wakes the attendant, which waits for the watch. Others who poll the watch must not take its place.
    waker: Waker,
    /// Notified of the next release, if the attendant waits for it.
    released: Option<Arc<Notify>>,
    _until_dropped: DropGuard,
}

/// What the nodes of each path linger in.
#[derive(Debug, Default)]
struct Registry(Mutex<HashMap<Arc<str>, Vec<Entry>>>);

type Entry = (LockOptions, Weak<Lingering>);

/// The outcome of an attempt to hold by the node.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The node, and the token.
    Granted(Arc<HeldNode>, i64),
    /// The queue has to be listed first.
    Await,
    /// There is no node, or none to hold by. The caller enters the queue.
    Queue,
}

impl Lingering {
    /// Returns what the lock objects of that queue with these options share; `None` if they do not linger.
    pub(crate) fn of(queue: &Arc<LockInternals>, options: &LockOptions) -> Option<Arc<Self>> {
        let time = options.linger_time()?;
        let registry: Arc<Registry> = queue.client().extension();
        let mut known = registry.0.lock();
        let here = known.entry(queue.path().clone()).or_default();
        let same = here.iter().find(|(of, _)| of == options);
        if let Some(same) = same.and_then(|(_, lingering)| lingering.upgrade()) {
            return Some(same);
        }
        let lingering = Arc::new(Self {
            queue: queue.clone(),
            options: options.clone(),
            time,
            node: Mutex::default(),
            looked: Notify::new(),
            registry: registry.clone(),
        });
        here.retain(|(of, _)| of != options);
        here.push((options.clone(), Arc::downgrade(&lingering)));
        Some(lingering)
    }

    /// Returns the full paths of the nodes of this queue that no one holds.
    pub(crate) fn idle_nodes(client: &Client, queue: &Arc<str>) -> Vec<Arc<str>> {
        let registry: Arc<Registry> = client.extension();
        // Not to be dropped under the lock, which their drop takes as well.
        let here: Vec<_> = {
            let known = registry.0.lock();
            known.get(queue).into_iter().flatten().filter_map(|(_, lingering)| lingering.upgrade()).collect()
        };
        let idle = |lingering: &Arc<Self>| {
            let node = lingering.node.lock();
            node.as_ref().filter(|node| node.linger.is_idle()).map(|node| node.held.path().clone())
        };
        here.iter().filter_map(idle).collect()
    }

    /// Takes charge of a node by which the lock was just granted.
    pub(crate) fn begin(self: &Arc<Self>, held: Arc<HeldNode>, token: i64) {
        let dropped = CancellationToken::new();
        let attendant = Attendant { home: Arc::downgrade(self), held: Arc::downgrade(&held) };
        let attending = attendant.attend(&held, self.queue.path().clone(), dropped.clone());
        let node = Node {
            held,
            token,
            linger: Linger::new(),
            until: Instant::now(),
            watch: None,
            is_watched: false,
            waker: Waker::noop().clone(),
            released: None,
            _until_dropped: dropped.drop_guard(),
        };
        let before = self.node.lock().replace(node);
        drop(before);
        self.queue.client().spawn(attending);
    }

    /// Takes the node, if the lock can be held by it right now. Makes no request.
    pub(crate) fn take(&self) -> Taken {
        let mut state = self.node.lock();
        let Some(node) = &mut *state else { return Taken::Queue };
        let now = Circumstances {
            is_sound: node.held.state() == LockState::Held,
            is_in_time: Instant::now() < node.until,
            has_changed: node.has_changed(),
            is_asked: node.held.node_watch().may_be_asked(),
            others_queue: self.queue.has_callers(),
        };
        match node.linger.on(LingerEvent::Wanted(now)) {
            LingerAction::Grant => {
                node.held.begin_turn(self.options.hold_limit());
                Taken::Granted(node.held.clone(), node.token)
            }
            LingerAction::Await => Taken::Await,
            LingerAction::Delete => {
                let node = state.take();
                drop(state);
                node.into_iter().for_each(Node::delete);
                Taken::Queue
            }
            LingerAction::Queue | LingerAction::Keep => Taken::Queue,
        }
    }

    /// Waits for the list of the queue, if it decides whether the lock can be held by the node, and takes the node.
    /// Returns `None` if the caller must enter the queue.
    ///
    /// Of several that wait for the list, the first to be polled afterwards takes the node, and the others enter the
    /// queue. They have no order: a waiter behind one that is never polled would be stuck.
    ///
    /// # Cancel safety
    /// The caller no longer waits.
    pub(crate) async fn taken(&self) -> Option<(Arc<HeldNode>, i64)> {
        loop {
            // Registered before the check, so that no notification is missed.
            let looked = self.looked.notified();
            match self.take() {
                Taken::Granted(held, token) => return Some((held, token)),
                Taken::Await => looked.await,
                Taken::Queue => return None,
            }
        }
    }

    /// Takes a node back whose last guard is gone. Returns whether it stays; otherwise the caller deletes it.
    pub(super) fn take_back(&self, held: &HeldNode) -> bool {
        let mut state = self.node.lock();
        let Some(node) = state.as_mut().filter(|node| std::ptr::eq(&*node.held, held)) else {
            return false;
        };
        if node.has_changed() {
            node.linger.on(LingerEvent::Changed);
        }
        if held.node_watch().may_be_asked() {
            node.linger.on(LingerEvent::Asked);
        }
        let stays = node.linger.on(LingerEvent::Released(held.pass_on())) == LingerAction::Keep;
        if stays && held.end_turn() {
            node.until = from_now(self.time);
            if !std::mem::replace(&mut node.is_watched, true) {
                held.watch_node();
            }
            if let Some(released) = node.released.take() {
                released.notify_one();
            }
            return true;
        }
        let node = state.take();
        drop(state);
        drop(node);
        false
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let mut known = self.registry.0.lock();
        if let Some(here) = known.get_mut(self.queue.path()) {
            here.retain(|(_, lingering)| lingering.strong_count() > 0);
            if here.is_empty() {
                known.remove(self.queue.path());
            }
        }
    }
}

impl Node {
    /// Whether the watch on the queue has fired or ended. Independent of the attendant, which may be late.
    fn has_changed(&mut self) -> bool {
        let Self { watch, waker, .. } = self;
        let Some(watch) = watch else { return false };
        // Unconstrained: a task that acquires again and again has used up its budget at times.
        let changed = pin!(unconstrained(poll_fn(|cx| watch.poll(cx))));
        changed.poll(&mut Context::from_waker(waker)).is_ready()
    }

    /// Deletes the node, which no one holds, in the background.
    fn delete(self) {
        tracing::debug!(node = &**self.held.path(), "lingers no more");
        drop(self.held.take());
    }
}

impl Drop for Node {
    /// Waits for the watch to fire, as it does when the node is deleted. That costs less than to remove the watch.
    fn drop(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            self.held.client().spawn(async move {
                watch.changed().await;
            });
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("path", self.held.path())
            .field("linger", &self.linger)
            .finish_non_exhaustive()
    }
}

/// Attends to one node in the background, without keeping it.
struct Attendant {
    home: Weak<Lingering>,
    held: Weak<HeldNode>,
}

/// What the attendant waits for, apart from the watch on the queue.
enum Next {
    Release(Arc<Notify>),
    Deadline(Instant),
}

impl Attendant {
    /// Lists and watches the queue, and has the node deleted when it is time.
    fn attend(
        self,
        held: &HeldNode,
        queue: Arc<str>,
        dropped: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let session = held.session().clone();
        let closing = held.client().closing();
        let node_watch = held.node_watch().clone();
        let name = held.path().rsplit('/').next().unwrap_or_default().to_owned();
        async move {
            let (children, watch) = session.watch_list(&queue).await.ok().unzip();
            let children = children.unwrap_or_default();
            // Where the node is not, its end would not fire the watch.
            let mut watch = watch.filter(|_| children.contains(&name));
            self.on(|node| {
                node.watch = watch.take();
                LingerEvent::Looked { is_alone: is_alone(&children, &name) }
            });
            if let Some(mut unused) = watch {
                // The node is being deleted. To wait for that event costs less than to remove the watch.
                unused.changed().await;
            }
            dropped.run_until_cancelled(self.act(closing, &node_watch)).await;
        }
    }

    /// Has the node deleted when it is time.
    async fn act(&self, closing: CancellationToken, node_watch: &NodeWatch) {
        let mut asked = pin!(node_watch.revoke_requested().fuse());
        let mut closed = pin!(closing.cancelled().fuse());
        while let Some(next) = self.next() {
            let (released, deadline) = match next {
                Next::Release(released) => (Some(released), None),
                Next::Deadline(deadline) => (None, Some(deadline)),
            };
            tokio::select! {
                () = poll_fn(|cx| self.poll_changed(cx)) => {}
                () = &mut closed => self.on(|_| LingerEvent::Changed),
                // Or there is no permission to see whether someone asks.
                _ = &mut asked => self.on(|_| LingerEvent::Asked),
                Some(()) = OptionFuture::from(released.as_ref().map(|released| released.notified())) => {}
                Some(()) = OptionFuture::from(deadline.map(sleep_until)) => {}
            }
        }
    }

    /// Acts on the node, if it is still that of the latest grant.
    fn with<T>(&self, act: impl FnOnce(&mut Node) -> (T, LingerAction)) -> Option<T> {
        let home = self.home.upgrade()?;
        let mut state = home.node.lock();
        let node = state.as_mut().filter(|node| std::ptr::eq(self.held.as_ptr(), &*node.held))?;
        let (outcome, action) = act(node);
        let deleted = if action == LingerAction::Delete { state.take() } else { None };
        drop(state);
        deleted.into_iter().for_each(Node::delete);
        Some(outcome)
    }

    /// Has an event decided upon, and wakes those who await the decision.
    fn on(&self, event: impl FnOnce(&mut Node) -> LingerEvent) {
        self.with(|node| {
            let event = event(node);
            ((), node.linger.on(event))
        });
        if let Some(home) = self.home.upgrade() {
            home.looked.notify_waiters();
        }
    }

    /// Returns what to wait for; `None` if the node is gone or is being deleted.
    fn next(&self) -> Option<Next> {
        self.with(|node| {
            if !node.linger.is_idle() {
                let released = node.released.get_or_insert_default().clone();
                return (Some(Next::Release(released)), LingerAction::Keep);
            }
            if Instant::now() < node.until {
                return (Some(Next::Deadline(node.until)), LingerAction::Keep);
            }
            (None, node.linger.on(LingerEvent::Deadline))
        })
        .flatten()
    }

    /// Polls the watch, and has its event decided upon before anyone else looks at the node.
    fn poll_changed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.with(|node| {
            node.waker.clone_from(cx.waker());
            let Some(watch) = &mut node.watch else { return (Poll::Pending, LingerAction::Keep) };
            if watch.poll(cx).is_pending() {
                return (Poll::Pending, LingerAction::Keep);
            }
            node.watch = None;
            (Poll::Ready(()), node.linger.on(LingerEvent::Changed))
        });
        polled.unwrap_or(Poll::Pending)
    }
}

impl Drop for Attendant {
    /// The runtime may have ended before the node.
    fn drop(&mut self) {
        self.on(|_| LingerEvent::Changed);
    }
}
