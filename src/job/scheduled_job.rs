//! The handle of a scheduled job.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::book::Job;
use super::options::{JobOptions, MOST_MISSED, MissedRuns};
use super::record::JobRecord;
use super::run::JobRun;
use super::schedule::Schedule;
use super::scheduler::{Failure, Scheduler};
use super::state::{JobHealth, JobState};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::leader::{LeaderSelector, LeaderState};
use crate::watch::{Watch, Watched};

/// The election and the record of a job, below its path.
const ELECTION: &str = "leader";
const RECORD: &str = "record";

/// A job that runs once per period among all processes that start it at the same path. One of them leads, and runs it;
/// when that one ends, fails or loses its leadership, the next one goes on. The [module](super) says what "once" means,
/// and how clocks matter.
///
/// The processes wait in the queue of a [`LeaderSelector`](crate::LeaderSelector). The work runs in its terms: it is
/// dropped, where it awaits, when the leadership is lost; and when the process is to stop, it has the [grace
/// period](crate::LeaderOptions::grace) to end, before the next process can lead. If the work returns an error or
/// panics, that run has failed: the process gives the leadership up and goes to the end of the queue, so the next run
/// is that of another process, if there is one.
///
/// This is a handle that can be cloned; when the last clone is dropped, the process leaves in the background.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::Client;
/// use zk_recipes::job::{JobOptions, ScheduledJob};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// # async fn write_report(_due: std::time::SystemTime, _token: i64) -> std::io::Result<()> { Ok(()) }
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let hour = Duration::from_secs(3600);
/// let _job = ScheduledJob::every(&client, "/jobs/report", hour, JobOptions::new(), |run| async move {
///     write_report(run.scheduled_at(), run.fencing_token()).await
/// })?;
/// tokio::signal::ctrl_c().await.expect("signals can be heard");
/// // Has the work end, and then the next process lead.
/// client.close().await;
/// # Ok(())
/// # }
/// ```
///
/// # Cost
///
/// A run costs the leader two round trips: one before the work, and one after it. Between runs, neither the leader nor
/// the waiting processes make requests for the job. A change of the leader costs one read and one write more than that of a
/// `LeaderSelector`.
///
/// Corresponds to `@SchedulerLock` of ShedLock on a scheduled method, which Curator does not have.
#[derive(Clone)]
#[must_use = "if unused, the process does not run the job"]
pub struct ScheduledJob {
    selector: LeaderSelector,
    state: Watch<JobState>,
    job: Arc<Job>,
    path: Arc<str>,
}

debug_by!(ScheduledJob, |it| path: it.path, role: it.selector.health().role);

impl ScheduledJob {
    /// Starts a job that is due at each multiple of `period` since 1970, in UTC: with a period of one hour, at each full
    /// hour. Returns immediately. No connection is needed yet.
    ///
    /// `work` is called once per run while this process leads, on the tokio runtime on which this function is called,
    /// and never concurrently with itself. The first run is the first that is due after a process has led for the first
    /// time: nothing that was due before it counts as missed.
    ///
    /// `path` is below the client's namespace, and must not be used for anything else. It is created as a container
    /// with the election at `leader` and the record at `record`. Give all processes the same schedule; while they
    /// differ, as in the middle of a deployment, that of the leader counts.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: `period` is not a positive number of whole milliseconds;
    ///   [`MissedRuns::RunAll`] has the bound 0 or one above 10,000; the [id](crate::LeaderOptions::id) is not allowed as node data; or
    ///   there is no tokio runtime.
    ///
    /// Later errors show in [`watch_leader`](Self::watch_leader), among them [`Error::NotAJobRecord`].
    pub fn every<W, F, E>(
        client: &Client,
        path: &str,
        period: Duration,
        options: JobOptions,
        work: W,
    ) -> Result<Self>
    where
        W: FnMut(JobRun) -> F + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::start(client, path, Schedule::every(period)?, options, work)
    }

    /// Starts a job that is due at the times of a cron expression, in UTC; otherwise like [`every`](Self::every). Needs
    /// the feature `cron`.
    ///
    /// The expression has five fields: minute, hour, day of the month, month and day of the week, where 0 and 7 are
    /// Sunday. A sixth field in front of them is the second. The crate `croner` has the details. The times are in UTC,
    /// because there each of them comes once: local times are skipped or come twice when clocks are put forward or
    /// back.
    ///
    /// ```no_run
    /// # use zk_recipes::job::{JobOptions, ScheduledJob};
    /// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
    /// // At half past two in the night from Monday to Friday.
    /// let job = ScheduledJob::by_cron(&client, "/jobs/report", "30 2 * * 1-5", JobOptions::new(), |run| async move {
    ///     println!("run {}", run.number());
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`every`](Self::every), and:
    /// - [`Error::InvalidArgument`]: `expression` is not a cron expression, or is never due.
    #[cfg(feature = "cron")]
    pub fn by_cron<W, F, E>(
        client: &Client,
        path: &str,
        expression: &str,
        options: JobOptions,
        work: W,
    ) -> Result<Self>
    where
        W: FnMut(JobRun) -> F + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::start(client, path, Schedule::cron(expression)?, options, work)
    }

    fn start<W, F, E>(
        client: &Client,
        path: &str,
        schedule: Schedule,
        mut options: JobOptions,
        work: W,
    ) -> Result<Self>
    where
        W: FnMut(JobRun) -> F + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        if let MissedRuns::RunAll(most) = options.missed
            && !(1..=MOST_MISSED).contains(&most)
        {
            let reason = match most {
                0 => "to run at most 0 missed runs is `MissedRuns::Skip`".into(),
                _ => format!("at most {MOST_MISSED} missed runs can be made up for, not {most}"),
            };
            return Err(Error::InvalidArgument { argument: "missed_runs", reason });
        }
        let full_path = client.full_path(path)?;
        let leader = mem::take(&mut options.leader);
        let job = Arc::new(Job {
            client: client.detached(),
            record_path: format!("{path}/{RECORD}"),
            full_path: format!("{full_path}/{RECORD}"),
            schedule,
            options,
        });
        let watched = Watched::new(JobState::Standby);
        let state = watched.watch();
        let wrong_clocks = client.labels().wrong_clocks(&full_path);
        let scheduler = Scheduler { job: job.clone(), watched, wrong_clocks, work: Mutex::new(work) };
        let scheduler = Arc::new(scheduler);
        let selector =
            LeaderSelector::start(client, &format!("{path}/{ELECTION}"), leader, move |leadership| {
                let scheduler = scheduler.clone();
                async move { scheduler.lead(leadership).await }
            })?;
        Ok(Self { selector, state, job, path: full_path })
    }

    /// Stops this process: asks a run to end, drops it when the [grace period](crate::LeaderOptions::grace) elapses, and
    /// waits until the next process can lead. A job that is already closed stays closed. At the end of a program, [close
    /// the client](Client::close) instead. Takes as long as [`LeaderSelector::close`](crate::LeaderSelector::close).
    ///
    /// # Errors
    /// - [`Error::WorkFailed`]: the run that this call ended has failed.
    /// - [`Error::WorkStopped`]: the leadership was lost before the run had ended.
    /// - [`Error::ZooKeeper`]: the deletion of the process's node was not confirmed; it is retried in the background.
    /// - [`Error::Closed`]: the client was closed before.
    ///
    /// # Cancel safety
    /// The first poll closes the job; if cancelled after that, the rest continues in the background.
    pub async fn close(&self) -> Result<()> {
        self.selector.close().await
    }

    /// Gives the leadership up if this process leads, so that the next process leads; a run is [asked to
    /// end](crate::Leadership::resign_requested) before. This process goes to the end of the queue.
    pub fn interrupt_leadership(&self) {
        self.selector.interrupt_leadership();
    }

    /// Reads the record: the last run and the next one, whichever process runs them. `None` if no process has led yet.
    /// Takes one round trip. A leader of the servers that is cut off from the others may show an earlier one, until it notices.
    ///
    /// # Errors
    /// - [`Error::NotAJobRecord`]: the node holds something else.
    /// - [`Error::ZooKeeper`]: the server refuses the request, or cannot be reached.
    /// - [`Error::NotConnected`]: the servers cannot be reached, and nothing could be sent.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn record(&self) -> Result<Option<JobRecord>> {
        let read = self.job.client.unless_closed(self.job.read(true)).await?;
        Ok(read.map(|(record, _)| record))
    }

    /// Returns what this process does about the job at the moment, for probes. Makes no request and does not wait.
    pub fn health(&self) -> JobHealth {
        JobHealth::new(self.selector.health(), self.state.get())
    }

    /// Follows the state of the job in this process. Ends when the job is closed.
    pub fn watch_state(&self) -> Watch<JobState> {
        self.state.anew()
    }

    /// Follows the state of this process in the election, and the errors that keep it from running the job. See [`LeaderSelector::watch_state`](crate::LeaderSelector::watch_state).
    pub fn watch_leader(&self) -> Watch<LeaderState> {
        self.selector.watch_state()
    }

    /// Returns the full path of the job, including the namespace.
    pub fn path(&self) -> &str {
        &self.path
    }
}
