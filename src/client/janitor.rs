//! Cleans up after callers that have gone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::timeout;
use zookeeper_client as zk;

use super::node::OwnWatch;
use super::session::Session;
use crate::failure::Failure;

const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// In session timeouts: twice as long as a server keeps a connection on which it hears nothing.
const LATE: u32 = 2;

/// Owns all clean-up of one client. Posting to it neither waits nor needs a runtime.
///
/// A job ends when its node is gone, or with the session that the node belongs to. The janitor ends when the
/// client and everything made from it is dropped and the last job is done.
#[derive(Debug)]
pub(crate) struct Janitor {
    jobs: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

impl Janitor {
    /// Starts a janitor on the current runtime.
    pub(crate) fn start() -> Self {
        let (jobs, posted) = mpsc::unbounded_channel();
        tokio::spawn(work(posted));
        Self { jobs }
    }

    /// Deletes a node. The first request is on its way when this returns: whatever the caller sends next
    /// finds the node gone. To hear of it on a watch on the node costs less than to take the watch back.
    pub(crate) fn delete(&self, session: Arc<Session>, path: String, watch: Option<OwnWatch>) {
        let sent = session.send_delete(&path);
        self.post(async move {
            let _watch = watch;
            let mut outcome = sent.await;
            let mut pauses = Pauses::new();
            while needs_another_attempt(&session, &path, outcome) {
                pauses.next().await;
                outcome = session.delete(&path).await;
            }
        });
    }

    /// Deletes whatever child of `parent` begins with `prefix`: a node whose create was sent, with unknown
    /// outcome.
    pub(crate) fn sweep(&self, session: Arc<Session>, parent: Arc<str>, prefix: String) {
        self.post(async move {
            if !sweep_until_done(&session, &parent, &prefix).await {
                sweep_late(&session, &parent, &prefix).await;
            }
        });
    }

    /// The same for a node that was looked for and not found.
    pub(crate) fn sweep_late(&self, session: Arc<Session>, parent: Arc<str>, prefix: String) {
        self.post(async move { sweep_late(&session, &parent, &prefix).await });
    }

    fn post(&self, job: impl Future<Output = ()> + Send + 'static) {
        // The janitor is only gone when its runtime is, and then the session ends soon.
        let _ = self.jobs.send(Box::pin(job));
    }
}

async fn work(mut posted: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
    let mut running = FuturesUnordered::new();
    let mut open = true;
    while open || !running.is_empty() {
        tokio::select! {
            job = posted.recv(), if open => match job {
                Some(job) => running.push(job),
                None => open = false,
            },
            Some(()) = running.next() => {}
        }
    }
}

/// Sweeps when a create that is on its way can no longer be done. A server that the client has left passes it on
/// as long as it keeps the connection, which is the session timeout; and it counts if the client has asked that server
/// again to take the session.
async fn sweep_late(session: &Session, parent: &str, prefix: &str) {
    let waited = timeout(session.timeout() * LATE, session.ended()).await;
    if waited.is_err() {
        sweep_until_done(session, parent, prefix).await;
    }
}

/// Answers whether there was a node.
async fn sweep_until_done(session: &Session, parent: &str, prefix: &str) -> bool {
    let mut pauses = Pauses::new();
    loop {
        let swept = sweep(session, parent, prefix).await;
        let found = matches!(swept, Ok(true));
        if !needs_another_attempt(session, prefix, swept.map(|_| ())) {
            return found;
        }
        pauses.next().await;
    }
}

async fn sweep(session: &Session, parent: &str, prefix: &str) -> Result<bool, zk::Error> {
    // After a reconnect the present server may lag behind the one that took the create.
    session.sync(parent).await?;
    let mut found = false;
    for name in session.list(parent).await?.iter().filter(|name| name.starts_with(prefix)) {
        match session.delete(&format!("{parent}/{name}")).await {
            Ok(()) | Err(zk::Error::NoNode) => found = true,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Whether a node may still be there, and another attempt may remove it.
fn needs_another_attempt(session: &Session, node: &str, outcome: Result<(), zk::Error>) -> bool {
    let error = match outcome {
        Ok(()) | Err(zk::Error::NoNode) => return false,
        Err(error) => error,
    };
    let failure = Failure::of(&error);
    if failure == Failure::Refused {
        tracing::warn!(node, %error, "cannot remove; it stays until the session ends");
    }
    failure.is_passing() && !session.is_over()
}

/// Growing pauses between attempts. The connection is down then, and requests wait for it anyway.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Self {
        Self(MIN_PAUSE)
    }

    async fn next(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(MAX_PAUSE);
    }
}
