//! What can happen, and when.

use super::server::{ClientId, Owner};
use super::task::{Client, Phase, Request};
use super::world::{Foreigner, World};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Enter(ClientId, usize),
    /// The server takes the next request.
    Serve(ClientId),
    /// The client hears the next message.
    Deliver(ClientId),
    /// A task takes in what the client has heard.
    Poll(ClientId, usize),
    /// The server of a client comes up to date.
    CatchUp(ClientId),
    Release(ClientId, usize),
    HearExpiry(ClientId),
    /// A foreigner goes on.
    Foreign(usize),

    // What may happen, and need not.
    ForeignGiveUp(usize),
    Cancel(ClientId, usize),
    Expire(ClientId),
    Relocate {
        client: ClientId,
        /// Which of the past views its new server has; `None` if that is up to date.
        to: Option<usize>,
        /// Those that were not written to the old connection.
        keeps_requests: bool,
        /// Transactions that were may yet be done.
        late: bool,
    },
    ServeLate(ClientId, usize),
    /// An operator deletes a node of ours at the gate.
    Rob(String),
    /// The gate, which is empty, is deleted and made again.
    Reap,
    /// Where the leases are, of which there is none.
    ReapLeases,
    /// A foreigner takes a lease without a place at the gate, where no one is.
    Stray(usize),
}

impl Step {
    /// Whether it happens in the end if it can.
    pub(crate) fn is_due(&self) -> bool {
        match self {
            Step::Enter(..) | Step::Serve(_) | Step::Deliver(_) | Step::Poll(..) | Step::CatchUp(_) => true,
            Step::Release(..) | Step::HearExpiry(_) | Step::Foreign(_) => true,
            Step::ForeignGiveUp(_) | Step::Cancel(..) | Step::Expire(_) | Step::Relocate { .. } => false,
            Step::ServeLate(..) | Step::Rob(_) | Step::Reap | Step::ReapLeases | Step::Stray(_) => false,
        }
    }
}

impl World {
    pub(crate) fn steps(&self, steps: &mut Vec<Step>) {
        if self.breach.is_some() {
            return;
        }
        for client in &self.clients {
            self.steps_of_client(client, steps);
        }
        for (index, foreigner) in self.foreigners.iter().enumerate() {
            let owner = Owner::Foreigner(index);
            let is_due = match foreigner {
                // Of those that are alike, the first comes first.
                Foreigner::Outside => !self.foreigners[..index].contains(foreigner),
                Foreigner::AtGate => {
                    self.is_first(owner) || !self.server.now.gate.iter().any(|node| node.owner == owner)
                }
                Foreigner::HasLease => self.server.now.leases.len() <= self.limit as usize,
                Foreigner::Passed | Foreigner::Holding => true,
                Foreigner::Done => false,
            };
            if is_due {
                steps.push(Step::Foreign(index));
            }
            let has_room = self.server.now.leases.len() < self.limit as usize;
            if self.faults.stray > 0
                && *foreigner == Foreigner::Outside
                && self.server.now.gate.is_empty()
                && has_room
            {
                steps.push(Step::Stray(index));
            }
            if self.faults.cancel > 0 && matches!(foreigner, Foreigner::AtGate | Foreigner::HasLease) {
                steps.push(Step::ForeignGiveUp(index));
            }
        }
        if self.faults.reap > 0 && self.server.now.gate.is_empty() {
            steps.push(Step::Reap);
        }
        if self.faults.reap > 0 && self.server.now.leases.is_empty() {
            steps.push(Step::ReapLeases);
        }
        if self.faults.rob > 0 {
            // Two of Curator's, of which one has lost its place with a lease in its hand, may wait for each other.
            let ours = self.server.now.gate.iter().filter(|node| matches!(node.owner, Owner::Client(_)));
            steps.extend(ours.map(|node| Step::Rob(node.name.clone())));
        }
    }

    /// Whether nothing more happens as long as nobody comes or goes.
    pub(crate) fn is_still(&self) -> bool {
        let comes_or_goes =
            |step: &Step| matches!(step, Step::Enter(..) | Step::Release(..) | Step::Foreign(_));
        let mut steps = Vec::new();
        self.steps(&mut steps);
        steps.iter().all(|step| !step.is_due() || comes_or_goes(step))
    }

    fn steps_of_client(&self, client: &Client, steps: &mut Vec<Step>) {
        let id = client.id;
        if client.has_expired {
            steps.push(Step::HearExpiry(id));
        } else if !client.requests.is_empty() {
            steps.push(Step::Serve(id));
        }
        if !client.inbox.is_empty() {
            steps.push(Step::Deliver(id));
        }
        if self.server.lagging[id].is_some() {
            steps.push(Step::CatchUp(id));
        }
        steps.extend(
            (0..client.late.len()).filter(|_| !client.has_expired).map(|late| Step::ServeLate(id, late)),
        );
        if self.faults.expire > 0 && !client.has_expired {
            steps.push(Step::Expire(id));
        }
        if self.faults.relocate > 0 && !client.has_expired {
            self.relocations(client, steps);
        }
        for (index, task) in client.tasks.iter().enumerate() {
            match &task.phase {
                // Of those that are alike, the first comes first.
                Phase::Outside if !client.tasks[..index].contains(task) => steps.push(Step::Enter(id, index)),
                Phase::Holding(_) => steps.push(Step::Release(id, index)),
                _ if task.is_ready(client.epoch) => steps.push(Step::Poll(id, index)),
                _ => {}
            }
            if self.faults.cancel > 0 && !task.is_done() && !matches!(task.phase, Phase::Holding(_)) {
                steps.push(Step::Cancel(id, index));
            }
        }
    }

    fn relocations(&self, client: &Client, steps: &mut Vec<Step>) {
        // A server that is further back than what the client has seen refuses it.
        let past = self.server.past.iter().enumerate().filter(|(_, view)| view.zxid >= client.zxid);
        let views = past.map(|(index, _)| Some(index)).chain([None]);
        for to in views {
            let mut relocate = |keeps_requests, late| {
                steps.push(Step::Relocate { client: client.id, to, keeps_requests, late });
            };
            relocate(false, false);
            if !client.requests.is_empty() {
                relocate(true, false);
            }
            if self.faults.late > 0 && client.requests.iter().any(Request::is_take) {
                relocate(false, true);
            }
        }
    }
}
