//! Cleans up after callers that have gone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::timeout;
use zookeeper_client as zk;

use super::home::Home;
use super::session::Session;
use super::sweeper::{self, Lost, Pauses, needs_another_attempt};
use crate::waker::alone;

/// How long work continues that no caller waits for any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Owns all clean-up of one client. Posting a job neither waits nor needs a runtime.
///
/// A job ends when its node is gone, or with the session that the node belongs to. The janitor ends when the client
/// and everything made from it are dropped and the last job is done.
#[derive(Debug)]
pub(crate) struct Janitor {
    jobs: mpsc::UnboundedSender<Job>,
}

enum Job {
    Finish(BoxFuture<'static, ()>),
    Sweep { session: Arc<Session>, lost: Lost },
}

impl Janitor {
    /// Starts the janitor of a client.
    pub(crate) fn start(home: &Home) -> Self {
        let (jobs, posted) = mpsc::unbounded_channel();
        home.spawn(work(posted));
        Self { jobs }
    }

    /// Deletes a node. The first attempt is under way already: whatever the caller sends next finds the node gone.
    /// `until_gone` is dropped when the node is gone: for a watch on the node, waiting for its event costs less than removing
    /// it.
    pub(crate) fn delete(
        &self,
        session: Arc<Session>,
        path: String,
        first: impl Future<Output = Result<(), zk::Error>> + Send + 'static,
        until_gone: impl Send + 'static,
    ) {
        let delete = async move {
            let _until_gone = until_gone;
            let mut outcome = first.await;
            let mut pauses = Pauses::new();
            while needs_another_attempt(&session, &path, outcome) {
                tokio::time::sleep(pauses.next()).await;
                session.ready().await;
                outcome = session.delete(&path).await;
            }
        };
        self.post(Job::Finish(delete.boxed()));
    }

    /// Deletes a node of this session, whose create was sent with an unknown outcome.
    pub(super) fn sweep(&self, session: Arc<Session>, lost: Lost) {
        self.post(Job::Sweep { session, lost });
    }

    /// Continues for a limited time with what a caller has begun.
    pub(super) fn finish(&self, work: impl Future<Output: Send> + Send + 'static) {
        // Retries would serve no one. The timer is that of the janitor's runtime: the caller may have none.
        let finish = async move { drop(timeout(PATIENCE, work).await) };
        self.post(Job::Finish(finish.boxed()));
    }

    fn post(&self, job: Job) {
        // The janitor is gone only if its runtime is, and then the session ends soon.
        let _ = self.jobs.send(job);
    }
}

async fn work(mut posted: mpsc::UnboundedReceiver<Job>) {
    // Each sweeper returns the epoch of its session when it ends.
    let mut running: FuturesUnordered<BoxFuture<'static, Option<u64>>> = FuturesUnordered::new();
    let mut sweepers: HashMap<u64, mpsc::UnboundedSender<Lost>> = HashMap::new();
    let mut open = true;
    while open || !running.is_empty() {
        tokio::select! {
            job = posted.recv(), if open => match job {
                Some(Job::Finish(work)) => running.push(alone(work).map(|()| None).boxed()),
                Some(Job::Sweep { session, lost }) => {
                    let epoch = session.epoch();
                    let sweeper = match sweepers.entry(epoch) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(place) => {
                            let (sweeper, posted) = mpsc::unbounded_channel();
                            let sweep = sweeper::sweep(session, posted);
                            running.push(alone(sweep).map(move |()| Some(epoch)).boxed());
                            place.insert(sweeper)
                        }
                    };
                    // The receiver exists: the end of a sweeper is handled below, before anything else is posted to
                    // it.
                    let _ = sweeper.send(lost);
                }
                None => open = false,
            },
            Some(ended) = running.next() => {
                if let Some(epoch) = ended {
                    sweepers.remove(&epoch);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_job_that_panics_ends_alone() {
        let janitor = Janitor::start(&Home::of(Handle::current(), None));
        janitor.finish(async { panic!("as it is meant to") });
        let (done, is_done) = oneshot::channel();
        janitor.finish(async move {
            let _ = done.send(());
        });
        assert_eq!(is_done.await, Ok(()));
    }
}
