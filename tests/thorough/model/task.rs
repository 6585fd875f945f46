//! One who wants the lock: what `queue/place` and its caller have of it.

use super::client::{Answer, Watch, What};
use super::idle::{GIVEN_UP, MINDER, Minder};
use super::queue::connection::Connection;
use super::queue::contender::{Action, Contender};
use super::queue::local_queue::{Moment, Rank};
use super::queue::name::{Kind, Names};
use super::queue::passing::Transactions;
use super::zookeeper::Path;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// How often it still wants the lock.
    pub(crate) rounds: u8,
    pub(crate) phase: Phase,
    pub(crate) contender: Contender,
    /// The session that its node is of.
    pub(crate) epoch: usize,
    pub(crate) rank: Option<Rank>,
    pub(crate) node: Option<Node>,
    /// What it has sent under that node.
    pub(crate) transactions: Transactions,
    /// The reader that it has become.
    pub(crate) reader: Option<(Node, Rank)>,
    pub(crate) blocker: Option<BlockerWatch>,
    pub(crate) wake: bool,
    /// It has seen the parent exist, and does not try to create it with its next node.
    pub(crate) enters: bool,
    /// How many nodes it has tried to create.
    pub(crate) creates: u8,
    /// It is a ticket that nobody has awaited yet.
    pub(crate) is_ticket: bool,
    /// Of what was a ticket, until it holds.
    pub(crate) minder: Option<Minder>,
    /// Its node was removed by an operator, and it cannot have heard of that before its grant.
    pub(crate) is_robbed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It does not want the lock yet.
    Outside,
    /// It has a ticket that nobody awaits.
    Idle,
    /// It stands in line, or has the turn and has not looked yet.
    InLine,
    /// It awaits whether it can hold by a node that lingers.
    Looking,
    Asking(Asking),
    Awaiting,
    Holding,
    /// It holds, and creates the reader that it goes on as.
    Downgrading(Asking),
    HoldingBoth,
    /// It holds as a reader.
    Reading,
    Done,
}

/// Requests that were sent together, of which all answers are waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asking {
    pub(crate) action: AsHash<Action>,
    pub(crate) at: Moment,
    pub(crate) slots: Vec<(What, Option<Answer>)>,
}

/// A node of ours, from its create on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) id: String,
    /// Once it is known to exist.
    pub(crate) name: Option<String>,
    /// Which of the parents it was created under, if it was.
    pub(crate) under: Option<u8>,
    pub(crate) watch: Option<Watch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockerWatch {
    pub(crate) name: String,
    pub(crate) watch: Watch,
    pub(crate) on: Connection,
}

/// An action cannot be hashed; the requests that follow from it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AsHash<T>(pub(crate) T);

impl<T> std::hash::Hash for AsHash<T> {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl Task {
    pub(crate) fn new(names: &'static Names, kind: Kind, rounds: u8) -> Self {
        Self {
            kind,
            rounds,
            phase: Phase::Outside,
            contender: Contender::new(names),
            epoch: 0,
            rank: None,
            node: None,
            transactions: Transactions::default(),
            reader: None,
            blocker: None,
            wake: false,
            enters: false,
            creates: 0,
            is_ticket: false,
            minder: None,
            is_robbed: false,
        }
    }

    /// How it believes to hold, if it does.
    pub(crate) fn holds(&self) -> Option<Kind> {
        match self.phase {
            // It has lost its lock, and does not know yet whether it reads.
            Phase::Downgrading(_) if self.node.is_none() => None,
            Phase::Holding | Phase::Downgrading(_) | Phase::HoldingBoth => Some(self.kind),
            Phase::Reading => Some(Kind::Shared),
            Phase::Outside | Phase::Idle | Phase::InLine | Phase::Looking => None,
            Phase::Asking(_) | Phase::Awaiting | Phase::Done => None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Outside | Phase::Done)
    }

    pub(crate) fn asking(&self) -> Option<&Asking> {
        match &self.phase {
            Phase::Asking(asking) | Phase::Downgrading(asking) => Some(asking),
            _ => None,
        }
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.asking().is_some()
    }

    /// Whether this child is of a create of the one that it has now.
    pub(crate) fn claims(&self, child: &str) -> bool {
        let reader = self.reader.as_ref().map(|(node, _)| node);
        let downgrading = match &self.phase {
            Phase::Downgrading(asking) if self.node.is_some() => {
                asking.slots.iter().any(|(what, _)| what.creates(child))
            }
            _ => false,
        };
        downgrading || self.node.iter().chain(reader).any(|node| child.starts_with(&node.id))
    }

    /// Notes under which parent that node of its is created now.
    pub(crate) fn created_under(&mut self, id: &str, parent: u8) {
        if let Some(node) = self.node.as_mut().filter(|node| node.id == id) {
            node.under = Some(parent);
        }
    }

    pub(crate) fn answer(&mut self, slot: usize, answer: Answer) {
        if slot == GIVEN_UP {
            // Nobody hears it.
        } else if slot == MINDER {
            self.answer_minder(answer);
        } else if let Phase::Asking(asking) | Phase::Downgrading(asking) = &mut self.phase {
            asking.slots[slot].1 = Some(answer);
        }
    }

    pub(crate) fn lose_answers(&mut self) {
        self.answer_minder(Answer::Lost);
        if let Phase::Asking(asking) | Phase::Downgrading(asking) = &mut self.phase {
            for (_, answer) in &mut asking.slots {
                answer.get_or_insert(Answer::Lost);
            }
        }
    }

    pub(crate) fn missing_answers(&self) -> usize {
        self.asking().map_or(0, |asking| asking.slots.iter().filter(|(_, answer)| answer.is_none()).count())
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.asking().is_some_and(|asking| asking.slots.iter().all(|(_, answer)| answer.is_some()))
    }

    /// Whether something that it waits for has happened.
    pub(crate) fn is_woken(&self) -> bool {
        let own = self.node.as_ref().and_then(|node| node.watch.as_ref());
        let blocker = self.blocker.as_ref().map(|blocker| &blocker.watch);
        self.wake || own.into_iter().chain(blocker).any(|watch| watch.told.is_some())
    }

    /// The watches that it has and those that it is being given.
    pub(crate) fn watches(&mut self) -> impl Iterator<Item = (Path, &mut Watch)> {
        let own = self.node.as_mut().and_then(|node| {
            let name = node.name.clone()?;
            Some((Path::Child(name), node.watch.as_mut()?))
        });
        let blocker =
            self.blocker.as_mut().map(|blocker| (Path::Child(blocker.name.clone()), &mut blocker.watch));
        let slots = match &mut self.phase {
            Phase::Asking(asking) => &mut *asking.slots,
            _ => &mut [],
        };
        let given = slots.iter_mut().filter_map(|slot| match slot {
            (What::Watch(path), Some(Answer::Watched(watch))) => Some((path.clone(), watch)),
            _ => None,
        });
        let minded = self.minder.as_mut().and_then(|minder| match minder {
            Minder::Watching { path, watch } => Some((path.clone(), watch)),
            _ => None,
        });
        own.into_iter().chain(blocker).chain(given).chain(minded)
    }

    /// Whether it waits for what a watch tells, or has asked for the watch.
    pub(crate) fn listens_to(&self, path: &Path) -> bool {
        let is_child = |name: &str| matches!(path, Path::Child(child) if child == name);
        let own = self.node.as_ref().filter(|node| node.watch.as_ref().is_some_and(Watch::waits));
        let blocker = self.blocker.as_ref().filter(|blocker| blocker.watch.waits());
        let minds = match &self.minder {
            Some(Minder::Asking(asked)) => asked == path,
            Some(Minder::Watching { path: watched, watch }) => watched == path && watch.waits(),
            _ => false,
        };
        let asks = |(what, answer): &(What, Option<Answer>)| match (what, answer) {
            (What::Watch(asked), None) => asked == path,
            (What::Watch(asked), Some(Answer::Watched(watch))) => asked == path && watch.waits(),
            _ => false,
        };
        own.and_then(|node| node.name.as_deref()).is_some_and(is_child)
            || blocker.is_some_and(|blocker| is_child(&blocker.name))
            || minds
            || self.asking().is_some_and(|asking| asking.slots.iter().any(asks))
    }
}

impl What {
    fn creates(&self, child: &str) -> bool {
        matches!(self, What::CreateReader { name, .. } if name == child)
    }
}
