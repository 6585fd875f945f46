//! The record of a job, as its leader keeps it.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zookeeper_client::{self as zk, CreateMode, MultiWriteResult};

use super::plan::Due;
use super::record::{JobRecord, RunOutcome, RunRecord};
use super::schedule::{Schedule, from_millis};
use crate::client::{Client, Session};
use crate::error::{Error, Result};
use crate::leader::Leadership;

/// Where the record of a job is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Below the client's namespace.
    pub(super) path: String,
    /// With the namespace.
    pub(super) full_path: String,
}

/// The record under one leader. Only the leader can write it: the servers check that its node exists.
pub(super) struct Book<'a> {
    place: &'a Place,
    client: &'a Client,
    leadership: &'a Leadership,
    schedule: &'a Schedule,
    record: JobRecord,
    /// As it was read or written last; `None` if the node does not exist.
    node: Option<Node>,
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

impl Place {
    /// Reads the record.
    ///
    /// # Errors
    /// - [`Error::NotAJobRecord`]: the node holds something else.
    /// - Those of the request.
    pub(super) async fn read(&self, client: &Client, syncs: bool) -> Result<Option<(JobRecord, Node)>> {
        let node = client.request("read the job record at", &self.full_path, |session| async move {
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
    /// seen their nodes go.
    ///
    /// # Errors
    /// - [`Error::NotAJobRecord`]: the node holds something else.
    /// - Those of a request, and of a transaction.
    pub(super) async fn open(
        place: &'a Place,
        client: &'a Client,
        leadership: &'a Leadership,
        schedule: &'a Schedule,
        now: SystemTime,
    ) -> Result<Self> {
        let record = JobRecord::new(schedule, now);
        let mut book =
            Self { place, client, leadership, schedule, record, node: None, asked_for: Duration::ZERO };
        book.read().await?;
        while book.node.is_none() {
            let record = book.record.clone();
            book.write(record).await?;
        }
        Ok(book)
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
        loop {
            let token = self.leadership.fencing_token();
            let last = self.record.last_run.as_ref().filter(|run| run.fencing_token != token);
            let Some(begun) = last.and_then(|run| run.begun_at) else { return Ok(None) };
            // The time of this write is the present time of the servers.
            if self.write(self.record.clone()).await? {
                let written = self.node.as_ref().map_or(begun, |node| node.written);
                return Ok(Some(written.duration_since(begun).unwrap_or_default()));
            }
        }
    }

    /// Records that a run begins. Returns false if something else has changed the record meanwhile; then the run must
    /// not be begun.
    ///
    /// # Errors
    /// Those of a transaction. The run may be recorded nevertheless, and must not be begun.
    pub(super) async fn begin(&mut self, due: &Due, next_run: Option<SystemTime>) -> Result<bool> {
        let mut record = self.record.clone();
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
        let is_begun = self.write(record).await;
        // Whole milliseconds are recorded.
        let rounded_up = asked.elapsed().as_micros().div_ceil(1000);
        self.asked_for = Duration::from_millis(u64::try_from(rounded_up).unwrap_or(u64::MAX));
        is_begun
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

    /// Writes the record once. Returns false if something else has changed it since it was read, and reads it again.
    async fn write(&mut self, mut record: JobRecord) -> Result<bool> {
        record.leader = self.leadership.fencing_token();
        record.schedule = self.schedule.to_string();
        let data = record.to_string().into_bytes();
        loop {
            let path = &self.place.path;
            let version = self.node.as_ref().map(|node| node.version);
            let transaction = match version {
                Some(version) => self.leadership.transaction().set_data(path, data.clone(), version),
                None => self.leadership.transaction().create(path, data.clone(), CreateMode::Persistent),
            };
            match transaction.commit().await {
                Ok(results) => {
                    if let Some(MultiWriteResult::SetData { stat }) = results.first() {
                        let written = of_servers(stat.mtime);
                        self.node = Some(Node { data, version: stat.version, written });
                        self.record = record;
                    } else {
                        // Old servers do not tell when a node was created.
                        self.read().await?;
                    }
                    return Ok(true);
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
            if node.is_some_and(|node| node.data == data) {
                return Ok(true);
            }
            if node.map(|node| node.version) != version {
                tracing::warn!(
                    path = self.place.full_path,
                    "something else has changed the record of the job"
                );
                return Ok(false);
            }
        }
    }

    async fn read(&mut self) -> Result<()> {
        match self.place.read(self.client, false).await? {
            Some((record, node)) => (self.record, self.node) = (record, Some(node)),
            None => self.node = None,
        }
        Ok(())
    }
}

fn of_servers(millis: i64) -> SystemTime {
    from_millis(u64::try_from(millis).unwrap_or(0))
}
