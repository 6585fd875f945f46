//! One contender, and the client that it is of: what `permit_waiter.rs` and `queue/place` have of it.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use super::super::queue::connection::Connection;
use super::super::queue::contender::{self, Contender};
use super::super::queue::local_queue::{LocalQueue, Moment, Rank};
use super::super::queue::name::MUTEX;
use super::super::queue::permits::{self, Count, Entry, Passage, PermitContender};
use super::super::queue::stock::Stock;
use super::super::task::AsHash;
use super::server::{ClientId, Lease, Path, TakeId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Create {
        id: String,
        watches_parent: bool,
    },
    CreateWithLeases {
        id: String,
        number: i32,
        take: TakeId,
        wanted: u32,
        watches_parent: bool,
    },
    List,
    /// Looks for a node at the gate whose create is in doubt.
    Find {
        id: String,
    },
    Watch(String),
    Sync,
    Count {
        watch: bool,
    },
    Take {
        gate: String,
        take: TakeId,
        wanted: u32,
    },
    /// The janitor's, whom nobody waits for, but for a contender that undoes.
    Delete {
        name: String,
    },
    Sweep {
        id: String,
    },
    GiveBack(TakeId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Created(String),
    /// The number of the first lease, and the node at the gate if that was created along with it.
    Taken(i32, Option<String>),
    Listed(Vec<String>),
    Found(Option<String>),
    Watched(Watch),
    Counted {
        leases: Vec<Lease>,
        watch: Watch,
    },
    /// How many leases there are, as its client has found.
    Number(usize),
    Done,
    /// What is asked about, or needed, does not exist.
    Missing,
    /// The connection was lost, or the session is over.
    Lost,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    pub(crate) has_told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) task: usize,
    pub(crate) slot: usize,
    pub(crate) what: What,
}

impl Request {
    /// Whether it creates leases.
    pub(crate) fn is_take(&self) -> bool {
        matches!(self.what, What::Take { .. } | What::CreateWithLeases { .. })
    }
}

/// The slot of the count that goes with the first create.
pub(crate) const FIRST_COUNT: usize = 9;

/// The slot of what nobody waits for.
pub(crate) const NOBODYS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    Answer { task: usize, slot: usize, answer: Answer, zxid: u8 },
    Event(Path),
}

/// Requests that were sent together, of which all answers are waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asking<A> {
    pub(crate) action: AsHash<A>,
    pub(crate) at: Moment,
    pub(crate) slots: Vec<(What, Option<Answer>)>,
}

/// The requests that follow from the action are enough.
impl<A> Hash for Asking<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.at, &self.slots).hash(state);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Outside,
    /// It has tried to take its leases along with the create.
    Trying(Asking<()>),
    /// It asks about the gate.
    AtGate(Asking<contender::Action>),
    /// It waits for the gate.
    AwaitsGate,
    /// Its place has entered; the count that goes with the create has not come.
    Entering,
    /// It asks about the leases.
    AtLeases(Asking<permits::Action>),
    /// It waits for leases.
    AwaitsLeases,
    Holding(TakeId),
    Done,
}

/// A node of ours at the gate, from its create on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) watch: Option<Watch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FirstCount {
    pub(crate) asked_on: Connection,
    pub(crate) answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) wanted: u32,
    pub(crate) phase: Phase,
    pub(crate) epoch: usize,
    pub(crate) permits: PermitContender,
    pub(crate) contender: Contender,
    pub(crate) entry: Entry,
    pub(crate) passage: Option<Passage>,
    pub(crate) rank: Option<Rank>,
    pub(crate) node: Option<Node>,
    pub(crate) blocker: Option<(String, Watch, Connection)>,
    pub(crate) wake: bool,
    /// On the leases as they were.
    pub(crate) leases: Option<(Vec<Lease>, Watch)>,
    pub(crate) first: Option<FirstCount>,
    /// Whether leases were created along with its node at the gate.
    pub(crate) has_leases: bool,
    /// The count by which it takes leases.
    pub(crate) counted: Option<Count>,
    /// The node at the gate of which it has heard that it is gone.
    pub(crate) gone: Option<String>,
    pub(crate) creates: u8,
    pub(crate) takes: u8,
    /// Its leases: the number of the first, when they were created, and where they are in the local queue.
    pub(crate) first_lease: i32,
    pub(crate) leased_at: Option<Moment>,
    pub(crate) ranks: Vec<Rank>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) limit: u32,
    pub(crate) epoch: usize,
    pub(crate) has_expired: bool,
    pub(crate) connection: Connection,
    /// The highest that a reply has told. Events do not count.
    pub(crate) zxid: u8,
    pub(crate) requests: VecDeque<Request>,
    pub(crate) inbox: VecDeque<Message>,
    /// Transactions that a server which the client has left may yet do.
    pub(crate) late: Vec<Request>,
    pub(crate) local: LocalQueue<usize>,
    pub(crate) stock: Stock,
    /// Its leases.
    pub(crate) leases: LocalQueue<()>,
    /// Whether it was told of a new parent at the gate since it asked to be.
    pub(crate) is_parent_gone: bool,
    /// The same for that of the leases.
    pub(crate) is_leases_parent_gone: bool,
    pub(crate) tasks: Vec<Task>,
}

impl Task {
    pub(crate) fn new(wanted: u32) -> Self {
        Self {
            wanted,
            phase: Phase::Outside,
            epoch: 0,
            permits: PermitContender::new(wanted),
            contender: Contender::new(&MUTEX),
            entry: Entry::default(),
            passage: None,
            rank: None,
            node: None,
            blocker: None,
            wake: false,
            leases: None,
            first: None,
            has_leases: false,
            counted: None,
            gone: None,
            creates: 0,
            takes: 0,
            first_lease: 0,
            leased_at: None,
            ranks: Vec::new(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Outside | Phase::Done)
    }

    pub(crate) fn name(&self) -> Option<&String> {
        self.node.as_ref()?.name.as_ref()
    }

    fn slots(&mut self) -> &mut [(What, Option<Answer>)] {
        match &mut self.phase {
            Phase::Trying(asking) => &mut asking.slots,
            Phase::AtGate(asking) => &mut asking.slots,
            Phase::AtLeases(asking) => &mut asking.slots,
            _ => &mut [],
        }
    }

    pub(crate) fn answer(&mut self, slot: usize, answer: Answer) {
        if slot == FIRST_COUNT {
            if let Some(first) = &mut self.first {
                first.answer = Some(answer);
            }
        } else if let Some((_, waiting @ None)) = self.slots().get_mut(slot) {
            *waiting = Some(answer);
        }
    }

    pub(crate) fn lose_answers(&mut self, is_lost: impl Fn(usize) -> bool) {
        for (slot, (_, answer)) in self.slots().iter_mut().enumerate() {
            if is_lost(slot) {
                answer.get_or_insert(Answer::Lost);
            }
        }
        if let Some(first) = self.first.as_mut().filter(|_| is_lost(FIRST_COUNT)) {
            first.answer.get_or_insert(Answer::Lost);
        }
    }

    /// Whether it can go on.
    pub(crate) fn is_ready(&self, epoch: usize) -> bool {
        let is_over = self.epoch < epoch;
        let told = |watch: Option<&Watch>| watch.is_some_and(|watch| watch.has_told);
        match &self.phase {
            Phase::Trying(asking) => asking.slots.iter().all(|(_, answer)| answer.is_some()),
            Phase::AtGate(asking) => asking.slots.iter().all(|(_, answer)| answer.is_some()),
            Phase::AtLeases(asking) => asking.slots.iter().all(|(_, answer)| answer.is_some()),
            Phase::Entering => self.first.as_ref().is_some_and(|first| first.answer.is_some()),
            Phase::AwaitsGate => {
                let blocker = self.blocker.as_ref().map(|(_, watch, _)| watch);
                self.wake || self.is_told_of_its_node() || told(blocker) || is_over
            }
            Phase::AwaitsLeases => {
                let leases = self.leases.as_ref().map(|(_, watch)| watch);
                self.is_told_of_its_node() || told(leases) || is_over
            }
            Phase::Outside | Phase::Holding(_) | Phase::Done => false,
        }
    }

    /// Whether the watch on its node at the gate has told that it is gone.
    pub(crate) fn is_told_of_its_node(&self) -> bool {
        self.node.as_ref().and_then(|node| node.watch.as_ref()).is_some_and(|watch| watch.has_told)
    }

    /// The watches that it has and those that it is being given.
    pub(crate) fn watches(&mut self) -> impl Iterator<Item = (Path, &mut Watch, Option<Vec<Lease>>)> {
        let own = self.node.as_mut().and_then(|node| {
            let name = node.name.clone()?;
            Some((Path::Gate(name), node.watch.as_mut()?, None))
        });
        let blocker = self.blocker.as_mut().map(|(name, watch, _)| (Path::Gate(name.clone()), watch, None));
        let leases = self.leases.as_mut().map(|(leases, watch)| (Path::Leases, watch, Some(leases.clone())));
        let slots = match &mut self.phase {
            Phase::AtGate(asking) => &mut *asking.slots,
            Phase::AtLeases(asking) => &mut *asking.slots,
            _ => &mut [],
        };
        let given = slots.iter_mut().filter_map(|slot| match slot {
            (What::Watch(name), Some(Answer::Watched(watch))) => {
                Some((Path::Gate(name.clone()), watch, None))
            }
            (What::Count { watch: true }, Some(Answer::Counted { leases, watch })) => {
                Some((Path::Leases, watch, Some(leases.clone())))
            }
            _ => None,
        });
        own.into_iter().chain(blocker).chain(leases).chain(given)
    }
}
