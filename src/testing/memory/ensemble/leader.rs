//! What a leader does.

use std::sync::Arc;

use super::log::{Action, Entry, Origin, Proposal};
use super::network::Message;
use super::replica::{Leading, Role};
use super::state::State;

impl State {
    pub(super) fn quorum(&self) -> usize {
        self.replicas.len() / 2 + 1
    }

    fn leading(&mut self, server: usize) -> Option<&mut Leading> {
        match &mut self.replicas[server].role {
            Role::Leading(leading) => Some(leading),
            _ => None,
        }
    }

    /// Does what a server asks for, which may be the leader itself.
    pub(super) fn lead(&mut self, leader: usize, from: usize, message: Message) {
        let now = self.now;
        match message {
            Message::Propose(proposal) => self.propose(leader, proposal),
            Message::Logged(zxid) => {
                let follower = self.leading(leader).and_then(|leading| leading.followers.get_mut(&from));
                if let Some(follower) = follower {
                    follower.logged = zxid;
                }
                self.commit(leader);
            }
            Message::Sync(origin) => {
                let last = self.replicas[leader].log.last();
                let Some(leading) = self.leading(leader) else { return };
                if leading.committed >= last {
                    self.tell_origin(leader, origin, Message::Synced(origin));
                } else {
                    leading.syncs.push_back((last, origin));
                }
            }
            Message::Resume { origin, session, timeout } => {
                let Some(leading) = self.leading(leader) else { return };
                let has_time = !leading.expired.contains(&session);
                let is_known =
                    has_time && self.replicas[leader].database.sessions.set_timeout(session, timeout, now);
                if is_known && let Some(leading) = self.leading(leader) {
                    leading.owners.insert(session, origin.server);
                }
                self.tell_origin(leader, origin, Message::Resumed { origin, session, timeout, is_known });
            }
            Message::Alive(sessions) => {
                for session in sessions {
                    self.replicas[leader].database.sessions.touch(session, now);
                }
            }
            Message::Bye => {
                if let Some(leading) = self.leading(leader) {
                    leading.followers.remove(&from);
                }
            }
            _ => {}
        }
    }

    /// Sends something to the server that has the connection of an origin.
    fn tell_origin(&mut self, leader: usize, origin: Origin, message: Message) {
        if origin.server == leader {
            return self.follow(leader, message);
        }
        let follower = self.leading(leader).and_then(|leading| leading.followers.get(&origin.server));
        if let Some(link) = follower.map(|follower| follower.link) {
            self.send(leader, origin.server, link, message);
        }
    }

    fn tell_all(&mut self, leader: usize, message: impl Fn() -> Message) {
        let Some(leading) = self.leading(leader) else { return };
        let followers: Vec<_> =
            leading.followers.iter().map(|(server, follower)| (*server, follower.link)).collect();
        for (server, link) in followers {
            self.send(leader, server, link, message());
        }
    }

    /// Logs something, and has the followers log it. A single server commits it at once.
    pub(super) fn propose(&mut self, leader: usize, proposal: Proposal) {
        let Some(leading) = self.leading(leader) else { return };
        if let Some(origin) = proposal.origin {
            // What a client sent before it moved to another server may arrive after that.
            let owner = *leading.owners.entry(proposal.session).or_insert(origin.server);
            if owner != origin.server {
                return self.tell_origin(leader, origin, Message::Moved(origin));
            }
        }
        if matches!(proposal.action, Action::CloseSession) {
            leading.owners.remove(&proposal.session);
        }
        let time = self.date(leader);
        let log = &mut self.replicas[leader].log;
        let entry = Arc::new(Entry { zxid: log.last() + 1, time, proposal });
        log.push(entry.clone());
        self.tell_all(leader, || Message::Log(entry.clone()));
        self.commit(leader);
    }

    /// Commits the entries that a quorum has logged.
    pub(super) fn commit(&mut self, leader: usize) {
        let (own, quorum) = (self.replicas[leader].log.last(), self.quorum());
        loop {
            let Some(leading) = self.leading(leader) else { return };
            let mut logged: Vec<_> = leading.followers.values().map(|follower| follower.logged).collect();
            logged.push(own);
            logged.sort_unstable_by(|one, other| other.cmp(one));
            let Some(&common) = logged.get(quorum - 1) else { return };
            let committed = leading.committed;
            // One after the other, so that each server hears of commits and syncs in the same order.
            let next = self.replicas[leader].log.after(committed).map(|entry| entry.zxid);
            let Some(next) = next.filter(|next| *next <= common) else { return };
            if let Some(leading) = self.leading(leader) {
                leading.committed = next;
            }
            self.make(leader, next);
            self.tell_all(leader, || Message::Commit(next));
            let synced = |state: &mut Self| {
                let syncs = &mut state.leading(leader)?.syncs;
                let (zxid, origin) = *syncs.front()?;
                (zxid <= next).then(|| syncs.pop_front()).map(|_| origin)
            };
            while let Some(origin) = synced(self) {
                self.tell_origin(leader, origin, Message::Synced(origin));
            }
        }
    }

    /// Gives up silent followers, and leadership without a quorum. Ends sessions whose time is over.
    pub(super) fn tick_as_leader(&mut self, leader: usize) {
        let (now, limit, quorum) = (self.now, self.sync_limit(), self.quorum());
        let Some(leading) = self.leading(leader) else { return };
        leading.followers.retain(|_, follower| now - follower.heard <= limit);
        if leading.followers.len() + 1 < quorum {
            return self.look(leader);
        }
        self.tell_all(leader, || Message::Ping);
        for session in self.replicas[leader].database.sessions.expired(now) {
            let Some(leading) = self.leading(leader) else { return };
            if leading.expired.insert(session) {
                self.propose(leader, Proposal::of_leader(Action::CloseSession, session));
            }
        }
    }

    /// Has the leader propose what an operator does. Returns whether there is a leader.
    pub(super) fn operate(&mut self, action: Action, session: i64) -> bool {
        let Some(leader) = self.leader() else { return false };
        self.propose(leader, Proposal::of_operator(action, session));
        true
    }

    /// Ends a session, as an operator. Returns whether there is a leader.
    pub(in super::super) fn end_session(&mut self, session: i64) -> bool {
        self.operate(Action::CloseSession, session)
    }

    /// Has nodes removed that are overdue.
    pub(super) fn reap(&mut self) {
        let Some(leader) = self.leader() else { return };
        for path in self.replicas[leader].database.tree.overdue(self.date(leader)) {
            self.propose(leader, Proposal::of_leader(Action::RemoveOverdue(path), 0));
        }
    }
}
