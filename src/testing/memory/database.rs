//! The state of a server, and what messages of clients do to it. It does no I/O and reads no clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::acl;
use super::code::Code;
use super::connections::{Connection, ConnectionId, Wire};
use super::sessions::Sessions;
use super::settings::MemorySettings;
use super::tree::{Change, Event, Tree};
use super::watches::Watches;
use crate::testing::jute::{Reader, Writer};
use crate::testing::kill_session::password;
use crate::testing::opcode;

/// What comes as an id of a request where there is none.
const NOTIFICATION: i32 = -1;
/// What comes as a zxid where there is none.
pub(super) const NO_ZXID: i64 = -1;
/// The state that events carry: connected.
const CONNECTED: i32 = 3;

#[derive(Debug)]
pub(super) struct Database {
    pub(super) settings: MemorySettings,
    pub(super) tree: Tree,
    pub(super) watches: Watches,
    pub(super) sessions: Sessions,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    /// How many connections there were.
    accepted: u64,
    /// The number of the last transaction.
    pub(super) zxid: i64,
    /// What the server is to others of its ensemble.
    pub(super) mode: &'static str,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// What has changed since this was last taken.
    pub(super) changes: Vec<Change>,
    /// Whether the next create gets no reply.
    pub(super) omits_reply: bool,
}

impl Database {
    pub(super) fn new(settings: &MemorySettings, first_session: i64) -> Self {
        Self {
            settings: settings.clone(),
            tree: Tree::new(settings.has_ttl_nodes),
            watches: Watches::default(),
            sessions: Sessions::new(first_session, settings.common.tick_time),
            connections: BTreeMap::new(),
            accepted: 0,
            zxid: 0,
            mode: "standalone",
            received: 0,
            sent: 0,
            changes: Vec::new(),
            omits_reply: false,
        }
    }

    /// Takes over the nodes and the sessions of another server.
    pub(super) fn restore(&mut self, other: &Self) {
        (self.tree, self.zxid) = (other.tree.clone(), other.zxid);
        self.sessions.restore(&other.sessions);
    }

    pub(super) fn accept(&mut self, peer: SocketAddr) -> Wire {
        self.accepted += 1;
        let id = ConnectionId(self.accepted);
        let (connection, wire) = Connection::open(id, peer);
        self.connections.insert(id, connection);
        wire
    }

    /// Forgets a connection and its watches. It is closed when its messages are sent. The session stays, for as long as it
    /// has time.
    pub(super) fn disconnect(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.watches.forget(id);
        if let Some(session) = connection.session.and_then(|session| self.sessions.get_mut(session))
            && session.connection == Some(id)
        {
            session.connection = None;
        }
    }

    /// Closes all connections without sending what is left to be sent.
    pub(super) fn cut_all(&mut self) {
        while let Some((id, connection)) = self.connections.first_key_value() {
            connection.cut();
            let id = *id;
            self.disconnect(id);
        }
    }

    /// Counts a message. Returns its connection, unless that has ended.
    pub(super) fn received_from(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(&id)?;
        self.received += 1;
        connection.received += 1;
        Some(connection)
    }

    /// Attaches a client to its session, or refuses it.
    pub(super) fn attach(&mut self, id: ConnectionId, session: Option<i64>, timeout: Duration) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.session = session;
        let tells_read_only = connection.tells_read_only;
        if let Some(session) = session.and_then(|session| self.sessions.get_mut(session)) {
            session.connection = Some(id);
        }
        let granted =
            if session.is_some() { i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX) } else { 0 };
        let secret = session.map_or([0; 16], password);
        let mut reply = Writer::new();
        // The version of the protocol comes first.
        reply.i32(0).i32(granted).i64(session.unwrap_or(0)).buffer(Some(&secret));
        if tells_read_only {
            reply.bool(false);
        }
        self.send(id, reply.finish());
    }

    /// Does a request that changes no node, and sends the reply. Closes the connection at what cannot go on.
    pub(super) fn serve(&mut self, id: ConnectionId, session: i64, message: &[u8], now: Duration) {
        let mut reader = Reader::new(message);
        let (Ok(xid), Ok(operation)) = (reader.i32(), reader.i32()) else { return self.disconnect(id) };
        self.sessions.touch(session, now);
        let result = if self.settings.version.knows(operation) {
            self.execute(id, session, operation, &mut reader)
        } else {
            Err(Code::Unimplemented)
        };
        let is_auth = operation == opcode::AUTH;
        let is_unknown = matches!(result, Err(Code::Unimplemented));
        let is_end = is_unknown || is_auth && result.is_err();
        // An authentication that cannot be decoded has no reply.
        if !is_auth || !matches!(result, Err(Code::Marshalling)) {
            let zxid = if is_unknown { NO_ZXID } else { self.zxid };
            self.reply(id, xid, if is_auth { 0 } else { zxid }, result);
        }
        if is_end {
            self.disconnect(id);
        }
    }

    pub(super) fn reply(&mut self, id: ConnectionId, xid: i32, zxid: i64, result: Result<Writer, Code>) {
        let mut reply = Writer::new();
        reply.i32(xid).i64(zxid);
        match result {
            Ok(body) => reply.i32(0).append(&body),
            Err(code) => reply.i32(code as i32),
        };
        self.send(id, reply.finish());
    }

    fn send(&mut self, id: ConnectionId, message: Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            self.sent += 1;
            connection.send(message);
        }
    }

    /// Tells everyone who watches.
    pub(super) fn publish(&mut self, changes: Vec<Change>) {
        for change in &changes {
            for id in self.watches.fire(change) {
                self.notify(id, change);
            }
        }
        self.changes.extend(changes);
    }

    fn notify(&mut self, id: ConnectionId, change: &Change) {
        let may_read = |ids: &[acl::Id]| acl::check(&change.acl, acl::READ, ids).is_ok();
        if self.connections.get(&id).is_some_and(|connection| may_read(&connection.ids)) {
            self.send_event(id, change.event, &change.path, self.zxid);
        }
    }

    pub(super) fn send_event(&mut self, id: ConnectionId, event: Event, path: &str, zxid: i64) {
        let mut message = Writer::new();
        message.i32(NOTIFICATION).i64(zxid).i32(0);
        message.i32(event as i32).i32(CONNECTED).string(path);
        self.send(id, message.finish());
    }
}
