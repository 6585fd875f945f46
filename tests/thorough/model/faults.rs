//! What goes wrong.

use std::collections::BTreeSet;

use super::client::{Message, What};
use super::driver::Shown;
use super::steps::can_be_late;
use super::world::World;
use super::zookeeper::{Change, Child, ClientId, Owner, Path};

impl World {
    pub(crate) fn expire(&mut self, id: ClientId) {
        self.faults.expire -= 1;
        let client = &mut *self.clients[id];
        client.has_expired = true;
        client.requests.clear();
        client.late.clear();
        client.refused.clear();
        self.server.watches.retain(|(watching, _)| *watching != id);
        let fired =
            self.server.delete_all(|child| matches!(child.owner, Owner::Task { client, .. } if client == id));
        self.announce(fired);
    }

    pub(crate) fn reconnect(&mut self, id: ClientId, late: bool) {
        self.faults.reconnect -= 1;
        let client = &mut *self.clients[id];
        if late {
            self.faults.late -= 1;
            let writes = client.requests.iter().filter(|request| can_be_late(request));
            client.late.extend(writes.cloned());
        }
        let unheard: BTreeSet<Path> = client
            .inbox
            .iter()
            .filter_map(|message| match message {
                Message::Event { path, .. } => Some(path.clone()),
                Message::Answer { .. } | Message::Committed { .. } | Message::Gone { .. } => None,
            })
            .chain(client.missed.iter().map(|(path, _)| path.clone()))
            .collect();
        let watched = client.reconnect();
        let (fired, kept): (Vec<Path>, Vec<Path>) = watched
            .into_iter()
            .partition(|path| unheard.contains(path) || !self.server.watches.contains(&(id, path.clone())));
        self.server.watches.retain(|(watching, _)| *watching != id);
        self.server.watches.extend(kept.into_iter().map(|path| (id, path)));
        let server = &self.server;
        client.missed = fired
            .into_iter()
            .map(|path| {
                let change = if server.exists(&path) { Change::Data } else { Change::Deleted };
                (path, change)
            })
            .collect();
    }

    /// The server does nothing about a delete that is part of a transaction. The local queue may have gone on.
    pub(crate) fn refuse(&mut self, id: ClientId) {
        self.faults.refuse -= 1;
        let client = &mut *self.clients[id];
        let request = client.requests.pop_front().expect("it is a delete");
        client.refused.push(request);
    }

    /// The client hears that a delete was refused, and deletes the node by itself.
    pub(crate) fn delete_again(&mut self, id: ClientId) {
        let client = &mut *self.clients[id];
        client.requests.extend(client.refused.pop());
    }

    /// A server that the client has left does a create.
    pub(crate) fn serve_late(&mut self, client: ClientId, index: usize) {
        let request = self.clients[client].late.remove(index);
        self.serve(client, &request, &mut Shown::default());
        let id = match request.what {
            What::Create { id } | What::CreateWithParent { id } | What::CreateReader { name: id, .. } => id,
            _ => return,
        };
        let is_wanted = self.clients[client].tasks[request.task].claims(&id);
        // The janitor looks again when that is over.
        if !is_wanted {
            self.clients[client].send(request.task, 0, What::Sweep { id });
        }
    }

    /// Somebody deletes the parent with all that is in it.
    pub(crate) fn wipe(&mut self) {
        self.faults.wipe -= 1;
        for child in self.server.list() {
            self.take_away(&child);
        }
        let fired = self.server.reap();
        self.announce(fired);
    }

    pub(crate) fn rob(&mut self, name: &str) {
        self.faults.rob -= 1;
        self.take_away(name);
    }

    fn take_away(&mut self, name: &str) {
        if let Some(&Child { owner: Owner::Task { client, task }, .. }) = self.server.child(name) {
            let task = &mut self.clients[client].tasks[task];
            task.is_robbed |= task.holds().is_some();
        }
        let fired = self.server.delete(name);
        self.announce(fired);
    }
}
