//! The queues of the members, everybody in them, and what can happen.

use super::super::queue::quorum::Next;
use super::contender::{Contender, Phase};
use super::game::Game;

/// In the queue of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// Its number; one more than the last of them for whoever stays for ever.
    pub(crate) contender: usize,
    /// Whether its contender no longer counts on it, and has the server remove it.
    pub(crate) is_given_up: bool,
    /// For how long the server still keeps it at least, if there is no contact.
    kept: u8,
}

/// How much time has passed makes no difference.
#[derive(Clone, Hash)]
pub(crate) struct World {
    pub(crate) queues: Vec<Vec<Node>>,
    pub(crate) contenders: Vec<Contender>,
    cuts: u8,
    skips: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Start(usize),
    /// The server creates its node.
    Enter(usize),
    /// It is first in the queue, and hears of it.
    Grant(usize),
    /// It does without a member that it does not need.
    DoWithout(usize),
    /// It notices that it has lost a member.
    Notice(usize, usize),
    Check(usize),
    GiveUp(usize),
    Release(usize),
    /// A server removes a node that was given up.
    Sweep {
        member: usize,
        index: usize,
    },
    /// A server ends a session that it has not heard from.
    Expire {
        member: usize,
        index: usize,
    },
    /// A member that it has no contact with does not answer.
    FindSilent(usize),
    Tick,

    // What may happen, and need not.
    Cut {
        contender: usize,
        member: usize,
    },
    /// A member is too slow, and takes the request nevertheless, or not.
    Skip {
        contender: usize,
        is_entered: bool,
    },
}

/// What a step has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) granted: bool,
    pub(crate) granted_without_some: bool,
    pub(crate) refused_at_the_end: bool,
    pub(crate) gave_up: bool,
    pub(crate) did_without: bool,
    pub(crate) noticed: bool,
}

impl World {
    pub(crate) fn new(game: &Game) -> Self {
        let stays = Node { contender: game.contenders.len(), is_given_up: false, kept: 0 };
        let queue = |member| if game.stays_at == Some(member) { vec![stays] } else { Vec::new() };
        Self {
            queues: (0..game.members()).map(queue).collect(),
            contenders: game.contenders.iter().map(|order| Contender::new(order)).collect(),
            cuts: game.cuts,
            skips: game.skips,
        }
    }

    pub(crate) fn believers(&self) -> usize {
        self.contenders.iter().filter(|contender| contender.believes()).count()
    }

    /// Steps that are taken if nothing goes wrong.
    pub(crate) fn due(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (index, contender) in self.contenders.iter().enumerate() {
            match &contender.phase {
                Phase::Outside if !self.is_being_cleared(index) => steps.push(Step::Start(index)),
                Phase::Holding => steps.push(Step::Release(index)),
                Phase::Passing(_) => self.due_in_pass(index, contender, &mut steps),
                Phase::Outside | Phase::Over => {}
            }
        }
        for (member, queue) in self.queues.iter().enumerate() {
            for (index, node) in queue.iter().enumerate() {
                match self.contenders.get(node.contender) {
                    Some(contender) if contender.standings[member].is_cut_off => {
                        if node.kept == 0 {
                            steps.push(Step::Expire { member, index });
                        }
                    }
                    Some(_) if node.is_given_up => steps.push(Step::Sweep { member, index }),
                    Some(_) | None => {}
                }
            }
        }
        if self.is_time_of_interest() {
            steps.push(Step::Tick);
        }
        steps
    }

    fn due_in_pass(&self, index: usize, contender: &Contender, steps: &mut Vec<Step>) {
        steps.extend(contender.lapsed().map(|member| Step::Notice(index, member)));
        match contender.next() {
            Some(Next::Check) => steps.push(Step::Check(index)),
            Some(Next::GiveUp) => steps.push(Step::GiveUp(index)),
            Some(Next::Take { .. }) | None => {}
        }
        let Some((member, is_needed)) = contender.takes() else { return };
        if contender.standings[member].is_cut_off {
            steps.push(Step::FindSilent(index));
        } else if !contender.is_queued {
            steps.push(Step::Enter(index));
        } else if self.queues[member]
            .first()
            .is_some_and(|first| first.contender == index && !first.is_given_up)
        {
            steps.push(Step::Grant(index));
        }
        if !is_needed {
            steps.push(Step::DoWithout(index));
        }
    }

    /// Whether a server that it reaches has still to remove what it has given up.
    fn is_being_cleared(&self, contender: usize) -> bool {
        let reached = self.queues.iter().zip(&self.contenders[contender].standings);
        let reached = reached.filter(|(_, standing)| !standing.is_cut_off);
        reached.flat_map(|(queue, _)| queue).any(|node| node.contender == contender)
    }

    /// Whether a server waits for the end of a session.
    fn is_time_of_interest(&self) -> bool {
        let cut_off = |(member, node): (usize, &Node)| {
            let contender = self.contenders.get(node.contender);
            contender.is_some_and(|contender| contender.standings[member].is_cut_off) && node.kept > 0
        };
        let queues = self.queues.iter().enumerate();
        queues.flat_map(|(member, queue)| queue.iter().map(move |node| (member, node))).any(cut_off)
    }

    pub(crate) fn faults(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (index, contender) in self.contenders.iter().enumerate() {
            if contender.phase == Phase::Over {
                continue;
            }
            if self.cuts > 0 {
                let standings = contender.standings.iter().enumerate();
                let reached = standings.filter(|(_, standing)| !standing.is_cut_off);
                steps.extend(reached.map(|(member, _)| Step::Cut { contender: index, member }));
            }
            if self.skips > 0 && contender.takes().is_some() {
                steps.push(Step::Skip { contender: index, is_entered: true });
                if !contender.is_queued {
                    steps.push(Step::Skip { contender: index, is_entered: false });
                }
            }
        }
        steps
    }

    pub(crate) fn take(&mut self, step: Step) -> Shown {
        let mut shown = Shown::default();
        match step {
            Step::Start(index) => self.contenders[index].start(),
            Step::Enter(index) => {
                self.enter(index, false);
                self.contenders[index].is_queued = true;
            }
            Step::Grant(index) => self.contenders[index].take(),
            Step::DoWithout(index) => {
                self.leave(index);
                shown.did_without = true;
            }
            Step::FindSilent(index) => self.leave(index),
            Step::Notice(index, member) => {
                // Its client removes the node, if it still reaches the server.
                self.give_up(index, |other| other == member);
                self.contenders[index].notice(member);
                shown.noticed = true;
            }
            Step::Check(index) => {
                let valid =
                    self.contenders[index].standings.iter().filter(|standing| standing.left.is_some());
                let has_all = valid.count() == self.queues.len();
                shown.granted = self.contenders[index].check();
                shown.granted_without_some = shown.granted && !has_all;
                shown.refused_at_the_end = !shown.granted;
                if !shown.granted {
                    self.end(index);
                }
            }
            Step::GiveUp(index) => {
                shown.gave_up = true;
                self.end(index);
            }
            Step::Release(index) => self.end(index),
            Step::Sweep { member, index } | Step::Expire { member, index } => {
                self.queues[member].remove(index);
            }
            Step::Tick => {
                self.contenders.iter_mut().for_each(Contender::tick);
                let nodes = self.queues.iter_mut().flatten();
                nodes.for_each(|node| node.kept = node.kept.saturating_sub(1));
            }
            Step::Cut { contender, member } => {
                self.cuts -= 1;
                self.contenders[contender].standings[member].is_cut_off = true;
                let left = self.contenders[contender].standings[member].left.unwrap_or(0);
                let queue = self.queues[member].iter_mut().filter(|node| node.contender == contender);
                queue.for_each(|node| node.kept = left);
            }
            Step::Skip { contender, is_entered } => {
                self.skips -= 1;
                if is_entered && !self.contenders[contender].is_queued {
                    self.enter(contender, true);
                }
                self.leave(contender);
            }
        }
        shown
    }

    fn enter(&mut self, index: usize, is_given_up: bool) {
        if let Some((member, _)) = self.contenders[index].takes() {
            self.queues[member].push(Node { contender: index, is_given_up, kept: 0 });
        }
    }

    /// Skips the member that it takes now.
    fn leave(&mut self, index: usize) {
        if let Some((member, _)) = self.contenders[index].takes() {
            self.give_up(index, |other| other == member);
        }
        self.contenders[index].skip();
    }

    fn end(&mut self, index: usize) {
        self.give_up(index, |_| true);
        self.contenders[index].end();
    }

    fn give_up(&mut self, index: usize, at: impl Fn(usize) -> bool) {
        for (_, queue) in self.queues.iter_mut().enumerate().filter(|(member, _)| at(*member)) {
            let own = queue.iter_mut().filter(|node| node.contender == index);
            own.for_each(|node| node.is_given_up = true);
        }
    }

    /// Whether nothing happens any more, though somebody wants the lock, or has left something.
    pub(crate) fn waits_in_vain(&self) -> bool {
        let is_over = self.contenders.iter().all(|contender| contender.phase == Phase::Over);
        let is_left = self.queues.iter().flatten().any(|node| node.contender < self.contenders.len());
        self.due().is_empty() && (!is_over || is_left)
    }
}
