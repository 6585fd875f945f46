//! What a follower does.

use super::network::Message;
use super::replica::Role;
use super::state::State;

impl State {
    /// Does what the leader says, which may be the server itself.
    pub(super) fn follow(&mut self, server: usize, message: Message) {
        let replica = &mut self.replicas[server];
        if let Role::Following { heard, .. } = &mut replica.role {
            *heard = self.now;
        }
        match message {
            Message::Log(entry) => {
                let zxid = entry.zxid;
                replica.log.push(entry);
                self.send_to_leader(server, Message::Logged(zxid));
            }
            Message::Commit(zxid) => self.make(server, zxid),
            Message::Synced(origin) => self.synced(origin),
            Message::Resumed { origin, session, timeout, is_known } => {
                self.resumed(origin, session, timeout, is_known);
            }
            Message::Moved(origin) => self.disconnect(server, origin.connection),
            Message::Ping => {
                let touched = std::mem::take(&mut replica.touched).into_iter().collect();
                self.send_to_leader(server, Message::Alive(touched));
            }
            Message::Bye => self.look(server),
            _ => {}
        }
    }

    /// Gives up a silent leader.
    pub(super) fn tick_as_follower(&mut self, server: usize) {
        if let Role::Following { heard, .. } = self.replicas[server].role
            && self.now - heard > self.sync_limit()
        {
            self.look(server);
        }
    }
}
