//! Keeps the node of a mutex that no one holds for the next holder of this client: for the next in line, or for a
//! while.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
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

use super::held_node::{HeldNode, Lingers};
use super::line::{Line, Turn};
use super::monitor::NodeWatch;
use super::state::LockState;
use crate::client::{ByPath, Client, Session, Watcher};
use crate::lock::deadline::from_now;
use crate::lock::options::LockOptions;
use crate::queue::{
    Caller, Circumstances, Linger, LingerAction, LingerEvent, LockInternals, Release, Terms, is_alone,
};

/// What the lock objects of one mutex with the same options share: the node by which the lock was granted last.
/// [`Linger`] decides whether it stays and who may hold by it.
#[derive(Debug)]
pub(crate) struct Lingering {
    queue: Arc<LockInternals>,
    options: LockOptions,
    /// In front of the queue, with a cohort.
    line: Option<Line>,
    node: Mutex<Option<Node>>,
    /// Notifies those who await the list of the queue that it may have come.
    looked: Notify,
}

/// What lock objects have of it; tasks have a reference to [`Lingering`] itself for a moment at times. With it goes a node
/// that no one holds; one that is held is deleted by the release.
#[derive(Debug)]
pub(crate) struct Keeper {
    lingering: Arc<Lingering>,
    registry: Arc<Registry>,
}

/// The node of the latest grant, until it is deleted. While it is held, the guards keep it as well.
struct Node {
    held: Arc<HeldNode>,
    linger: Linger,
    /// Until when it lingers, if no one holds and no one was in line.
    until: Instant,
    cohort_time: Option<Duration>,
    /// Until when the cohort may keep it. `None` while no others wait, and without a cohort.
    cohort_until: Option<Instant>,
    /// The watch on the children of the queue, from the list on.
    watch: Option<Watcher>,
    /// Whether the node itself was to be watched: from the first time it stays; with a cohort, from the grant on.
    is_watched: bool,
    /// Wakes the attendant, which waits for the watch. Others who poll the watch must not take its place.
    waker: Waker,
    /// What the attendant waits for: a time, if there is one, and to be told of an earlier one.
    alarm: Option<(Option<Instant>, Arc<Notify>)>,
    _until_dropped: DropGuard,
}

/// What the nodes of each path linger in.
type Registry = ByPath<LockOptions, Keeper>;

/// The outcome of an attempt to hold by the node.
#[derive(Debug)]
pub(crate) enum Taken {
    Granted(Arc<HeldNode>),
    /// The queue has to be listed first.
    Await,
    /// The session has to be confirmed first.
    Confirm(Arc<Session>),
    /// There is no node, or none to hold by. The caller enters the queue.
    Queue,
}

/// A place in the line of a lock with a cohort. Dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct InLine<'a> {
    lingering: &'a Lingering,
    line: &'a Line,
    /// How often the lock had been granted when it came.
    grants: u64,
    caller: &'a Caller,
    has_turn: bool,
}

impl Keeper {
    /// Returns what the lock objects of that queue with these options share; `None` if no node is to stay.
    pub(crate) fn of(queue: &Arc<LockInternals>, options: &LockOptions) -> Option<Arc<Self>> {
        if options.linger.is_none() && options.cohort_terms().is_none() {
            return None;
        }
        let registry: Arc<Registry> = queue.client().extension();
        let lingering = || Lingering {
            queue: queue.clone(),
            options: options.clone(),
            line: options.cohort_terms().map(|_| Line::new()),
            node: Mutex::default(),
            looked: Notify::new(),
        };
        let keeper = || Self { lingering: Arc::new(lingering()), registry: registry.clone() };
        Some(registry.share(queue.path(), options.clone(), keeper))
    }

    pub(crate) fn lingering(&self) -> &Arc<Lingering> {
        &self.lingering
    }
}

impl Lingering {
    /// Returns the full paths of the nodes of this queue that no one holds.
    pub(crate) fn idle_nodes(client: &Client, queue: &Arc<str>) -> Vec<Arc<str>> {
        let registry: Arc<Registry> = client.extension();
        let idle = |keeper: &Arc<Keeper>| {
            let node = keeper.node.lock();
            node.as_ref().filter(|node| node.linger.is_idle()).map(|node| node.held.path().clone())
        };
        registry.at(queue).iter().filter_map(idle).collect()
    }

    pub(crate) fn has_line(&self) -> bool {
        self.line.is_some()
    }

    /// Takes the turn of the line if no one has it and no one is in line. `None` without a cohort.
    pub(crate) fn try_turn(&self) -> Option<Turn> {
        self.line.as_ref()?.try_turn()
    }

    /// Whether the next in line waits for no servers: the lock is held in this client, or waited for in the queue.
    pub(crate) fn is_backed(&self) -> bool {
        self.held().is_some_and(|held| held.loss().is_none())
            || self.line.as_ref().is_some_and(Line::is_in_queue)
    }

    /// Gets in line; `None` without a cohort.
    pub(crate) fn get_in_line<'a>(&'a self, caller: &'a Caller) -> Option<InLine<'a>> {
        let line = self.line.as_ref()?;
        let grants = line.join();
        if self.has_valid_node() {
            caller.reached();
        }
        Some(InLine { lingering: self, line, grants, caller, has_turn: false })
    }

    /// Whether there is a node of this client that is first in the queue, without a doubt about the session.
    fn has_valid_node(&self) -> bool {
        self.held().is_some_and(|held| held.state() == LockState::Held)
    }

    /// Returns the node. Its methods may take the mutex of `node`, which is not held here any more.
    fn held(&self) -> Option<Arc<HeldNode>> {
        self.node.lock().as_ref().map(|node| node.held.clone())
    }

    /// Whether an acquire that does not wait would be behind others of the cohort, without a doubt. Makes no request.
    pub(crate) fn is_taken(&self) -> bool {
        let is_used = |node: &Node| !node.linger.is_idle() || node.linger.is_handed_on();
        self.line.is_some() && self.node.lock().as_ref().is_some_and(is_used) && self.has_valid_node()
    }

    /// The line is left by someone who has not got the lock by its node.
    fn line_left(&self) {
        let mut state = self.node.lock();
        let Some(node) = &mut *state else { return };
        if self.line.as_ref().is_some_and(|line| !line.is_empty()) {
            return;
        }
        let was_handed_on = node.linger.is_handed_on();
        if node.on(LingerEvent::LineLeft) == LingerAction::Delete {
            let node = state.take();
            drop(state);
            node.into_iter().for_each(Node::delete);
        } else if was_handed_on {
            self.linger_from_now(node);
        }
    }

    fn linger_from_now(&self, node: &mut Node) {
        node.until = from_now(self.options.linger.unwrap_or_default());
        node.set_alarm(node.until);
    }

    /// Takes charge of a node by which the lock was just granted. An acquire that did not stand in line has the turn
    /// now, unless someone else has it.
    pub(crate) fn begin(self: &Arc<Self>, held: Arc<HeldNode>, turn: Option<Turn>) {
        let turn = turn.or_else(|| self.try_turn());
        self.line.iter().for_each(|line| line.granted(turn.is_some()));
        held.set_turn_in_line(turn);
        let cohort = self.options.cohort_terms();
        let cohort_time = cohort.map(|(_, time)| time);
        let terms = Terms {
            lingers: self.options.linger.is_some(),
            cohort: cohort.map_or(0, |(hand_ons, _)| hand_ons),
        };
        let dropped = CancellationToken::new();
        let attendant = Attendant { home: Arc::downgrade(self), held: Arc::downgrade(&held) };
        if cohort.is_some() {
            held.watch_node();
        }
        let attending = attendant.attend(&held, self.queue.path().clone(), cohort.is_some(), dropped.clone());
        let node = Node {
            held,
            linger: Linger::new(terms),
            until: Instant::now(),
            cohort_time,
            cohort_until: cohort_time.map(from_now),
            watch: None,
            is_watched: cohort.is_some(),
            waker: Waker::noop().clone(),
            alarm: None,
            _until_dropped: dropped.drop_guard(),
        };
        let before = self.node.lock().replace(node);
        drop(before);
        self.queue.client().spawn(attending);
    }

    /// Takes the node, if the lock can be held by it right now. With a cohort, only with the turn, which goes to the hold.
    /// Makes no request. `is_confirmed` says that the session was confirmed for that.
    pub(crate) fn take(&self, turn: &mut Option<Turn>, is_confirmed: bool) -> Taken {
        if self.line.is_some() && turn.is_none() {
            return Taken::Queue;
        }
        let mut state = self.node.lock();
        let Some(node) = &mut *state else { return Taken::Queue };
        let session = node.held.session();
        let is_held = node.held.state() == LockState::Held;
        if is_held && node.linger.is_idle() && !is_confirmed && !session.is_worth_granting() {
            return Taken::Confirm(session.clone());
        }
        let now = Circumstances {
            is_sound: is_held && !node.held.node_watch().may_be_gone(),
            is_in_time: Instant::now() < node.until,
            is_in_cohort_time: node.is_in_cohort_time(),
            is_watched: node.held.node_watch().is_set(),
            has_changed: node.has_changed(),
            is_asked: node.held.node_watch().may_be_asked(),
            others_queue: self.queue.has_callers(),
        };
        match node.on(LingerEvent::Wanted(now)) {
            LingerAction::Grant => {
                self.line.iter().for_each(|line| line.granted(true));
                node.held.begin_turn(turn.take());
                Taken::Granted(node.held.clone())
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
    /// For callers out of line. Of several that wait for the list, the first to be polled afterwards takes the node, and
    /// the others enter the queue. They have no order, and with a cohort no turn: a waiter behind one that is never
    /// polled would be stuck.
    ///
    /// # Cancel safety
    /// The caller no longer waits.
    pub(crate) async fn taken(&self) -> Option<Arc<HeldNode>> {
        self.taken_by(|is_confirmed| self.take(&mut self.try_turn(), is_confirmed)).await
    }

    /// The same for the next in line.
    ///
    /// # Cancel safety
    /// The caller no longer waits.
    pub(crate) async fn taken_in_turn(&self, turn: &mut Option<Turn>) -> Option<Arc<HeldNode>> {
        self.taken_by(|is_confirmed| self.take(turn, is_confirmed)).await
    }

    async fn taken_by(&self, mut take: impl FnMut(bool) -> Taken) -> Option<Arc<HeldNode>> {
        let mut is_confirmed = false;
        loop {
            // Registered before the check, so that no notification is missed.
            let looked = self.looked.notified();
            match take(std::mem::take(&mut is_confirmed)) {
                Taken::Granted(held) => return Some(held),
                Taken::Await => looked.await,
                // Boxed, because it is rare.
                Taken::Confirm(session) => {
                    is_confirmed = Box::pin(session.become_worth_granting()).await.is_ok();
                    if !is_confirmed {
                        // In the queue, the caller would wait for a node that no one takes any more.
                        self.give_up_idle();
                        return None;
                    }
                }
                Taken::Queue => return None,
            }
        }
    }

    /// Deletes the node if no one holds by it.
    fn give_up_idle(&self) {
        let node = self.node.lock().take_if(|node| node.linger.is_idle());
        node.into_iter().for_each(Node::delete);
    }
}

impl Lingers for Lingering {
    fn take_back(&self, held: &Arc<HeldNode>) -> bool {
        let mut state = self.node.lock();
        let Some(node) = state.as_mut().filter(|node| Arc::ptr_eq(&node.held, held)) else {
            return false;
        };
        if node.has_changed() {
            node.on(LingerEvent::Changed);
        }
        if held.node_watch().may_be_asked() {
            node.on(LingerEvent::Asked);
        }
        let is_in_line = self.line.as_ref().is_some_and(|line| !line.is_empty());
        let release = Release {
            pass_on: held.pass_on(),
            is_next_in_line: is_in_line && held.has_turn_in_line(),
            is_in_cohort_time: node.is_in_cohort_time(),
            is_watched: held.node_watch().is_set(),
        };
        let stays = node.on(LingerEvent::Released(release)) == LingerAction::Keep;
        if stays && held.end_turn() {
            if !node.linger.is_handed_on() {
                self.linger_from_now(node);
            }
            if !std::mem::replace(&mut node.is_watched, true) {
                held.watch_node();
            }
            let turn = held.take_turn_in_line();
            drop(state);
            drop(turn);
            return true;
        }
        let node = state.take();
        drop(state);
        drop(node);
        false
    }
}

impl Deref for Keeper {
    type Target = Lingering;

    fn deref(&self) -> &Lingering {
        &self.lingering
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.registry.forget(self.queue.path());
        let node = self.node.lock().take();
        // If it is held, the release will delete it.
        node.into_iter().filter(|node| node.linger.is_idle()).for_each(Node::delete);
    }
}

impl InLine<'_> {
    /// Waits for the turn.
    ///
    /// # Cancel safety
    /// If cancelled, only drop it.
    pub(crate) async fn turn(&mut self) -> Turn {
        let turn = match self.line.try_turn() {
            Some(turn) => turn,
            None => {
                let turn = self.line.turn().await;
                if self.line.has_made_wait(self.grants) || self.caller.has_reached() {
                    self.caller.has_waited_in_line();
                }
                turn
            }
        };
        self.has_turn = true;
        // From now on, it waits for the servers.
        self.caller.takes();
        turn
    }

    /// Records that the caller enters the queue, since it has its turn.
    pub(crate) fn enters_queue(&self) {
        self.line.enters_queue(self.caller);
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if !self.has_turn && (self.line.has_made_wait(self.grants) || self.lingering.has_valid_node()) {
            self.caller.reached();
        }
        if self.line.leave() {
            self.lingering.line_left();
        }
    }
}

impl Node {
    /// Has an event decided upon. While others may wait, the time of the cohort runs.
    fn on(&mut self, event: LingerEvent) -> LingerAction {
        let action = self.linger.on(event);
        if !self.linger.may_keep_others_out() {
            self.cohort_until = None;
        } else if self.cohort_until.is_none() {
            self.cohort_until = self.cohort_time.map(from_now);
            self.cohort_until.into_iter().for_each(|until| self.set_alarm(until));
        }
        action
    }

    fn is_in_cohort_time(&self) -> bool {
        self.cohort_until.is_none_or(|until| Instant::now() < until)
    }

    /// Has the attendant look again at that time. Wakes it only if it would come too late: a lock that is taken again and
    /// again would wake it each time.
    fn set_alarm(&mut self, time: Instant) {
        if let Some((_, news)) = self.alarm.take_if(|(alarm, _)| alarm.is_none_or(|alarm| time < alarm)) {
            news.notify_one();
        }
    }

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

impl Attendant {
    /// Lists and watches the queue, and has the node deleted when it is time.
    fn attend(
        self,
        held: &HeldNode,
        queue: Arc<str>,
        is_watched: bool,
        dropped: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let session = held.session().clone();
        let closing = held.client().closing();
        let node_watch = held.node_watch().clone();
        let name = held.path().rsplit('/').next().unwrap_or_default().to_owned();
        async move {
            let (children, watch) = session.watch_list(&queue).await.ok().unzip();
            if is_watched {
                dropped.run_until_cancelled(node_watch.answered()).await;
            }
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
        while let Some((deadline, news)) = self.next() {
            tokio::select! {
                () = poll_fn(|cx| self.poll_changed(cx)) => {}
                () = &mut closed => self.on(|_| LingerEvent::Asked),
                // Or there is no permission to see whether someone asks.
                _ = &mut asked => self.on(|_| LingerEvent::Asked),
                () = news.notified() => {}
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
            ((), node.on(event))
        });
        if let Some(home) = self.home.upgrade() {
            home.looked.notify_waiters();
        }
    }

    /// Returns what to wait for, apart from the watch on the queue: the deadline, and that there may be another one. `None`
    /// if the node is gone or is being deleted.
    fn next(&self) -> Option<(Option<Instant>, Arc<Notify>)> {
        self.with(|node| {
            let is_held = !node.linger.is_idle();
            let is_for_line = is_held || node.linger.is_handed_on();
            let deadline = if is_for_line { node.cohort_until } else { Some(node.until) };
            let is_over = deadline.is_some_and(|deadline| deadline <= Instant::now());
            if is_over && !is_held {
                return (None, node.on(LingerEvent::Deadline));
            }
            // After the time of the cohort, a node that is held is deleted by the release, or lingers.
            let deadline = deadline.filter(|_| !is_over);
            (Some(node.alarm.insert((deadline, Arc::default())).clone()), LingerAction::Keep)
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
            (Poll::Ready(()), node.on(LingerEvent::Changed))
        });
        polled.unwrap_or(Poll::Pending)
    }
}

impl Drop for Attendant {
    /// The runtime may have ended before the node.
    fn drop(&mut self) {
        self.on(|_| LingerEvent::Asked);
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::InterProcessMutex;
    use crate::testing::MemoryServer;

    #[tokio::test]
    async fn the_last_guard_releases_though_a_task_has_a_reference_for_a_moment() {
        let server = MemoryServer::start().unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let options = LockOptions::new().linger(Duration::from_secs(600));
        let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap().with_options(options).unwrap();
        let registry: Arc<Registry> = client.extension();
        let reference = registry.at("/locks/a").pop().unwrap().lingering.clone();
        let guard = mutex.acquire().await.unwrap();
        drop(mutex);
        guard.release().await.unwrap();
        let zookeeper = client.zookeeper().await.unwrap();
        assert_eq!(zookeeper.list_children("/locks/a").await.unwrap(), Vec::<String>::new());
        drop(reference);
    }
}
