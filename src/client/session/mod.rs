//! One ZooKeeper session, and the requests that recipes make on it.

mod adoption;
mod combined;
mod combining;
mod confirm;
mod connectivity;
mod new_node;
mod reads;
mod tree_watch;
mod watcher;
mod watches;
mod writes;

use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zookeeper_client as zk;

pub(crate) use self::combining::Sharing;
pub(super) use self::combining::{Combining, Transactions};
pub(in crate::client) use self::connectivity::Connectivity;
pub(crate) use self::new_node::NewNode;
pub(crate) use self::reads::Read;
pub(crate) use self::tree_watch::TreeWatch;
use self::tree_watch::TreeWatches;
pub(crate) use self::watcher::{LatestWatch, Watcher};
use self::watches::Watches;
use super::clock::Moment;
use super::connection::{Connection, Server};
use super::serving::Serving;
use super::signs::Sign;
use super::validity::{Health, Validity};
use crate::meters::{Request, Requests};

/// How many requests of those that may be very many are under way at once. While a server has a thousand of them (its
/// `globalOutstandingLimit`), it reads no more from anyone; and what keeps the session valid waits behind them.
const AT_ONCE: usize = 200;

/// A session, from its establishment on. The epoch distinguishes it from earlier and later sessions of the same
/// client.
///
/// A session has one connection after another, with gaps in between. The first poll of a request sends it on the
/// current connection, or fails: requests that are polled one after another arrive in that order. A connection
/// becomes current when its server has caught up, so that reads on it show everything that the client has been told
/// before.
///
/// The [validity](Validity) is based on replies to requests that a majority of the servers has committed. The
/// leader expires sessions; but a server that the leader no longer hears still answers reads and pings, and a
/// leader that the others have replaced still answers `sync`.
pub(crate) struct Session {
    epoch: u64,
    id: i64,
    validity: Arc<Validity>,
    connectivity: watch::Sender<Connectivity>,
    /// Whether its servers do not tell when the nodes that a transaction creates were created.
    tells_no_dates: AtomicBool,
    /// Whether its servers do not list the nodes of a session, and hang up on a client that asks: they are older than
    /// 3.6.
    lists_no_nodes: AtomicBool,
    /// Whether the servers have refused to delete a node of it, which stays.
    leaves_nodes: AtomicBool,
    /// The turns of requests that may be very many.
    turns: Semaphore,
    watches: Arc<Watches>,
    tree_watches: Arc<TreeWatches>,
    requests: Requests,
    /// `Some` if it is adopted.
    adoption: Option<Adoption>,
}

debug_by!(Session, |it| epoch: it.epoch, id: it.id);

/// What is known about which session a user's client has.
///
/// `zookeeper-client` reconnects by itself, takes another session if a server gives one, and always shows the id of the
/// first one. Ephemeral nodes show the session that they belong to: the reply to the create of one, and for those that
/// are there when the client connects again, the server's list of the nodes of the session.
struct Adoption {
    serving: Arc<Serving>,
    /// The last connection that was found to be of the session, by the number of changes before it.
    verified: AtomicU64,
    /// Ephemeral nodes that the session has created and not deleted.
    nodes: Mutex<BTreeSet<String>>,
    replaced: CancellationToken,
}

/// The connection right before a request is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeSending {
    connection: u64,
    had_connection: bool,
}

impl Session {
    pub(crate) fn new(epoch: u64, id: i64, validity: Validity) -> Self {
        let (connectivity, receiver) = watch::channel(Connectivity::Down(0));
        Self {
            epoch,
            id,
            validity: Arc::new(validity),
            connectivity,
            tells_no_dates: AtomicBool::new(false),
            lists_no_nodes: AtomicBool::new(false),
            leaves_nodes: AtomicBool::new(false),
            turns: Semaphore::new(AT_ONCE),
            watches: Arc::new(Watches::new(receiver)),
            tree_watches: Arc::default(),
            requests: Requests::default(),
            adoption: None,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Makes requests use this connection from now on. Its number is higher than those of all earlier connections.
    pub(super) fn connect(&self, connection: Arc<Connection>) {
        self.connectivity.send_replace(Connectivity::Connected(connection));
    }

    /// Records that the current connection is over, and that there will be another.
    pub(super) fn disconnect(&self) {
        self.connectivity.send_modify(|now| {
            if let Connectivity::Connected(connection) = now {
                *now = Connectivity::Down(connection.number);
            }
        });
    }

    /// Records that the client is closed while the session continues.
    pub(super) fn leave(&self, connection: Connection) {
        self.connectivity.send_replace(Connectivity::Left(Arc::new(connection)));
    }

    /// Records that the session is over or is to end at the server. It ends there when the requests in progress are
    /// answered.
    pub(super) fn end(&self) {
        // What waits need not be sent: all it could create or delete goes with the session.
        self.connectivity.send_replace(Connectivity::Over);
    }

    /// Whether the session is known to be over.
    pub(crate) fn is_over(&self) -> bool {
        match &*self.connectivity.borrow() {
            Connectivity::Connected(connection) | Connectivity::Left(connection) => {
                connection.state().is_terminated()
            }
            Connectivity::Down(_) => false,
            Connectivity::Over => true,
        }
    }

    /// Returns a number that identifies the current connection among all connections of the client. A different
    /// result means that another connection, or none, was current in between. Everything received on a connection,
    /// in replies and events, was received before this reports the next one.
    pub(crate) fn connection(&self) -> u64 {
        let number = match &*self.connectivity.borrow() {
            Connectivity::Connected(connection) => 2 * connection.number + u64::from(!connection.is_alive()),
            Connectivity::Left(connection) => 2 * connection.number + 1,
            Connectivity::Down(number) => 2 * number + 1,
            Connectivity::Over => u64::from(u32::MAX),
        };
        self.epoch << 32 | number
    }

    /// Whether there is a connection to make requests on.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(&*self.connectivity.borrow(), Connectivity::Connected(connection) if connection.is_alive())
    }

    /// To be passed to [`may_have_sent`](Self::may_have_sent) later.
    pub(crate) fn before_sending(&self) -> BeforeSending {
        BeforeSending { connection: self.connection(), had_connection: self.current().is_ok() }
    }

    /// Whether a request that was made since then may have been sent.
    pub(crate) fn may_have_sent(&self, since: BeforeSending) -> bool {
        since.had_connection || self.connection() != since.connection
    }

    /// Returns a receiver of the connections that come and go.
    pub(super) fn connectivity(&self) -> watch::Receiver<Connectivity> {
        self.connectivity.subscribe()
    }

    /// Waits until the session is known to be over.
    pub(crate) async fn ended(&self) {
        // The sender is ours.
        let _ = self.connectivity.subscribe().wait_for(|now| matches!(now, Connectivity::Over)).await;
    }

    /// Waits until there has been no connection for `patience` without interruption.
    pub(crate) async fn without_connection(&self, patience: Duration) {
        let mut connectivity = self.connectivity.subscribe();
        let takes_requests =
            |now: &Connectivity| matches!(now, Connectivity::Connected(_) | Connectivity::Left(_));
        // The sender is ours.
        while timeout(patience, connectivity.wait_for(takes_requests)).await.is_ok() {
            let _ = connectivity.wait_for(|now| !takes_requests(now)).await;
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.validity.timeout()
    }

    /// Records that a request sent at that time has been answered now, unless by another session.
    fn answered(&self, sign: Sign, sent: Moment) {
        if self.is_verified() {
            self.validity.answered(sign, sent);
        }
    }

    pub(crate) fn validity(&self) -> &Arc<Validity> {
        &self.validity
    }

    /// Records that a node of it stays, since the servers refuse to delete it.
    pub(in crate::client) fn leaves_a_node(&self) {
        self.leaves_nodes.store(true, Ordering::Relaxed);
    }

    /// Whether a node of it stays that the client has given up.
    pub(crate) fn leaves_nodes(&self) -> bool {
        self.leaves_nodes.load(Ordering::Relaxed)
    }

    /// Returns how certain it is at this moment that the session is alive. Reads the connection only once, since
    /// holders call this all the time.
    pub(crate) fn health(&self) -> Health {
        let is_connected = match &*self.connectivity.borrow() {
            Connectivity::Connected(connection) => match connection.state() {
                state if state.is_terminated() => return Health::Over,
                state => connection.is_alive_in(state),
            },
            Connectivity::Left(connection) if connection.state().is_terminated() => return Health::Over,
            Connectivity::Left(_) | Connectivity::Down(_) => false,
            Connectivity::Over => return Health::Over,
        };
        self.validity.health(is_connected)
    }

    /// Returns the current connection, for a request that may [wait for others](Self::combine). No request waits for a
    /// connection: of several requests that are sent together, a later one could then overtake an earlier one.
    /// [`ready`](Self::ready) waits.
    ///
    /// # Errors
    /// Same as [`Connectivity::usable`].
    fn current(&self) -> Result<Arc<Connection>, zk::Error> {
        self.connectivity.borrow().usable().cloned()
    }

    /// Returns the [current](Self::current) connection, for a request that is made right after: what waits is sent before.
    ///
    /// # Errors
    /// Same as [`Connectivity::usable`].
    fn connected(&self) -> Result<Arc<Connection>, zk::Error> {
        let connection = self.current()?;
        if let Some(combining) = connection.server.combining() {
            combining.flush();
        }
        Ok(connection)
    }

    /// Returns the current connection, for a request that is made right after.
    ///
    /// # Errors
    /// Same as [`connected`](Self::connected).
    fn connected_for(&self, request: Request) -> Result<Arc<Connection>, zk::Error> {
        let connection = self.connected()?;
        self.requests.count(request);
        Ok(connection)
    }

    /// Waits until there is a connection to make requests on, or the session is over.
    pub(crate) async fn ready(&self) {
        if !self.connectivity.borrow().is_settled() {
            // The sender is ours.
            let _ = self.connectivity.subscribe().wait_for(Connectivity::is_settled).await;
        }
    }

    /// Waits for the reply to a request, which is sent by now, or by the first poll.
    ///
    /// A server answers the requests of a connection in order. If it has answered a later one, this reply will never come, and
    /// the connection is given up, as by ZooKeeper's own client.
    fn in_order<'a, T: 'a>(
        &'a self,
        server: &'a Server,
        reply: impl Future<Output = T> + Send + Sync + 'a,
    ) -> Pin<Box<dyn Future<Output = T> + Send + Sync + 'a>> {
        // Boxed: the futures of acquires are deep.
        Box::pin(async move {
            let mut reply = pin!(reply);
            if let Either::Left((reply, _)) = select(reply.as_mut(), pin!(self.validity.overtaken())).await {
                return reply;
            }
            // It has come before the later one, if it comes.
            if let Some(reply) = reply.as_mut().now_or_never() {
                return reply;
            }
            server.give_up();
            reply.await
        })
    }

    /// Returns the handle of the current connection.
    ///
    /// # Errors
    /// As every request.
    pub(crate) fn zookeeper(&self) -> Result<zk::Client, zk::Error> {
        Ok(self.connected()?.zookeeper.clone())
    }

    /// The number by which the servers know the session.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }
}

/// Maps the error of a request that got no reply. If the connection ends while a request is on its way to the task
/// that serves it, the request is never answered, and `zookeeper-client` reports an internal error.
fn lost(error: zk::Error) -> zk::Error {
    match error {
        zk::Error::UnexpectedError(reason) if reason.ends_with("expect response, but got none") => {
            zk::Error::ConnectionLoss
        }
        error => error,
    }
}

#[cfg(test)]
mod tests;
