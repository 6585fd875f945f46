//! Writes of one client that wait in the same moment share a transaction.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_io::Timer;
use futures_util::future::{BoxFuture, join_all, ready};
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use zookeeper_client as zk;

use super::super::connection::{Connection, Server};
use super::super::size;
use super::super::write::Write;
use super::Session;
use super::writes::{Created, NewNode};
use crate::failure::Failure;

/// With fewer writes than this under way, the next one is sent by itself, at once.
const FEW: usize = 4;
/// With fewer transactions than this under way, those that wait are sent.
const TRANSACTIONS: usize = 2;
/// How long a write waits at most.
const LONGEST: Duration = Duration::from_millis(1);
/// How many bytes a transaction has at most: servers may be set to take fewer than by default.
const MOST_BYTES: usize = 8 * 1024;

/// The reply to one of the writes: what it has created, if it creates.
type Reply = Result<Option<Created>, zk::Error>;

/// A transaction under way, up to the replies to its writes.
type Sent = BoxFuture<'static, Vec<(oneshot::Sender<Reply>, Reply)>>;

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
    /// What those that wait are sent on. `None` if none waits, since it refers to this.
    on: Option<(Arc<Session>, Arc<Connection>)>,
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

struct Waiting {
    wish: Wish,
    reply: oneshot::Sender<Reply>,
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

/// How a write is made.
pub(super) enum Way {
    /// By itself, on this connection. It is under way until `Alone` is dropped.
    Alone(Arc<Connection>, Option<Alone>),
    /// It waits for others. The sender is dropped when the connection ends.
    Waits(oneshot::Receiver<Reply>),
}

/// It does not keep the connection: a session ends as soon as what was sent is answered.
pub(super) struct Alone(Server);

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(combining) = self.0.combining() {
            combining.alone.fetch_sub(1, SeqCst);
        }
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
    fn to_write(&self) -> Write<'_> {
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

impl Session {
    /// Makes a write wait for others, if it is to share a transaction with them. `creates` tells what the wish is.
    ///
    /// # Errors
    /// Same as [`connected`](Self::connected).
    pub(super) fn combine(
        self: &Arc<Self>,
        sharing: Sharing,
        creates: bool,
        wish: impl FnOnce() -> Wish,
    ) -> Result<Way, zk::Error> {
        if sharing == Sharing::None {
            return Ok(Way::Alone(self.connected()?, None));
        }
        let connection = self.current()?;
        let Some(combining) = connection.server.combining() else {
            return Ok(Way::Alone(connection, None));
        };
        let mut state = combining.state.lock();
        if state.is_over {
            return Err(zk::Error::ConnectionLoss);
        }
        let few = combining.alone.load(SeqCst) + state.transactions < FEW;
        let goes_now = sharing == Sharing::IfBusy && few && !state.is_wanted();
        // A create takes nothing along: refused, or on old servers, the transaction would cost it a round trip.
        if goes_now && (creates || state.waiting.is_empty()) {
            combining.alone.fetch_add(1, SeqCst);
            let alone = Alone(connection.server.clone());
            drop(state);
            combining.flush();
            return Ok(Way::Alone(connection, Some(alone)));
        }
        let (reply, told) = oneshot::channel();
        state.on.get_or_insert_with(|| (self.clone(), connection.clone()));
        state.waiting.push_back(Waiting { wish: wish(), reply, sharing });
        while goes_now && state.on.is_some() {
            state.send();
        }
        drop(state);
        combining.service.wake();
        Ok(Way::Waits(told))
    }

    /// Carries out writes in one transaction, or each by itself if there is but one. They are sent at the first poll. If
    /// one of them is refused, none was done, and the others may be the reason: they are sent again, each by itself.
    async fn carry_out(
        self: Arc<Self>,
        connection: Arc<Connection>,
        waiting: Vec<Waiting>,
    ) -> Vec<(oneshot::Sender<Reply>, Reply)> {
        if waiting.len() > 1 {
            let writes: Vec<_> = waiting.iter().map(|waiting| waiting.wish.to_write()).collect();
            let committing = self.commit_on(&connection.zookeeper, &writes);
            let replies = match self.in_order(&connection.server, committing).await {
                Ok(results) => Some(self.created_by(&connection, results).await),
                Err(error) => {
                    let error = zk::Error::from(error);
                    let is_refused = Failure::of(&error) == Failure::Refused;
                    (!is_refused).then(|| waiting.iter().map(|_| Err(error.clone())).collect())
                }
            };
            if let Some(replies) = replies {
                return waiting.into_iter().map(|waiting| waiting.reply).zip(replies).collect();
            }
        }
        let making = waiting.into_iter().map(|Waiting { wish, reply, .. }| {
            let (session, connection) = (self.clone(), connection.clone());
            async move {
                let made = match wish {
                    // Its caller looks for it already.
                    Wish::Create(_) if reply.is_closed() => Err(zk::Error::ConnectionLoss),
                    Wish::Create(node) => session.create_on(&connection, &node).await.map(Some),
                    Wish::Delete(path) => {
                        let deleting = session.send_delete_on(&connection, &path);
                        // Else a close would wait for the reply first.
                        drop(connection);
                        deleting.await.map(|()| None)
                    }
                };
                (reply, made)
            }
        });
        let making = join_all(making);
        drop(connection);
        making.await
    }

    /// Returns the replies to the writes of a transaction. Old servers do not tell when its nodes were created: all at once.
    async fn created_by(&self, connection: &Connection, results: Vec<zk::MultiWriteResult>) -> Vec<Reply> {
        let undated = results.iter().find_map(|result| match result {
            zk::MultiWriteResult::Create { path, stat } if stat.is_invalid() => Some(&**path),
            _ => None,
        });
        let read = match undated {
            Some(path) => self.stat_on(connection, path).await.ok().flatten(),
            None => None,
        };
        let created = results.into_iter().map(|result| match result {
            zk::MultiWriteResult::Create { path, stat } => Ok(Some(self.created(path, &stat, read.as_ref()))),
            _ => Ok(None),
        });
        created.collect()
    }
}

impl State {
    /// Takes as many of those that wait as share a transaction. Of one queue, that is one create at most: its nodes would
    /// have the same fencing token.
    fn take(&mut self, chroot: &str) -> Vec<Waiting> {
        let mut taken: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            bytes += chroot.len() + size::of_write(&next.wish.to_write());
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
        let Some((session, connection)) = self.on.clone() else { return };
        let taken = self.take(connection.zookeeper.path());
        if self.waiting.is_empty() {
            self.on = None;
        }
        self.transactions += 1;
        let mut sending = session.carry_out(connection, taken).boxed();
        // The first poll sends. No caller is told here, while the lock is held.
        let sent = match sending.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(replies) => ready(replies).boxed(),
            Poll::Pending => sending,
        };
        self.sent.push(sent);
    }
}

impl Combining {
    /// Sends all that wait: what is sent after this arrives after them.
    pub(in crate::client) fn flush(&self) {
        let mut state = self.state.lock();
        if state.on.is_none() {
            return;
        }
        while state.on.is_some() {
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
