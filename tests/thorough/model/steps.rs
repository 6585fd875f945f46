//! What can happen, and when.

use super::client::{Client, Message, Request, What};
use super::queue::name::Kind;
use super::queue::order::is_past_the_last_number;
use super::task::Phase;
use super::world::{Foreigner, World};
use super::zookeeper::{Change, ClientId, Owner, Path, number};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A task begins to want the lock.
    Enter(ClientId, usize),
    /// The server takes the next request.
    Serve(ClientId),
    /// The client hears the next messages.
    Deliver {
        client: ClientId,
        messages: usize,
    },
    DeliverMissed(ClientId, (Path, Change)),
    /// A task takes in what the client has heard; that many messages arrive while it looks at its watches.
    Poll {
        client: ClientId,
        task: usize,
        between: usize,
    },
    Release(ClientId, usize),
    ReleaseWriter(ClientId, usize),
    HearExpiry(ClientId),
    ForeignRelease(usize),
    /// The client sends a delete again that was refused.
    DeleteAgain(ClientId),
    /// What minds the node of a ticket that nobody awaits goes on.
    Mind(ClientId, usize),
    /// What attends to a node that may linger goes on.
    Attend(ClientId),

    // What may happen, and need not.
    /// A ticket is awaited.
    Resume(ClientId, usize),
    ForeignEnter(usize),
    ForeignGiveUp(usize),
    ForeignDowngrade(usize),
    Downgrade(ClientId, usize),
    /// A writer that becomes a reader loses its lock.
    Lose(ClientId, usize),
    Transact(ClientId, usize),
    Cancel(ClientId, usize),
    Expire(ClientId),
    /// `late`: the creates under way may yet be done.
    Reconnect {
        client: ClientId,
        late: bool,
    },
    ServeLate(ClientId, usize),
    /// The server refuses the next request, a delete that is part of a transaction.
    Refuse(ClientId),
    /// The client turns to a server that lags behind.
    FallBehind(ClientId),
    /// That server does the next transaction.
    CatchUp(ClientId),
    /// An operator deletes a node of ours.
    Rob(String),
    /// An operator writes to a node of ours.
    Touch(String),
    Reap,
    /// The time of a node to linger is over.
    Lapse(ClientId),
    /// The time for which a cohort may keep others out is over.
    LapseCohort(ClientId),
    /// Somebody asks for the lock.
    Ask(ClientId),
    /// An operator deletes the parent with all that is in it.
    Wipe,
}

impl Step {
    /// Whether it happens in the end if it can.
    fn is_due(&self) -> bool {
        match self {
            Step::Enter(..) | Step::Serve(_) | Step::Deliver { .. } | Step::DeliverMissed(..) => true,
            Step::Poll { .. } | Step::Release(..) | Step::ReleaseWriter(..) => true,
            Step::HearExpiry(_) | Step::ForeignRelease(_) | Step::Mind(..) => true,
            Step::DeleteAgain(_) | Step::Attend(_) => true,
            Step::Lapse(_) | Step::LapseCohort(_) | Step::Ask(_) => false,
            Step::ForeignEnter(_) | Step::ForeignGiveUp(_) | Step::ForeignDowngrade(_) => false,
            Step::Lose(..) | Step::Transact(..) => false,
            Step::Downgrade(..) | Step::Cancel(..) | Step::Expire(_) | Step::Reconnect { .. } => false,
            Step::ServeLate(..) | Step::Refuse(_) | Step::Rob(_) | Step::Touch(_) | Step::Reap => false,
            Step::Resume(..) | Step::Wipe | Step::FallBehind(_) => false,
            Step::CatchUp(_) => true,
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
            for task in 0..client.tasks.len() {
                self.steps_of_task(client, task, steps);
            }
        }
        for (index, foreigner) in self.foreigners.iter().enumerate() {
            self.steps_of_foreigner(index, foreigner, steps);
        }
        let ours = self.server.children.iter().filter(|child| self.is_claimed(child));
        for child in ours.filter(|child| matches!(child.owner, Owner::Task { .. })) {
            if self.faults.rob > 0 {
                steps.push(Step::Rob(child.name.clone()));
            }
            if self.faults.touch > 0 {
                steps.push(Step::Touch(child.name.clone()));
            }
        }
        if self.faults.reap > 0 && self.server.children.is_empty() && self.server.has_parent() {
            steps.push(Step::Reap);
        }
        if self.faults.wipe > 0 && self.server.has_parent() {
            steps.push(Step::Wipe);
        }
    }

    fn steps_of_client(&self, client: &Client, steps: &mut Vec<Step>) {
        let id = client.id;
        if !client.missed.is_empty() {
            steps.extend(client.missed.iter().map(|missed| Step::DeliverMissed(id, missed.clone())));
        } else {
            let messages = client.deliverable(self.faults.reconnect + self.faults.lag > 0);
            steps.extend((messages > 0).then_some(Step::Deliver { client: id, messages }));
        }
        if let Some(lingering) = &client.lingering {
            steps.extend(lingering.is_to_be_attended().then_some(Step::Attend(id)));
            if self.faults.lapse > 0 && lingering.can_be_over() {
                steps.push(Step::Lapse(id));
            }
            if self.faults.lapse > 0 && client.cohort > 0 && lingering.can_keep_too_long() {
                steps.push(Step::LapseCohort(id));
            }
            if self.faults.ask > 0 {
                steps.push(Step::Ask(id));
            }
        }
        if client.has_expired {
            steps.push(Step::HearExpiry(id));
            return;
        }
        if client.lag.is_behind() {
            steps.push(Step::CatchUp(id));
        }
        if !client.requests.is_empty() {
            steps.push(Step::Serve(id));
        }
        if self.faults.refuse > 0 && client.requests.front().is_some_and(is_delete_of_a_holder) {
            steps.push(Step::Refuse(id));
        }
        if !client.refused.is_empty() {
            steps.push(Step::DeleteAgain(id));
        }
        steps.extend((0..client.late.len()).map(|index| Step::ServeLate(id, index)));
        if client.tasks.iter().all(|task| task.is_done()) {
            return;
        }
        if self.faults.lag > 0 && client.lag.can_fall_behind() {
            steps.push(Step::FallBehind(id));
        }
        if self.faults.expire > 0 {
            steps.push(Step::Expire(id));
        }
        if self.faults.reconnect > 0 {
            steps.push(Step::Reconnect { client: id, late: false });
            if self.faults.late > 0 && client.requests.iter().any(can_be_late) {
                steps.push(Step::Reconnect { client: id, late: true });
            }
        }
    }

    fn steps_of_task(&self, client: &Client, index: usize, steps: &mut Vec<Step>) {
        let (id, task) = (client.id, &client.tasks[index]);
        let poll = |between| Step::Poll { client: id, task: index, between };
        if client.is_to_be_minded(index) {
            steps.push(Step::Mind(id, index));
        }
        match &task.phase {
            Phase::Outside => {
                // Of those that are alike, the first comes first.
                if !client.tasks[..index].contains(task) {
                    steps.push(Step::Enter(id, index));
                }
                return;
            }
            Phase::Done => return,
            Phase::Idle => steps.push(Step::Resume(id, index)),
            Phase::InLine if client.has_turn(index) => steps.push(poll(0)),
            Phase::Looking if client.await_no_more() => steps.push(poll(0)),
            Phase::Asking(_) if task.is_answered() => steps.push(poll(0)),
            Phase::Awaiting if task.is_woken() || task.epoch < client.epoch => {
                steps.push(poll(0));
                // Other messages might as well arrive before or after.
                let concerns = |message: &Message| match message {
                    Message::Event { path: Path::Child(name), .. } => {
                        task.claims(name)
                            || task.blocker.as_ref().is_some_and(|blocker| blocker.name == *name)
                    }
                    _ => false,
                };
                let messages = client.inbox.iter().enumerate().filter(|_| client.missed.is_empty());
                let concerning = messages.filter(|(_, message)| concerns(message));
                steps.extend(concerning.map(|(index, _)| poll(index + 1)));
            }
            Phase::InLine | Phase::Looking | Phase::Asking(_) | Phase::Awaiting => {}
            Phase::Downgrading(_) if task.is_answered() => steps.push(poll(0)),
            Phase::Downgrading(_) => {}
            Phase::Holding => {
                steps.push(Step::Release(id, index));
                let node = task.node.as_ref().and_then(|node| node.name.as_ref());
                if node.is_some_and(|node| self.can_downgrade(node, task.kind)) {
                    steps.push(Step::Downgrade(id, index));
                }
            }
            Phase::HoldingBoth => steps.push(Step::ReleaseWriter(id, index)),
            Phase::Reading => steps.push(Step::Release(id, index)),
        }
        if self.faults.lose > 0 && matches!(task.phase, Phase::Downgrading(_)) && task.node.is_some() {
            steps.push(Step::Lose(id, index));
        }
        if self.faults.transact > 0 && task.can_transact() {
            steps.push(Step::Transact(id, index));
        }
        if self.faults.cancel > 0 && task.holds().is_none() {
            steps.push(Step::Cancel(id, index));
        }
    }

    fn steps_of_foreigner(&self, index: usize, foreigner: &Foreigner, steps: &mut Vec<Step>) {
        let mut nodes = self.nodes_of(index);
        match nodes.next() {
            // Of those that are alike, the first comes first.
            None if !foreigner.has_come && !self.foreigners[..index].contains(foreigner) => {
                steps.push(Step::ForeignEnter(index));
            }
            None => {}
            Some(node) if self.server.is_first(node) => {
                steps.push(Step::ForeignRelease(index));
                if nodes.next().is_none() && self.can_downgrade(&node.name, node.kind) {
                    steps.push(Step::ForeignDowngrade(index));
                }
            }
            Some(_) if self.faults.cancel > 0 => steps.push(Step::ForeignGiveUp(index)),
            Some(_) => {}
        }
    }

    /// Where numbers repeat, nobody does.
    fn can_downgrade(&self, node: &str, kind: Kind) -> bool {
        kind == Kind::Exclusive
            && self.names().have_shared()
            && self.faults.downgrade > 0
            && !is_past_the_last_number(number(self.names(), node))
    }

    /// Whether nothing more happens unless something happens to happen.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.can(Step::is_due)
    }

    /// Whether nothing more happens as long as nobody comes or goes.
    pub(crate) fn is_still(&self) -> bool {
        let comes_or_goes = |step: &Step| {
            use Step::{Enter, ForeignRelease, Release, ReleaseWriter};
            matches!(step, Enter(..) | Release(..) | ReleaseWriter(..) | ForeignRelease(_))
        };
        !self.can(|step| step.is_due() && !comes_or_goes(step))
    }

    fn can(&self, is_meant: impl Fn(&Step) -> bool) -> bool {
        let mut steps = Vec::new();
        self.steps(&mut steps);
        steps.iter().any(is_meant)
    }
}

/// Whether it may have been sent together with others.
fn is_delete_of_a_holder(request: &Request) -> bool {
    matches!(request.what, What::Delete { .. } | What::DeleteAndTell { .. })
}

/// Whether it is a write that a server may do late.
pub(crate) fn can_be_late(request: &Request) -> bool {
    matches!(
        request.what,
        What::Create { .. } | What::CreateWithParent { .. } | What::CreateReader { .. } | What::Commit { .. }
    )
}
