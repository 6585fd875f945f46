//! What can happen, and when.

use super::multi::Phase;
use super::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Start(usize),
    /// The server takes a request, or the next of several.
    Serve(usize),
    /// A multi-lock takes in what it was answered.
    Deliver(usize),
    /// The server deletes a node that was given up.
    Sweep(usize),
    HearExpiry(usize),
    Release(usize),
    /// One of the others goes on.
    Other(usize),

    // What may happen, and need not.
    Cancel(usize),
    Expire(usize),
    /// An operator deletes a node of a multi-lock.
    Rob {
        path: usize,
        index: usize,
    },
    /// The reply to a transaction is lost, which was done or not.
    Lose {
        multi: usize,
        is_done: bool,
    },
}

impl World {
    pub(crate) fn steps(&self, steps: &mut Vec<Step>) {
        if self.multis.iter().any(|multi| multi.breach.is_some()) {
            return;
        }
        for (index, multi) in self.multis.iter().enumerate() {
            match multi.phase {
                Phase::Outside => steps.push(Step::Start(index)),
                Phase::Holding => steps.push(Step::Release(index)),
                _ if multi.can_be_served(&self.queues) => steps.push(Step::Serve(index)),
                _ if multi.is_answered() => steps.push(Step::Deliver(index)),
                _ => {}
            }
            if multi.has_expired {
                steps.push(Step::HearExpiry(index));
            } else if !multi.janitor.is_empty() {
                steps.push(Step::Sweep(index));
            }
        }
        for (index, other) in self.others.iter().enumerate() {
            if other.can_go_on(self.owner(index), &self.queues) {
                steps.push(Step::Other(index));
            }
        }
        self.faults(steps);
    }

    fn faults(&self, steps: &mut Vec<Step>) {
        for (index, multi) in self.multis.iter().enumerate() {
            let is_asking = matches!(multi.phase, Phase::Asking(_));
            if self.faults.cancel > 0 && is_asking {
                steps.push(Step::Cancel(index));
            }
            if self.faults.expire > 0 && !multi.has_expired && !multi.is_over() {
                steps.push(Step::Expire(index));
            }
            if self.faults.lose > 0 && multi.is_entering() && !multi.has_expired {
                steps.extend([false, true].map(|is_done| Step::Lose { multi: index, is_done }));
            }
        }
        if self.faults.rob > 0 {
            for (path, queue) in self.queues.iter().enumerate() {
                let ours = queue.iter().enumerate().filter(|(_, node)| node.owner < self.multis.len());
                steps.extend(ours.map(|(index, _)| Step::Rob { path, index }));
            }
        }
    }

    /// Whether something will happen without anything going wrong.
    pub(crate) fn goes_on(&self) -> bool {
        let mut steps = Vec::new();
        self.steps(&mut steps);
        steps.iter().any(|step| match step {
            Step::Start(_) | Step::Serve(_) | Step::Deliver(_) | Step::Sweep(_) => true,
            Step::HearExpiry(_) | Step::Release(_) => true,
            Step::Other(other) => !self.others[*other].is_idle(),
            Step::Cancel(_) | Step::Expire(_) | Step::Rob { .. } | Step::Lose { .. } => false,
        })
    }
}
