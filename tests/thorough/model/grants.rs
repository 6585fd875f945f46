//! Whether a grant was right.

use super::client::Message;
use super::driver::{Ground, Shown};
use super::queue::name::Kind;
use super::task::Node;
use super::world::World;
use super::zookeeper::{ClientId, Owner, Path, conflict};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    /// Somebody was granted before another who came earlier.
    Unfair,
    /// Somebody was granted who had, or could have, heard that its node is gone, or never would have.
    WithoutNode,
    /// Somebody was granted by a session that is known to be over.
    OldSession,
    /// What somebody had sent was done while somebody else held.
    LateWrite,
    /// Somebody was granted by a node that lingered, before another who came earlier; or by one that was handed on, more
    /// often than a cohort may.
    Passed,
    /// Somebody was granted by a node whose time to linger was over, or that was asked for.
    Overdue,
    /// A watch that had been heard was waited for again.
    Spin,
    /// Somebody was turned away though no other recipe is before it, or one that its own recipe keeps away.
    TurnedAway,
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
        if matches!(shown.granted, Some(Ground::Lingering | Ground::HandedOn)) {
            self.judge_lingering(client, task, shown);
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
            if !shown.has_left && self.can_be_taken_in(client, &name, ground) {
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

    /// Looks at a grant by a node that has lingered.
    ///
    /// It is fair unless it passes somebody of whom the client has heard or will never hear; or does that more often than
    /// a cohort may.
    fn judge_lingering(&mut self, id: ClientId, task: usize, shown: Shown) {
        let client = &self.clients[id];
        let name = client.tasks[task].node.as_ref().and_then(|node| node.name.clone()).expect("it holds");
        let tells = |message: &Message| matches!(message, Message::Event { path: Path::Children, .. });
        let will_hear = self.server.watches.contains(&(id, Path::Children)) || client.inbox.iter().any(tells);
        let others = self.server.children.iter().filter(|other| other.name != name && self.is_claimed(other));
        let first = others.min_by_key(|other| other.place).map(|other| other.name.clone());
        let passed = first.filter(|_| shown.passes || !will_hear);
        let passes_too_often = if shown.granted == Some(Ground::HandedOn) {
            let most = client.cohort;
            let lingering = self.clients[id].lingering.as_mut().expect("it holds by it");
            passed.is_some_and(|passed| lingering.passes(passed) > most)
        } else {
            shown.passes || passed.is_some()
        };
        let breach = if self.clients[id].has_expired {
            Some(Breach::OldSession)
        } else if passes_too_often {
            Some(Breach::Passed)
        } else {
            shown.is_late.then_some(Breach::Overdue)
        };
        self.breach = self.breach.or(breach);
        self.server.hand_over(&name, Owner::Task { client: id, task });
    }

    /// Looks at a refusal of a contender that had a node of this id.
    ///
    /// Who was before the intruder when the contender listed the queue may have gone since; nobody can have come.
    pub(crate) fn judge_refusal(&mut self, node: Option<String>) {
        let is_foreign = |kind: Kind| matches!(kind, Kind::Foreign(_));
        let children = &self.server.children;
        let is_right = match node.and_then(|id| self.server.find(&id)) {
            Some(own) if children.iter().any(|child| is_foreign(child.kind)) => {
                children.iter().any(|intruder| {
                    is_foreign(intruder.kind)
                        && intruder.place < own.place
                        && !children.iter().any(|before| {
                            !is_foreign(before.kind)
                                && before.place < intruder.place
                                && conflict(before.kind, own.kind)
                        })
                })
            }
            _ => self.foreigners.iter().any(|foreigner| is_foreign(foreigner.kind) && foreigner.has_come),
        };
        if !is_right {
            self.breach = Some(Breach::TurnedAway);
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
        // Its server does not know yet.
        if client.lag.is_yet_to_delete(name) {
            return true;
        }
        match ground {
            Ground::List | Ground::NewParent => true,
            Ground::Lingering => client
                .inbox
                .iter()
                .any(|message| matches!(message, Message::Event { path: Path::Children, .. })),
            // Others may have come, so that the queue is not watched any more.
            Ground::HandedOn => client.inbox.iter().any(is_announced),
            // With the parent, it is gone for whoever has heard that.
            Ground::Create => {
                let is_of_the_parent = |node: &Node| {
                    node.name.as_deref() == Some(name) && node.under == Some(self.server.parents)
                };
                client.tasks.iter().any(|task| task.node.as_ref().is_some_and(is_of_the_parent))
                    || client.missed.iter().any(|(path, _)| *path == Path::Parent)
                    || client.inbox.iter().any(
                        |message| matches!(message, Message::Event { path, .. } if *path == Path::Parent),
                    )
            }
            // Behind that of the blocker, which has arrived.
            Ground::BlockerGone => client.inbox.iter().any(is_announced),
            Ground::LocalQueue => {
                client.missed.iter().any(|(path, _)| tells(path)) || client.inbox.iter().any(is_announced)
            }
        }
    }
}
