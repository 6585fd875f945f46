//! The task that keeps a cache up to date.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval_at, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use zookeeper_client as zk;

use super::pure::{Core, Rules};
use super::requests::{Reply, read};
use super::shared::Shared;
use super::state::CacheState;
use crate::client::{Client, PAUSE, Session, TreeWatch};
use crate::error::{Error, report};
use crate::failure::Failure;

/// How many requests of one cache are under way at once.
const AT_ONCE: usize = 8;
/// How often the nodes are looked at that the client may not read.
const UNREADABLE: Duration = Duration::from_secs(30);
/// How many nodes are read again after a reconnect for each millisecond that the read may be delayed.
const NODES_PER_MS: u64 = 10;
/// The longest delay of the read after a reconnect.
const MOST_DELAY_MS: u64 = 2000;
/// How many events are taken in one go. Then others that run on this thread come in between.
const EVENTS_AT_ONCE: usize = 1000;

/// Keeps a cache up to date, until it is dropped or the client is closed.
pub(super) struct Driver {
    client: Client,
    core: Core,
    shared: Arc<Shared>,
    watch: Option<TreeWatch>,
}

/// Why a connection is not used any more.
enum End {
    Disconnected,
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Drop for Driver {
    /// The runtime of the client may be shut down at any time, and takes this along.
    fn drop(&mut self) {
        self.shared.abandon();
    }
}

impl Driver {
    pub(super) fn new(client: Client, rules: Rules, shared: Arc<Shared>) -> Self {
        Self { client, core: Core::new(rules), shared, watch: None }
    }

    /// Runs until `dropped` is cancelled, the client is closed, or the cache cannot go on.
    pub(super) async fn run(mut self, dropped: CancellationToken) {
        let closing = self.client.closing();
        let error = tokio::select! {
            biased;
            () = dropped.cancelled() => None,
            () = closing.cancelled() => Some(Error::Closed),
            error = self.follow() => Some(error),
        };
        match error {
            Some(error) => {
                if error != Error::Closed {
                    tracing::warn!(path = %self.core.rules().root, error = %report(&error), "a cache has ended");
                }
                self.shared.set_state(CacheState::Failed(error));
            }
            None => self.shared.end(),
        }
    }

    /// Follows the nodes, on one connection after the other.
    async fn follow(&mut self) -> Error {
        loop {
            match self.client.session().await {
                Ok(session) => {
                    let number = session.connection();
                    if let Err(End::Failed(error)) = self.follow_on(&session, number).await {
                        return error;
                    }
                }
                Err(error) if error.is_retryable() => {}
                Err(error) => return error,
            }
            self.core.interrupt();
            self.watch = None;
            self.become_stale();
            sleep(PAUSE).await;
        }
    }

    fn become_stale(&self) {
        if self.shared.has_loaded() && !matches!(self.shared.state(), CacheState::Stale { .. }) {
            self.shared.set_state(CacheState::Stale { since: Instant::now() });
        }
    }

    /// Follows the nodes on the connection of this number.
    async fn follow_on(&mut self, session: &Arc<Session>, number: u64) -> Result<Infallible, End> {
        self.set_watch(session).await?;
        // All caches of all clients lose their connections at once when a server restarts.
        let most = (self.core.held().len() as u64 / NODES_PER_MS).min(MOST_DELAY_MS);
        let reads_from = Instant::now() + Duration::from_millis(fastrand::u64(0..=most));
        self.core.resume();
        self.read_on(session, number, reads_from).await
    }

    /// Sets the watch.
    async fn set_watch(&mut self, session: &Arc<Session>) -> Result<(), End> {
        let (sender, watch) = oneshot::channel();
        let path = self.core.rules().full_path.clone();
        let setting = session.clone();
        // In a task of its own, since it must not be given up half-way.
        self.client.spawn(async move {
            // A watch that comes too late is dropped.
            let _ = sender.send(setting.watch_tree(&path).await);
        });
        match watch.await.unwrap_or(Err(zk::Error::ConnectionLoss)) {
            Ok(watch) => {
                self.watch = Some(watch);
                Ok(())
            }
            Err(zk::Error::Unimplemented) => Err(Error::WatchUnsupported { path: self.full_path() }.into()),
            Err(error) => Err(self.ended_by(error)),
        }
    }

    fn ended_by(&self, source: zk::Error) -> End {
        match Failure::of(&source) {
            Failure::Refused => {
                End::Failed(Error::ZooKeeper { operation: "cache", path: self.full_path(), source })
            }
            _ => End::Disconnected,
        }
    }

    fn full_path(&self) -> String {
        self.core.rules().full_path.to_string()
    }

    /// Reads from that time on, and takes events.
    async fn read_on(
        &mut self,
        session: &Arc<Session>,
        number: u64,
        reads_from: Instant,
    ) -> Result<Infallible, End> {
        let mut requests: FuturesOrdered<BoxFuture<'_, Reply>> = FuturesOrdered::new();
        let mut look = interval_at(Instant::now() + UNREADABLE, UNREADABLE);
        let mut until = pin!(sleep_until(reads_from));
        // What the sleep is for.
        let mut reads = false;
        loop {
            while reads && requests.len() < AT_ONCE {
                let ops = self.core.next();
                if ops.is_empty() {
                    break;
                }
                let decompresses = self.core.rules().options.decompresses;
                let (client, session) = (self.client.clone(), session.clone());
                requests.push_back(Box::pin(async move {
                    // Those of one cache are granted and sent in their order.
                    let _turn = session.turn().await;
                    read(client, session.clone(), ops, decompresses).await
                }));
            }
            self.publish();
            let Some(watch) = &mut self.watch else { return Err(End::Disconnected) };
            let mut is_time_to_look = false;
            let mut is_time = false;
            let mut events = Vec::new();
            let mut has_ended = false;
            let replies = poll_fn(|cx| {
                // The replies first: then what comes before them is among the events.
                let mut replies = Vec::new();
                while let Poll::Ready(Some(reply)) = requests.poll_next_unpin(cx) {
                    replies.push(reply);
                }
                while events.len() < EVENTS_AT_ONCE || !replies.is_empty() {
                    match watch.poll(cx) {
                        Poll::Ready(Some(event)) => events.push(event),
                        Poll::Ready(None) => {
                            has_ended = true;
                            break;
                        }
                        Poll::Pending => break,
                    }
                }
                is_time_to_look = look.poll_tick(cx).is_ready();
                is_time = !reads && until.as_mut().poll(cx).is_ready();
                if replies.is_empty() && events.is_empty() && !has_ended && !is_time_to_look && !is_time {
                    Poll::Pending
                } else {
                    Poll::Ready(replies)
                }
            })
            .await;
            // A later connection has no watch of ours, and may have answered.
            if session.connection() != number {
                return Err(End::Disconnected);
            }
            if is_time_to_look {
                self.core.look_at_unreadable();
            }
            if events.len() >= EVENTS_AT_ONCE {
                // Others run on this thread.
                tokio::task::yield_now().await;
            }
            for event in events {
                self.take(&event)?;
            }
            if has_ended {
                return Err(End::Disconnected);
            }
            for reply in replies {
                match reply {
                    Ok(found) => self.core.apply(found)?,
                    Err((ops, error)) if ops.len() > 1 && Failure::of(&error) == Failure::Refused => {
                        self.core.refused(&ops);
                    }
                    Err((_, error)) => return Err(self.ended_by(error)),
                }
            }
            reads |= is_time;
        }
    }

    fn take(&mut self, event: &zk::WatchedEvent) -> Result<(), Error> {
        let Some(path) = self.client.path_in_namespace(&event.path) else { return Ok(()) };
        let zxid = (event.zxid > 0).then_some(event.zxid);
        self.core.event(event.event_type, path, zxid)
    }

    /// Shows what has changed. The first load is shown as a whole.
    fn publish(&mut self) {
        let changes = self.core.take_changes();
        let (had_loaded, is_loaded) = (self.shared.has_loaded(), self.core.has_loaded());
        if had_loaded && !changes.is_empty() {
            self.shared.publish(self.core.held().clone(), changes);
        } else if !had_loaded && is_loaded {
            // Those who follow the changes begin with the snapshot.
            self.shared.publish(self.core.held().clone(), Vec::new());
        }
        if is_loaded && !self.shared.state().is_current() {
            self.shared.set_state(CacheState::Current);
        }
    }
}
