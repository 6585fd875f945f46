//! A candidate that does a piece of work while it leads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::candidate::{Candidate, Handle};
use super::leadership::Leadership;
use super::methods::candidate_methods;
use super::options::LeaderOptions;
use super::state::LeaderState;
use crate::client::{Client, Failures, LONGEST_PAUSE};
use crate::error::{Error, LossReason, Result, WorkError};
use crate::queue::MUTEX;

/// A candidate for the leadership among all processes that use the same path, which runs a piece of work while it
/// leads. It leads for exactly as long as the work runs: when the work ends, the next candidate leads.
///
/// If the leadership is lost, the work is dropped at the point where it awaits, so it never runs concurrently with the
/// work of the next leader, as far as [locks can guarantee](crate::guide::losing_a_lock) that. If the leadership is to
/// end before the work does, through [`interrupt_leadership`](Self::interrupt_leadership), [`close`](Self::close) or a
/// request from outside, the work is asked to end and given time for it: see [`Leadership::resign`]. The leader's node
/// is deleted after the work has ended. If the work fails or panics, that shows in [`watch_state`](Self::watch_state).
///
/// Candidates lead in the order of their arrival. Compatible with Curator's `LeaderSelector` on the same path, in
/// both directions.
///
/// This is a handle that can be cloned; when the last clone is dropped, the candidate leaves in the background. The
/// closure is dropped when the candidate has left. If it captures a handle to its own selector, that handle keeps the
/// candidate standing until the selector or the client is [closed](Self::close).
///
/// ```no_run
/// use zk_recipes::{Client, LeaderOptions, LeaderSelector};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// # async fn step(_token: i64) -> std::io::Result<()> { Ok(()) }
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let options = LeaderOptions::new().id("node-7");
/// let _selector = LeaderSelector::start(&client, "/leaders/imports", options, |leadership| async move {
///     while !leadership.is_resigning() {
///         step(leadership.fencing_token()).await?;
///     }
///     Ok::<(), std::io::Error>(())
/// })?;
/// tokio::signal::ctrl_c().await.expect("signals can be heard");
/// // Has the work end, and then the next one lead.
/// client.close().await;
/// # Ok(())
/// # }
/// ```
///
/// Corresponds to Curator's `LeaderSelector` with `autoRequeue`.
#[derive(Clone)]
#[must_use = "if unused, the candidate leaves the election at once"]
pub struct LeaderSelector {
    handle: Arc<Handle>,
    queueing: Arc<Queueing>,
    /// Not owned by the candidate, whose background task might then be the last to keep a client open.
    _work: Arc<Kept>,
}

debug_by!(LeaderSelector, |it| path: it.path(), role: it.health().role);
candidate_methods!(LeaderSelector);

/// The work, until the candidate has left: whatever the work has captured is not kept for longer, not even a handle to
/// the selector itself.
struct Kept(Mutex<Option<Arc<dyn Send + Sync>>>);

/// Has the work dropped when the candidate has left.
struct Leaving(Weak<Kept>);

impl Drop for Leaving {
    fn drop(&mut self) {
        let Some(kept) = self.0.upgrade() else { return };
        // It is dropped outside of the lock: it may have the last handle.
        let work = kept.0.lock().take();
        drop(work);
    }
}

/// Whether the candidate goes back to the queue.
#[derive(Debug)]
struct Queueing {
    /// By itself, after each term.
    is_automatic: bool,
    /// Whether it stands for election, or is told to.
    stands: AtomicBool,
    wanted: Notify,
}

impl LeaderSelector {
    /// Starts a candidate at `path`, below the client's namespace, and returns immediately. No connection is
    /// needed yet. When its work has ended, the candidate stands again. If the work failed, it
    /// pauses first, for longer after each quick failure, up to 5 s.
    ///
    /// `work` is called once per term, so it clones what its future needs: `move |term| lead(term, pool.clone())`. It is
    /// called on the tokio runtime on which this function is called, and never concurrently with itself. If it ends
    /// immediately and there is no other candidate, it is called again 10 ms later. The path must not be used for
    /// anything else, nor by another kind of recipe; it is created as a container.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: there is no tokio runtime, or the [id](LeaderOptions::id) is not allowed as
    ///   node data.
    ///
    /// Later errors show in [`watch_state`](Self::watch_state).
    pub fn start<W, F, E>(client: &Client, path: &str, options: LeaderOptions, work: W) -> Result<Self>
    where
        W: FnMut(Leadership) -> F + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::start_in_tasks(client, path, &options, true, work)
    }

    /// Starts a candidate that leads once, and then once more for each [`requeue`](Self::requeue); otherwise like
    /// [`start`](Self::start).
    ///
    /// The outcome of its work shows in [`watch_state`](Self::watch_state). [`Idle`](LeaderState::Idle) means that the
    /// work is done. [`Failed`](LeaderState::Failed) means that it failed ([`Error::WorkFailed`]), or that it was
    /// dropped before it was done because the leadership was lost or interrupted ([`Error::WorkStopped`]).
    /// [`close`](Self::close) returns the same errors.
    ///
    /// Corresponds to Curator's `LeaderSelector` without `autoRequeue`.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub fn start_once<W, F, E>(client: &Client, path: &str, options: LeaderOptions, work: W) -> Result<Self>
    where
        W: FnMut(Leadership) -> F + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::start_in_tasks(client, path, &options, false, work)
    }

    /// Starts a selector that runs its work in tasks of the current runtime.
    fn start_in_tasks<W, F, E>(
        client: &Client,
        path: &str,
        options: &LeaderOptions,
        is_automatic: bool,
        work: W,
    ) -> Result<Self>
    where
        W: FnMut(Leadership) -> F + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let runtime = runtime::Handle::try_current().map_err(|_| Error::InvalidArgument {
            argument: "runtime",
            reason: "the work of a selector runs on a tokio runtime; start the selector within that".into(),
        })?;
        // Never contended: there is one term at a time.
        let work = Arc::new(Mutex::new(work));
        let weak = Arc::downgrade(&work);
        let presence = client.presence().as_ref().map(Arc::downgrade).unwrap_or_default();
        let home = client.home().clone();
        let begin = move |leadership: &Leadership| {
            // Without a presence, the candidate is being closed.
            let leadership = leadership.with_presence(presence.upgrade());
            let work = weak.clone();
            // In a task of its own: it may panic, and it may take long between two awaits.
            home.spawn_on(&runtime, async move {
                // The call is part of the work: no one else leads before it has returned.
                let working = async {
                    let begun = work.upgrade().map(|work| {
                        let mut begin = work.lock();
                        begin(leadership.clone())
                    });
                    match begun {
                        Some(working) => working.await.map_err(WorkError::new),
                        // The selector was dropped.
                        None => Ok(()),
                    }
                };
                outcome_of(&leadership, leadership.run(working).await)
            })
        };
        Self::start_queueing(client, path, options, is_automatic, begin, work)
    }

    /// Starts a selector. `begin` runs the work, which is kept until the candidate has left or no handle to the selector
    /// exists.
    pub(super) fn start_queueing(
        client: &Client,
        path: &str,
        options: &LeaderOptions,
        is_automatic: bool,
        begin: impl Fn(&Leadership) -> JoinHandle<Result<()>> + Send + 'static,
        work: Arc<impl Send + Sync + 'static>,
    ) -> Result<Self> {
        let queueing = Queueing { is_automatic, stands: AtomicBool::new(true), wanted: Notify::new() };
        let queueing = Arc::new(queueing);
        let kept = Arc::new(Kept(Mutex::new(Some(work))));
        let leaving = Leaving(Arc::downgrade(&kept));
        let conduct = |candidate| {
            let standing = stand(candidate, queueing.clone(), begin);
            async move {
                let _leaving = leaving;
                standing.await
            }
        };
        let handle = Candidate::start(client, path, &MUTEX, "leader selector", options, conduct)?;
        Ok(Self { handle, queueing, _work: kept })
    }

    /// Makes the candidate stand again if its work has ended and it does not stand again by itself. Returns
    /// whether that was necessary: `false` if it is waiting, leading or closed.
    pub fn requeue(&self) -> bool {
        let is_wanted = !self.handle.is_closed() && !self.queueing.stands.swap(true, Ordering::Relaxed);
        if is_wanted {
            self.queueing.wanted.notify_one();
        }
        is_wanted
    }

    /// Ends the work if it is running, so that the next candidate leads. The work is [asked to
    /// end](Leadership::resign_requested), and dropped when the [grace period](crate::LeaderOptions::grace)
    /// elapses.
    pub fn interrupt_leadership(&self) {
        if let Some(leadership) = self.leadership() {
            leadership.ask_to_resign();
        }
    }

    /// Leaves the election for good: ends the work as [`interrupt_leadership`](Self::interrupt_leadership) does,
    /// and waits until it has ended and the node is gone. A selector that is already closed stays closed.
    ///
    /// This takes as long as the work takes to end, plus a round trip; so it waits for the runtime of the work, should that
    /// stand still. If the servers cannot be reached, it takes
    /// up to two thirds of the session timeout for a leader, until its [validity](Leadership::valid_until) ends,
    /// and 1.4 times the session timeout for a waiting candidate, until its session is given up. At the end of a
    /// program, [close the client](Client::close) instead: without a connection, that waits only for the work.
    ///
    /// # Errors
    /// - [`Error::WorkFailed`]: the work that this call ended has failed.
    /// - [`Error::WorkStopped`]: the leadership was lost before the work had ended. Work that is dropped when the
    ///   grace period elapses is no error.
    /// - [`Error::ZooKeeper`]: the deletion of the node was not confirmed; it is retried in the background.
    /// - [`Error::Closed`]: the client was closed before.
    ///
    /// A selector that leads only [once](Self::start_once) also returns [`Error::WorkFailed`] and
    /// [`Error::WorkStopped`] for its last work.
    ///
    /// # Cancel safety
    /// The first poll closes the selector; if cancelled after that, the rest continues in the background.
    pub async fn close(&self) -> Result<()> {
        self.handle.close(false).await
    }
}

async fn stand(
    candidate: Candidate,
    queueing: Arc<Queueing>,
    begin: impl Fn(&Leadership) -> JoinHandle<Result<()>>,
) -> Result<()> {
    let mut failures = Failures::default();
    // The outcome of the last work, if the candidate does not stand again by itself.
    let mut outcome = Ok(());
    while let Some(leadership) = candidate.elected().await? {
        let term = leadership.clone();
        let begun = Instant::now();
        let mut working = begin(&leadership);
        let mut done = None;
        let ended = candidate.lead(leadership, async { done = Some((&mut working).await) }).await;
        let done = match done {
            Some(done) => done,
            // The work has ended with the leadership.
            None => working.await,
        };
        if term.went_well() {
            candidate.succeeds();
        }
        // Work that goes on for longer than any pause costs no more without one.
        if term.went_well() || begun.elapsed() > LONGEST_PAUSE {
            failures.reset();
        }
        let done = done.unwrap_or_else(|error| {
            if error.is_cancelled() {
                // The work's runtime is shut down. The candidate leaves, so as not to stand in the way of those
                // that can work.
                candidate.closing().cancel();
            }
            outcome_of(&term, Ok(Err(WorkError::of_task(error))))
        });
        drop(term);
        if candidate.is_closing() {
            // The caller of `close` gets the outcome of the work as well.
            return match done {
                Ok(())
                | Err(Error::WorkStopped { reason: LossReason::Resigned | LossReason::Closed, .. }) => ended,
                failed => failed,
            };
        }
        if queueing.is_automatic {
            match done {
                Err(error @ Error::WorkFailed { .. }) => {
                    candidate.fail_and_pause(error, &mut failures).await;
                }
                // The work runs again in the next term.
                _ => {
                    failures.reset();
                    candidate.succeeds();
                    candidate.rest().await;
                }
            }
        } else {
            outcome = done;
            // Set before the outcome is published, so that a caller who sees the outcome can call `requeue`.
            queueing.stands.store(false, Ordering::Relaxed);
            match &outcome {
                Err(error) => candidate.fail(error.clone()),
                Ok(()) => {
                    candidate.succeeds();
                    candidate.publish(LeaderState::Idle);
                }
            }
            // Ends without a request when the candidate is closed, which the loop sees next.
            let wanted = candidate.closing().run_until_cancelled(queueing.wanted.notified()).await;
            if wanted.is_some() {
                outcome = Ok(());
            }
        }
    }
    outcome
}

/// Returns what became of work that was run under a leadership.
///
/// # Errors
/// - [`Error::WorkFailed`].
/// - [`Error::WorkStopped`]: it was dropped when the leadership ended.
pub(super) fn outcome_of(leadership: &Leadership, run: Result<Result<(), WorkError>>) -> Result<()> {
    let path = leadership.node_path().to_owned();
    match run {
        Ok(done) => done.map_err(|source| Error::WorkFailed { path, source }),
        Err(Error::LockLost { reason, .. }) => Err(Error::WorkStopped { path, reason }),
        // There is no other error.
        Err(_) => Err(Error::WorkStopped { path, reason: LossReason::Closed }),
    }
}
