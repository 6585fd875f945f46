//! How servers find a leader.

use super::log::{Action, Entry, Proposal};
use super::network::Message;
use super::replica::{Follower, Leading, Role};
use super::state::{State, Task, draw};

impl State {
    /// Leaves the leader or the followers, and begins to look for a leader. Clients are sent away.
    pub(super) fn look(&mut self, server: usize) {
        self.terms += 1;
        let term = self.terms;
        let replica = &mut self.replicas[server];
        replica.database.cut_all();
        replica.touched.clear();
        replica.database.mode = "looking";
        match std::mem::replace(&mut replica.role, Role::Looking { term, is_ready: false }) {
            Role::Looking { .. } => {}
            Role::Following { leader, link, .. } => self.send(server, leader, link, Message::Bye),
            Role::Leading(leading) => {
                for (follower, Follower { link, .. }) in leading.followers {
                    self.send(server, follower, link, Message::Bye);
                }
            }
        }
        self.look_again(server, term);
    }

    fn look_again(&mut self, server: usize, term: u64) {
        let time = draw(&mut self.random, &self.behaviour.election_time);
        self.agenda.add(self.now + time, Task::Elect { server, term });
    }

    /// Joins a leader, or elects one with others that look for one, or looks again later.
    pub(super) fn vote(&mut self, server: usize, current: u64) {
        let replica = &mut self.replicas[server];
        match &mut replica.role {
            Role::Looking { term, is_ready } if *term == current => *is_ready = true,
            _ => return,
        }
        if replica.is_running {
            if !replica.is_paused {
                self.find_leader(server);
            }
            if matches!(self.replicas[server].role, Role::Looking { .. }) {
                self.look_again(server, current);
            }
        }
    }

    fn find_leader(&mut self, server: usize) {
        if let Some(leader) = self.leader_for(server) {
            self.join(server, leader);
            return self.commit(leader);
        }
        let voters: Vec<_> = (0..self.replicas.len())
            .filter(|other| {
                let replica = &self.replicas[*other];
                let is_looking = matches!(replica.role, Role::Looking { is_ready: true, .. });
                replica.is_active() && is_looking && self.network.connects(server, *other)
            })
            .collect();
        // The one that has logged the most has logged all that is committed, if it has logged as much as a quorum.
        let rank = |server: usize| (self.replicas[server].log.last(), server);
        let supporters = |candidate: usize| -> Vec<_> {
            let supports =
                |voter: &usize| self.network.connects(candidate, *voter) && rank(*voter) <= rank(candidate);
            voters.iter().copied().filter(supports).collect()
        };
        let candidates =
            voters.iter().map(|candidate| (rank(*candidate), *candidate, supporters(*candidate)));
        let elected = candidates.filter(|(_, _, supporters)| supporters.len() >= self.quorum()).max();
        if let Some((_, leader, supporters)) = elected {
            self.elect(leader, &supporters);
        }
    }

    /// Returns a leader that has a quorum with this server.
    fn leader_for(&self, server: usize) -> Option<usize> {
        let leads = |leader: &usize| {
            let replica = &self.replicas[*leader];
            let Role::Leading(leading) = &replica.role else { return false };
            replica.is_active()
                && self.network.connects(server, *leader)
                && replica.epoch >= self.replicas[server].epoch
                && leading.followers.len() + 2 >= self.quorum()
        };
        (0..self.replicas.len()).filter(leads).max_by_key(|leader| self.replicas[*leader].epoch)
    }

    /// Makes a server the leader of others. What it has logged is committed.
    pub(super) fn elect(&mut self, leader: usize, supporters: &[usize]) {
        let epochs = supporters.iter().map(|server| self.replicas[*server].epoch);
        let epoch = epochs.max().unwrap_or(0) + 1;
        let now = self.now;
        let committed = self.replicas[leader].database.zxid;
        let replica = &mut self.replicas[leader];
        replica.epoch = epoch;
        replica.role = Role::Leading(Leading { committed, ..Leading::default() });
        replica.database.mode = "leader";
        // Each session has its whole time again.
        replica.database.sessions.renew(now);
        let proposal = Proposal::of_leader(Action::Lead, 0);
        let entry = Entry { zxid: epoch << 32, time: self.date(leader), proposal };
        self.replicas[leader].log.push(entry.into());
        for server in supporters.iter().filter(|server| **server != leader) {
            self.join(*server, leader);
        }
        self.commit(leader);
    }

    /// Makes a server a follower that has logged all that its leader has.
    fn join(&mut self, server: usize, leader: usize) {
        self.catch_up(server, leader);
        let link = self.network.link(server, leader);
        let heard = self.now;
        let follower = Follower { link, logged: self.replicas[leader].log.last(), heard };
        if let Role::Leading(leading) = &mut self.replicas[leader].role {
            leading.followers.insert(server, follower);
        }
        let replica = &mut self.replicas[server];
        replica.role = Role::Following { leader, link, heard };
        replica.database.mode = "follower";
    }
}
