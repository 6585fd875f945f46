//! Writes of one client that wait in the same moment share a transaction.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_io::Timer;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use zookeeper_client as zk;

use super::super::size;
use super::super::write::Write;
use super::new_node::{Created, NewNode};

/// With fewer writes than this under way, the next one is sent by itself, at once.
const FEW: usize = 4;
/// With fewer transactions than this under way, those that wait are sent.
const TRANSACTIONS: usize = 2;
/// How long a write waits at most.
const LONGEST: Duration = Duration::from_millis(1);
/// How many bytes a transaction has at most: servers may be set to take fewer than by default.
const MOST_BYTES: usize = 8 * 1024;

/// The reply to one of the writes: what it has created, if it creates.
pub(super) type Reply = Result<Option<Created>, zk::Error>;

/// A transaction under way, up to the replies to its writes.
pub(super) type Sent = BoxFuture<'static, Vec<(oneshot::Sender<Reply>, Reply)>>;

/// By what those that wait are sent.
pub(super) struct Outlet {
    /// Sends them at the first poll of the result.
    pub(super) carry_out: Box<dyn Fn(Vec<Waiting>) -> Sent + Send>,
    /// The length of the chroot of its paths.
    pub(super) chroot: usize,
}

/// The writes of one connection that wait, and those that are under way.
///
/// They are sent in order, and before every other request that is made after them: each request [flushes](Self::flush).
/// What they wait for is seen to by the task that serves the connection.
#[derive(Default)]
pub(in crate::client) struct Combining {
    state: Mutex<State>,
    /// How many writes are under way that were sent by themselves.
    alone: AtomicUsize,
    service: AtomicWaker,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// By what those that wait are sent. `None` if none waits, since it refers to this.
    outlet: Option<Outlet>,
    /// Sent since the service has looked.
    sent: Vec<Sent>,
    /// How many transactions are under way.
    transactions: usize,
    is_over: bool,
}

/// A write that can wait.
pub(super) enum Wish {
    Create(NewNode<'static>),
    Delete(String),
}

/// A write that waits.
pub(super) struct Waiting {
    pub(super) wish: Wish,
    pub(super) reply: oneshot::Sender<Reply>,
    sharing: Sharing,
}

/// With which others a write may share a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It is sent by itself, at once.
    None,
    /// It waits for others if enough of them are under way.
    IfBusy,
    /// It waits for the next delete in any case: nothing depends on it. A create does not join it.
    WithNext,
}

/// What becomes of a write.
pub(super) enum Added {
    /// It is sent by itself, at once, and is under way until this is dropped.
    Goes(Alone),
    /// It waits for others. The sender is dropped when the connection ends.
    Waits(oneshot::Receiver<Reply>),
}

/// It does not keep the connection: a session ends as soon as what was sent is answered.
pub(super) struct Alone(Arc<Combining>);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.alone.fetch_sub(1, SeqCst);
    }
}

/// The part of the task that serves a connection. When it is dropped, callers are told that there will be no reply.
#[derive(Default)]
pub(in crate::client) struct Transactions {
    under_way: FuturesUnordered<Sent>,
    /// Until those that wait are sent, whatever is under way. Not of tokio, whose runtime does not run this.
    timer: Option<Timer>,
}

impl Wish {
    pub(super) fn to_write(&self) -> Write<'_> {
        match self {
            Self::Create(node) => node.to_write(),
            Self::Delete(path) => Write::Delete { path, version: None },
        }
    }

    /// Returns the parent of a node to be created.
    fn queue(&self) -> Option<&str> {
        match self {
            Self::Create(node) => node.path.rsplit_once('/').map(|(parent, _)| parent),
            Self::Delete(_) => None,
        }
    }
}

impl State {
    /// Takes as many of those that wait as share a transaction. Of one queue, that is one create at most: its nodes would
    /// have the same fencing token.
    fn take(&mut self, chroot: usize) -> Vec<Waiting> {
        let mut taken: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            bytes += chroot + size::of_write(&next.wish.to_write());
            let queue = next.wish.queue();
            let has_queue = |taken: &Waiting| queue.is_some() && taken.wish.queue() == queue;
            if !taken.is_empty() && (bytes > MOST_BYTES || taken.iter().any(has_queue)) {
                break;
            }
            taken.extend(self.waiting.pop_front());
        }
        taken
    }

    /// Whether one of those that wait has waited for others enough.
    fn is_wanted(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.sharing == Sharing::IfBusy)
    }

    /// Sends a transaction of those that wait, if there are any.
    fn send(&mut self) {
        let Some(outlet) = self.outlet.take() else { return };
        let taken = self.take(outlet.chroot);
        let mut sending = (outlet.carry_out)(taken);
        if !self.waiting.is_empty() {
            self.outlet = Some(outlet);
        }
        self.transactions += 1;
        // The first poll sends. No caller is told here, while the lock is held.
        let sent = match sending.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(replies) => ready(replies).boxed(),
            Poll::Pending => sending,
        };
        self.sent.push(sent);
    }
}

impl Combining {
    /// Makes a write wait for others, if it is to share a transaction with them. `creates` tells what the wish is.
    ///
    /// # Errors
    /// [`ConnectionLoss`](zk::Error::ConnectionLoss) if the connection has ended.
    pub(super) fn add(
        self: &Arc<Self>,
        sharing: Sharing,
        creates: bool,
        wish: impl FnOnce() -> Wish,
        outlet: impl FnOnce() -> Outlet,
    ) -> Result<Added, zk::Error> {
        let mut state = self.state.lock();
        if state.is_over {
            return Err(zk::Error::ConnectionLoss);
        }
        let few = self.alone.load(SeqCst) + state.transactions < FEW;
        let goes_now = sharing == Sharing::IfBusy && few && !state.is_wanted();
        // A create takes nothing along: refused, or on old servers, the transaction would cost it a round trip.
        if goes_now && (creates || state.waiting.is_empty()) {
            self.alone.fetch_add(1, SeqCst);
            drop(state);
            self.flush();
            return Ok(Added::Goes(Alone(self.clone())));
        }
        let (reply, told) = oneshot::channel();
        state.outlet.get_or_insert_with(outlet);
        state.waiting.push_back(Waiting { wish: wish(), reply, sharing });
        while goes_now && state.outlet.is_some() {
            state.send();
        }
        drop(state);
        self.service.wake();
        Ok(Added::Waits(told))
    }

    /// Sends all that wait: what is sent after this arrives after them.
    pub(in crate::client) fn flush(&self) {
        let mut state = self.state.lock();
        if state.outlet.is_none() {
            return;
        }
        while state.outlet.is_some() {
            state.send();
        }
        drop(state);
        self.service.wake();
    }

    /// Sends what is due, and tells callers of replies.
    pub(in crate::client) fn poll(&self, transactions: &mut Transactions, cx: &mut Context<'_>) {
        self.service.register(cx.waker());
        loop {
            let is_due = transactions.timer.as_mut().is_some_and(|timer| timer.poll_unpin(cx).is_ready());
            match self.send_due(is_due, &mut transactions.under_way) {
                false => transactions.timer = None,
                true if transactions.timer.is_some() => {}
                true => {
                    transactions.timer = Some(Timer::after(LONGEST));
                    continue;
                }
            }
            match transactions.under_way.poll_next_unpin(cx) {
                Poll::Ready(Some(replies)) => {
                    self.state.lock().transactions -= 1;
                    for (caller, reply) in replies {
                        // A caller that has gone looks for its node itself.
                        let _ = caller.send(reply);
                    }
                }
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }

    /// Sends what is due, which may be all. Returns whether some wait.
    fn send_due(&self, is_due: bool, under_way: &mut FuturesUnordered<Sent>) -> bool {
        let mut state = self.state.lock();
        while is_due && !state.waiting.is_empty() || state.transactions < TRANSACTIONS && state.is_wanted() {
            state.send();
        }
        under_way.extend(state.sent.drain(..));
        !state.waiting.is_empty()
    }

    /// Tells the callers of what was not sent, and of what the service did not get, that there will be no reply.
    pub(in crate::client) fn end(&self) {
        // Dropped without the lock.
        let _state = std::mem::replace(&mut *self.state.lock(), State { is_over: true, ..State::default() });
    }
}
