//! A candidate that does a piece of work while it leads.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::candidate::{Candidate, Handle};
use super::leadership::Leadership;
use super::methods::candidate;
use super::options::LeaderOptions;
use super::state::LeaderState;
use crate::client::{Client, Failures};
use crate::error::{Error, LossReason, Result, WorkError};
use crate::lock::Participant;
use crate::queue::MUTEX;

/// A candidate for the leadership among all processes that use the same path, which does a piece of work while it
/// leads. It leads for as long as the work lasts, and not longer: when the work ends, the next one leads.
///
/// The work is dropped, where it awaits, when the leadership is lost; it can never run beside that of the next
/// leader, as far as locks [carry](crate::guide). When it is to end before, by
/// [`interrupt_leadership`](Self::interrupt_leadership), [`close`](Self::close) or from outside, it is asked to and
/// given time: see [`Leadership::resign`]. The leader's node is deleted after the work has ended. If the work fails
/// or panics, that shows in [`watch`](Self::watch).
///
/// The order is that of arrival. Compatible with Curator's `LeaderSelector` on the same path, in both directions.
///
/// A handle that can be cloned; when the last clone is dropped, the candidate leaves in the background.
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
/// Source: Curator's `LeaderSelector`, with `autoRequeue`.
#[derive(Clone, Debug)]
#[must_use = "if unused, the candidate leaves the election at once"]
pub struct LeaderSelector {
    handle: Handle,
    queueing: Arc<Queueing>,
    /// Not kept by the candidate, in whose background it might be the last to keep a client.
    _work: Kept,
}

/// What is done in each term, on the runtime of whoever started it. Nobody waits for the lock: there is one term at a time.
type Work = Arc<Doing>;
type Doing = Mutex<dyn FnMut(Leadership) -> BoxFuture<'static, Result<(), WorkError>> + Send>;

#[derive(Clone)]
struct Kept(#[expect(dead_code, reason = "kept for as long as somebody may lead")] Arc<dyn Send + Sync>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

/// Whether it goes back to the queue.
#[derive(Debug)]
struct Queueing {
    /// By itself.
    is_automatic: bool,
    /// Whether it stands, or is told to.
    stands: AtomicBool,
    wanted: Notify,
}

impl LeaderSelector {
    /// Starts a candidate at `path`, below the client's namespace, and returns at once. It needs no connection yet.
    /// When its work has ended, it stands again; after a growing pause if the work has failed.
    ///
    /// The work is called for each term, on the tokio runtime on which this is called, and never twice at a time. If it ends
    /// at once, and nobody else stands, it is called again 10 ms later. The path must be used for nothing else, and by no
    /// other kind of recipe; it is made as a container.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::InvalidArgument`] outside of a tokio runtime. What goes wrong later shows in
    /// [`watch`](Self::watch).
    pub fn start<W, F, E>(client: &Client, path: &str, options: LeaderOptions, work: W) -> Result<Self>
    where
        W: FnMut(Leadership) -> F + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let work = boxed(work);
        Self::start_queueing(client, path, &options, true, in_tasks(client, &work)?, work)
    }

    /// The same for a candidate that leads once, and then again for each [`requeue`](Self::requeue).
    ///
    /// How its work has ended shows in [`watch`](Self::watch): [`Idle`](LeaderState::Idle) says that it is done.
    /// [`Failed`](LeaderState::Failed) says that it failed, or was dropped before it was done, because the leadership was
    /// lost or interrupted: [`Error::WorkFailed`], [`Error::WorkStopped`]. [`close`](Self::close) returns the same.
    ///
    /// Curator's `LeaderSelector` without `autoRequeue`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_once<W, F, E>(client: &Client, path: &str, options: LeaderOptions, work: W) -> Result<Self>
    where
        W: FnMut(Leadership) -> F + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let work = boxed(work);
        Self::start_queueing(client, path, &options, false, in_tasks(client, &work)?, work)
    }

    /// `begin` has the work done, which is `kept` for as long as somebody has the selector.
    pub(super) fn start_queueing(
        client: &Client,
        path: &str,
        options: &LeaderOptions,
        is_automatic: bool,
        begin: impl Fn(&Leadership) -> JoinHandle<Result<(), Undone>> + Send + 'static,
        kept: impl Send + Sync + 'static,
    ) -> Result<Self> {
        let queueing = Queueing { is_automatic, stands: AtomicBool::new(true), wanted: Notify::new() };
        let queueing = Arc::new(queueing);
        let conduct = |candidate| stand(candidate, queueing.clone(), begin);
        let handle = Candidate::start(client, path, &MUTEX, options, conduct)?;
        Ok(Self { handle, queueing, _work: Kept(Arc::new(kept)) })
    }

    /// Has it stand again if its work has ended and it does not do so by itself. Returns whether that was to be done:
    /// false if it waits, leads or is closed.
    pub fn requeue(&self) -> bool {
        let is_wanted = !self.handle.is_closed() && !self.queueing.stands.swap(true, Ordering::Relaxed);
        if is_wanted {
            self.queueing.wanted.notify_one();
        }
        is_wanted
    }

    /// Has the work end if it runs, so that the next one leads. It is [asked to](Leadership::resign_requested), and
    /// dropped when the [grace](crate::LeaderOptions::grace) is over.
    pub fn interrupt_leadership(&self) {
        if let Some(leadership) = self.leadership() {
            leadership.ask_to_resign();
        }
    }

    /// Leaves the election for good: has the work end as [`interrupt_leadership`](Self::interrupt_leadership) does, and
    /// waits until that is done and the node gone. What is closed already stays so.
    ///
    /// It takes as long as the work takes to end, and a round trip. If the servers cannot be reached, it takes up to two
    /// thirds of the session timeout for a leader, until its [validity](Leadership::valid_until) ends, and 1.4 times the
    /// timeout for a candidate that waits, until its session is given up. So at the end of a program,
    /// [close the client](Client::close) instead: without a connection, that waits only for the work.
    ///
    /// # Errors
    /// - [`Error::WorkFailed`]: the work was ended by this, and failed.
    /// - [`Error::WorkStopped`]: the leadership was lost before the work had ended. That it was dropped at the end of the
    ///   grace is no error.
    /// - Both also for the last work of a selector that leads only [once](Self::start_once).
    /// - [`Error::ZooKeeper`]: the node is not confirmed to be gone; the background goes on trying.
    /// - [`Error::Closed`]: the client was closed before.
    ///
    /// # Cancel safety
    /// The selector is closed by the first poll; the rest goes on in the background.
    pub async fn close(&self) -> Result<()> {
        self.handle.close(false).await
    }
}

candidate!(LeaderSelector);

fn boxed<W, F, E>(mut work: W) -> Work
where
    W: FnMut(Leadership) -> F + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    Arc::new(Mutex::new(move |leadership| {
        let work = work(leadership);
        async { work.await.map_err(WorkError::new) }.boxed()
    }))
}

/// Has the work done in tasks of the present runtime.
///
/// # Errors
/// [`Error::InvalidArgument`]: there is none.
fn in_tasks(
    client: &Client,
    work: &Work,
) -> Result<impl Fn(&Leadership) -> JoinHandle<Result<(), Undone>> + Send + use<>> {
    let runtime = runtime::Handle::try_current().map_err(|_| Error::InvalidArgument {
        argument: "runtime",
        reason: "the work of a selector runs on a tokio runtime; start the selector within that".into(),
    })?;
    let presence = client.presence().as_ref().map(Arc::downgrade).unwrap_or_default();
    let weak = Arc::downgrade(work);
    Ok(move |leadership: &Leadership| {
        // Without one, the candidate is being closed.
        let leadership = leadership.with_presence(presence.upgrade());
        runtime.spawn(lead(leadership, weak.clone()))
    })
}

async fn stand(
    candidate: Candidate,
    queueing: Arc<Queueing>,
    begin: impl Fn(&Leadership) -> JoinHandle<Result<(), Undone>>,
) -> Result<()> {
    let mut failures = Failures::default();
    // Of the work of a candidate that does not stand again by itself.
    let mut outcome = Ok(());
    while let Some(leadership) = candidate.elected().await? {
        let path = leadership.node_path().to_owned();
        let mut working = begin(&leadership);
        let mut done = None;
        let ended = candidate.lead(leadership, async { done = Some((&mut working).await) }).await;
        let done = match done {
            Some(done) => done,
            // It has ended with the leadership.
            None => working.await,
        };
        let done = done.unwrap_or_else(|error| {
            if error.is_cancelled() {
                // Its runtime is shut down: it would stand in the way of those who can work.
                candidate.closing().cancel();
            }
            Err(Undone::Failed(WorkError::of_task(error)))
        });
        if candidate.is_closing() {
            // The one that closes it hears of the work, too.
            return match done {
                Ok(()) | Err(Undone::Stopped(LossReason::Resigned | LossReason::Closed)) => ended,
                Err(undone) => Err(undone.error(path)),
            };
        }
        if queueing.is_automatic {
            match done {
                Err(undone @ Undone::Failed(_)) => {
                    candidate.fail_and_pause(undone.error(path), &mut failures).await;
                }
                // It is done again at the next term.
                Ok(()) | Err(Undone::Stopped(_)) => {
                    failures.reset();
                    candidate.rest().await;
                }
            }
        } else {
            outcome = done.map_err(|undone| undone.error(path));
            // Before it is seen, so that one who sees it can have it stand again.
            queueing.stands.store(false, Ordering::Relaxed);
            match &outcome {
                Err(error) => candidate.fail(error.clone()),
                Ok(()) => candidate.publish(LeaderState::Idle),
            }
            // Or it is closed, which is seen next.
            let wanted = candidate.closing().run_until_cancelled(queueing.wanted.notified()).await;
            if wanted.is_some() {
                outcome = Ok(());
            }
        }
    }
    outcome
}

/// Why work is not done.
pub(super) enum Undone {
    Failed(WorkError),
    /// It was dropped, when the leadership ended in that way.
    Stopped(LossReason),
}

impl Undone {
    /// That its run ended with this.
    pub(super) fn of_run(error: &Error) -> Self {
        match error {
            Error::LockLost { reason, .. } => Self::Stopped(*reason),
            // There is no other reason.
            _ => Self::Stopped(LossReason::Closed),
        }
    }

    fn error(self, path: String) -> Error {
        match self {
            Self::Failed(source) => Error::WorkFailed { path, source },
            Self::Stopped(reason) => Error::WorkStopped { path, reason },
        }
    }
}

/// Does the work, in a task of its own: it may panic, and it may take its time between two awaits.
async fn lead(leadership: Leadership, work: Weak<Doing>) -> Result<(), Undone> {
    // The call is part of the work: nobody else leads before it has returned.
    let working = async {
        let begun = work.upgrade().map(|work| {
            let mut begin = work.lock();
            begin(leadership.clone())
        });
        match begun {
            Some(working) => working.await,
            // The selector was dropped.
            None => Ok(()),
        }
    };
    match leadership.run(working).await {
        Ok(done) => done.map_err(Undone::Failed),
        Err(error) => Err(Undone::of_run(&error)),
    }
}
