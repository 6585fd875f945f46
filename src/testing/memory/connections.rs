//! The connections of clients, as the database sees them.

use std::collections::VecDeque;
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
    /// Whether the client says if it would be content with a server that only reads. Old clients do not, and do not
    /// expect an answer to it.
    pub(super) tells_read_only: bool,
    /// What the client has authenticated as, and its address.
    pub(super) ids: Arc<Vec<Id>>,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// The requests that are not answered.
    pub(super) pending: VecDeque<Pending>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    cut: CancellationToken,
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Pending {
    /// What the leader knows it by. `None` if it is not asked: the request is done when those before it are answered.
    pub(super) ticket: Option<u64>,
    pub(super) message: Vec<u8>,
}

impl Connection {
    pub(super) fn open(id: ConnectionId, peer: SocketAddr) -> (Self, Wire) {
        let (sender, outgoing) = mpsc::unbounded_channel();
        let cut = CancellationToken::new();
        let connection = Self {
            peer,
            session: None,
            tells_read_only: false,
            ids: Arc::new(vec![Id::of_address(peer.ip())]),
            received: 0,
            sent: 0,
            pending: VecDeque::new(),
            outgoing: sender,
            cut: cut.clone(),
        };
        (connection, Wire { id, outgoing, cut })
    }

    /// Sends a message, unless the connection has just ended.
    pub(super) fn send(&mut self, message: Vec<u8>) {
        self.sent += 1;
        let _ = self.outgoing.send(message);
    }

    /// Has a request wait for those before it.
    pub(super) fn postpone(&mut self, message: &[u8]) {
        self.pending.push_back(Pending { ticket: None, message: message.into() });
    }

    pub(super) fn cut(&self) {
        self.cut.cancel();
    }
}
