//! The node by which a lock is held, until it is released or lost.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use zookeeper_client as zk;

use super::deadline::from_now;
use crate::client::{Client, EphemeralNode, Failures, Session};
use crate::error::{Error, LossReason, Result};

/// What asks a holder to give the lock back, as the data of its node. Curator's `REVOKE_MESSAGE`.
pub(crate) const REVOKE_REQUEST: &[u8] = b"__REVOKE__";

#[derive(Debug)]
pub(crate) struct HeldNode {
    client: Client,
    session: Arc<Session>,
    path: Arc<str>,
    /// `None` when it is released or lost.
    node: Mutex<Option<EphemeralNode>>,
    loss: watch::Sender<Option<LossReason>>,
    /// When it is released at the latest.
    until: Option<watch::Sender<Instant>>,
}

impl HeldNode {
    pub(crate) fn new(client: &Client, node: EphemeralNode, max_hold: Option<Duration>) -> Arc<Self> {
        let path = node.path().into();
        let until = max_hold.map(from_now).map(watch::Sender::new);
        let timer = until.as_ref().map(watch::Sender::subscribe);
        let held = Arc::new(Self {
            client: client.clone(),
            session: node.session().clone(),
            path,
            node: Mutex::new(Some(node)),
            loss: watch::Sender::new(None),
            until,
        });
        if let Some(until) = timer {
            client.spawn(give_up_in_time(Arc::downgrade(&held), until));
        }
        held
    }

    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Takes note that the node is gone, and answers the error that says so.
    pub(crate) fn deleted(&self) -> Error {
        let reason = if self.session.is_over() { LossReason::Expired } else { LossReason::Deleted };
        self.lose(reason);
        self.lost(self.loss().unwrap_or(reason))
    }

    /// Why it is lost, if it is known to be.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        if self.client.is_closed() {
            self.lose(LossReason::Closed);
        } else if self.session.is_over() {
            self.lose(LossReason::Expired);
        } else if self.is_over_time() {
            self.lose(LossReason::Deadline);
        }
        *self.loss.borrow()
    }

    /// # Errors
    /// [`Error::LockLost`] when it is known to be lost, [`Error::Closed`] by the end of the client.
    pub(crate) fn ensure_held(&self) -> Result<()> {
        self.loss().map_or(Ok(()), |reason| Err(self.lost(reason)))
    }

    /// How long it is held at most from now on; `None` without a limit.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let until = *self.until.as_ref()?.borrow();
        Some(until.saturating_duration_since(Instant::now()))
    }

    fn is_over_time(&self) -> bool {
        self.remaining().is_some_and(|remaining| remaining.is_zero())
    }

    /// Lets it be held for this long from now on.
    ///
    /// # Errors
    /// As [`ensure_held`](Self::ensure_held).
    pub(crate) fn extend(&self, max_hold: Duration) -> Result<()> {
        self.ensure_held()?;
        // Under the lock of the loss, so that it is either extended or lost.
        self.loss.send_if_modified(|loss| {
            if let (None, Some(until)) = (loss, &self.until) {
                until.send_replace(from_now(max_hold));
            }
            false
        });
        self.ensure_held()
    }

    /// Deletes the node and waits for the confirmation.
    ///
    /// # Errors
    /// As [`LockGuard::release`](super::LockGuard::release).
    ///
    /// # Cancel safety
    /// The node is deleted in any case.
    pub(crate) async fn release(&self) -> Result<()> {
        self.ensure_held()?;
        let Some(node) = self.take() else { return Ok(()) };
        let found = self.client.unless_closed(node.remove()).await?;
        if found { Ok(()) } else { Err(self.deleted()) }
    }

    /// Waits until somebody asks for the lock by writing to the node.
    pub(crate) async fn revoke_requested(&self) -> Result<()> {
        self.ensure_held()?;
        let mut loss = self.loss.subscribe();
        let lost = async {
            // The sender is ours. What it answers is a lock on the value, which must not be kept.
            let _ = loss.wait_for(Option::is_some).await;
        };
        let asked = async {
            tokio::select! {
                asked = self.request_written() => asked,
                () = lost => self.ensure_held(),
            }
        };
        self.client.unless_closed(asked).await
    }

    async fn request_written(&self) -> Result<()> {
        let mut failures = Failures::default();
        loop {
            let error = match self.session.watch_data(&self.path).await {
                Ok((data, _)) if data == REVOKE_REQUEST => return Ok(()),
                Ok((_, watcher)) => {
                    failures.reset();
                    watcher.changed().await;
                    continue;
                }
                Err(zk::Error::NoNode) => return Err(self.deleted()),
                Err(source) => Error::ZooKeeper { operation: "watch", path: self.path.to_string(), source },
            };
            if error.ends_session() {
                return Err(self.deleted());
            }
            failures.pause_after(error, self.client.retry_policy()).await?;
        }
    }

    /// Asks the server whether the node is still there. That it cannot be reached is no answer, and no error.
    pub(crate) async fn look(&self) {
        if matches!(self.session.stat(&self.path).await, Ok(None)) {
            self.lose(LossReason::Deleted);
        }
    }

    /// What is lost stays lost, for the first reason. The node, if there still is one, is removed.
    fn lose(&self, reason: LossReason) {
        let is_lost = self.loss.send_if_modified(|loss| {
            // Meanwhile it may have been extended.
            let was_extended = reason == LossReason::Deadline && !self.is_over_time();
            !was_extended && loss.is_none() && loss.replace(reason).is_none()
        });
        if is_lost {
            tracing::info!(node = &*self.path, %reason, "lock lost");
            drop(self.take());
        }
    }

    fn take(&self) -> Option<EphemeralNode> {
        // No code that can panic runs under this lock.
        self.node.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn lost(&self, reason: LossReason) -> Error {
        match reason {
            LossReason::Closed => Error::Closed,
            reason => Error::LockLost { path: self.path.to_string(), reason },
        }
    }
}

/// Sees to it that a hold is lost when its time is over, also if nobody asks.
async fn give_up_in_time(held: Weak<HeldNode>, mut until: watch::Receiver<Instant>) {
    loop {
        let end = *until.borrow_and_update();
        tokio::select! {
            () = sleep_until(end) => match held.upgrade() {
                Some(held) if held.loss().is_none() => {} // extended
                _ => return,
            },
            changed = until.changed() => if changed.is_err() {
                return; // released
            }
        }
    }
}
