//! The connections of clients, as the database sees them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::acl::Id;

/// Grows with each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ConnectionId(pub(super) u64);

/// The other end of a connection, for the task that serves it.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) id: ConnectionId,
    /// Messages for the client. It ends when the connection is to be closed.
    pub(super) outgoing: mpsc::UnboundedReceiver<Vec<u8>>,
    /// Cancelled when the connection is to be closed at once.
    pub(super) cut: CancellationToken,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    /// `None` until the client has sent its first message.
    pub(super) session: Option<i64>,
    /// What the client has authenticated as, and its address.
    pub(super) ids: Arc<Vec<Id>>,
    pub(super) received: u64,
    pub(super) sent: u64,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    cut: CancellationToken,
}

impl Connection {
    /// Sends a message, unless the connection has just ended.
    pub(super) fn send(&mut self, message: Vec<u8>) {
        self.sent += 1;
        let _ = self.outgoing.send(message);
    }

    pub(super) fn cut(&self) {
        self.cut.cancel();
    }
}

#[derive(Debug, Default)]
pub(super) struct Connections {
    connections: BTreeMap<ConnectionId, Connection>,
    last: u64,
}

impl Connections {
    pub(super) fn open(&mut self, peer: SocketAddr) -> Wire {
        self.last += 1;
        let id = ConnectionId(self.last);
        let (sender, outgoing) = mpsc::unbounded_channel();
        let cut = CancellationToken::new();
        let connection = Connection {
            peer,
            session: None,
            ids: Arc::new(vec![Id::of_address(peer.ip())]),
            received: 0,
            sent: 0,
            outgoing: sender,
            cut: cut.clone(),
        };
        self.connections.insert(id, connection);
        Wire { id, outgoing, cut }
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// Forgets a connection. It is closed when its messages are sent.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.connections.remove(&id)
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &Connection> {
        self.connections.values()
    }
}
