//! A candidate, which stands for election repeatedly.

use std::borrow::Cow;
use std::future::pending;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::eligibility::Eligibility;
use super::health::{LeaderHealth, LeaderRole};
use super::leadership::Leadership;
use super::options::LeaderOptions;
use super::state::LeaderState;
use crate::client::{Client, Failures, Moment, validate_node_data};
use crate::error::{Error, LossReason, Result, report};
use crate::lock::{
    Acquirable, Contending, Entry, LockGuard, Owner, Owners, Participant, Reentrant, granted, send_request,
};
use crate::meters::{Outcome, WaitMeter};
use crate::queue::{Caller, Names};
use crate::waker::guarded;
use crate::watch::{Watch, Watched};

/// Many times longer than a change of the leader takes. Also limits how often a selector whose work ends
/// immediately can lead.
const REST: Duration = Duration::from_millis(10);

/// Stands for election in a task of its own.
pub(super) struct Candidate {
    lock: Reentrant,
    grace: Duration,
    eligibility: Arc<Eligibility>,
    watched: Watched<LeaderState>,
    shared: Arc<Shared>,
}

/// What a candidate shares with its handle.
#[derive(Debug)]
struct Shared {
    present: Mutex<Present>,
    /// Whether watchers are not notified when the candidate is closed.
    is_silent: AtomicBool,
    closing: CancellationToken,
}

/// The state, for reads.
#[derive(Debug)]
struct Present {
    state: LeaderState,
    /// The role that went with the state when it was published, and since when the candidate has had it.
    role: LeaderRole,
    since: Moment,
    /// Since the first of the consecutive failures.
    failing_since: Option<Moment>,
}

/// The handle of a latch or a selector on its candidate. Dropping it closes the candidate.
#[derive(Debug)]
pub(super) struct Handle {
    lock: Reentrant,
    id: Option<String>,
    watch: Watch<LeaderState>,
    /// The outcome of leaving, once the candidate has left.
    left: watch::Receiver<Option<Result<()>>>,
    shared: Arc<Shared>,
    _close_on_drop: DropGuard,
}

impl Candidate {
    /// Starts a candidate at `path`, which stands as `conduct` says until it is closed. In metrics, its election is
    /// named `recipe`.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: the id is not allowed as node data.
    pub(super) fn start<F: Future<Output = Result<()>> + Send + 'static>(
        client: &Client,
        path: &str,
        names: &'static Names,
        recipe: &'static str,
        options: &LeaderOptions,
        conduct: impl FnOnce(Self) -> F,
    ) -> Result<Arc<Handle>> {
        let lock = Reentrant::new(client, path, names, Owners::new, Some(recipe))?;
        if let Some(id) = &options.id {
            validate_node_data("id", id.as_bytes())?;
        }
        let lock = lock.with_options(options.lock_options())?;
        let closing = client.leaving().child_token();
        let _close_on_drop = closing.clone().drop_guard();
        let eligibility = Eligibility::follow(client, options.eligibility.clone(), closing.clone());
        let state = not_leading(&eligibility);
        let watched = Watched::new(state.clone());
        let watch = watched.watch();
        let role = state.role();
        let present = Mutex::new(Present { state, role, since: Moment::now(), failing_since: None });
        let shared = Arc::new(Shared { present, is_silent: AtomicBool::new(false), closing });
        let (has_left, left) = watch::channel(None);
        let conducted = conduct(Self {
            lock: lock.detached(),
            grace: options.grace,
            eligibility,
            watched,
            shared: shared.clone(),
        });
        client.spawn(async move {
            let outcome = conducted.await;
            has_left.send_replace(Some(outcome));
        });
        Ok(Arc::new(Handle { lock, id: options.id.clone(), watch, left, shared, _close_on_drop }))
    }

    /// Stands until elected. Returns `None` if the candidate was closed before; it has then left the queue.
    pub(super) async fn elected(&self) -> Result<Option<Leadership>> {
        let mut failures = Failures::default();
        let client = self.lock.client();
        // Its work failed in the term before.
        let is_failing = self.shared.present.lock().failing_since.is_some();
        self.publish_not_leading();
        loop {
            self.until_eligible().await;
            match client.unless_closed(self.campaign(&mut failures, is_failing)).await {
                Err(error) if !self.is_closing() => self.fail_and_pause(error, &mut failures).await,
                Err(error) => return Err(error),
                Ok(None) if self.is_closing() => return Ok(None),
                Ok(None) => {}
                // Someone has deleted its node, or its session has ended, as it was granted.
                Ok(Some(guard)) if guard.loss().is_some() && !client.is_closed() => self.rest().await,
                Ok(Some(guard)) => {
                    // `stay` returns `None` if the client is being closed, which the next campaign sees.
                    let Some(stay) = client.stay(self.grace) else { continue };
                    guard.begin_leadership_span(self.lock.path());
                    let leadership = Leadership::new(guard, stay);
                    tracing::info!(node = leadership.node_path(), "elected");
                    self.publish(LeaderState::Leading(leadership.clone()));
                    return Ok(Some(leadership));
                }
            }
        }
    }

    /// Waits until the candidate is eligible or closed.
    async fn until_eligible(&self) {
        if !self.eligibility.get() && !self.is_closing() {
            self.publish_not_leading();
            self.shared.closing.run_until_cancelled(self.eligibility.becomes(true)).await;
            self.publish_not_leading();
        }
    }

    /// Enters the queue once, and waits for its turn. Returns `None` if the candidate was closed before, or is not
    /// eligible any more; it has then left the queue.
    async fn campaign(&self, failures: &mut Failures, is_failing: bool) -> Result<Option<LockGuard>> {
        if self.is_closing() {
            return Ok(None);
        }
        let mut meter = self.lock.wait_meter();
        let elected = self.queue_up(&mut meter, failures, is_failing).await;
        if !matches!(elected, Ok(None)) {
            meter.ends_as(Outcome::of(&elected));
        }
        elected
    }

    async fn queue_up(
        &self,
        meter: &mut WaitMeter,
        failures: &mut Failures,
        is_failing: bool,
    ) -> Result<Option<LockGuard>> {
        // A new owner each time: the same owner could re-enter.
        let owner = Owner::new();
        let closed_while_disconnected = async {
            self.shared.closing.cancelled().await;
            self.lock.client().disconnected().await;
        };
        let entry = tokio::select! {
            entry = self.lock.enter(&owner, Caller::asking()) => entry,
            // `close` waits until nothing is left of the candidate, so the entry is completed first if there is a
            // connection. Otherwise it is undone in the background.
            () = closed_while_disconnected => return Ok(None),
        };
        let mut turn = match entry {
            Ok(Entry::Granted(guard)) if self.eligibility.get() => return Ok(Some(guard)),
            // To enter may have taken long.
            Ok(Entry::Granted(guard)) => return guard.release().await.map(|()| None),
            Ok(Entry::Queued(turn)) => turn,
            Err(_) if self.is_closing() => return Ok(None),
            Err(error) => return Err(error),
        };
        // It has got as far as it can by itself. Failed work is another matter.
        if failures.any() && !is_failing {
            self.succeeds();
        }
        failures.reset();
        self.publish(LeaderState::Waiting);
        if !self.is_closing()
            && self.eligibility.get()
            && let Some(guard) = turn.take()
        {
            return Ok(Some(guard));
        }
        meter.is_behind_others();
        let guard = tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => None,
            () = self.eligibility.becomes(false) => None,
            guard = granted(&mut turn, None) => Some(guard?),
        };
        if guard.is_none() {
            turn.leave().await?;
        }
        Ok(guard)
    }

    /// Leads until the leadership is lost, the leader is to resign, or `done` completes; then ends the work under it,
    /// and the leadership itself. A loss is no failure.
    pub(super) async fn lead(&self, leadership: Leadership, done: impl Future<Output = ()>) -> Result<()> {
        let since = Instant::now();
        // Kept alive until the node is gone; dropping it earlier would take its watches back.
        let mut asked = pin!(leadership.asked());
        tokio::select! {
            () = leadership.resign_requested() => {}
            _ = leadership.lost() => {}
            () = &mut asked => {}
            () = self.eligibility.becomes(false) => {}
            () = self.shared.closing.cancelled() => {}
            () = done => {}
        }
        self.publish(if leadership.is_valid() {
            LeaderState::Resigning(leadership.clone())
        } else {
            not_leading(&self.eligibility)
        });
        let client = self.lock.client();
        let reason = || if client.is_closed() { LossReason::Closed } else { LossReason::Resigned };
        // The work may go on for long after a loss.
        let lost = async {
            if !matches!(leadership.lost().await, LossReason::Resigned | LossReason::Closed) {
                self.publish_not_leading();
            }
            pending().await
        };
        let ended = tokio::select! {
            biased;
            ended = leadership.end(self.grace, reason) => ended,
            never = lost => never,
        };
        let (node, reason) = (leadership.node_path(), leadership.loss().map(tracing::field::display));
        tracing::info!(node, led_for = ?since.elapsed(), reason, "leads no more");
        match ended {
            Err(Error::LockLost { .. }) => Ok(()),
            ended => ended,
        }
    }

    /// Waits before standing again, so as not to be in the way of the next leader.
    pub(super) async fn rest(&self) {
        self.publish_not_leading();
        self.shared.closing.run_until_cancelled(sleep(REST)).await;
    }

    /// Publishes a failure, and waits until it is time to try again.
    pub(super) async fn fail_and_pause(&self, error: Error, failures: &mut Failures) {
        self.fail(error.clone());
        let flapping = async {
            loop {
                self.eligibility.becomes(false).await;
                self.publish_not_leading();
                self.eligibility.becomes(true).await;
                self.publish(LeaderState::Failed(error.clone()));
            }
        };
        let pause = async {
            tokio::select! {
                () = failures.pause_in_background(error.clone()) => {}
                () = flapping => {}
            }
        };
        self.shared.closing.run_until_cancelled(pause).await;
    }

    /// Ends a series of failures.
    pub(super) fn succeeds(&self) {
        self.shared.present.lock().failing_since = None;
    }

    pub(super) fn fail(&self, error: Error) {
        tracing::warn!(path = self.lock.path(), error = %report(&error), "the candidate failed");
        self.publish(LeaderState::Failed(error));
    }

    fn publish_not_leading(&self) {
        self.publish(not_leading(&self.eligibility));
    }

    pub(super) fn publish(&self, state: LeaderState) {
        let is_told = !(self.is_closing() && self.shared.is_silent.load(Ordering::Relaxed));
        let role = state.role();
        // The earlier state is dropped outside of the lock.
        let _before = {
            let mut present = self.shared.present.lock();
            if role == LeaderRole::Failed {
                present.since = *present.failing_since.get_or_insert_with(Moment::now);
            } else if role != present.role {
                present.since = Moment::now();
            }
            present.role = role;
            mem::replace(&mut present.state, state.clone())
        };
        self.watched.show_if(|before| Some((is_told && !before.is_same(&state), state)));
    }

    pub(super) fn is_closing(&self) -> bool {
        self.shared.closing.is_cancelled()
    }

    pub(super) fn closing(&self) -> &CancellationToken {
        &self.shared.closing
    }
}

fn not_leading(eligibility: &Eligibility) -> LeaderState {
    if eligibility.get() { LeaderState::Waiting } else { LeaderState::Ineligible }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.publish(LeaderState::Closed);
    }
}

impl Handle {
    pub(super) fn lock(&self) -> &Reentrant {
        &self.lock
    }

    pub(super) fn id(&self) -> Cow<'_, str> {
        match &self.id {
            Some(id) => Cow::Borrowed(id),
            None => String::from_utf8_lossy(self.lock.client().identity()),
        }
    }

    pub(super) fn watch(&self) -> Watch<LeaderState> {
        self.watch.anew()
    }

    pub(super) fn leadership(&self) -> Option<Leadership> {
        let state = self.shared.present.lock().state.clone();
        state.leadership().map(|leadership| self.handed_out(leadership))
    }

    pub(super) fn health(&self) -> LeaderHealth {
        let (state, before, since) = {
            let present = self.shared.present.lock();
            (present.state.clone(), present.role, present.since.instant())
        };
        let role = state.role();
        let since = match &state {
            // Its term has ended or is to end, which the candidate has not noticed yet.
            LeaderState::Leading(term) | LeaderState::Resigning(term) if role != before => {
                term.valid_until().min(Instant::now())
            }
            _ => since,
        };
        LeaderHealth { role, since }
    }

    fn handed_out(&self, leadership: &Leadership) -> Leadership {
        leadership.with_presence(self.lock.client().presence())
    }

    /// Waits until the candidate leads.
    pub(super) async fn await_leadership(&self) -> Result<Leadership> {
        let mut states = self.watch();
        let elected = async {
            while let Some(state) = states.changed().await {
                match &state {
                    LeaderState::Closed => break,
                    LeaderState::Failed(error) if !error.is_retryable() => return Err(error.clone()),
                    state => {
                        if let Some(leadership) = state.leadership() {
                            return Ok(self.handed_out(leadership));
                        }
                    }
                }
            }
            Err(self.closed())
        };
        self.lock.client().unless_closed(elected).await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared.closing.is_cancelled()
    }

    /// Why the candidate is closed.
    fn closed(&self) -> Error {
        if self.lock.client().is_closed() {
            return Error::Closed;
        }
        Error::CandidateClosed { path: self.lock.path().to_owned() }
    }

    /// Asks the leader to resign if another candidate waits.
    pub(super) async fn transfer(&self) -> Result<Option<Participant>> {
        let mut participants = self.lock.participants().await?.into_iter();
        let (Some(leader), Some(_)) = (participants.next(), participants.next()) else { return Ok(None) };
        let is_asked = send_request(self.lock.client(), &leader).await?;
        Ok(Some(leader).filter(|_| is_asked))
    }

    /// Leaves the election for good, and waits until it has left.
    pub(super) async fn close(&self, is_silent: bool) -> Result<()> {
        // The mode of the first call counts.
        if !self.is_closed() {
            self.shared.is_silent.store(is_silent, Ordering::Relaxed);
            self.shared.closing.cancel();
        }
        let mut left = self.left.clone();
        // The channel closes without an outcome if the runtime was shut down.
        let left = guarded(left.wait_for(Option::is_some)).await;
        left.ok().and_then(|outcome| (*outcome).clone()).unwrap_or(Err(Error::Closed))
    }
}
