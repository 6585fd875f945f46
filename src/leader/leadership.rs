//! What a leader has, for as long as it leads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::steps::Steps;
use crate::client::Presence;
use crate::error::{Error, LossReason, Result};
use crate::lock::{LockGuard, LockState, Transaction, election_of_latch, request_to_latch};

/// How long work that was stopped is waited for, to be dropped. It cannot go on in any case.
const TO_BE_DROPPED: Duration = Duration::from_secs(1);

/// One term of a leader: from its election to the moment at which another can be elected.
///
/// A handle that can be cloned and moved anywhere. Dropping it changes nothing, since it is the
/// [`LeaderLatch`](crate::LeaderLatch) or [`LeaderSelector`](crate::LeaderSelector) that leads: a term ends when it is
/// [resigned](Self::resign), when the candidate is closed or dropped, when somebody asks for it by
/// [`Revoker`](crate::Revoker) or `transfer`, or when it is lost.
///
/// It is lost like a lock, and tells in time: before the servers can let another one lead. The [guide](crate::guide)
/// says how, and what to do about writes that are on their way then.
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
    /// If it was handed to the user: behind the work, which ends first.
    _presence: Option<Arc<Presence>>,
}

struct Term {
    guard: LockGuard,
    /// Cancelled when it is to end: no work begins any more.
    resigning: CancellationToken,
    /// Cancelled when work that goes on nevertheless is to be dropped.
    stopping: CancellationToken,
    works: TaskTracker,
    steps: Steps,
    /// Keeps the client open until the work has ended.
    stay: Mutex<Option<TaskTrackerToken>>,
    /// How it was given up, when it was.
    resigned: watch::Sender<Option<Result<()>>>,
}

impl Leadership {
    pub(super) fn new(guard: LockGuard, stay: TaskTrackerToken) -> Self {
        let term = Term {
            guard,
            resigning: CancellationToken::new(),
            stopping: CancellationToken::new(),
            works: TaskTracker::new(),
            steps: Steps::default(),
            stay: Mutex::new(Some(stay)),
            resigned: watch::Sender::new(None),
        };
        Self { term: Arc::new(term), _presence: None }
    }

    /// The same for the user, whose work keeps the client open.
    pub(super) fn with_presence(&self, presence: Option<Arc<Presence>>) -> Self {
        Self { term: self.term.clone(), _presence: presence }
    }

    /// A number that grows with every term: hand it to what the leader writes to, and have that refuse numbers smaller
    /// than the greatest it has seen. See [`LockGuard::fencing_token`].
    pub fn fencing_token(&self) -> i64 {
        self.term.guard.fencing_token()
    }

    /// The full path of the leader's node, namespace included. Curator's `getLastPathIsLeader`.
    pub fn node_path(&self) -> &str {
        self.term.guard.node_path()
    }

    /// Whether this term goes on, by the clock and by all that this client knows. No request is made. Also true of one
    /// that is being [resigned](Self::is_resigning). See [`LockGuard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.term.guard.is_valid()
    }

    /// Until when it goes on for certain, as long as nothing more is heard of the servers. Start nothing that takes
    /// effect after it. See [`LockGuard::valid_until`].
    pub fn valid_until(&self) -> Instant {
        self.term.guard.valid_until()
    }

    /// How it has ended, if it has; then for good. No request is made.
    pub fn loss(&self) -> Option<LossReason> {
        self.term.guard.loss()
    }

    /// Waits for the end: it was resigned or lost.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) -> LossReason {
        self.term.guard.lost().await
    }

    /// How sure it is that it goes on, now and from now on: always the latest. See [`LockGuard::watch_state`].
    pub fn watch_state(&self) -> watch::Receiver<LockState> {
        self.term.guard.watch_state()
    }

    /// Does work for as long as the term goes on, as [`LockGuard::run`] does. A resignation waits for it.
    ///
    /// When the term is being resigned, the work has the candidate's [grace](crate::LeaderOptions::grace) to end by
    /// itself, and is dropped then; at a loss it is dropped at once; each where it awaits.
    ///
    /// # Errors
    /// [`Error::LockLost`] and [`Error::Closed`]: the term has ended, or is to end, before the work was done; for
    /// [`LossReason::Resigned`] if it was given up.
    ///
    /// # Cancel safety
    /// The work is dropped.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        // Before the look: a resignation either waits for this work or is seen here.
        let _working = self.term.works.token();
        if self.is_resigning() {
            return Err(self.resigned_error());
        }
        let running = async {
            tokio::select! {
                biased;
                // Work that was stopped takes no other step, whenever it is polled next.
                () = self.term.stopping.cancelled() => Err(self.resigned_error()),
                done = self.term.guard.run(work) => done,
            }
        };
        self.term.steps.count(running).await
    }

    /// The same for work that blocks its thread: as one step.
    #[cfg(feature = "blocking")]
    pub(crate) fn run_blocking<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let _working = self.term.works.token();
        if self.is_resigning() {
            return Err(self.resigned_error());
        }
        let _step = self.term.steps.begin();
        self.term.guard.run_blocking(work)
    }

    /// Writes to ZooKeeper that are only done while this term goes on, whatever this process believes. See
    /// [`Transaction`].
    pub fn transaction(&self) -> Transaction<'_> {
        self.term.guard.transaction()
    }

    /// Whether it is to be given up, or has ended.
    pub fn is_resigning(&self) -> bool {
        self.term.resigning.is_cancelled()
    }

    /// Waits until it is to be given up, or has ended. Then bring the work to its end. See
    /// [`until_resigning`](Self::until_resigning) for work that waits for something else.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn resign_requested(&self) {
        self.term.resigning.cancelled().await;
    }

    /// Waits for a future until the leadership is to be given up or has ended, and returns `None` then; at once if that has
    /// happened before.
    ///
    /// Use it where work waits for something to do, such as its next tick. Otherwise a resignation waits as well, until the
    /// [grace](crate::LeaderOptions::grace) is over. Await as usual what must not stay half done.
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
    /// That of the future. Its output is never lost: `None` means that it was dropped before it was done.
    pub async fn until_resigning<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.resign_requested() => None,
            // It may be known here before the candidate has heard of it.
            _ = self.lost() => None,
            done = future => Some(done),
        }
    }

    /// Gives the leadership up in order: [asks](Self::resign_requested) the work under it to end, waits until it has,
    /// and deletes the node then, so that the next one leads. The candidate goes to the end of the queue, 10 ms later.
    ///
    /// The work has the candidate's [grace](crate::LeaderOptions::grace) for that, and is dropped then. Work is what
    /// [`run`](Self::run) does, and what a selector does. Work that does not await cannot be dropped: as long as it
    /// goes on, so does the leadership, or until its session ends. Work that nobody polls, and nobody drops, is waited
    /// for a second longer; it takes no other step then, whenever it is polled. Do not wait for this within the work,
    /// which would wait for itself; end the work instead.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: it was lost before.
    /// - [`Error::ZooKeeper`]: the server refuses, or cannot be reached under the client's retry policy; then the
    ///   background goes on trying.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// It is resigned in any case, in the background if this is cancelled.
    pub async fn resign(&self) -> Result<()> {
        self.ask_to_resign();
        let mut resigned = self.term.resigned.subscribe();
        let resigned = async {
            // The sender is ours.
            let resigned = resigned.wait_for(Option::is_some).await;
            resigned.ok().and_then(|outcome| (*outcome).clone()).unwrap_or(Ok(()))
        };
        self.term.guard.first_node().client().unless_closed(resigned).await
    }

    pub(super) fn ask_to_resign(&self) {
        self.term.resigning.cancel();
    }

    /// Waits until somebody asks for it.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn asked(&self) {
        tokio::select! {
            () = if_heard(self.term.guard.revoke_requested()) => {}
            () = if_heard(self.asked_by_path()) => {}
        }
    }

    /// Waits until somebody asks for the leadership by the data of the path of the election, as is done with latches.
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

    /// Ends the work, within the grace, and then the term, for that reason; what [`resign`](Self::resign) waits for.
    pub(super) async fn end(&self, grace: Duration, reason: impl FnOnce() -> LossReason) -> Result<()> {
        self.ask_to_resign();
        self.term.works.close();
        // Work is dropped by itself when the leadership is lost.
        if timeout(grace, self.term.works.wait()).await.is_err() {
            tracing::warn!(node = self.node_path(), ?grace, "stopping work that does not end");
            self.stop_works().await;
        }
        // Else the client would wait for the answer to the delete, without a connection, too.
        drop(self.term.stay.lock().take());
        let outcome = self.term.guard.resign(reason()).await;
        self.term.guard.give_up();
        self.term.resigned.send_replace(Some(outcome.clone()));
        outcome
    }

    /// Stops the work, and waits until it is dropped; or, if nobody polls it, until it can take no other step.
    async fn stop_works(&self) {
        let Term { stopping, works, steps, .. } = &*self.term;
        stopping.cancel();
        while timeout(TO_BE_DROPPED, works.wait()).await.is_err() {
            // Whatever begins a step from now on sees that it is stopped.
            if !steps.go_on() {
                tracing::warn!(node = self.node_path(), "resigning while work is neither polled nor dropped");
                return;
            }
            steps.ended().await;
        }
    }

    fn resigned_error(&self) -> Error {
        let reason = self.loss().unwrap_or(LossReason::Resigned);
        Error::LockLost { path: self.node_path().to_owned(), reason }
    }
}

/// Waits until it is done; for ever if it cannot be.
async fn if_heard(asked: impl Future<Output = Result<()>>) {
    match asked.await {
        Ok(()) => return,
        Err(Error::LockLost { .. } | Error::Closed) => {}
        Err(error) if error.ends_session() => {}
        Err(error) => tracing::warn!(%error, "cannot hear whether the leadership is asked for"),
    }
    std::future::pending().await
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("node_path", &self.node_path())
            .field("fencing_token", &self.fencing_token())
            .field("is_resigning", &self.is_resigning())
            .finish_non_exhaustive()
    }
}
