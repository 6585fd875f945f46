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
use crate::testing::memory::connections::{ConnectionId, Wire};
use crate::testing::memory::database::Fate;
use crate::testing::memory::opcode;
use crate::testing::memory::request::{self, Connect, Update, Write};

/// A request that is not answered.
#[derive(Debug)]
pub(super) enum Queued {
    /// The leader has been told.
    Awaited { ticket: u64, message: Vec<u8> },
    /// It is done when those before it are answered.
    Waiting(Vec<u8>),
}

impl State {
    pub(super) fn accept(&mut self, server: usize, peer: SocketAddr) -> Option<Wire> {
        self.is_open(server).then(|| self.replicas[server].database.accept(peer))
    }

    pub(super) fn disconnect(&mut self, server: usize, id: ConnectionId) {
        let replica = &mut self.replicas[server];
        replica.pipelines.remove(&id);
        replica.database.disconnect(id);
    }

    pub(super) fn receive(&mut self, server: usize, id: ConnectionId, message: &[u8]) -> Fate {
        let replica = &mut self.replicas[server];
        let Some(session) = replica.database.received_from(id) else { return Fate::Close };
        let queue = replica.pipelines.entry(id).or_default();
        match session {
            Some(session) => self.request(server, id, session, message),
            None if queue.is_empty() => self.connect(server, id, message),
            None => {
                queue.push_back(Queued::Waiting(message.into()));
                Fate::Keep
            }
        }
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
        let queue = self.replicas[server].pipelines.entry(connection).or_default();
        queue.push_back(Queued::Awaited { ticket, message: message.into() });
        self.send_to_leader(server, question(Origin { server, connection, ticket }));
    }

    /// Returns the request that an outcome is for, unless the connection has ended.
    fn take_awaited(&mut self, origin: Origin) -> Option<Vec<u8>> {
        let queue = self.replicas[origin.server].pipelines.get_mut(&origin.connection)?;
        match queue.front()? {
            Queued::Awaited { ticket, .. } if *ticket == origin.ticket => {}
            _ => return None,
        }
        match queue.pop_front()? {
            Queued::Awaited { message, .. } | Queued::Waiting(message) => Some(message),
        }
    }

    fn connect(&mut self, server: usize, id: ConnectionId, message: &[u8]) -> Fate {
        let database = &mut self.replicas[server].database;
        let Ok(connect) = Connect::decode(message) else { return Fate::Close };
        if connect.last_zxid > database.zxid {
            // The client knows of what has not happened here.
            return Fate::Close;
        }
        let session = connect.session;
        let timeout = database.settings.timeout(&connect);
        if session == 0 || database.settings.forgets_sessions {
            let session = database.sessions.next_id();
            let action = Action::OpenSession(timeout);
            self.ask(server, id, message, |origin| {
                let origin = Some(origin);
                Message::Propose(Proposal { action, session, ids: Default::default(), origin })
            });
            return Fate::Keep;
        }
        // Like ZooKeeper, first closes the connection that the session has here.
        if let Some(old) = database.sessions.get_mut(session).and_then(|session| session.connection) {
            self.disconnect(server, old);
        }
        if connect.password != password(session) {
            self.connected(server, id, message, None, timeout);
            return Fate::Close;
        }
        self.ask(server, id, message, |origin| Message::Resume { origin, session, timeout });
        Fate::Keep
    }

    /// Attaches a client to its session, or refuses it.
    fn connected(
        &mut self,
        server: usize,
        id: ConnectionId,
        message: &[u8],
        session: Option<i64>,
        timeout: Duration,
    ) {
        let replica = &mut self.replicas[server];
        let Ok(connect) = Connect::decode(message) else { return };
        replica.database.attach(id, session, timeout, &connect);
        let Some(session) = session else { return self.disconnect(server, id) };
        for queued in replica.pipelines.remove(&id).unwrap_or_default() {
            if let Queued::Waiting(message) = queued
                && self.request(server, id, session, &message) == Fate::Close
            {
                return self.disconnect(server, id);
            }
        }
    }

    /// The leader has looked for a session that a client continues.
    pub(super) fn resumed(&mut self, origin: Origin, session: i64, timeout: Duration, is_known: bool) {
        let (server, now) = (origin.server, self.now);
        let Some(message) = self.take_awaited(origin) else { return };
        let sessions = &mut self.replicas[server].database.sessions;
        let is_known = is_known && sessions.set_timeout(session, timeout, now);
        let old = sessions.get_mut(session).and_then(|session| session.connection);
        if let Some(old) = old.filter(|_| is_known) {
            self.disconnect(server, old);
        }
        self.connected(server, origin.connection, &message, is_known.then_some(session), timeout);
    }

    fn request(&mut self, server: usize, id: ConnectionId, session: i64, message: &[u8]) -> Fate {
        let mut header = Reader::new(message);
        let (Ok(_xid), Ok(operation)) = (header.i32(), header.i32()) else { return Fate::Close };
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
            _ if opcode::is_update(operation) => {
                request::update(operation, &message[8..]).ok().map(Action::Update)
            }
            _ => None,
        };
        if let Some(action) = action {
            let ids = replica.database.connections.get(&id).map(|connection| connection.ids.clone());
            let ids = ids.unwrap_or_default();
            self.ask(server, id, message, |origin| {
                Message::Propose(Proposal { action, session, ids, origin: Some(origin) })
            });
            return Fate::Keep;
        }
        if operation == opcode::SYNC {
            self.ask(server, id, message, Message::Sync);
            return Fate::Keep;
        }
        match replica.pipelines.get_mut(&id) {
            // As in ZooKeeper, requests are made as the users that the client is when they arrive.
            Some(queue) if !queue.is_empty() && operation != opcode::AUTH => {
                queue.push_back(Queued::Waiting(message.into()));
                Fate::Keep
            }
            _ => self.serve(server, id, message),
        }
    }

    /// Answers a request from what the server knows.
    fn serve(&mut self, server: usize, id: ConnectionId, message: &[u8]) -> Fate {
        let database = &mut self.replicas[server].database;
        match database.connections.get(&id).and_then(|connection| connection.session) {
            Some(session) => database.serve(id, session, message, self.now),
            None => Fate::Close,
        }
    }

    /// A proposal of a connection is committed, and the server has applied it.
    pub(super) fn answer(&mut self, origin: Origin, proposal: &Proposal, outcome: Result<Writer, Code>) {
        let Origin { server, connection, .. } = origin;
        let Some(message) = self.take_awaited(origin) else { return };
        if let Action::OpenSession(timeout) = proposal.action {
            return self.connected(server, connection, &message, Some(proposal.session), timeout);
        }
        let database = &mut self.replicas[server].database;
        let is_expired = matches!(outcome, Err(Code::SessionExpired));
        let is_create = matches!(proposal.action, Action::Update(Update::Write(Write::Create { .. })));
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
        if self.serve(origin.server, origin.connection, &message) == Fate::Close {
            return self.disconnect(origin.server, origin.connection);
        }
        self.serve_waiting(origin.server, origin.connection);
    }

    /// Answers the requests that have waited for one before them.
    fn serve_waiting(&mut self, server: usize, id: ConnectionId) {
        while let Some(queue) = self.replicas[server].pipelines.get_mut(&id)
            && let Some(Queued::Waiting(_)) = queue.front()
            && let Some(Queued::Waiting(message)) = queue.pop_front()
        {
            if self.serve(server, id, &message) == Fate::Close {
                return self.disconnect(server, id);
            }
        }
    }
}
