//! A candidate: stands for election, again and again.

use std::borrow::Cow;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::leadership::Leadership;
use super::options::LeaderOptions;
use super::patience::pause_after;
use super::state::LeaderState;
use crate::client::{Client, Failures, validate_node_data};
use crate::error::{Error, LossReason, Result};
use crate::lock::{Contending, Entry, LockGuard, Owner, Participant, Reentrant, Revoker, granted};
use crate::queue::{Kind, Names};

/// Many times what a change of the leader takes. It is also how often a selector whose work ends at once can lead.
const REST: Duration = Duration::from_millis(10);

/// Stands for election in a task of its own.
pub(super) struct Candidate {
    lock: Reentrant,
    grace: Duration,
    state: Arc<watch::Sender<LeaderState>>,
    present: Arc<Present>,
    closing: CancellationToken,
    is_silent: Arc<AtomicBool>,
}

/// The state once more, for looks at it: they must not wait for one who borrows it from the watch, who may be the one
/// that looks.
#[derive(Debug)]
struct Present(Mutex<Latest>);

#[derive(Debug)]
struct Latest {
    state: LeaderState,
    /// Whether it was not shown to those who watch.
    is_new: bool,
    /// Whether they are to hear of it.
    is_told: bool,
}

/// What a latch or a selector has of its candidate. The last handle closes it.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    lock: Reentrant,
    id: Option<String>,
    state: watch::Receiver<LeaderState>,
    present: Arc<Present>,
    /// Whether those who watch the state are not told that it is closed.
    is_silent: Arc<AtomicBool>,
    /// How the candidate has left, when it has.
    left: watch::Receiver<Option<Result<()>>>,
    closing: CancellationToken,
    _close_on_drop: DropGuard,
}

impl Candidate {
    /// A candidate at `path`, which stands as `conduct` says until it is closed.
    ///
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(super) fn start<F: Future<Output = Result<()>> + Send + 'static>(
        client: &Client,
        path: &str,
        names: &'static Names,
        options: &LeaderOptions,
        conduct: impl FnOnce(Self) -> F,
    ) -> Result<Handle> {
        let lock = Reentrant::new(client, path, names, Kind::Exclusive)?;
        if let Some(id) = options.given_id() {
            validate_node_data("id", id.as_bytes())?;
        }
        let lock = lock.with_options(options.lock_options())?;
        let closing = client.leaving().child_token();
        let is_silent = Arc::new(AtomicBool::new(false));
        let (sender, state) = watch::channel(LeaderState::Waiting);
        let present = Arc::new(Present(Mutex::new(Latest {
            state: LeaderState::Waiting,
            is_new: false,
            is_told: false,
        })));
        let (has_left, left) = watch::channel(None);
        let candidate = Self {
            lock: lock.detached(),
            grace: options.work_grace(),
            state: Arc::new(sender),
            present: present.clone(),
            closing: closing.clone(),
            is_silent: is_silent.clone(),
        };
        let conducted = conduct(candidate);
        client.spawn(async move {
            let outcome = conducted.await;
            has_left.send_replace(Some(outcome));
        });
        let id = options.given_id().map(str::to_owned);
        let _close_on_drop = closing.clone().drop_guard();
        let shared = Shared { lock, id, state, present, is_silent, left, closing, _close_on_drop };
        Ok(Handle { shared: Arc::new(shared) })
    }

    /// Stands until it is elected; `None` when it is closed before, and out of the queue then.
    pub(super) async fn elected(&self) -> Result<Option<Leadership>> {
        let mut failures = Failures::default();
        self.publish(LeaderState::Waiting);
        loop {
            let campaign = self.lock.client().unless_closed(self.campaign()).await;
            match campaign {
                Err(error) if !self.is_closing() => self.fail_and_pause(error, &mut failures).await,
                campaign => {
                    let Some(guard) = campaign? else { return Ok(None) };
                    // Or it is closed, which is seen next.
                    let Some(stay) = self.lock.client().stay(self.grace) else { continue };
                    let leadership = Leadership::new(guard, stay);
                    tracing::info!(node = leadership.node_path(), "elected");
                    self.publish(LeaderState::Leading(leadership.clone()));
                    return Ok(Some(leadership));
                }
            }
        }
    }

    /// Enters the queue once, and waits for its turn; `None` when it is closed before.
    async fn campaign(&self) -> Result<Option<LockGuard>> {
        if self.is_closing() {
            return Ok(None);
        }
        // Never the same owner, which would be let in again.
        let owner = Owner::new();
        let entry = tokio::select! {
            entry = self.lock.enter(&owner) => entry,
            // The one that closes it waits until nothing is there any more; so it enters first, if it can.
            () = self.closed_while_disconnected() => return Ok(None),
        };
        let mut turn = match entry {
            Ok(Entry::Granted(guard)) => return Ok(Some(guard)),
            Ok(Entry::Queued(turn)) => turn,
            Err(_) if self.is_closing() => return Ok(None),
            Err(error) => return Err(error),
        };
        self.publish(LeaderState::Waiting);
        let guard = tokio::select! {
            biased;
            () = self.closing.cancelled() => None,
            guard = granted(&mut turn) => Some(guard?),
        };
        if guard.is_none() {
            turn.leave().await?;
        }
        Ok(guard)
    }

    /// Waits until it is closed, and there is no connection: then what it has begun is undone in the background.
    async fn closed_while_disconnected(&self) {
        self.closing.cancelled().await;
        self.lock.client().disconnected().await;
    }

    /// Leads until the leadership is lost or is to be given up, or something is done; then ends the work under it, and
    /// the leadership itself. That it was lost is no failure.
    pub(super) async fn lead(&self, leadership: Leadership, done: impl Future<Output = ()>) -> Result<()> {
        // Until the node is gone: what it watches would be taken back before.
        let mut asked = pin!(leadership.asked());
        tokio::select! {
            () = leadership.resign_requested() => {}
            _ = leadership.lost() => {}
            () = &mut asked => {}
            () = self.closing.cancelled() => {}
            () = done => {}
        }
        self.publish(if leadership.is_valid() {
            LeaderState::Resigning(leadership.clone())
        } else {
            LeaderState::Waiting
        });
        let client = self.lock.client();
        let reason = || if client.is_closed() { LossReason::Closed } else { LossReason::Resigned };
        match leadership.end(self.grace, reason).await {
            Err(Error::LockLost { .. }) => Ok(()),
            ended => ended,
        }
    }

    /// Waits before it stands again, so as not to be in the way of the next leader.
    pub(super) async fn rest(&self) {
        self.publish(LeaderState::Waiting);
        self.closing.run_until_cancelled(sleep(REST)).await;
    }

    /// Lets a failure be seen, and waits until it is time to try again.
    pub(super) async fn fail_and_pause(&self, error: Error, failures: &mut Failures) {
        self.fail(error.clone());
        self.closing.run_until_cancelled(pause_after(error, failures)).await;
    }

    pub(super) fn fail(&self, error: Error) {
        tracing::warn!(path = self.lock.path(), %error, "the candidate failed");
        self.publish(LeaderState::Failed(error));
    }

    pub(super) fn publish(&self, state: LeaderState) {
        let is_told = !(self.is_closing() && self.is_silent.load(Ordering::Relaxed));
        if !self.present.replace(state, is_told) {
            return;
        }
        let (state, present) = (self.state.clone(), self.present.clone());
        self.lock.client().tell(move || {
            // Dropped without a lock.
            let mut _earlier = None;
            state.send_if_modified(|shown| {
                // Whether that is told goes with it: this may be late, and about a later state.
                let Some((news, is_told)) = present.news() else { return false };
                _earlier = Some(mem::replace(shown, news));
                is_told
            });
        });
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    pub(super) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.publish(LeaderState::Closed);
    }
}

impl Present {
    fn state(&self) -> LeaderState {
        self.latest().state.clone()
    }

    /// If it was not shown yet.
    fn news(&self) -> Option<(LeaderState, bool)> {
        let mut latest = self.latest();
        mem::take(&mut latest.is_new).then(|| (latest.state.clone(), latest.is_told))
    }

    /// Answers whether it is to be shown: one that waits for somebody who borrows shows the latest.
    fn replace(&self, state: LeaderState, is_told: bool) -> bool {
        // The lock is not held while the earlier state is dropped.
        let earlier = mem::replace(&mut *self.latest(), Latest { state, is_new: true, is_told });
        !earlier.is_new
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        // No code that can panic runs under this lock.
        self.0.lock()
    }
}

impl Handle {
    pub(super) fn lock(&self) -> &Reentrant {
        &self.shared.lock
    }

    pub(super) fn id(&self) -> Cow<'_, str> {
        match &self.shared.id {
            Some(id) => Cow::Borrowed(id),
            None => String::from_utf8_lossy(self.lock().client().identity()),
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<LeaderState> {
        let mut state = self.shared.state.clone();
        state.mark_changed();
        state
    }

    pub(super) fn leadership(&self) -> Option<Leadership> {
        self.shared.present.state().leadership().map(|leadership| self.handed_out(leadership))
    }

    fn handed_out(&self, leadership: &Leadership) -> Leadership {
        leadership.with_presence(self.lock().client().presence())
    }

    /// Waits until it leads.
    pub(super) async fn await_leadership(&self) -> Result<Leadership> {
        let mut state = self.watch();
        let elected = async {
            loop {
                match &*state.borrow_and_update() {
                    LeaderState::Closed => return Err(self.closed()),
                    LeaderState::Failed(error) if !error.is_retryable() => return Err(error.clone()),
                    state => {
                        if let Some(leadership) = state.leadership() {
                            return Ok(self.handed_out(leadership));
                        }
                    }
                }
                if state.changed().await.is_err() {
                    return Err(self.closed());
                }
            }
        };
        self.lock().client().unless_closed(elected).await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared.closing.is_cancelled()
    }

    /// Why it is closed.
    fn closed(&self) -> Error {
        if self.lock().client().is_closed() {
            return Error::Closed;
        }
        Error::CandidateClosed { path: self.lock().path().to_owned() }
    }

    /// Asks the leader to resign if somebody waits.
    pub(super) async fn transfer(&self) -> Result<Option<Participant>> {
        let mut participants = self.lock().participants().await?.into_iter();
        let (Some(leader), Some(_)) = (participants.next(), participants.next()) else { return Ok(None) };
        let is_asked = Revoker::ask(self.lock().client(), &leader).await?;
        Ok(Some(leader).filter(|_| is_asked))
    }

    /// Leaves the election for good, and waits until it is done.
    pub(super) async fn close(&self, is_silent: bool) -> Result<()> {
        // The first one decides.
        if !self.is_closed() {
            self.shared.is_silent.store(is_silent, Ordering::Relaxed);
            self.shared.closing.cancel();
        }
        let mut left = self.shared.left.clone();
        // Without an answer the runtime was shut down.
        let left = left.wait_for(Option::is_some).await;
        left.ok().and_then(|outcome| (*outcome).clone()).unwrap_or(Err(Error::Closed))
    }
}
