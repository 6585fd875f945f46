//! One server of an ensemble.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::log::{Action, Entry, KEPT, Log, Origin, Proposal};
use super::state::State;
use crate::testing::jute::Writer;
use crate::testing::memory::acl;
use crate::testing::memory::code::Code;
use crate::testing::memory::database::Database;
use crate::testing::memory::tree::{Requester, Stamp};

#[derive(Debug)]
pub(super) enum Role {
    Looking {
        /// Distinguishes the times at which the server was looking for a leader.
        term: u64,
        /// Whether it has looked for long enough to vote.
        is_ready: bool,
    },
    Following {
        leader: usize,
        link: u64,
        /// When it last heard of the leader.
        heard: Duration,
    },
    Leading(Leading),
}

#[derive(Debug, Default)]
pub(super) struct Leading {
    pub(super) followers: BTreeMap<usize, Follower>,
    pub(super) committed: i64,
    /// Syncs that wait until an entry is committed.
    pub(super) syncs: VecDeque<(i64, Origin)>,
    /// The servers that sessions are connected to.
    pub(super) owners: BTreeMap<i64, usize>,
    /// Sessions that have expired.
    pub(super) expired: BTreeSet<i64>,
}

#[derive(Debug)]
pub(super) struct Follower {
    pub(super) link: u64,
    pub(super) logged: i64,
    pub(super) heard: Duration,
}

#[derive(Debug)]
pub(in super::super) struct Replica {
    /// What is committed, as far as the server knows.
    pub(in super::super) database: Database,
    pub(super) log: Log,
    /// The last epoch whose leader it has followed.
    pub(super) epoch: i64,
    pub(super) role: Role,
    pub(super) is_running: bool,
    pub(in super::super) is_paused: bool,
    /// Whether it would have looked at its clock, had it not been paused.
    pub(super) is_overdue: bool,
    /// How much later it hears of commits.
    pub(super) lag: Duration,
    /// By how much its wall clock is ahead.
    pub(super) ahead: Duration,
    /// The sessions that it has heard of since it last told the leader.
    pub(super) touched: BTreeSet<i64>,
}

impl Replica {
    pub(super) fn new(database: Database) -> Self {
        Self {
            database,
            log: Log::default(),
            epoch: 0,
            role: Role::Leading(Leading::default()),
            is_running: true,
            is_paused: false,
            is_overdue: false,
            lag: Duration::ZERO,
            ahead: Duration::ZERO,
            touched: BTreeSet::new(),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.is_running && !self.is_paused
    }
}

impl State {
    /// Makes the logged entries up to one, which are committed.
    pub(super) fn make(&mut self, server: usize, zxid: i64) {
        loop {
            let replica = &self.replicas[server];
            let next = replica.log.after(replica.database.zxid).filter(|entry| entry.zxid <= zxid);
            let Some(entry) = next.cloned() else { break };
            self.apply(server, &entry);
        }
        let kept = if self.is_standalone() { 0 } else { KEPT };
        self.replicas[server].log.compact(zxid, kept);
    }

    fn apply(&mut self, server: usize, Entry { zxid, time, proposal }: &Entry) {
        let Proposal { action, session, ids, origin } = proposal;
        let (zxid, session) = (*zxid, *session);
        let now = self.now;
        let database = &mut self.replicas[server].database;
        database.zxid = zxid;
        let stamp = Stamp { zxid, time: *time };
        let requester = Requester { session, ids };
        let mut ended = None;
        let is_expired = session != 0 && !database.sessions.contains(session);
        let mut outcome = Ok(Writer::new());
        match action {
            Action::Write(_) | Action::Multi(_) if is_expired => outcome = Err(Code::SessionExpired),
            Action::Write(write) => outcome = database.write(stamp, requester, write.clone()),
            Action::Multi(writes) => outcome = Ok(database.write_all(stamp, requester, writes.clone())),
            Action::Lead => {}
            Action::OpenSession(timeout) => database.sessions.add(session, *timeout, now),
            Action::CloseSession => ended = database.remove_session(session, zxid),
            Action::DeleteAll(path) => database.delete_all(stamp, requester, path),
            Action::RemoveOverdue(path) => database.reap(path, stamp),
        }
        self.note(server, acl::is_operator(ids));
        if let Some(origin) = origin
            && origin.server == server
        {
            self.answer(*origin, proposal, outcome);
        }
        if let Some(connection) = ended {
            self.disconnect(server, connection);
        }
    }

    /// Takes over the log of the leader, and what it has committed.
    pub(super) fn catch_up(&mut self, server: usize, leader: usize) {
        let source = &self.replicas[leader];
        let (log, epoch) = (source.log.clone(), source.epoch);
        let Role::Leading(Leading { committed, .. }) = source.role else { return };
        if !log.continues(self.replicas[server].database.zxid)
            && let Ok([replica, source]) = self.replicas.get_disjoint_mut([server, leader])
        {
            replica.database.restore(&source.database);
        }
        let replica = &mut self.replicas[server];
        (replica.log, replica.epoch) = (log, epoch);
        self.make(server, committed);
    }
}
