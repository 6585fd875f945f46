//! What holders do beside holding: they write under their nodes, and lose their locks at the wrong moment.

use super::client::{Client, Message, Request, What};
use super::driver::Shown;
use super::grants::Breach;
use super::queue::name::Kind;
use super::queue::passing::PassOn;
use super::task::{Phase, Task};
use super::world::World;
use super::zookeeper::{ClientId, Owner, conflict};

impl Client {
    /// A holder sends a transaction, and need not wait for what comes of it.
    pub(crate) fn transact(&mut self, task: usize) {
        let node = self.tasks[task].node.as_ref().and_then(|node| node.name.clone()).expect("it holds");
        self.tasks[task].transactions.send();
        self.send(task, 0, What::Commit { node });
    }

    /// Hears what became of a transaction; or never will.
    pub(crate) fn transacted(&mut self, task: usize, node: &str, is_decided: bool) {
        if self.tasks[task].holds_by(node) {
            self.tasks[task].transactions.answered(is_decided);
        }
    }

    /// A writer loses its lock while it becomes a reader. Elsewhere a loss is like a release, for all that others see.
    pub(crate) fn lose(&mut self, task: usize) {
        self.give_back(task);
    }

    /// Deletes the node by which a task holds, and lets those in who wait for it in the local queue: now, or when the node is
    /// known to be gone.
    pub(crate) fn give_back(&mut self, task: usize) {
        let transactions = std::mem::take(&mut self.tasks[task].transactions);
        let node = self.tasks[task].node.take();
        match (transactions.pass_on(), &node, self.tasks[task].rank) {
            (PassOn::WhenGone, Some(super::task::Node { name: Some(name), .. }), Some(rank))
                if !self.is_over(task) =>
            {
                self.tasks[task].rank = None;
                self.send(task, 0, What::DeleteAndTell { name: name.clone(), rank });
            }
            _ => {
                self.leave_line(task);
                if let Some(node) = node {
                    self.remove(task, node);
                }
            }
        }
    }

    /// A reply that comes when nobody waits for it, if the request has one.
    pub(crate) fn message(request: &Request) -> Option<Message> {
        match &request.what {
            What::Commit { node } => Some(Message::Committed { task: request.task, node: node.clone() }),
            What::DeleteAndTell { name, rank } => {
                Some(Message::Gone { task: request.task, name: name.clone(), rank: *rank })
            }
            _ => None,
        }
    }

    /// What is on its way is lost with the connection. The janitor repeats its deletes.
    pub(crate) fn lose_messages(&mut self) {
        let requests: Vec<Request> = self.requests.iter().cloned().collect();
        let unheard = requests
            .iter()
            .filter_map(Self::message)
            .filter(|message| matches!(message, Message::Committed { .. }));
        for message in unheard.chain(self.inbox.clone()).collect::<Vec<_>>() {
            match message {
                Message::Committed { task, node } => self.transacted(task, &node, false),
                Message::Gone { task, name, rank } => self.send(task, 0, What::DeleteAndTell { name, rank }),
                Message::Answer { .. } | Message::Event { .. } => {}
            }
        }
    }
}

impl Task {
    pub(crate) fn holds_by(&self, name: &str) -> bool {
        self.node.as_ref().is_some_and(|node| node.name.as_deref() == Some(name))
    }

    /// Whether it may send something under its node.
    pub(crate) fn can_transact(&self) -> bool {
        let holds = matches!(self.phase, Phase::Holding | Phase::Downgrading(_) | Phase::HoldingBoth);
        holds && self.node.is_some()
    }
}

impl World {
    /// Does what a holder has sent, if its node is there. Whoever holds it then may see that.
    pub(crate) fn commit(&mut self, client: ClientId, task: usize, node: &str, shown: &mut Shown) {
        let Some(child) = self.server.child(node) else { return };
        let (sender, kind) = (Owner::Task { client, task }, child.kind);
        let excludes = |(other, its): &(Owner, Kind)| *other != sender && conflict(kind, *its);
        if self.holders().iter().any(excludes) {
            self.breach = Some(Breach::LateWrite);
        }
        shown.writes_late |= !self.clients[client].tasks[task].holds_by(node);
    }

    /// Those who hold.
    ///
    /// Of ours, a holder is a task that believes to hold, from its grant until it begins to release. It does not count
    /// - once its session has expired at the server: its validity tells it, which is no part of this model;
    /// - once an operator has deleted its node after the grant: it will be told by its watch;
    /// - if an operator deleted its node before the grant, and it could not know: see [`World::judge`].
    ///
    /// Of others, a holder is whoever's node is the first that counts, from the moment in which it is.
    pub(crate) fn holders(&self) -> Vec<(Owner, Kind)> {
        let mut holders: Vec<(Owner, Kind)> = Vec::new();
        for client in self.clients.iter().filter(|client| !client.has_expired) {
            for (task, of) in client.tasks.iter().enumerate() {
                let holds = of.holds().filter(|_| !of.is_robbed);
                holders.extend(holds.map(|kind| (Owner::Task { client: client.id, task }, kind)));
            }
        }
        for child in &self.server.children {
            if matches!(child.owner, Owner::Foreigner(_)) && self.server.is_first(child) {
                holders.push((child.owner, child.kind));
            }
        }
        holders
    }
}
