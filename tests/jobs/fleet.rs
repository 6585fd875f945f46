//! Processes that run one job, and what they did.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::time::sleep;
use zk_recipes::job::{JobOptions, JobRecord, JobRun, JobState, ScheduledJob};
use zk_recipes::testing::ManualClock;
use zk_recipes::{Client, Error, LeaderRole};

use super::within;

pub(crate) const PATH: &str = "/jobs/a";
pub(crate) const RECORD: &str = "/jobs/a/record";
pub(crate) const ELECTION: &str = "/jobs/a/leader";
pub(crate) const PERIOD: Duration = Duration::from_secs(60);

/// A moment in the middle of a period.
pub(crate) fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + 1_000_000 * PERIOD + PERIOD / 2
}

/// When the n-th run after [`noon`] is due.
pub(crate) fn due(n: u32) -> SystemTime {
    noon() + PERIOD / 2 + PERIOD * (n - 1)
}

/// A run, as somebody has begun it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) by: usize,
    pub(crate) number: u64,
    pub(crate) scheduled_at: SystemTime,
    pub(crate) attempt: u32,
    pub(crate) token: i64,
}

/// What all members do, in order, and how many do it at once.
#[derive(Clone, Default)]
pub(crate) struct Log {
    begun: Arc<Mutex<Vec<Begun>>>,
    busy: Arc<AtomicUsize>,
    may_overlap: bool,
}

impl Log {
    /// For leaders whose sessions or nodes are taken away at the servers: they may go on beside the next one for a moment.
    pub(crate) fn of_evicted() -> Self {
        Self { may_overlap: true, ..Self::default() }
    }

    pub(crate) fn begun(&self) -> Vec<Begun> {
        self.begun.lock().unwrap().clone()
    }

    /// The number, the time in periods after the first, and the attempt of each run.
    pub(crate) fn runs(&self) -> Vec<(u64, u32, u32)> {
        let place = |time: SystemTime| {
            let since = time.duration_since(due(1)).unwrap();
            assert_eq!(since.as_millis() % PERIOD.as_millis(), 0);
            1 + u32::try_from(since.as_secs() / PERIOD.as_secs()).unwrap()
        };
        self.begun().iter().map(|it| (it.number, place(it.scheduled_at), it.attempt)).collect()
    }

    /// Notes a run that is not ended before the returned value is dropped.
    pub(crate) fn begin(&self, by: usize, run: &JobRun) -> impl Send + use<> {
        struct Busy(Arc<AtomicUsize>);
        impl Drop for Busy {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        let others = self.busy.fetch_add(1, SeqCst);
        assert!(others == 0 || self.may_overlap, "two at once");
        self.begun.lock().unwrap().push(Begun {
            by,
            number: run.number(),
            scheduled_at: run.scheduled_at(),
            attempt: run.attempt(),
            token: run.fencing_token(),
        });
        Busy(self.busy.clone())
    }
}

/// A job that does nothing but to be noted.
pub(crate) fn quick(
    client: &Client,
    clock: &ManualClock,
    options: JobOptions,
    by: usize,
    log: &Log,
) -> ScheduledJob {
    let log = log.clone();
    ScheduledJob::every(client, PATH, PERIOD, options.clock(clock), move |run: JobRun| {
        let log = log.clone();
        async move {
            let _busy = log.begin(by, &run);
            tokio::task::yield_now().await;
            Ok::<(), Error>(())
        }
    })
    .unwrap()
}

/// A job whose runs go on until they are told how to end, or are dropped.
pub(crate) fn slow(
    client: &Client,
    clock: &ManualClock,
    options: JobOptions,
    by: usize,
    log: &Log,
) -> (ScheduledJob, mpsc::UnboundedSender<Result<(), &'static str>>) {
    let log = log.clone();
    let (end, ends) = mpsc::unbounded_channel::<Result<(), &'static str>>();
    let ends = Arc::new(tokio::sync::Mutex::new(ends));
    let job = ScheduledJob::every(client, PATH, PERIOD, options.clock(clock), move |run: JobRun| {
        let (log, ends) = (log.clone(), ends.clone());
        async move {
            let _busy = log.begin(by, &run);
            ends.lock().await.recv().await.unwrap_or(Err("the test is over"))
        }
    });
    (job.unwrap(), end)
}

/// Waits until the job waits for its next run, and returns the record.
pub(crate) async fn waits(job: &ScheduledJob) -> JobRecord {
    waits_for(job, |_| true).await
}

/// The same for a record of which this is true.
pub(crate) async fn waits_for(job: &ScheduledJob, is_it: impl Fn(&JobRecord) -> bool) -> JobRecord {
    let mut state = job.watch_state();
    let waiting = state.wait_for(|state| matches!(state, JobState::Waiting(record) if is_it(record)));
    match &within(waiting).await.unwrap() {
        JobState::Waiting(record) => record.clone(),
        other => panic!("{other:?}"),
    }
}

/// Waits until that many runs are over.
pub(crate) async fn has_run(job: &ScheduledJob, number: u64) -> JobRecord {
    waits_for(job, |record| record.last_run.as_ref().is_some_and(|run| run.number == number)).await
}

/// Waits until the job is running.
pub(crate) async fn runs(job: &ScheduledJob) -> JobRecord {
    let mut state = job.watch_state();
    let running = state.wait_for(|state| matches!(state, JobState::Running(_)));
    match &within(running).await.unwrap() {
        JobState::Running(record) => record.clone(),
        other => panic!("{other:?}"),
    }
}

/// Waits until one of the jobs waits for its next run.
pub(crate) async fn leader(jobs: &[ScheduledJob]) -> usize {
    let leads = |job: &ScheduledJob| {
        let health = job.health();
        health.leader.role == LeaderRole::Leader && matches!(health.state, JobState::Waiting(_))
    };
    within(async {
        loop {
            match jobs.iter().position(leads) {
                Some(leader) => return leader,
                None => sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}
