//! The task that keeps a cache up to date.

use std::collections::BTreeSet;
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
use zookeeper_client::{self as zk, EventType};

use super::options::CacheOptions;
use super::pure::{Core, Failed, Kind, NodeEvent, Rules};
use super::requests::{Reply, read};
use super::shared::Shared;
use super::snapshot::Snapshot;
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
    /// Below the client's namespace.
    root: Arc<str>,
    options: CacheOptions,
    core: Core,
    shared: Arc<Shared>,
    watch: Option<TreeWatch>,
    /// The unreadable nodes as they were published last.
    unreadable: Arc<BTreeSet<Arc<str>>>,
    changes: u64,
    has_loaded: bool,
}

/// Why a connection is not used any more.
enum End {
    Disconnected,
    Failed(Error),
}

impl Drop for Driver {
    /// The runtime of the client may be shut down at any time, and takes this along.
    fn drop(&mut self) {
        self.shared.abandon();
    }
}

impl Driver {
    pub(super) fn new(client: Client, root: Arc<str>, options: CacheOptions, shared: Arc<Shared>) -> Self {
        let core = Core::new(Rules { root: root.clone(), options: options.clone() });
        let unreadable = Arc::default();
        Self { client, root, options, core, shared, watch: None, unreadable, changes: 0, has_loaded: false }
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
                    tracing::warn!(path = %self.root, error = %report(&error), "a cache has ended");
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
        if self.has_loaded && !matches!(self.shared.state(), CacheState::Stale { .. }) {
            self.shared.set_state(CacheState::Stale { since: Instant::now() });
        }
    }

    /// Follows the nodes on the connection of this number.
    async fn follow_on(&mut self, session: &Arc<Session>, number: u64) -> Result<Infallible, End> {
        self.set_watch(session).await?;
        // All caches of all clients lose their connections at once when a server restarts.
        let most = (self.core.nodes().len() as u64 / NODES_PER_MS).min(MOST_DELAY_MS);
        let reads_from = Instant::now() + Duration::from_millis(fastrand::u64(0..=most));
        self.core.resume();
        self.read_on(session, number, reads_from).await
    }

    /// Sets the watch.
    async fn set_watch(&mut self, session: &Arc<Session>) -> Result<(), End> {
        let (sender, watch) = oneshot::channel();
        let path = self.client.in_namespace(&self.root);
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
            Err(zk::Error::Unimplemented) => {
                Err(End::Failed(Error::WatchUnsupported { path: self.client.in_namespace(&self.root) }))
            }
            Err(error) => Err(self.ended_by(error)),
        }
    }

    fn ended_by(&self, source: zk::Error) -> End {
        match Failure::of(&source) {
            Failure::Refused => End::Failed(Error::ZooKeeper {
                operation: "cache",
                path: self.client.in_namespace(&self.root),
                source,
            }),
            _ => End::Disconnected,
        }
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
                let (client, session, decompresses) =
                    (self.client.clone(), session.clone(), self.options.decompresses);
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
                    Reply::Read(found) => self.core.apply(found).map_err(|failed| self.failed(failed))?,
                    Reply::Refused(ops, _) if ops.len() > 1 => self.core.refused(&ops),
                    Reply::Refused(_, error) => return Err(self.ended_by(error)),
                    Reply::Lost => return Err(End::Disconnected),
                }
            }
            reads |= is_time;
        }
    }

    fn take(&mut self, event: &zk::WatchedEvent) -> Result<(), End> {
        let kind = match event.event_type {
            EventType::NodeCreated => Kind::Created,
            EventType::NodeDeleted => Kind::Deleted,
            EventType::NodeDataChanged => Kind::DataChanged,
            EventType::NodeChildrenChanged | EventType::Session => return Ok(()),
        };
        let Some(path) = self.client.path_in_namespace(&event.path) else { return Ok(()) };
        let zxid = (event.zxid > 0).then_some(event.zxid);
        self.core.event(NodeEvent { kind, path, zxid }).map_err(|failed| self.failed(failed))
    }

    fn failed(&self, failed: Failed) -> End {
        let path = self.client.in_namespace(&self.root);
        let CacheOptions { max_nodes, max_bytes, .. } = self.options;
        End::Failed(match failed {
            Failed::TooManyNodes | Failed::TooManyBytes => {
                Error::CacheTooLarge { path, max_nodes, max_bytes }
            }
            Failed::FilterPanicked => Error::CacheFilterPanicked { path },
        })
    }

    /// Shows what has changed. The first load is shown as a whole.
    fn publish(&mut self) {
        let is_loaded = self.core.has_loaded();
        if !self.has_loaded && !is_loaded {
            // Those who follow the changes begin with the snapshot.
            self.changes += self.core.take_changes().len() as u64;
            return;
        }
        let mut changes = self.core.take_changes();
        let is_first = !std::mem::replace(&mut self.has_loaded, true);
        if !changes.is_empty() || is_first {
            self.changes += changes.len() as u64;
            if is_first {
                changes.clear();
            }
            if *self.unreadable != *self.core.unreadable() {
                self.unreadable = Arc::new(self.core.unreadable().clone());
            }
            let (nodes, bytes) = (self.core.nodes().clone(), self.core.bytes());
            let snapshot = Snapshot::new(nodes, self.unreadable.clone(), bytes, self.changes);
            self.shared.publish(snapshot, changes);
        }
        if is_loaded && !self.shared.state().is_current() {
            self.shared.set_state(CacheState::Current);
        }
    }
}
