//! The queues, and everybody who may be in them.

use super::game::{Faults, Game};
use super::multi::{Multi, Shown};
use super::other::Other;
use super::steps::Step;

/// The number of a multi-lock; behind them, of others.
pub(crate) type Owner = usize;

/// The nodes of each path in their order.
pub(crate) type Queues = Vec<Vec<Node>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) owner: Owner,
    /// Among those of its owner in one queue.
    pub(crate) id: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) queues: Queues,
    pub(crate) multis: Vec<Multi>,
    pub(crate) others: Vec<Other>,
    pub(crate) faults: Faults,
}

impl World {
    pub(crate) fn new(game: &Game) -> Self {
        let multis = game.multis.iter().enumerate();
        let others = game.others.iter().map(|paths| Other::new(paths, false));
        Self {
            queues: vec![Vec::new(); game.paths()],
            multis: multis.map(|(owner, paths)| Multi::new(owner, paths, game.lists_along)).collect(),
            others: others.chain(game.intruder.map(|paths| Other::new(paths, true))).collect(),
            faults: game.faults,
        }
    }

    /// Of one of the others.
    pub(crate) fn owner(&self, other: usize) -> Owner {
        self.multis.len() + other
    }

    pub(crate) fn take(&mut self, step: Step) -> Shown {
        match step {
            Step::Start(multi) => return self.multis[multi].start(),
            Step::Serve(multi) => self.multis[multi].serve(&mut self.queues),
            Step::Deliver(multi) => return self.multis[multi].deliver(),
            Step::Sweep(multi) => self.multis[multi].sweep(&mut self.queues),
            Step::HearExpiry(multi) => return self.multis[multi].hear_expiry(),
            Step::Release(multi) => self.multis[multi].end(),
            Step::Other(other) => {
                let owner = self.owner(other);
                self.others[other].go_on(owner, &mut self.queues);
            }
            Step::Cancel(multi) => {
                self.faults.cancel -= 1;
                self.multis[multi].end();
            }
            Step::Expire(multi) => {
                self.faults.expire -= 1;
                self.multis[multi].has_expired = true;
                self.queues.iter_mut().for_each(|queue| queue.retain(|node| node.owner != multi));
            }
            Step::Rob { path, index } => {
                self.faults.rob -= 1;
                self.queues[path].remove(index);
            }
            Step::Lose { multi, is_done } => {
                self.faults.lose -= 1;
                return self.multis[multi].lose(is_done, &mut self.queues);
            }
        }
        Shown::default()
    }

    /// How many hold a path.
    pub(crate) fn holders(&self, path: usize) -> usize {
        let multis = self.multis.iter().filter(|multi| multi.holds(path, &self.queues));
        multis.count() + self.others.iter().filter(|other| other.holds(path)).count()
    }
}
