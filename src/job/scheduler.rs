//! Runs a job at the times of its schedule, while this process leads.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::book::{Book, Job};
use super::plan::{Backlog, Due, Step, next_step};
use super::record::{JobRecord, RunOutcome};
use super::run::JobRun;
use super::state::{JobState, OnDuty};
use crate::error::{Error, Result, WorkError, report};
use crate::leader::Leadership;
use crate::lock::deadline::from_now;
use crate::meters::Counter;
use crate::watch::Watched;

/// The failure of a run, as the work has returned it.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a job in the terms of this process, one after the other.
pub(super) struct Scheduler<W> {
    pub(super) job: Arc<Job>,
    pub(super) watched: Watched<JobState>,
    pub(super) wrong_clocks: Counter,
    /// Never contended: there is one run at a time.
    pub(super) work: Mutex<W>,
}

impl<W, F, E> Scheduler<W>
where
    W: FnMut(JobRun) -> F + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<Failure>,
{
    /// Runs the job until the leader is to resign. After a run that has failed, the leadership ends as well, so that the
    /// next run is that of another process, if there is one; and if the clock of this process is wrong.
    ///
    /// # Errors
    /// The failure of the run, or of keeping the record, or how wrong the clock is.
    pub(super) async fn lead(&self, leadership: Leadership) -> Result<(), Failure> {
        let _on_duty = OnDuty(&self.watched);
        match self.run_all(&leadership).await {
            // The selector knows.
            Err(Error::LockLost { .. } | Error::Closed) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(ended) => ended,
        }
    }

    /// Runs the job until this process is to give the leadership up. Returns why it has to, unless it is asked to resign.
    ///
    /// # Errors
    /// Those of keeping the record.
    async fn run_all(&self, leadership: &Leadership) -> Result<Result<(), Failure>> {
        let Job { client, schedule, options, .. } = &*self.job;
        let mut book = Book::open(&self.job, leadership).await?;
        let mut not_before = self.hold_off(&mut book).await?;
        let (mut waited_for, mut backlog) = (None, Backlog::default());
        loop {
            book.check_clock().await?;
            if let Some(difference) = book.clock_difference() {
                self.wrong_clocks.increment(1);
                self.watched.show(JobState::WrongClock(difference.clone()));
                return Ok(Err(difference.into()));
            }
            let now = options.clock.now();
            let (missed, unfinished) = (options.missed, options.unfinished);
            let record = book.record();
            let due = match next_step(schedule, missed, unfinished, record, waited_for, &mut backlog, now) {
                Step::Run(due) => due,
                Step::Wait(until) => {
                    self.show_waiting(&book, until);
                    // The clock may be set meanwhile, also back: what is next is asked again at each look.
                    let waiting = options.clock.look_again(now, until);
                    if leadership.until_resigning(client.at_home(waiting)).await.is_none() {
                        return Ok(Ok(()));
                    }
                    waited_for = until;
                    continue;
                }
            };
            if let Some(at) = not_before.take().filter(|at| *at > Instant::now()) {
                self.show_waiting(&book, Some(due.scheduled_at));
                let waiting = client.at_home(async { sleep_until(at).await });
                if leadership.until_resigning(waiting).await.is_none() {
                    return Ok(Ok(()));
                }
                // Another run may be due by now.
                continue;
            }
            if leadership.is_resigning() {
                return Ok(Ok(()));
            }
            if !book.begin(&due, schedule.after(now.max(due.scheduled_at))).await? {
                continue;
            }
            not_before = Some(from_now(options.at_least_for));
            self.watched.show(JobState::Running(book.record().clone()));
            let begun = Instant::now();
            let done = self.run(due, leadership).await;
            let outcome = if done.is_ok() { RunOutcome::Done } else { RunOutcome::Failed };
            book.finish(outcome, begun.elapsed()).await?;
            if done.is_err() {
                return Ok(done);
            }
            leadership.goes_well();
            waited_for = None;
        }
    }

    fn show_waiting(&self, book: &Book<'_>, next_run: Option<SystemTime>) {
        self.watched.show(JobState::Waiting(JobRecord { next_run, ..book.record().clone() }));
    }

    /// Returns before which time no run may begin, because another process has begun one.
    async fn hold_off(&self, book: &mut Book<'_>) -> Result<Option<Instant>> {
        let at_least_for = self.job.options.at_least_for;
        if at_least_for.is_zero() {
            return Ok(None);
        }
        let ago = book.begun_ago().await?;
        Ok(ago.map(|ago| from_now(at_least_for.saturating_sub(ago))))
    }

    async fn run(&self, due: Due, leadership: &Leadership) -> Result<(), Failure> {
        let Due { number, attempt, .. } = due;
        tracing::debug!(path = self.job.full_path, number, attempt, "a run of the job begins");
        let working = async {
            let working = {
                let mut work = self.work.lock();
                work(JobRun::new(due, leadership.clone()))
            };
            working.await.map_err(Into::into)
        };
        let done = AssertUnwindSafe(working).catch_unwind().await;
        let done = done.unwrap_or_else(|panic| Err(WorkError::of_panic(panic).into()));
        if let Err(error) = &done {
            tracing::warn!(path = self.job.full_path, number, attempt, error = %report(&**error), "a run of the job has failed");
        }
        done
    }
}
