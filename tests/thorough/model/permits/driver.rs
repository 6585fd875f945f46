//! What `leases.rs` does, step by step.

use super::super::queue::connection::Connection;
use super::super::queue::contender;
use super::super::queue::name::Kind;
use super::super::queue::order::Queued;
use super::super::queue::permits::{Action, Count, Event, Limit};
use super::super::task::AsHash;
use super::task::{Answer, Asking, Client, NOBODYS, Phase, Task, What};

/// What a step of a task has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// By the count that came with the create.
    pub(crate) takes_at_once: bool,
    /// By a count of its own, after a sync or without.
    pub(crate) takes_by_sync: bool,
    pub(crate) takes_by_count: bool,
    /// What was created along with its node at the gate.
    pub(crate) keeps: bool,
    pub(crate) counts_by_numbers: bool,
    pub(crate) gives_back: bool,
    /// Others were at the gate in between.
    pub(crate) tries_in_vain: bool,
    pub(crate) waits: bool,
    pub(crate) requeues: bool,
    pub(crate) breach: Option<Breach>,
}

/// What should not have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    /// All have the same number of permits, and somebody says that they have not.
    Refused,
    /// Somebody counts again and again on one connection.
    Spin,
    /// Somebody tries again to take leases, though it has heard that it stands at the gate no more.
    Evicted,
}

impl Client {
    pub(crate) fn count(&self, leases: usize, asked_on: Connection, synced: bool) -> Count {
        Count { leases, limit: Limit::Fixed(self.limit), asked_on, synced }
    }

    pub(crate) fn on_permits(&mut self, task: usize, event: Event, shown: &mut Shown) {
        let now = self.connection;
        let action = self.tasks[task].permits.on(event, now);
        match (event, action) {
            (Event::EnteredWithLeases { .. }, Action::Keep(_)) => shown.keeps = true,
            (Event::EnteredWithLeases { .. }, _) => shown.gives_back = true,
            (Event::Entered { .. }, Action::Take(_)) => shown.takes_at_once = true,
            (Event::Counted(Count { synced: true, .. }), Action::Take(_)) => shown.takes_by_sync = true,
            (Event::Counted(_), Action::Take(_)) => shown.takes_by_count = true,
            (Event::Counted(count), Action::Count { .. }) if count.asked_on == now => {
                shown.breach = Some(Breach::Spin);
            }
            (Event::GateGone, _) => shown.requeues = true,
            _ => {}
        }
        self.drive_permits(task, action, shown);
    }

    fn drive_permits(&mut self, task: usize, action: Action, shown: &mut Shown) {
        let whats = match action {
            Action::Report if self.tasks[task].permits.is_granted() => return self.hold(task),
            Action::Report => {
                let action = self.tasks[task].permits.park(self.connection);
                return self.drive_permits(task, action, shown);
            }
            Action::AwaitGate => {
                let action = self.tasks[task].contender.park(self.connection);
                return self.drive_gate(task, action, shown);
            }
            Action::LookAtGate => return self.drive_gate(task, contender::Action::List, shown),
            Action::Await => {
                self.tasks[task].phase = Phase::AwaitsLeases;
                shown.waits = true;
                return;
            }
            Action::Refuse { .. } => {
                shown.breach = Some(Breach::Refused);
                return;
            }
            Action::Count { sync, watch } => {
                let of = &mut self.tasks[task];
                of.leases = None;
                let is_watched = of.node.as_ref().is_some_and(|node| node.watch.is_some());
                let gate = of.name().cloned().filter(|_| watch && !is_watched);
                let sync = sync.then_some(What::Sync);
                sync.into_iter().chain(gate.map(What::Watch)).chain([What::Count { watch }]).collect()
            }
            Action::Keep(count) => {
                self.tasks[task].counted = Some(count);
                return self.on_permits(task, Event::Taken, shown);
            }
            Action::Take(count) => {
                let Some(gate) = self.tasks[task].name().cloned() else {
                    return self.on_permits(task, Event::GateGone, shown);
                };
                let of = &mut self.tasks[task];
                if of.gone.as_ref() == Some(&gate) {
                    shown.breach = Some(Breach::Evicted);
                    return;
                }
                of.takes += 1;
                of.counted = Some(Count { leases: count.leases + of.wanted as usize, ..count });
                of.leased_at = Some(self.leases.moment(self.connection));
                vec![What::Take { gate, take: (self.id, task, of.takes), wanted: of.wanted }]
            }
            Action::Undo => vec![What::GiveBack((self.id, task, self.tasks[task].takes))],
            Action::MakeParents => unreachable!("the parents exist"),
        };
        let asking = self.ask(task, action, whats);
        self.tasks[task].phase = Phase::AtLeases(asking);
    }

    /// The answers to what was asked about the leases.
    pub(crate) fn leases_answered(&mut self, task: usize, asking: Asking<Action>, shown: &mut Shown) {
        let Asking { action: AsHash(action), at, slots } = asking;
        let is_lost = slots.iter().any(|(_, answer)| *answer == Some(Answer::Lost));
        let event = match action {
            _ if self.is_over(task) => Event::SessionOver,
            Action::Count { .. } if is_lost => Event::Failed,
            Action::Take(_) if is_lost => Event::TakeUnknown,
            Action::Undo => {
                if is_lost {
                    // The drop of the nodes.
                    let take = (self.id, task, self.tasks[task].takes);
                    self.send(task, NOBODYS, What::GiveBack(take));
                }
                Event::Undone
            }
            Action::Take(_) => match slots[0].1 {
                Some(Answer::Taken(first, _)) => {
                    self.tasks[task].first_lease = first;
                    self.are_all(first);
                    Event::Taken
                }
                _ => Event::GateGone,
            },
            Action::Count { sync, .. } => match slots.last().and_then(|(_, answer)| answer.clone()) {
                _ if self.is_seen_gone(task, &slots) => Event::GateGone,
                Some(Answer::Counted { leases, watch }) => {
                    let count = self.count(leases.len(), at.on, sync);
                    self.tasks[task].leases = Some((leases, watch));
                    Event::Counted(count)
                }
                _ => Event::Failed,
            },
            _ => unreachable!("nothing is asked for it"),
        };
        if event == Event::GateGone {
            self.tasks[task].gone = self.tasks[task].name().cloned();
        }
        self.on_permits(task, event, shown);
    }

    /// Whether its node at the gate is gone, by the watch on it, which may have been asked for along with the count.
    fn is_seen_gone(&mut self, task: usize, slots: &[(What, Option<Answer>)]) -> bool {
        let of = &mut self.tasks[task];
        for (what, answer) in slots {
            match (what, answer) {
                (What::Watch(_), Some(Answer::Missing)) => return true,
                (What::Watch(_), Some(Answer::Watched(watch))) => {
                    of.node.as_mut().expect("it is watched").watch = Some(*watch);
                }
                _ => {}
            }
        }
        of.is_told_of_its_node()
    }

    /// It was woken while it waited for leases.
    pub(crate) fn leases_woken(&mut self, task: usize, shown: &mut Shown) {
        self.tasks[task].leases = None;
        let event = if self.is_over(task) { Event::SessionOver } else { Event::Changed };
        self.on_permits(task, event, shown);
    }

    fn hold(&mut self, task: usize) {
        let of = &self.tasks[task];
        let (take, numbers) = ((self.id, task, of.takes), of.first_lease..of.first_lease + of.wanted as i32);
        let leased_at = of.leased_at;
        let arrive = |number| self.leases.arrive(&lease(number), leased_at, self.connection, ());
        let ranks = numbers.map(arrive).collect();
        let of = &self.tasks[task];
        if let (Some(rank), Some(count)) = (of.rank, of.counted) {
            let gate = self.local.vacancy_behind(rank, self.connection);
            self.stock.taken(gate, count.leases.saturating_sub(self.leases.members()), count.limit);
        }
        self.leave_gate(task);
        let of = &mut self.tasks[task];
        *of = Task { phase: Phase::Holding(take), epoch: of.epoch, ranks, ..Task::new(of.wanted) };
    }

    /// It releases, or gives up.
    pub(crate) fn end(&mut self, task: usize) {
        let take = match &self.tasks[task].phase {
            Phase::Holding(take) => {
                let take = *take;
                // Those of an old session are gone with it.
                for rank in std::mem::take(&mut self.tasks[task].ranks) {
                    if !self.is_over(task) {
                        self.leases.leave(rank);
                    }
                }
                Some(take)
            }
            // Created or not, they are looked for.
            Phase::AtLeases(Asking { action: AsHash(Action::Take(_) | Action::Undo), .. })
            | Phase::Trying(Asking { .. }) => Some((self.id, task, self.tasks[task].takes)),
            _ if self.tasks[task].has_leases => Some((self.id, task, self.tasks[task].takes)),
            _ => None,
        };
        if let Some(take) = take.filter(|_| !self.is_over(task)) {
            self.send(task, 0, What::GiveBack(take));
        }
        self.leave_gate(task);
        let of = &mut self.tasks[task];
        *of = Task { phase: Phase::Done, ..Task::new(of.wanted) };
    }
}

/// A lease as it is in the local queue.
pub(crate) fn lease(number: i32) -> Queued {
    Queued { name: format!("lease-{number:010}"), kind: Kind::Shared, sequence: number }
}
