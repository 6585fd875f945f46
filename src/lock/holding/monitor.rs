//! Monitors a hold, so that its holder is notified of a loss without asking.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::future::OptionFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::unconstrained;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{self as zk, EventType};

use super::held_node::HeldNode;
use crate::client::{OwnWatch, Session, Watcher, is_revoke_request};
use crate::error::{Error, Result, report};
use crate::failure::Failure;

/// Monitors a hold until it is released or lost, without keeping it from being dropped.
pub(super) fn monitor(held: &Arc<HeldNode>) -> impl Future<Output = ()> + Send + use<> {
    let session = held.session().clone();
    let path = held.path().clone();
    let node_watch = held.node_watch().clone();
    let closing = held.client().closing();
    let news = held.news().clone();
    let mut limit = held.watch_limit();
    let own_watch = held.take_watch();
    let mut health = session.validity().health_changes();
    let held = Arc::downgrade(held);
    // Those who wait for the answer are woken in any case, also if the watch is never asked for, since the hold is over
    // by then.
    let answered = node_watch.answered.clone().drop_guard();
    async move {
        let _answered = answered;
        let mut is_watching = own_watch.is_some();
        // Notified by listeners or, without any, by the minder once the hold is no longer young.
        let mut watching = pin!(node_watch.wanted.notified());
        let is_released = || held.upgrade().is_none_or(|held| held.is_released());
        let data_to_restore = || held.upgrade()?.data_to_restore();
        let mut gone = pin!(gone(&session, &path, own_watch, &node_watch, is_released, data_to_restore));
        let mut is_there = true;
        while held.upgrade().is_some_and(|held| is_held(&held)) {
            let end = limit.as_mut().map(|limit| *limit.borrow_and_update());
            tokio::select! {
                // The drop of the last reference notifies, too.
                () = news.notified() => {}
                _ = health.changed() => {}
                () = closing.cancelled() => {}
                Some(()) = OptionFuture::from(end.map(sleep_until)) => {}
                Some(_) = OptionFuture::from(limit.as_mut().map(|limit| limit.changed())) => {}
                () = &mut watching, if !is_watching => is_watching = true,
                is_gone = &mut gone, if is_watching && is_there => {
                    // Or there is no permission to watch it.
                    is_there = false;
                    // That is no loss while it is being released.
                    if is_gone && let Some(held) = held.upgrade().filter(|held| !held.is_released()) {
                        held.deleted();
                    }
                }
            }
        }
        if is_watching && is_there {
            // The node is being removed. To wait for that event costs less than to remove the watch.
            gone.await;
        }
    }
}

/// Checks a hold, and publishes its state to watchers.
fn is_held(held: &Arc<HeldNode>) -> bool {
    let state = held.state();
    held.publish();
    !state.is_lost()
}

/// What the holder and its monitor tell each other about the watch on the node.
#[derive(Debug)]
pub(crate) struct NodeWatch {
    /// Notified when the watch is to be set immediately.
    wanted: Notify,
    /// The watch, once it is set.
    set: Mutex<Option<Set>>,
    /// Cancelled when it is set for the first time, or cannot be.
    answered: CancellationToken,
    /// Whether the lock was asked for, if that can be known.
    revoke_requested: watch::Sender<Result<bool>>,
}

struct Set {
    watcher: Watcher,
    /// Wakes the monitor. Others who poll the watch must not take its place.
    waker: Waker,
}

impl Default for NodeWatch {
    fn default() -> Self {
        Self {
            wanted: Notify::new(),
            set: Mutex::default(),
            answered: CancellationToken::new(),
            revoke_requested: watch::Sender::new(Ok(false)),
        }
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watcher.fmt(f)
    }
}

impl NodeWatch {
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Stays true once the lock was asked for, because the request does not stay in the node.
    fn read(&self, requested: Result<bool>) {
        self.revoke_requested.send_if_modified(|last| {
            let is_news = *last != Ok(true);
            if is_news {
                *last = requested;
            }
            is_news
        });
    }

    /// Whether the watch is set and has not fired, so that the node is there as far as can be known.
    pub(super) fn is_set(&self) -> bool {
        self.state() == Some(Poll::Pending)
    }

    /// Whether the watch has told that the node was deleted. The monitor confirms that before the lock is lost.
    pub(super) fn may_be_gone(&self) -> bool {
        self.state() == Some(Poll::Ready(EventType::NodeDeleted))
    }

    /// Returns what the watch has told, if it was set. Independent of the monitor, which may be late.
    fn state(&self) -> Option<Poll<EventType>> {
        let mut set = self.set.lock();
        let Set { watcher, waker } = set.as_mut()?;
        // Unconstrained: a task that acquires again and again has used up its budget at times.
        let told = pin!(unconstrained(poll_fn(|cx| watcher.poll(cx))));
        Some(told.poll(&mut Context::from_waker(waker)))
    }

    /// Waits until the watch is set for the first time, or cannot be.
    pub(super) async fn answered(&self) {
        self.answered.cancelled().await;
    }

    /// Waits for the watch to tell of something.
    ///
    /// # Cancel safety
    /// If cancelled, [`may_be_gone`](Self::may_be_gone) still knows.
    async fn tells(&self, watcher: Watcher) -> EventType {
        *self.set.lock() = Some(Set { watcher, waker: Waker::noop().clone() });
        self.answered.cancel();
        poll_fn(|cx| {
            let mut set = self.set.lock();
            let Some(Set { watcher, waker }) = &mut *set else { return Poll::Ready(EventType::Session) };
            waker.clone_from(cx.waker());
            watcher.poll(cx)
        })
        .await
    }

    /// Whether the lock was asked for, or the node cannot be watched for that.
    pub(super) fn may_be_asked(&self) -> bool {
        *self.revoke_requested.borrow() != Ok(false)
    }

    /// Waits until the lock is asked for. Does not have the node watched by itself.
    ///
    /// # Errors
    /// The node cannot be watched.
    pub(super) async fn revoke_requested(&self) -> Result<()> {
        let mut requested = self.revoke_requested.subscribe();
        // Cannot fail, because the sender is in `self`.
        let requested = requested.wait_for(|requested| *requested != Ok(false)).await;
        requested.map_or(Ok(()), |requested| (*requested).clone().map(|_| ()))
    }
}

/// Waits until the node or its session is gone. Meanwhile, notes requests for the lock, and restores the holder's
/// data after one. Returns `false` if the node cannot be watched, because permission is missing.
async fn gone(
    session: &Session,
    path: &str,
    mut own_watch: Option<OwnWatch>,
    node_watch: &NodeWatch,
    is_released: impl Fn() -> bool,
    data_to_restore: impl Fn() -> Option<Vec<u8>>,
) -> bool {
    let _answered = node_watch.answered.clone().drop_guard();
    loop {
        let watched = match own_watch.take() {
            Some(watch) => Ok(watch),
            None => {
                let watched = session.watch_data_patiently(path).await;
                watched.map(|(data, stat, watcher)| OwnWatch { data, version: stat.version, watcher })
            }
        };
        match watched {
            Ok(OwnWatch { data, version, watcher }) => {
                let is_asked = is_revoke_request(&data);
                node_watch.read(Ok(is_asked));
                if is_asked && let Some(data) = data_to_restore() {
                    // The version keeps this from overwriting a later request. If the connection is lost, the
                    // watch fires, and the data is read again.
                    if let Err(error) = session.set_data(path, &data, Some(version)).await {
                        tracing::debug!(node = path, error = %report(&error), "the node goes on showing the request");
                    }
                }
                if node_watch.tells(watcher).await == EventType::NodeDeleted && is_released() {
                    return true;
                }
                // Otherwise the session may have ended.
            }
            Err(zk::Error::NoNode) => return true,
            Err(error) if Failure::of(&error) == Failure::SessionOver => return true,
            Err(source) => {
                let path = path.to_owned();
                node_watch.read(Err(Error::ZooKeeper { operation: "watch", path, source }));
                return false;
            }
        }
    }
}
