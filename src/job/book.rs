//! The record of a job, as its leader keeps it.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zookeeper_client::{self as zk, CreateMode, MultiWriteResult};

use super::agreement::{ClockDifference, Sighting};
use super::options::JobOptions;
use super::plan::Due;
use super::record::{JobRecord, RunOutcome, RunRecord};
use super::schedule::{Schedule, from_millis};
use crate::client::{Client, Moment, Session};
use crate::error::{Error, Result};
use crate::leader::Leadership;

/// A job, as it was started in this process.
pub(super) struct Job {
    /// For background work.
    pub(super) client: Client,
    /// The path of the record, below the client's namespace.
    pub(super) record_path: String,
    /// The same with the namespace.
    pub(super) full_path: String,
    pub(super) schedule: Schedule,
    pub(super) options: JobOptions,
}

/// The record under one leader. Only the leader can write it: the servers check that its node exists.
pub(super) struct Book<'a> {
    job: &'a Job,
    leadership: &'a Leadership,
    /// By how much the clock of the process may differ from that of the servers.
    tolerance: Duration,
    record: JobRecord,
    /// As it was read or written last; `None` if the node does not exist.
    node: Option<Node>,
    /// The time of the servers at the last write of this leader, and when that was answered.
    sighting: Option<(Sighting, Moment)>,
    /// For how long the servers were asked to record the last begin.
    asked_for: Duration,
}

/// The node of a record.
pub(super) struct Node {
    data: Vec<u8>,
    version: i32,
    /// By the clock of the servers.
    written: SystemTime,
}

impl Job {
    /// Reads the record.
    ///
    /// # Errors
    /// - [`Error::NotAJobRecord`]: the node holds something else.
    /// - Those of the request.
    pub(super) async fn read(&self, syncs: bool) -> Result<Option<(JobRecord, Node)>> {
        let node = self.client.request("read the job record at", &self.full_path, |session| async move {
            match syncs {
                true => session.synced(&self.full_path, self.look(&session)).await,
                false => self.look(&session).await,
            }
        });
        let Some(node) = node.await? else { return Ok(None) };
        match JobRecord::parse(&node.data, node.written) {
            Some(record) => Ok(Some((record, node))),
            None => Err(Error::NotAJobRecord { path: self.full_path.clone() }),
        }
    }

    async fn look(&self, session: &Session) -> Result<Option<Node>, zk::Error> {
        match session.data(&self.full_path).await {
            Ok((data, stat)) => {
                Ok(Some(Node { data, version: stat.version, written: of_servers(stat.mtime) }))
            }
            Err(zk::Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<'a> Book<'a> {
    /// Reads the record, or creates it. Everything that earlier leaders have written is seen: this one's session has
    /// seen their nodes go. Unless any clock is tolerated, the record is written, which shows the time of the servers, and
    /// mended if it is from the future by both clocks.
    ///
    /// # Errors
    /// - [`Error::NotAJobRecord`]: the node holds something else.
    /// - Those of a request, and of a transaction.
    pub(super) async fn open(job: &'a Job, leadership: &'a Leadership) -> Result<Self> {
        let (schedule, now) = (&job.schedule, job.options.clock.now());
        let tolerance = job.options.tolerance(schedule.period(now));
        let mut book = Self {
            job,
            leadership,
            tolerance,
            record: JobRecord::new(schedule, now),
            node: None,
            sighting: None,
            asked_for: Duration::ZERO,
        };
        book.read().await?;
        while book.node.is_none() {
            let record = book.record.clone();
            if book.write(record).await?
                && book.clock_difference().is_some()
                && let Some(node) = &book.node
            {
                // The job starts now, whatever the clock shows.
                book.write(JobRecord::new(schedule, node.written)).await?;
            }
        }
        if tolerance < Duration::MAX {
            book.see_time().await?;
            // Otherwise the clock of the servers may be the one that is wrong, and what is done would be done again.
            if book.clock_difference().is_none() {
                book.mend().await?;
            }
        }
        Ok(book)
    }

    /// Writes the record as it is, unless this leader has written it: the time of the write is the present time of the
    /// servers.
    async fn see_time(&mut self) -> Result<()> {
        while self.sighting.is_none() {
            self.write(self.record.clone()).await?;
        }
        Ok(())
    }

    async fn mend(&mut self) -> Result<()> {
        while let Some((sighting, _)) = self.sighting
            && let Some(mended) = self.record.mended(&self.job.schedule, sighting.servers, self.tolerance)
        {
            tracing::warn!(
                path = self.job.full_path,
                since = ?self.record.since,
                last_run = ?self.record.last_run.as_ref().map(|run| run.scheduled_at),
                "the record of the job is from the future, as written by a clock that is far ahead; the job goes on from now"
            );
            self.write(mended).await?;
        }
        Ok(())
    }

    /// Returns by how much the clock differed from that of the servers at the last write, if that is not tolerated.
    pub(super) fn clock_difference(&self) -> Option<ClockDifference> {
        self.sighting.as_ref().and_then(|(sighting, _)| sighting.difference(self.tolerance))
    }

    /// Has the servers asked for their time, if the clock seems to have been set since the last write.
    ///
    /// # Errors
    /// Those of a transaction.
    pub(super) async fn check_clock(&mut self) -> Result<()> {
        let now = self.job.options.clock.now();
        let is_outdated =
            |(seen, at): (Sighting, Moment)| seen.is_outdated(now, Moment::now().since(at), self.tolerance);
        if self.sighting.is_some_and(is_outdated) {
            self.sighting = None;
            self.see_time().await?;
        }
        Ok(())
    }

    pub(super) fn record(&self) -> &JobRecord {
        &self.record
    }

    /// Returns how long ago another leader has begun the last run, by the clock of the servers; `None` if there is no
    /// such run.
    ///
    /// # Errors
    /// Those of a transaction.
    pub(super) async fn begun_ago(&mut self) -> Result<Option<Duration>> {
        let token = self.leadership.fencing_token();
        let begun = |record: &JobRecord| {
            record.last_run.as_ref().filter(|run| run.fencing_token != token).and_then(|run| run.begun_at)
        };
        if begun(&self.record).is_some() {
            self.see_time().await?;
        }
        let written = self.node.as_ref().map(|node| node.written);
        Ok(begun(&self.record).zip(written).map(|(begun, now)| now.duration_since(begun).unwrap_or_default()))
    }

    /// Records that a run begins. Returns false if it must not be begun: something else has changed the record meanwhile,
    /// or the clock turns out to be wrong, and nothing is recorded.
    ///
    /// # Errors
    /// Those of a transaction. The run may be recorded nevertheless, and must not be begun.
    pub(super) async fn begin(&mut self, due: &Due, next_run: Option<SystemTime>) -> Result<bool> {
        let before = self.record.clone();
        let mut record = before.clone();
        let is_abandoned =
            |last: &RunRecord| last.outcome == RunOutcome::Unfinished && last.number != due.number;
        let is_abandoned = record.last_run.as_ref().is_some_and(is_abandoned);
        record.unfinished = record.unfinished.saturating_add(u64::from(is_abandoned));
        record.next_run = next_run;
        record.last_run = Some(RunRecord {
            number: due.number,
            scheduled_at: due.scheduled_at,
            attempt: due.attempt,
            fencing_token: self.leadership.fencing_token(),
            outcome: RunOutcome::Unfinished,
            begun_at: None,
            took: None,
        });
        let asked = Instant::now();
        let is_begun = self.write(record).await?;
        // Whole milliseconds are recorded.
        let rounded_up = asked.elapsed().as_micros().div_ceil(1000);
        self.asked_for = Duration::from_millis(u64::try_from(rounded_up).unwrap_or(u64::MAX));
        if is_begun && self.clock_difference().is_some() {
            self.write(before).await?;
            return Ok(false);
        }
        Ok(is_begun)
    }

    /// Records what became of the run that was begun last.
    ///
    /// # Errors
    /// Those of a transaction.
    pub(super) async fn finish(&mut self, outcome: RunOutcome, took: Duration) -> Result<()> {
        // The work has begun when the servers had answered: by then their clock showed this at the latest.
        let begun = self.node.as_ref().and_then(|node| node.written.checked_add(self.asked_for));
        let Some(run) = self.record.last_run.clone() else { return Ok(()) };
        // As it will be read.
        let took = Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let run = RunRecord { outcome, took: Some(took), begun_at: run.begun_at.or(begun), ..run };
        // Should an operator have changed the record meanwhile, what is true is written over it.
        while !self.write(JobRecord { last_run: Some(run.clone()), ..self.record.clone() }).await? {}
        Ok(())
    }

    /// Writes the record once. It is then as it was written: what is read tells when a run was recorded, not when it has
    /// begun. Returns false if something else has changed it since it was read, and reads it again.
    async fn write(&mut self, mut record: JobRecord) -> Result<bool> {
        record.leader = self.leadership.fencing_token();
        record.schedule = self.job.schedule.to_string();
        let data = record.to_string().into_bytes();
        let sent = self.job.options.clock.now();
        loop {
            let path = &self.job.record_path;
            let version = self.node.as_ref().map(|node| node.version);
            let transaction = match version {
                Some(version) => self.leadership.transaction().set_data(path, data.clone(), version),
                None => self.leadership.transaction().create(path, data.clone(), CreateMode::Persistent),
            };
            match transaction.commit().await {
                Ok(results) => {
                    // Old servers do not tell when a node was created.
                    if let Some(MultiWriteResult::SetData { stat }) = results.first() {
                        let written = of_servers(stat.mtime);
                        self.node = Some(Node { data, version: stat.version, written });
                        self.record = record;
                        self.saw_time(sent);
                        return Ok(true);
                    }
                }
                // The write may still be under way; but it and the next one are for the same version, so only one of
                // them can be done.
                Err(Error::OutcomeUnknown { .. }) => {}
                Err(Error::OperationFailed {
                    source: zk::Error::BadVersion | zk::Error::NodeExists | zk::Error::NoNode,
                    ..
                }) => {}
                Err(error) => return Err(error),
            }
            self.read().await?;
            let node = self.node.as_ref();
            // The record may have had the same data before.
            if node.map(|node| node.version) == version {
                continue;
            }
            if node.is_some_and(|node| node.data == data) {
                self.record = record;
                self.saw_time(sent);
                return Ok(true);
            }
            tracing::warn!(path = self.job.full_path, "something else has changed the record of the job");
            return Ok(false);
        }
    }

    /// The node was written after `sent`.
    fn saw_time(&mut self, sent: SystemTime) {
        let sighting =
            |node: &Node| Sighting { sent, servers: node.written, received: self.job.options.clock.now() };
        self.sighting = self.node.as_ref().map(sighting).map(|sighting| (sighting, Moment::now()));
    }

    async fn read(&mut self) -> Result<()> {
        match self.job.read(false).await? {
            Some((record, node)) => (self.record, self.node) = (record, Some(node)),
            None => self.node = None,
        }
        Ok(())
    }
}

fn of_servers(millis: i64) -> SystemTime {
    from_millis(u64::try_from(millis).unwrap_or(0))
}
