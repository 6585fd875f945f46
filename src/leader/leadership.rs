//! A term of leadership.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::client::Presence;
use crate::error::{Error, LossReason, Result, report};
use crate::lock::{LockGuard, LockState, Transaction, election_of_latch, request_to_latch};
use crate::waker::guarded;
use crate::watch::Watch;

/// How long to wait for stopped work to be dropped. It cannot make progress in any case.
const TO_BE_DROPPED: Duration = Duration::from_secs(1);

/// One term of a leader: from its election until another candidate can be elected.
///
/// This is a handle that can be cloned and moved anywhere. Dropping it changes nothing, because the
/// [`LeaderLatch`](crate::LeaderLatch) or [`LeaderSelector`](crate::LeaderSelector) leads, not the handle. A term
/// ends when it is [resigned](Self::resign), when the candidate is closed or dropped, when another process asks
/// for the leadership with [`operate::ask`](crate::operate::ask) or `transfer`, or when it is lost.
///
/// Leadership is lost like a lock, and the loss shows in time: before the servers can let another candidate lead. The
/// [guide](crate::guide::losing_a_lock) explains how, and what to do about writes that are under way at that moment.
///
/// ```no_run
/// # async fn example(latch: zk_recipes::LeaderLatch) -> zk_recipes::Result<()> {
/// # async fn step() {}
/// let leadership = latch.await_leadership().await?;
/// // Ends at the loss, wherever it awaits; and by itself when it is asked to.
/// let done = leadership
///     .run(async {
///         while !leadership.is_resigning() {
///             step().await;
///         }
///     })
///     .await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Leadership {
    term: Arc<Term>,
    /// Present in handles given to the user; declared after the term, whose work ends first.
    _presence: Option<Arc<Presence>>,
}

debug_by!(Leadership, |it|
    node_path: it.node_path(), fencing_token: it.fencing_token(), is_resigning: it.is_resigning()
);

struct Term {
    guard: LockGuard,
    /// Cancelled when the term is to end: no new work begins.
    resigning: CancellationToken,
    /// Cancelled when work that is still running is to be dropped.
    stopping: CancellationToken,
    works: TaskTracker,
    /// The steps of the works that are running now: each is what runs between two awaits.
    steps: TaskTracker,
    /// Keeps the client open until the work has ended.
    stay: Mutex<Option<TaskTrackerToken>>,
    /// Whether some of its work has succeeded already.
    goes_well: AtomicBool,
    /// The outcome of giving the term up.
    resigned: watch::Sender<Option<Result<()>>>,
}

impl Leadership {
    pub(super) fn new(guard: LockGuard, stay: TaskTrackerToken) -> Self {
        let term = Term {
            guard,
            resigning: CancellationToken::new(),
            stopping: CancellationToken::new(),
            works: TaskTracker::new(),
            steps: TaskTracker::new(),
            stay: Mutex::new(Some(stay)),
            goes_well: AtomicBool::new(false),
            resigned: watch::Sender::new(None),
        };
        Self { term: Arc::new(term), _presence: None }
    }

    /// The same handle for the user, whose work keeps the client open.
    pub(super) fn with_presence(&self, presence: Option<Arc<Presence>>) -> Self {
        Self { term: self.term.clone(), _presence: presence }
    }

    /// Returns a number that grows with every term. Pass it to what the leader writes to, and have that reject any
    /// number smaller than the largest it has seen. See [`LockGuard::fencing_token`].
    pub fn fencing_token(&self) -> i64 {
        self.term.guard.fencing_token()
    }

    /// Returns the full path of the leader's node, including the namespace. Corresponds to Curator's
    /// `getLastPathIsLeader`.
    pub fn node_path(&self) -> &str {
        self.term.guard.node_path()
    }

    /// Returns whether this term continues, according to the clock and everything that this client knows. It also
    /// does while it is being [resigned](Self::is_resigning). Makes no request. See [`LockGuard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.term.guard.is_valid()
    }

    /// Returns the time until which the term certainly continues, even if nothing more is heard from the servers.
    /// Start nothing that takes effect after this time. See [`LockGuard::valid_until`].
    pub fn valid_until(&self) -> Instant {
        self.term.guard.valid_until()
    }

    /// Returns why the term has ended, or `None` if it has not. A term that has ended does not resume. Makes no
    /// request.
    pub fn loss(&self) -> Option<LossReason> {
        self.term.guard.loss()
    }

    /// Waits until the term ends: it was resigned or lost.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.term.guard.lost().await
    }

    /// Follows how certain it is that the term continues. See
    /// [`LockGuard::watch_state`].
    pub fn watch_state(&self) -> Watch<LockState> {
        self.term.guard.watch_state()
    }

    /// Runs `work` while the term continues, as [`LockGuard::run`] does, in the span `leadership`. A resignation waits
    /// for it.
    ///
    /// When the term is being resigned, the work has the candidate's [grace period](crate::LeaderOptions::grace)
    /// to end by itself, and is then dropped. When the leadership is lost, it is dropped immediately. In both
    /// cases, it is dropped at the point where it awaits.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the term ended, or was to end, before `work` was done; with [`LossReason::Resigned`]
    ///   if the leadership was given up.
    /// - [`Error::Closed`]: the client was closed before `work` was done.
    ///
    /// # Cancel safety
    /// Cancelling drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        // Taken before the check, so that a resignation either waits for this work or is seen here.
        let _working = self.term.works.token();
        if self.is_resigning() {
            return Err(self.resigned_error());
        }
        let mut running = pin!(async {
            tokio::select! {
                biased;
                // Checked first: stopped work makes no further progress, whenever it is polled next.
                () = guarded(self.term.stopping.cancelled()) => Err(self.resigned_error()),
                done = self.term.guard.run(work) => done,
            }
        });
        poll_fn(|context| {
            let _step = self.term.steps.token();
            running.as_mut().poll(context)
        })
        .await
    }

    /// Runs work that blocks its thread, as one step; otherwise like [`run`](Self::run).
    #[cfg(feature = "blocking")]
    pub(crate) fn run_blocking<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let _working = self.term.works.token();
        if self.is_resigning() {
            return Err(self.resigned_error());
        }
        let _step = self.term.steps.token();
        self.term.guard.run_blocking(work)
    }

    /// Starts a transaction of writes to ZooKeeper that are applied only while this term continues, whatever this
    /// process believes. See [`Transaction`].
    pub fn transaction(&self) -> Transaction<'_> {
        self.term.guard.transaction()
    }

    /// Returns whether the leader is to resign, or the term has ended.
    pub fn is_resigning(&self) -> bool {
        self.term.resigning.is_cancelled()
    }

    /// Waits until the leader is to resign, or the term has ended. Bring the work to its end then. For work that
    /// waits for something else, see [`until_resigning`](Self::until_resigning).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn resign_requested(&self) {
        guarded(self.term.resigning.cancelled()).await;
    }

    /// Awaits a future until the leader is to resign or the term has ended. Returns `None` in that case,
    /// immediately if it has already happened.
    ///
    /// Use this where work waits for something to do, such as its next tick. Otherwise a resignation waits as
    /// well, until the [grace period](crate::LeaderOptions::grace) elapses. Await directly whatever must not be
    /// left half done.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(leadership: zk_recipes::Leadership) -> zk_recipes::Result<()> {
    /// # async fn step(_token: i64) {}
    /// let mut ticks = tokio::time::interval(Duration::from_secs(60));
    /// while leadership.until_resigning(ticks.tick()).await.is_some() {
    ///     step(leadership.fencing_token()).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As cancel safe as `future`. Its output is never lost: `None` means that it was dropped before it was done.
    pub async fn until_resigning<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.resign_requested() => None,
            // The loss may be known here before the candidate has noticed it.
            _ = self.lost() => None,
            done = future => Some(done),
        }
    }

    /// Gives the leadership up in order: [asks](Self::resign_requested) the work under it to end, waits until it
    /// has ended, and then deletes the node, so that the next candidate leads. This candidate goes to the end of
    /// the queue 10 ms later.
    ///
    /// Work is whatever [`run`](Self::run) runs, and the work of a selector. It has the candidate's [grace
    /// period](crate::LeaderOptions::grace) to end, and is then dropped. Two kinds of work cannot be dropped:
    ///
    /// - Work that does not await. While it is running, the leadership continues, at most until its session ends.
    /// - Work that is neither polled nor dropped by its owner. It is awaited for one more second; after that it
    ///   makes no further progress, whenever it is polled.
    ///
    /// Do not await this inside the work, which would then wait for itself; end the work instead.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the leadership was lost before.
    /// - [`Error::ZooKeeper`]: the server refuses the request, or cannot be reached within the client's retry
    ///   policy; the deletion is then retried in the background.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// The leadership is resigned in any case; if this call is cancelled, in the background.
    pub async fn resign(&self) -> Result<()> {
        self.ask_to_resign();
        let mut resigned = self.term.resigned.subscribe();
        let resigned = async {
            // Cannot fail, because the term owns the sender.
            let resigned = resigned.wait_for(Option::is_some).await;
            resigned.ok().and_then(|outcome| (*outcome).clone()).unwrap_or(Ok(()))
        };
        self.term.guard.first_node().client().unless_closed(resigned).await
    }

    /// Tells that some of the work has succeeded: should the work fail later in this term, that is the first failure.
    pub(crate) fn goes_well(&self) {
        self.term.goes_well.store(true, Ordering::Relaxed);
    }

    pub(super) fn went_well(&self) -> bool {
        self.term.goes_well.load(Ordering::Relaxed)
    }

    pub(super) fn ask_to_resign(&self) {
        self.term.resigning.cancel();
    }

    /// Waits until another process asks for the leadership.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn asked(&self) {
        tokio::select! {
            () = if_heard(self.term.guard.revoke_requested()) => {}
            () = if_heard(self.asked_by_path()) => {}
        }
    }

    /// Waits until the leadership is asked for by the data of the election's path, which is how a latch is asked.
    async fn asked_by_path(&self) -> Result<()> {
        let Some(election) = election_of_latch(self.node_path()) else { return std::future::pending().await };
        let session = self.term.guard.first_node().session();
        let request = request_to_latch(self.fencing_token());
        loop {
            match session.watch_data_patiently(election).await {
                Ok((data, ..)) if data == request => return Ok(()),
                Ok((.., mut change)) => {
                    change.changed().await;
                }
                Err(source) => {
                    let path = election.to_owned();
                    return Err(Error::ZooKeeper { operation: "watch", path, source });
                }
            }
        }
    }

    /// Ends the work within the grace period, and then the term, for this reason. [`resign`](Self::resign) waits
    /// for this.
    pub(super) async fn end(&self, grace: Duration, reason: impl FnOnce() -> LossReason) -> Result<()> {
        self.ask_to_resign();
        self.term.works.close();
        // When the leadership is lost, `run` drops the work by itself.
        if timeout(grace, self.term.works.wait()).await.is_err() {
            tracing::warn!(node = self.node_path(), ?grace, "stopping work that does not end");
            self.stop_works().await;
        }
        // Otherwise the client would wait for the answer to the delete even without a connection.
        drop(self.term.stay.lock().take());
        let outcome = self.term.guard.resign(reason()).await;
        self.term.guard.give_up();
        self.term.resigned.send_replace(Some(outcome.clone()));
        outcome
    }

    /// Stops the work, and waits until it is dropped; or, if it is not polled, until it can make no further
    /// progress.
    async fn stop_works(&self) {
        let Term { stopping, works, steps, .. } = &*self.term;
        stopping.cancel();
        steps.close();
        while timeout(TO_BE_DROPPED, works.wait()).await.is_err() {
            // Any step that begins from now on sees that it is stopped.
            if steps.is_empty() {
                tracing::warn!(node = self.node_path(), "resigning while work is neither polled nor dropped");
                return;
            }
            steps.wait().await;
        }
    }

    fn resigned_error(&self) -> Error {
        let reason = self.loss().unwrap_or(LossReason::Resigned);
        Error::LockLost { path: self.node_path().to_owned(), reason }
    }
}

/// Waits until the future succeeds; forever if it fails.
async fn if_heard(asked: impl Future<Output = Result<()>>) {
    match asked.await {
        Ok(()) => return,
        Err(Error::LockLost { .. } | Error::Closed) => {}
        Err(error) if error.ends_session() => {}
        Err(error) => {
            tracing::warn!(error = %report(&error), "cannot hear whether the leadership is asked for")
        }
    }
    std::future::pending().await
}
