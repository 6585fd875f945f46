//! The node by which a lock is held, until it is released or lost.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use zookeeper_client::EventType;

use super::keeper::{self, NodeWatch};
use super::minder::Minder;
use super::published::Published;
use super::state::{LockState, SuspectPolicy};
use crate::client::{Client, Dependant, Health, OwnWatch, Session, Watcher};
use crate::error::{Error, LossReason, Result};
use crate::lock::deadline::from_now;
use crate::lock::operating::revoke::election_of_latch;
use crate::lock::options::LockOptions;
use crate::queue::{Grant, Transactions};

#[derive(Debug)]
pub(crate) struct HeldNode {
    client: Client,
    session: Arc<Session>,
    path: Arc<str>,
    /// `None` when it is released or lost. Until then the session is kept confirmed.
    grant: Mutex<Option<Held>>,
    state: Published,
    /// Tells its keeper that the state has changed, or that all is over.
    news: Arc<Notify>,
    /// When it is released at the latest.
    until: Option<watch::Sender<Instant>>,
    suspect_policy: SuspectPolicy,
    node_watch: Arc<NodeWatch>,
    /// Whether the grant has a watch on its node, which its keeper would take.
    has_watch: AtomicBool,
    is_kept: AtomicBool,
    this: Weak<Self>,
}

/// What is held until it is released or lost.
#[derive(Debug)]
struct Held {
    grant: Grant,
    transactions: Transactions,
    _dependant: Dependant,
}

impl HeldNode {
    pub(crate) fn new(client: &Client, grant: Grant, options: &LockOptions) -> Arc<Self> {
        let session = grant.node.session().clone();
        let has_watch = grant.node.is_watched();
        let path = grant.node.path().into();
        let _dependant = session.validity().depend();
        let grant = Held { grant, transactions: Transactions::default(), _dependant };
        let held = Arc::new_cyclic(|this| Self {
            // Its keeper has it for a moment, now and then.
            client: client.detached(),
            path,
            grant: Mutex::new(Some(grant)),
            state: Published::new(LockState::Held),
            news: Arc::default(),
            until: options.hold_limit().map(from_now).map(watch::Sender::new),
            suspect_policy: options.on_suspect(),
            node_watch: Arc::default(),
            has_watch: AtomicBool::new(has_watch),
            is_kept: AtomicBool::new(false),
            this: this.clone(),
            session,
        });
        if held.until.is_some() || held.suspect_policy == SuspectPolicy::GiveUp {
            held.keep();
        }
        Minder::mind(client, &held);
        held
    }

    /// Has it accompanied from now on.
    fn keep(&self) {
        if !self.is_kept.swap(true, Ordering::Relaxed)
            && let Some(held) = self.this.upgrade()
        {
            self.client.spawn(keeper::keep(&held));
        }
    }

    /// Has its node watched from now on.
    pub(crate) fn watch_node(&self) {
        self.node_watch.want();
        self.keep();
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Takes note that the node is gone, and returns the error that says so.
    pub(crate) fn deleted(&self) -> Error {
        let reason = self.loss().unwrap_or(LossReason::Deleted);
        self.lose(reason);
        self.lost_error(reason)
    }

    /// Takes note that the node was seen to be gone. While it is being released that is no loss.
    pub(crate) fn seen_gone(&self) {
        if !self.is_released() {
            self.deleted();
        }
    }

    /// Why it is lost, if it is known to be.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self.state() {
            LockState::Lost(reason) => Some(reason),
            LockState::Held | LockState::Suspect => None,
        }
    }

    /// How it stands at this moment. A change is published by its keeper.
    pub(crate) fn state(&self) -> LockState {
        let news = self.judge();
        if let LockState::Lost(reason) = news {
            self.lose(reason);
            return self.state.get();
        }
        let before =
            self.state.with(|state| if state.is_lost() { *state } else { std::mem::replace(state, news) });
        if before == news || before.is_lost() {
            return before;
        }
        self.news.notify_one();
        news
    }

    /// Shows the present state to those who watch it. Waits for those who borrow it, so it is for the keeper only.
    pub(super) fn publish(&self) {
        let this = self.this.clone();
        let show = move || {
            if let Some(held) = this.upgrade() {
                held.state.publish();
            }
        };
        if !self.state.is_watched() {
            show();
        } else if self.state.sets_out() {
            self.client.tell(show);
        }
    }

    /// What the client, the session and the clock say, whatever was said before.
    fn judge(&self) -> LockState {
        if self.client.has_ended() {
            return LockState::Lost(LossReason::Closed);
        }
        let health = self.session.health();
        if health == Health::Over {
            return LockState::Lost(LossReason::Expired);
        }
        if self.is_over_time() {
            return LockState::Lost(LossReason::Deadline);
        }
        if self.has_watch.load(Ordering::Relaxed) && self.has_seen_its_end() {
            return LockState::Lost(LossReason::Deleted);
        }
        match (health, self.suspect_policy) {
            (Health::Sound, _) => LockState::Held,
            (Health::Suspect, SuspectPolicy::Keep) => LockState::Suspect,
            (Health::Suspect, SuspectPolicy::GiveUp) => LockState::Lost(LossReason::Suspect),
            (Health::Lapsed | Health::Over, _) => LockState::Lost(LossReason::Expired),
        }
    }

    /// Hears of changes of the state, at once.
    pub(crate) fn watch_state(&self) -> watch::Receiver<LockState> {
        let state = self.state.subscribe();
        self.watch_node();
        self.news.notify_one();
        state
    }

    pub(super) fn news(&self) -> &Arc<Notify> {
        &self.news
    }

    pub(crate) fn node_watch(&self) -> &Arc<NodeWatch> {
        &self.node_watch
    }

    /// Waits until it is lost.
    pub(crate) async fn lost(&self) -> LossReason {
        let mut state = self.watch_state();
        let closing = self.client.closing();
        loop {
            if let Some(reason) = self.loss() {
                return reason;
            }
            tokio::select! {
                _ = state.changed() => {}
                // With its runtime, the keeper is gone as well.
                () = closing.cancelled() => {}
            }
        }
    }

    /// # Errors
    /// [`Error::LockLost`] when it is known to be lost, [`Error::Closed`] by the end of the client.
    pub(crate) fn ensure_held(&self) -> Result<()> {
        self.loss().map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    /// Until when it is certainly held, unless somebody deletes its node.
    pub(crate) fn valid_until(&self) -> Instant {
        let valid_until = self.session.validity().until();
        let valid_until = self.limit().map_or(valid_until, |limit| limit.min(valid_until));
        if self.loss().is_some() { valid_until.min(Instant::now()) } else { valid_until }
    }

    /// How long it is held at most from now on; `None` without a limit.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        Some(self.limit()?.saturating_duration_since(Instant::now()))
    }

    /// When its time is over; `None` without a limit.
    fn limit(&self) -> Option<Instant> {
        self.until.as_ref().map(|until| *until.borrow())
    }

    pub(crate) fn watch_limit(&self) -> Option<watch::Receiver<Instant>> {
        self.until.as_ref().map(watch::Sender::subscribe)
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
        // Under the lock of the state, so that it is either extended or lost.
        self.state.with(|state| {
            if let (false, Some(until)) = (state.is_lost(), &self.until) {
                until.send_replace(from_now(max_hold));
            }
        });
        self.ensure_held()
    }

    /// Deletes the node and waits for the confirmation.
    ///
    /// # Errors
    /// As [`LockGuard::release`](crate::lock::LockGuard::release).
    ///
    /// # Cancel safety
    /// The node is deleted in any case.
    pub(crate) async fn release(&self) -> Result<()> {
        self.ensure_held()?;
        // Else it was lost since.
        let Some(grant) = self.take() else { return self.ensure_held() };
        let found = self.remove(grant).await?;
        if found { Ok(()) } else { Err(self.deleted()) }
    }

    /// The same while others hold on to it, for whom it is lost then, for that reason.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    ///
    /// # Cancel safety
    /// As [`release`](Self::release).
    pub(crate) async fn resign(&self, reason: LossReason) -> Result<()> {
        self.ensure_held()?;
        if !self.turns_lost(reason) {
            return self.ensure_held();
        }
        let Some(grant) = self.take() else { return Ok(()) };
        let found = self.remove(grant).await?;
        if found { Ok(()) } else { Err(self.lost_error(LossReason::Deleted)) }
    }

    /// Deletes the node, and waits for the confirmation for as long as that is of use. Returns whether it had still been
    /// there.
    ///
    /// # Errors
    /// That of the delete; or [`Error::LockLost`] when the session may have expired, and the node with it.
    ///
    /// # Cancel safety
    /// The node is deleted in any case.
    async fn remove(&self, grant: Grant) -> Result<bool> {
        let validity = self.session.validity();
        let _dependant = validity.depend();
        let lapsed = pin!(self.client.at_home(validity.lapsed()));
        tokio::select! {
            biased;
            removed = self.client.unless_closed(grant.remove()) => removed,
            () = lapsed => Err(self.lost_error(LossReason::Expired)),
        }
    }

    /// Waits until somebody asks for the lock by writing to the node.
    pub(crate) async fn revoke_requested(&self) -> Result<()> {
        self.ensure_held()?;
        self.watch_node();
        let asked = async {
            tokio::select! {
                asked = self.node_watch.revoke_requested() => asked,
                reason = self.lost() => Err(self.lost_error(reason)),
            }
        };
        self.client.unless_closed(asked).await
    }

    /// Asks the server whether the node is still there. That it cannot be reached is no answer, and no error.
    pub(crate) async fn look(&self) {
        self.client.at_home(self.client.ready(&self.session)).await;
        if matches!(self.session.stat(&self.path).await, Ok(None)) {
            self.lose(LossReason::Deleted);
        }
    }

    /// What is lost stays lost, for the first reason. The node, if there still is one, is removed; except by closing,
    /// where that is up to the session or, if it goes on, to the guards.
    pub(crate) fn lose(&self, reason: LossReason) {
        if self.turns_lost(reason) {
            tracing::info!(node = &*self.path, %reason, "lock lost");
            match reason {
                LossReason::Closed => {}
                LossReason::Deleted => self.take().into_iter().for_each(Grant::forget),
                _ => drop(self.take()),
            }
        }
    }

    /// Returns whether it was not lost before.
    fn turns_lost(&self, reason: LossReason) -> bool {
        let is_news = self.state.with(|state| {
            // Meanwhile it may have been extended.
            let was_extended = reason == LossReason::Deadline && !self.is_over_time();
            let loses = !was_extended && !state.is_lost();
            if loses {
                *state = LockState::Lost(reason);
            }
            loses
        });
        if is_news {
            self.news.notify_one();
        }
        is_news
    }

    /// The node, to be removed.
    pub(crate) fn take(&self) -> Option<Grant> {
        let held = self.grant().take()?;
        Some(held.grant.passing_on(held.transactions.pass_on()))
    }

    /// Takes note of a transaction that is sent right after this: if it goes before the answer, those in its line who
    /// wait are let in only when nothing can come of that any more.
    ///
    /// # Errors
    /// [`Error::LockLost`]: it goes already.
    pub(super) fn sends_transaction(&self) -> Result<()> {
        if let Some(held) = &mut *self.grant() {
            held.transactions.send();
            return Ok(());
        }
        self.ensure_held()?;
        Err(self.lost_error(LossReason::Deleted))
    }

    /// The transaction was answered; or not, so that it may yet be done.
    pub(super) fn transaction_answered(&self, is_decided: bool) {
        if let Some(held) = &mut *self.grant() {
            held.transactions.answered(is_decided);
        }
    }

    /// Whether the node is being removed, or was.
    pub(crate) fn is_released(&self) -> bool {
        self.grant().is_none()
    }

    /// The watch on the node, if it was set while it was waited for.
    pub(crate) fn take_watch(&self) -> Option<OwnWatch> {
        self.has_watch.store(false, Ordering::Relaxed);
        self.grant().as_mut().and_then(|held| held.grant.node.take_watch())
    }

    /// What its node is to say again when a request was written over it. `None` if it is released; or if it is that of a
    /// latch, since a latch of Curator hears of the end of the one before it only if that one's node is not written to.
    pub(super) fn data_to_restore(&self) -> Option<Vec<u8>> {
        if election_of_latch(&self.path).is_some() {
            return None;
        }
        self.grant().as_ref().map(|held| held.grant.node.data().into_owned())
    }

    fn has_seen_its_end(&self) -> bool {
        let mut grant = self.grant();
        let watcher = grant.as_mut().and_then(|held| held.grant.node.watcher());
        watcher.and_then(Watcher::seen) == Some(EventType::NodeDeleted)
    }

    fn grant(&self) -> MutexGuard<'_, Option<Held>> {
        // No code that can panic runs under this lock.
        self.grant.lock()
    }

    pub(crate) fn lost_error(&self, reason: LossReason) -> Error {
        match reason {
            LossReason::Closed => Error::Closed,
            reason => Error::LockLost { path: self.path.to_string(), reason },
        }
    }
}

impl Drop for HeldNode {
    fn drop(&mut self) {
        self.news.notify_one();
    }
}
