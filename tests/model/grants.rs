//! Whether a grant was right.

use super::client::Message;
use super::driver::{Ground, Shown};
use super::world::World;
use super::zookeeper::{ClientId, Path, conflict};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    /// Somebody was granted before another who came earlier.
    Unfair,
    /// Somebody was granted who had, or could have, heard that its node is gone, or never would have.
    WithoutNode,
    /// Somebody was granted by a session that is known to be over.
    OldSession,
    /// A watch that had been heard was waited for again.
    Spin,
}

impl World {
    /// Looks at what a step of a task has shown.
    ///
    /// A grant is fair if nobody is before the one granted who excludes it, be it that it waits or that it holds. Who has
    /// released or given up does not count, though its node is still there.
    pub(crate) fn judge(&mut self, client: ClientId, task: usize, shown: Shown) {
        if shown.spins {
            self.breach = Some(Breach::Spin);
        }
        // Whoever holds in an expired session is told by its validity.
        let Some(ground) = shown.granted.filter(|_| !self.clients[client].has_expired) else { return };
        if self.clients[client].tasks[task].epoch < self.clients[client].epoch {
            self.breach = Some(Breach::OldSession);
            return;
        }
        let node = self.clients[client].tasks[task].node.as_ref();
        let name = node.and_then(|node| node.name.clone()).expect("it holds by a node");
        let Some(own) = self.server.child(&name) else {
            if self.can_be_taken_in(client, &name, ground) {
                self.clients[client].tasks[task].is_robbed = true;
            } else {
                self.breach = Some(Breach::WithoutNode);
            }
            return;
        };
        let is_unfair = self.server.children.iter().any(|before| {
            before.place < own.place && conflict(before.kind, own.kind) && self.is_claimed(before)
        });
        if is_unfair {
            self.breach = Some(Breach::Unfair);
        }
    }

    /// Whether a task cannot be blamed for a grant by a node that an operator has deleted.
    ///
    /// It goes by an answer that was given while the node was there, as a holder whose node is deleted at that moment
    /// does. Or the event that tells of the node's end is on its way to the client and has not arrived. Who has heard it,
    /// or never will, is to blame.
    fn can_be_taken_in(&self, client: ClientId, name: &str, ground: Ground) -> bool {
        let client = &self.clients[client];
        let tells = |path: &Path| *path == Path::Child(name.to_owned());
        let is_announced = |message: &Message| matches!(message, Message::Event { path, .. } if tells(path));
        match ground {
            Ground::Create | Ground::List => true,
            // Behind that of the blocker, which has arrived.
            Ground::BlockerGone => client.inbox.iter().any(is_announced),
            Ground::Line => {
                client.missed.iter().any(|(path, _)| tells(path)) || client.inbox.iter().any(is_announced)
            }
        }
    }
}
