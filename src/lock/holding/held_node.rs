//! The node by which a lock is held, until the lock is released or lost.

use std::fmt::Debug;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::{OptionFuture, join};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Span;
use zookeeper_client::EventType;

use super::line::Turn;
use super::monitor::{self, NodeWatch};
use super::state::{LockState, SuspectPolicy};
use crate::client::{Client, DeleteTogether, Dependant, Health, OwnWatch, Session, Watcher};
use crate::error::{Error, LossReason, Result};
use crate::lock::deadline::from_now;
use crate::lock::latch::election_of_latch;
use crate::lock::options::LockOptions;
use crate::meters::{HoldMeter, LockMeters};
use crate::queue::{Grant, PassOn, Transactions};
use crate::waker::guarded;
use crate::watch::{Watch, Watched};

#[derive(Debug)]
pub(crate) struct HeldNode {
    client: Client,
    session: Arc<Session>,
    path: Arc<str>,
    token: i64,
    /// `None` once it is released or lost. Until then, the session is kept confirmed.
    grant: Mutex<Option<HeldGrant>>,
    state: Mutex<LockState>,
    /// The copy of the state that watchers see. Created for the first of them.
    watched: OnceLock<Watched<LockState>>,
    /// Notifies the monitor that the state has changed, or that the hold is over.
    news: Arc<Notify>,
    /// The latest time at which it is released.
    until: Option<watch::Sender<Instant>>,
    options: Arc<LockOptions>,
    node_watch: Arc<NodeWatch>,
    /// Whether the grant has a watch on its node, which the monitor would take over.
    has_watch: AtomicBool,
    is_kept: AtomicBool,
    /// Where the node may stay when no one holds by it; `None` for a lock that does not linger.
    lingers_at: Option<Weak<dyn Lingers>>,
    /// How many holds there have been by this node before the present one.
    turn: AtomicU64,
    meters: LockMeters,
}

/// Where a node may stay when no one holds by it.
pub(crate) trait Lingers: Debug + Send + Sync {
    /// Takes a node back whose last guard is gone. Returns whether it stays; otherwise the caller deletes it.
    fn take_back(&self, held: &Arc<HeldNode>) -> bool;
}

/// What is held until it is released or lost.
#[derive(Debug)]
struct HeldGrant {
    grant: Grant,
    transactions: Transactions,
    /// Of a lock with a cohort: the next in line waits for it.
    turn_in_line: Option<Turn>,
    /// `None` while it stays and no one holds by it.
    meter: Option<HoldMeter>,
    /// Calls the warning off when the hold ends.
    warning: Option<DropGuard>,
    /// Of the hold. Disabled unless it is traced.
    span: Span,
    _dependant: Dependant,
}

impl HeldNode {
    pub(crate) fn new(
        client: &Client,
        grant: Grant,
        options: &Arc<LockOptions>,
        meters: &LockMeters,
        lingers_at: Option<Weak<dyn Lingers>>,
    ) -> Arc<Self> {
        let session = grant.node.session().clone();
        let has_watch = grant.node.is_watched();
        let (path, token) = (grant.node.path().into(), grant.czxid);
        let _dependant = session.validity().depend();
        let meter = Some(meters.hold());
        let grant = HeldGrant {
            grant,
            transactions: Transactions::default(),
            turn_in_line: None,
            meter,
            warning: None,
            span: Span::none(),
            _dependant,
        };
        let held = Arc::new(Self {
            // Detached, because the monitor upgrades its reference for a moment now and then.
            client: client.detached(),
            path,
            token,
            grant: Mutex::new(Some(grant)),
            state: Mutex::new(LockState::Held),
            watched: OnceLock::new(),
            news: Arc::default(),
            until: options.max_hold.map(from_now).map(watch::Sender::new),
            options: options.clone(),
            node_watch: Arc::default(),
            has_watch: AtomicBool::new(has_watch),
            is_kept: AtomicBool::new(false),
            lingers_at,
            turn: AtomicU64::new(0),
            meters: meters.clone(),
            session,
        });
        if held.until.is_some() || options.suspect_policy == SuspectPolicy::GiveUp {
            held.keep();
        }
        held.warn_if_long();
        held
    }

    /// Starts the monitor of this hold, unless it runs already.
    fn keep(self: &Arc<Self>) {
        if !self.is_kept.swap(true, Ordering::Relaxed) {
            self.client.spawn(monitor::monitor(self));
        }
    }

    /// Has the node watched from now on.
    pub(crate) fn watch_node(self: &Arc<Self>) {
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

    /// Records that the node is gone, and returns the error for it.
    pub(crate) fn deleted(&self) -> Error {
        let reason = self.loss().unwrap_or(LossReason::Deleted);
        self.lose(reason);
        self.lost_error(reason)
    }

    /// Returns the fencing token.
    pub(crate) fn token(&self) -> i64 {
        self.token
    }

    /// Whether only its owner ends the hold, as far as is known.
    pub(super) fn is_owners(&self) -> bool {
        // A hold with a time limit ends whatever its owner does.
        self.options.detect_deadlocks && self.options.max_hold.is_none()
    }

    /// Why it is lost, if it is known to be.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self.state() {
            LockState::Lost(reason) => Some(reason),
            LockState::Held | LockState::Suspect => None,
        }
    }

    /// Returns the state at this moment. The monitor publishes a change.
    pub(crate) fn state(&self) -> LockState {
        let news = self.judge();
        if let LockState::Lost(reason) = news {
            self.lose(reason);
            return *self.state.lock();
        }
        let before = {
            let mut state = self.state.lock();
            if state.is_lost() { *state } else { mem::replace(&mut *state, news) }
        };
        if before == news || before.is_lost() {
            return before;
        }
        self.news.notify_one();
        news
    }

    /// Publishes the present state to watchers.
    pub(super) fn publish(&self) {
        if let Some(watched) = self.watched.get() {
            watched.show_if(|shown| {
                let state = *self.state.lock();
                Some((state != *shown, state))
            });
        }
    }

    /// Derives the state from the client, the session and the clock, regardless of the last state.
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
        match (health, self.options.suspect_policy) {
            (Health::Sound, _) => LockState::Held,
            (Health::Suspect, SuspectPolicy::Keep) => LockState::Suspect,
            (Health::Suspect, SuspectPolicy::GiveUp) => LockState::Lost(LossReason::Suspect),
            (Health::Lapsed | Health::Over, _) => LockState::Lost(LossReason::Expired),
        }
    }

    /// Follows the state.
    pub(crate) fn watch_state(self: &Arc<Self>) -> Watch<LockState> {
        let state = self.watched.get_or_init(|| Watched::new(*self.state.lock())).watch();
        // The monitor may have published a loss before there was anyone to show it to, and ended.
        self.publish();
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
    pub(crate) async fn lost(self: &Arc<Self>) -> LossReason {
        let mut state = self.watch_state();
        let closing = self.client.closing();
        loop {
            if let Some(reason) = self.loss() {
                return reason;
            }
            tokio::select! {
                _ = state.changed() => {}
                // The monitor is gone along with its runtime.
                () = guarded(closing.cancelled()) => {}
            }
        }
    }

    /// # Errors
    /// - [`Error::LockLost`]: the lock is known to be lost.
    /// - [`Error::Closed`]: the client is closed.
    pub(crate) fn ensure_held(&self) -> Result<()> {
        self.loss().map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    /// The time until which it is certainly held, unless someone deletes its node.
    pub(crate) fn valid_until(&self) -> Instant {
        let valid_until = self.session.validity().until();
        let valid_until = self.limit().map_or(valid_until, |limit| limit.min(valid_until));
        if self.loss().is_some() { valid_until.min(Instant::now()) } else { valid_until }
    }

    /// How much longer it can be held; `None` without a limit.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        Some(self.limit()?.saturating_duration_since(Instant::now()))
    }

    /// When its maximum hold time elapses; `None` without a limit.
    fn limit(&self) -> Option<Instant> {
        self.until.as_ref().map(|until| *until.borrow())
    }

    pub(crate) fn watch_limit(&self) -> Option<watch::Receiver<Instant>> {
        self.until.as_ref().map(watch::Sender::subscribe)
    }

    fn is_over_time(&self) -> bool {
        self.remaining().is_some_and(|remaining| remaining.is_zero())
    }

    /// Sets the maximum hold time anew, counted from now.
    ///
    /// # Errors
    /// Same as [`ensure_held`](Self::ensure_held).
    pub(crate) fn extend(&self, max_hold: Duration) -> Result<()> {
        self.ensure_held()?;
        self.set_limit(max_hold);
        self.ensure_held()
    }

    /// Sets the time limit, if there is one, unless the lock is lost. Returns whether it is not.
    fn set_limit(&self, max_hold: Duration) -> bool {
        // Under the lock of the state, so that it is either extended or lost.
        let state = self.state.lock();
        if let (false, Some(until)) = (state.is_lost(), &self.until) {
            until.send_replace(from_now(max_hold));
        }
        !state.is_lost()
    }

    /// Releases while other handles to the hold exist, for which it is then lost with `reason`.
    ///
    /// # Errors
    /// Same as [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Cancel safety
    /// Same as [`LockGuard::release`](crate::LockGuard::release).
    pub(crate) async fn resign(&self, reason: LossReason) -> Result<()> {
        self.ensure_held()?;
        if !self.turns_lost(reason) {
            return self.ensure_held();
        }
        let Some(grant) = self.take() else { return Ok(()) };
        let found = self.remove(grant, None).await?;
        if found { Ok(()) } else { Err(self.lost_error(LossReason::Deleted)) }
    }

    /// Deletes the node, and waits for the confirmation as long as that is useful. Returns whether the node still
    /// existed. The first attempt is the transaction, which has been sent, if it deletes this node.
    ///
    /// # Errors
    /// - The error of the delete.
    /// - [`Error::LockLost`]: the session may have expired, and the node with it.
    ///
    /// # Cancel safety
    /// The node is deleted in any case.
    pub(super) async fn remove(&self, grant: Grant, transaction: Option<DeleteTogether>) -> Result<bool> {
        self.while_valid(grant.remove(transaction)).await
    }

    /// Runs a part of a release for as long as it is useful.
    ///
    /// # Errors
    /// - [`Error::Closed`]: the client is closed.
    /// - [`Error::LockLost`]: the session may have expired, and the node with it.
    /// - Those of the operation.
    pub(super) async fn while_valid<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        let validity = self.session.validity();
        let _dependant = validity.depend();
        let lapsed = pin!(self.client.at_home(validity.lapsed()));
        tokio::select! {
            biased;
            done = self.client.unless_closed(operation) => done,
            () = lapsed => Err(self.lost_error(LossReason::Expired)),
        }
    }

    /// Waits until the lock is asked for by a write to the node.
    pub(crate) async fn revoke_requested(self: &Arc<Self>) -> Result<()> {
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

    /// Asks the server whether the node still exists and, where a lock is not to be handed out without it, has the
    /// session confirmed. Returns whether there was an answer.
    pub(crate) async fn look(&self) -> bool {
        let session = &self.session;
        self.client.at_home(self.client.ready(session)).await;
        let confirming = (!session.is_worth_granting()).then(|| session.become_worth_granting());
        let confirming = self.client.at_home(OptionFuture::from(confirming));
        // Polled, and so sent, in this order.
        let (confirmed, stat) = join(confirming, session.stat(&self.path)).await;
        if let Ok(None) = stat {
            self.lose(LossReason::Deleted);
        }
        stat.is_ok() && confirmed.is_none_or(|confirmed| confirmed.is_ok())
    }

    /// Marks the hold as lost, for good; the first reason counts. The node, if it still exists, is removed. The
    /// exception is a closed client: the session's end removes the node or, if the session goes on, the guards do.
    pub(crate) fn lose(&self, reason: LossReason) {
        if self.turns_lost(reason) {
            let session = format!("{:#x}", self.session.id());
            match reason {
                // By the program itself.
                LossReason::Closed => tracing::info!(node = &*self.path, session, %reason, "lock lost"),
                _ => tracing::warn!(node = &*self.path, session, %reason, "lock lost"),
            }
            let meter = self.grant.lock().as_mut().and_then(|held| held.meter.take());
            if let Some(meter) = meter {
                meter.lost(reason);
            }
            match reason {
                LossReason::Closed => {}
                LossReason::Deleted => self.take().into_iter().for_each(Grant::forget),
                _ => drop(self.take()),
            }
        }
    }

    /// Returns whether it was not lost before.
    fn turns_lost(&self, reason: LossReason) -> bool {
        let mut state = self.state.lock();
        // It may have been extended meanwhile.
        let was_extended = reason == LossReason::Deadline && !self.is_over_time();
        if was_extended || state.is_lost() {
            return false;
        }
        *state = LockState::Lost(reason);
        drop(state);
        self.news.notify_one();
        true
    }

    /// How many holds there have been by this node before the present one.
    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Ends a hold whose last guard is gone without releasing the node, if the node may stay for the next hold.
    /// Returns whether it does.
    pub(crate) fn stays(self: &Arc<Self>) -> bool {
        let at = self.lingers_at.as_ref().and_then(Weak::upgrade);
        at.is_some_and(|at| at.take_back(self))
    }

    /// Begins another hold by a node that has stayed.
    pub(super) fn begin_turn(self: &Arc<Self>, turn_in_line: Option<Turn>) {
        self.set_turn_in_line(turn_in_line);
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.measure(Some(self.meters.hold()));
        self.warn_if_long();
        if let (Some(until), Some(max_hold)) = (&self.until, self.options.max_hold) {
            until.send_replace(from_now(max_hold));
        }
    }

    /// Ends a hold by a node that is to stay. Returns false if the node is lost, or if someone who watches the state
    /// would take the next hold for this one.
    pub(super) fn end_turn(&self) -> bool {
        if self.loss().is_some() || self.watched.get().is_some_and(Watched::is_watched) {
            return false;
        }
        let stays = self.set_limit(Duration::MAX);
        if stays {
            self.measure(None);
            tracing::debug!(node = &*self.path, "released; the node stays");
        }
        stays
    }

    /// Ends the measurement of a hold, and begins that of another.
    fn measure(&self, meter: Option<HoldMeter>) {
        // What was measured is dropped, and tells others, after the lock is released.
        let _ended = match &mut *self.grant.lock() {
            Some(held) => (
                mem::replace(&mut held.meter, meter),
                mem::replace(&mut held.span, Span::none()),
                held.warning.take(),
            ),
            None => (meter, Span::none(), None),
        };
    }

    /// Begins the span of a hold, unless it has begun.
    pub(super) fn begin_span(&self, span: impl FnOnce() -> Span) {
        if self.grant.lock().as_ref().is_none_or(|held| !held.span.is_none()) {
            return;
        }
        // Subscribers are called without the lock.
        drop(self.replaced(span(), |held| &mut held.span));
    }

    /// Replaces something of the hold. Returns what is not needed any more, to be dropped without the lock.
    fn replaced<T>(&self, new: T, of: impl FnOnce(&mut HeldGrant) -> &mut T) -> T {
        match &mut *self.grant.lock() {
            Some(held) => mem::replace(of(held), new),
            None => new,
        }
    }

    /// Returns the span of the hold.
    pub(super) fn span(&self) -> Span {
        self.grant.lock().as_ref().map_or_else(Span::none, |held| held.span.clone())
    }

    /// Warns when a hold has lasted longer than its patience, unless the hold has ended by then.
    fn warn_if_long(self: &Arc<Self>) {
        let Some(patience) = self.options.warn_hold else { return };
        let (this, turn, over) = (Arc::downgrade(self), self.turn(), CancellationToken::new());
        drop(self.replaced(Some(over.clone().drop_guard()), |held| &mut held.warning));
        self.client.spawn(async move {
            if over.run_until_cancelled(sleep(patience)).await.is_none() {
                return;
            }
            let Some(held) = this.upgrade().filter(|held| held.turn() == turn) else { return };
            let span = held.grant.lock().as_ref().filter(|held| held.meter.is_some()).map(|held| held.span.clone());
            if let Some(span) = span {
                tracing::warn!(parent: span, node = &*held.path, held_for = ?patience, "still holding a lock");
            }
        });
    }

    /// Keeps the turn of the line for as long as the hold lasts.
    pub(super) fn set_turn_in_line(&self, turn: Option<Turn>) {
        drop(self.replaced(turn, |held| &mut held.turn_in_line));
    }

    /// Whether the next in line waits for the end of this hold.
    pub(super) fn has_turn_in_line(&self) -> bool {
        self.grant.lock().as_ref().is_some_and(|held| held.turn_in_line.is_some())
    }

    pub(super) fn take_turn_in_line(&self) -> Option<Turn> {
        self.grant.lock().as_mut()?.turn_in_line.take()
    }

    /// When the local waiters behind it are let in, if the hold ends now.
    pub(super) fn pass_on(&self) -> PassOn {
        self.grant.lock().as_ref().map_or(PassOn::WhenGone, |held| held.transactions.pass_on())
    }

    /// Takes the node, for it to be removed.
    pub(crate) fn take(&self) -> Option<Grant> {
        let held = self.grant.lock().take()?;
        // Otherwise it was lost, or no one held by it.
        if held.meter.is_some() {
            tracing::debug!(parent: &held.span, node = &*self.path, "released");
        }
        Some(held.grant.passing_on(held.transactions.pass_on()))
    }

    /// Records that a transaction is sent right after this. If the hold ends before the answer, the waiters in its
    /// local queue are let in only when the transaction can no longer take effect.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the hold is ending already.
    pub(super) fn sends_transaction(&self) -> Result<()> {
        if let Some(held) = &mut *self.grant.lock() {
            held.transactions.send();
            return Ok(());
        }
        self.ensure_held()?;
        Err(self.lost_error(LossReason::Deleted))
    }

    /// Records the outcome of the transaction: it was answered, or it was not and may still be applied.
    pub(super) fn transaction_answered(&self, is_decided: bool) {
        if let Some(held) = &mut *self.grant.lock() {
            held.transactions.answered(is_decided);
        }
    }

    /// Whether the node is being removed, or was.
    pub(crate) fn is_released(&self) -> bool {
        self.grant.lock().is_none()
    }

    /// The watch on the node, if one was set while waiting.
    pub(crate) fn take_watch(&self) -> Option<OwnWatch> {
        self.has_watch.store(false, Ordering::Relaxed);
        self.grant.lock().as_mut().and_then(|held| held.grant.node.take_watch())
    }

    /// The data to restore in the node after a request has overwritten it. `None` if the node is released, or if
    /// it is that of a latch: a Curator latch notices the end of its predecessor only if the predecessor's node is
    /// not written to.
    pub(super) fn data_to_restore(&self) -> Option<Vec<u8>> {
        if election_of_latch(&self.path).is_some() {
            return None;
        }
        self.grant.lock().as_ref().map(|held| held.grant.node.data().into_owned())
    }

    fn has_seen_its_end(&self) -> bool {
        let mut grant = self.grant.lock();
        let watcher = grant.as_mut().and_then(|held| held.grant.node.watcher());
        watcher.and_then(Watcher::seen) == Some(EventType::NodeDeleted)
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
