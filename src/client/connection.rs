//! One connection of a session, from the end of its handshake to its end.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::{Mutex, RwLock};
use spawns_core::{Spawn, Task};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{self as zk, SessionState};

use super::serving;
use super::session::{Combining, Transactions};
use crate::waker::contained;

/// The connection that requests are made on. A session that reconnects gets another one.
pub(super) struct Connection {
    /// Distinguishes it from all other connections of its session.
    pub(super) number: u64,
    pub(super) zookeeper: zk::Client,
    pub(super) server: Server,
    /// That of its client.
    pub(super) runtime: Handle,
}

/// What serves a connection.
#[derive(Clone)]
pub(super) enum Server {
    /// A task of ours. See [`Service`].
    Own(Arc<Gate>),
    /// A task of `zookeeper-client`, which reconnects by itself: the session is adopted.
    Adopted(Arc<serving::Serving>),
}

impl Connection {
    /// Must be called on the runtime of the client.
    pub(super) fn new(number: u64, zookeeper: zk::Client, server: Server) -> Self {
        Self { number, zookeeper, server, runtime: Handle::current() }
    }

    pub(super) fn state(&self) -> SessionState {
        self.zookeeper.state()
    }

    /// Whether it has not ended so far.
    pub(super) fn is_alive(&self) -> bool {
        self.is_alive_in(self.state())
    }

    /// Whether it has not ended so far, given its state.
    pub(super) fn is_alive_in(&self, state: SessionState) -> bool {
        state == SessionState::SyncConnected
            && match &self.server {
                Server::Own(gate) => !gate.is_closed(),
                Server::Adopted(serving) => serving.changes() == self.number,
            }
    }
}

impl Server {
    /// Returns its writes that wait for each other; `None` if it is not served by a task of ours.
    pub(super) fn combining(&self) -> Option<&Arc<Combining>> {
        match self {
            Self::Own(gate) => Some(&gate.combining),
            Self::Adopted(_) => None,
        }
    }

    /// Polls a watch that was set on the connection. Returns `None` if the connection has ended, and the watch with
    /// it: polling it would panic.
    pub(super) fn while_it_lasts<T>(&self, poll: impl FnOnce() -> T) -> Option<T> {
        match self {
            Self::Own(gate) => gate.while_open(poll),
            Self::Adopted(serving) => serving.while_it_lasts(poll),
        }
    }

    /// Gives up a connection on which a reply is missing. That of an adopted session stays: its xids are never used again.
    pub(super) fn give_up(&self) {
        if let Self::Own(gate) = self {
            gate.given_up.cancel();
        }
    }
}

/// Allows watches to be polled for as long as their connection is served.
#[derive(Default)]
pub(super) struct Gate {
    /// Held for reading by those who poll a watch.
    is_closed: RwLock<bool>,
    given_up: CancellationToken,
    ended: CancellationToken,
    combining: Arc<Combining>,
}

impl Gate {
    /// Waits until the connection has ended and all its requests and watches have been notified.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Waits until the connection is [given up](Server::give_up).
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    fn is_closed(&self) -> bool {
        *self.is_closed.read()
    }

    fn while_open<T>(&self, poll: impl FnOnce() -> T) -> Option<T> {
        let is_closed = self.is_closed.read();
        (!*is_closed).then(poll)
    }

    /// Waits for those who are polling a watch.
    fn close(&self) {
        *self.is_closed.write() = true;
    }
}

/// Serves one connection until it ends. Dropping this ends the connection, but not the session.
///
/// It wraps the future that `zookeeper-client` would spawn, which serves a connection and, when that is lost, makes
/// the next one. The future is dropped as soon as it reports the loss, before it can reconnect.
pub(super) struct Service {
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    state: zk::StateWatcher,
    gate: Arc<Gate>,
    transactions: Transactions,
}

impl Service {
    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// When the future is dropped, no watch is being polled any more, which would panic. Dropping it wakes those
    /// who wait for a watch, or for a reply through [`Client::zookeeper`](super::Client::zookeeper).
    fn end(&mut self) {
        self.gate.close();
        contained(|| self.task = None);
        contained(|| self.gate.combining.end());
        contained(|| drop(mem::take(&mut self.transactions)));
        self.gate.ended.cancel();
    }
}

impl Future for Service {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { task, gate, transactions, .. } = &mut *self;
        let is_over = task.as_mut().is_none_or(|task| task.as_mut().poll(cx).is_ready());
        gate.combining.poll(transactions, cx);
        if !is_over && self.state.peek_state() == SessionState::SyncConnected {
            return Poll::Pending;
        }
        self.end();
        Poll::Ready(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// Connects, and returns the future that serves the connection.
///
/// # Errors
/// Same as [`zk::Connector::connect`].
///
/// # Cancel safety
/// No connection is left behind.
pub(super) async fn connect(
    connector: zk::Connector,
    hosts: &str,
) -> Result<(zk::Client, Service), zk::Error> {
    let catcher = Catcher::default();
    let mut connecting = Box::pin(connector.connect(hosts));
    let zookeeper = std::future::poll_fn(|cx| {
        // What it spawns within a poll is the future that serves the connection.
        let _scope = spawns_core::enter(&catcher);
        connecting.as_mut().poll(cx)
    })
    .await?;
    let Some(task) = catcher.0.into_inner() else {
        tracing::error!("zookeeper-client spawns by other means than spawns-core 1; take version 0.11.2");
        return Err(zk::Error::Unimplemented);
    };
    let serving = Service {
        task: Some(task),
        state: zookeeper.state_watcher(),
        gate: Arc::default(),
        transactions: Transactions::default(),
    };
    Ok((zookeeper, serving))
}

/// Captures the future of the task that is spawned.
#[derive(Default)]
struct Catcher(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Spawn for Catcher {
    fn spawn(&self, task: Task) {
        let caught = Some(Box::into_pin(task.future));
        *self.0.lock() = caught;
    }
}
