//! The requests of clients: those of one connection are answered in their order, though some need the leader.

use std::net::SocketAddr;
use std::time::Duration;

use super::log::{Action, Origin, Proposal};
use super::network::Message;
use super::replica::Role;
use super::state::State;
use crate::testing::jute::{Reader, Writer};
use crate::testing::kill_session::password;
use crate::testing::memory::code::Code;
use crate::testing::memory::connections::{Connection, ConnectionId, Pending, Wire};
use crate::testing::memory::multi;
use crate::testing::memory::request::{Connect, Write};
use crate::testing::opcode;

impl State {
    pub(in super::super) fn accept(&mut self, server: usize, peer: SocketAddr) -> Option<Wire> {
        self.is_open(server).then(|| self.replicas[server].database.accept(peer))
    }

    /// Forgets a connection.
    pub(in super::super) fn disconnect(&mut self, server: usize, id: ConnectionId) {
        self.replicas[server].database.disconnect(id);
    }

    fn connection(&mut self, server: usize, id: ConnectionId) -> Option<&mut Connection> {
        self.replicas[server].database.connections.get_mut(&id)
    }

    /// Does what a message says. If the connection cannot go on after it, it is closed.
    pub(in super::super) fn receive(&mut self, server: usize, id: ConnectionId, message: &[u8]) {
        let Some(connection) = self.replicas[server].database.received_from(id) else { return };
        match connection.session {
            Some(session) => self.request(server, id, session, message),
            None if connection.pending.is_empty() => self.connect(server, id, message),
            None => connection.postpone(message),
        }
    }

    /// Answers a four-letter word.
    pub(in super::super) fn answer_word(&mut self, server: usize, word: &str) -> Option<String> {
        let replica = &mut self.replicas[server];
        replica.is_running.then(|| replica.database.answer(word)).flatten()
    }

    /// Has the leader be told something by a connection, which awaits the outcome.
    fn ask(
        &mut self,
        server: usize,
        connection: ConnectionId,
        message: &[u8],
        question: impl FnOnce(Origin) -> Message,
    ) {
        self.tickets += 1;
        let ticket = self.tickets;
        let Some(asking) = self.connection(server, connection) else { return };
        asking.pending.push_back(Pending { ticket: Some(ticket), message: message.into() });
        self.send_to_leader(server, question(Origin { server, connection, ticket }));
    }

    /// Returns the request that an outcome is for, unless the connection has ended.
    fn take_awaited(&mut self, origin: Origin) -> Option<Vec<u8>> {
        let pending = &mut self.connection(origin.server, origin.connection)?.pending;
        if pending.front()?.ticket != Some(origin.ticket) {
            return None;
        }
        pending.pop_front().map(|request| request.message)
    }

    fn connect(&mut self, server: usize, id: ConnectionId, message: &[u8]) {
        let Ok(connect) = Connect::decode(message) else { return self.disconnect(server, id) };
        let Some(connection) = self.connection(server, id) else { return };
        connection.tells_read_only = connect.tells_read_only;
        let database = &mut self.replicas[server].database;
        if connect.last_zxid > database.zxid {
            // The client knows of what has not happened here.
            return self.disconnect(server, id);
        }
        let session = connect.session;
        let timeout = database.settings.timeout(&connect);
        if session == 0 || database.settings.forgets_sessions {
            let session = database.sessions.next_id();
            let action = Action::OpenSession(timeout);
            return self.ask(server, id, message, |origin| {
                let origin = Some(origin);
                Message::Propose(Proposal { action, session, ids: Default::default(), origin })
            });
        }
        // Like ZooKeeper, first closes the connection that the session has here.
        if let Some(old) = database.sessions.get_mut(session).and_then(|session| session.connection) {
            self.disconnect(server, old);
        }
        if connect.password == password(session) {
            self.ask(server, id, message, |origin| Message::Resume { origin, session, timeout });
        } else {
            self.connected(server, id, None, timeout);
        }
    }

    /// Attaches a client to its session, or refuses it.
    fn connected(&mut self, server: usize, id: ConnectionId, session: Option<i64>, timeout: Duration) {
        self.replicas[server].database.attach(id, session, timeout);
        let Some(session) = session else { return self.disconnect(server, id) };
        let Some(connection) = self.connection(server, id) else { return };
        for Pending { message, .. } in std::mem::take(&mut connection.pending) {
            self.request(server, id, session, &message);
        }
    }

    /// The leader has looked for a session that a client continues.
    pub(super) fn resumed(&mut self, origin: Origin, session: i64, timeout: Duration, is_known: bool) {
        let (server, now) = (origin.server, self.now);
        let Some(_) = self.take_awaited(origin) else { return };
        let sessions = &mut self.replicas[server].database.sessions;
        let is_known = is_known && sessions.set_timeout(session, timeout, now);
        let old = sessions.get_mut(session).and_then(|session| session.connection);
        if let Some(old) = old.filter(|_| is_known) {
            self.disconnect(server, old);
        }
        self.connected(server, origin.connection, is_known.then_some(session), timeout);
    }

    fn request(&mut self, server: usize, id: ConnectionId, session: i64, message: &[u8]) {
        let mut reader = Reader::new(message);
        let (Ok(_xid), Ok(operation)) = (reader.i32(), reader.i32()) else {
            return self.disconnect(server, id);
        };
        let replica = &mut self.replicas[server];
        if !replica.database.settings.version.knows(operation) {
            // The refusal overtakes the replies to requests that are being done. Those do not come, since the server hangs up.
            return self.serve(server, id, message);
        }
        match replica.role {
            Role::Following { .. } => drop(replica.touched.insert(session)),
            _ => drop(replica.database.sessions.touch(session, self.now)),
        }
        let action = match operation {
            opcode::CLOSE_SESSION => Some(Action::CloseSession),
            // What cannot be decoded takes its number before that is found.
            opcode::MULTI => Some(match multi::read(&mut reader, Write::decode_of_several) {
                Ok(writes) => Action::Multi(writes),
                Err(malformed) => Action::Write(Write::Refused(malformed.into())),
            }),
            _ if opcode::is_update(operation) => {
                Write::decode(operation, &mut reader).ok().map(Action::Write)
            }
            _ => None,
        };
        let Some(connection) = replica.database.connections.get_mut(&id) else { return };
        if let Some(action) = action {
            let ids = connection.ids.clone();
            self.ask(server, id, message, |origin| {
                Message::Propose(Proposal { action, session, ids, origin: Some(origin) })
            });
        } else if operation == opcode::SYNC {
            self.ask(server, id, message, Message::Sync);
        } else if connection.pending.is_empty() || operation == opcode::AUTH {
            // As in ZooKeeper, requests are made as the users that the client is when they arrive.
            self.serve(server, id, message);
        } else {
            connection.postpone(message);
        }
    }

    /// Answers a request from what the server knows.
    fn serve(&mut self, server: usize, id: ConnectionId, message: &[u8]) {
        let database = &mut self.replicas[server].database;
        if let Some(session) = database.connections.get(&id).and_then(|connection| connection.session) {
            database.serve(id, session, message, self.now);
        }
    }

    /// A proposal of a connection is committed, and the server has applied it.
    pub(super) fn answer(&mut self, origin: Origin, proposal: &Proposal, outcome: Result<Writer, Code>) {
        let Origin { server, connection, .. } = origin;
        let Some(message) = self.take_awaited(origin) else { return };
        if let Action::OpenSession(timeout) = proposal.action {
            return self.connected(server, connection, Some(proposal.session), timeout);
        }
        let database = &mut self.replicas[server].database;
        let is_expired = matches!(outcome, Err(Code::SessionExpired));
        let is_create = matches!(proposal.action, Action::Write(Write::Create(_)));
        let is_omitted = is_create && std::mem::take(&mut database.omits_reply);
        if !is_expired
            && !is_omitted
            && let Ok(xid) = Reader::new(&message).i32()
        {
            database.reply(connection, xid, database.zxid, outcome);
        }
        if is_expired || matches!(proposal.action, Action::CloseSession) {
            return self.disconnect(server, connection);
        }
        self.serve_waiting(server, connection);
    }

    /// A sync has come back.
    pub(super) fn synced(&mut self, origin: Origin) {
        let Some(message) = self.take_awaited(origin) else { return };
        self.serve(origin.server, origin.connection, &message);
        self.serve_waiting(origin.server, origin.connection);
    }

    /// Answers the requests that have waited for one before them.
    fn serve_waiting(&mut self, server: usize, id: ConnectionId) {
        while let Some(Connection { pending, .. }) = self.connection(server, id)
            && pending.front().is_some_and(|request| request.ticket.is_none())
            && let Some(Pending { message, .. }) = pending.pop_front()
        {
            self.serve(server, id, &message);
        }
    }
}
