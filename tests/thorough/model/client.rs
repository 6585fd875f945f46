//! A client: its connection to the server, its local queue, and its tasks.

use std::collections::{BTreeSet, VecDeque};

use super::idle::{GIVEN_UP, MINDER};
use super::lag::{CATCH_UP, Lag};
use super::line::Line;
use super::linger::{ATTENDANT, Lingering, MONITOR};
use super::queue::connection::Connection;
use super::queue::local_queue::{LocalQueue, Moment, Rank};
use super::queue::name::{Kind, Names};
use super::queue::order::Queued;
use super::shared::Shared;
use super::task::{Phase, Task};
use super::zookeeper::{Change, ClientId, Path};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) task: usize,
    /// Which of the requests that the task sent together.
    pub(crate) slot: usize,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Create {
        id: String,
    },
    /// The same along with the parent, which must not exist.
    CreateWithParent {
        id: String,
    },
    CreateReader {
        name: String,
        writer: String,
    },
    MakeParent,
    List,
    /// When those were created of which that is not known.
    Date {
        known: Vec<(Queued, i64)>,
        undated: Vec<Queued>,
    },
    /// Looks for a node whose create is in doubt.
    Find {
        id: String,
    },
    Watch(Path),
    /// Lists and watches the children, for a node that may linger.
    Look {
        node: String,
    },
    /// Has the server catch up.
    CatchUp,
    /// The janitor's, whom nobody waits for.
    Delete {
        name: String,
    },
    /// The same of a holder that may have sent what is not done yet: its local queue waits for the reply.
    DeleteAndTell {
        name: String,
        rank: Rank,
    },
    /// The janitor's, of a node whose create is in doubt.
    Sweep {
        id: String,
    },
    /// A holder's writes, which are done if its node exists.
    Commit {
        node: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Created(String),
    CreatedWithParent(String),
    /// What is to be created exists.
    Exists,
    Done,
    /// What is asked about, or needed, does not exist.
    Missing,
    Listed(Vec<String>),
    Dated(Vec<(Queued, i64)>),
    Found(Option<String>),
    Watched(Watch),
    Looked {
        node: String,
        children: Vec<String>,
    },
    /// For want of a right.
    Refused,
    /// The connection was lost, or the session is over.
    Lost,
}

/// A watch as its owner sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    pub(crate) told: Option<Change>,
    /// Whether its owner has been woken by it.
    pub(crate) heard: bool,
}

impl Watch {
    /// Whether it has still to tell something.
    pub(crate) fn waits(&self) -> bool {
        self.told.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    Answer {
        task: usize,
        slot: usize,
        answer: Answer,
        /// The last transaction that the server had done by then.
        seen: usize,
    },
    Event {
        path: Path,
        change: Change,
    },
    /// A transaction was done, or will not be.
    Committed {
        task: usize,
        node: String,
    },
    /// A holder's node is gone.
    Gone {
        task: usize,
        name: String,
        rank: Rank,
    },
}

/// What `shared_local_queue.rs` has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SharedLocalQueue {
    local: LocalQueue<usize>,
    parent_watch: Option<Watch>,
}

#[derive(Clone, Hash)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) names: &'static Names,
    /// Whether its tasks try to create the parent along with their nodes.
    pub(crate) creates_parent: bool,
    /// How many sessions are known to be over.
    pub(crate) epoch: usize,
    /// At the server.
    pub(crate) has_expired: bool,
    pub(crate) connection: Connection,
    pub(crate) requests: VecDeque<Request>,
    pub(crate) inbox: VecDeque<Message>,
    /// What was missed while there was no connection: told first, in no particular order.
    pub(crate) missed: BTreeSet<(Path, Change)>,
    /// Creates that a server which the client has left may yet do.
    pub(crate) late: Vec<Request>,
    /// Deletes that were refused, and are to be sent again.
    pub(crate) refused: Vec<Request>,
    pub(crate) lag: Lag,
    /// Whether nodes may linger.
    pub(crate) lingers: bool,
    /// How often a node is handed on while others may wait; zero without a cohort.
    pub(crate) cohort: u32,
    pub(crate) line: Line,
    pub(crate) lingering: Option<Lingering>,
    /// Of each session.
    lines: Vec<Shared<SharedLocalQueue>>,
    pub(crate) tasks: Vec<Shared<Task>>,
}

impl Client {
    pub(crate) fn new(id: ClientId, names: &'static Names, tasks: Vec<Task>) -> Self {
        Self {
            id,
            names,
            creates_parent: false,
            epoch: 0,
            has_expired: false,
            connection: Connection(1),
            requests: VecDeque::new(),
            inbox: VecDeque::new(),
            missed: BTreeSet::new(),
            late: Vec::new(),
            refused: Vec::new(),
            lag: Lag::None,
            lingers: false,
            cohort: 0,
            line: Line::default(),
            lingering: None,
            lines: vec![SharedLocalQueue::default().into()],
            tasks: tasks.into_iter().map(Shared::from).collect(),
        }
    }

    /// Does something with the local queue of a session.
    pub(crate) fn with<T>(
        &mut self,
        epoch: usize,
        act: impl FnOnce(&mut LocalQueue<usize>, Connection) -> T,
    ) -> T {
        let shared = &mut *self.lines[epoch];
        if shared.parent_watch.as_ref().is_some_and(|watch| watch.told.is_some()) {
            shared.parent_watch = None;
            shared.local.parent_changed();
        }
        act(&mut shared.local, self.connection)
    }

    /// Knows the queue up to that number, as after an acquire that was released.
    pub(crate) fn know_up_to(&mut self, last: i32) {
        let at = self.parent_watched(self.epoch, Watch::default(), self.connection);
        let name = format!("past-{}{last:010}", self.names.marker(Kind::Exclusive));
        let past = Queued { name, kind: Kind::Exclusive, sequence: last };
        self.with(self.epoch, |local, now| {
            let rank = local.arrive(&past, Some(at), now, 0);
            local.look(&[past], 0, at);
            local.leave(rank);
        });
    }

    /// Whether somebody of the local queue must wait for that task.
    pub(crate) fn is_waited_for(&self, task: usize) -> bool {
        let task = &self.tasks[task];
        task.rank.is_some_and(|rank| self.lines[task.epoch].local.is_waited_for(rank))
    }

    pub(crate) fn parent_watched(&mut self, epoch: usize, watch: Watch, on: Connection) -> Moment {
        let shared = &mut *self.lines[epoch];
        shared.parent_watch = Some(watch);
        shared.local.parent_watched(on)
    }

    pub(crate) fn wake(&mut self, woken: Vec<usize>) {
        for task in woken {
            // The reader that a writer has become waits for nobody.
            if let Some(task) = self.tasks.get_mut(task) {
                task.wake = true;
            }
        }
    }

    pub(crate) fn send(&mut self, task: usize, slot: usize, what: What) {
        self.requests.push_back(Request { task, slot, what });
    }

    /// How many messages have arrived up to the first that somebody can act upon: those before it make no difference
    /// until then, unless the others are lost.
    pub(crate) fn deliverable(&self, can_be_lost: bool) -> usize {
        let matters = |(index, message): (usize, &Message)| match message {
            Message::Event { .. } | Message::Committed { .. } | Message::Gone { .. } => true,
            Message::Answer { slot: MINDER | ATTENDANT | MONITOR | CATCH_UP, .. } => true,
            Message::Answer { slot: GIVEN_UP, .. } => false,
            Message::Answer { task, .. } => {
                let sooner = self.inbox.iter().take(index + 1);
                let arrived = sooner.filter(|sooner| {
                    matches!(sooner, Message::Answer { task: of, slot, .. } if of == task && *slot < GIVEN_UP)
                });
                self.tasks[*task].missing_answers() == arrived.count()
            }
        };
        let whole = self.inbox.iter().enumerate().position(matters);
        whole.map_or(if can_be_lost { self.inbox.len() } else { 0 }, |index| index + 1)
    }

    /// Takes in so many messages of those that have arrived.
    pub(crate) fn deliver(&mut self, messages: usize) {
        for message in self.inbox.drain(..messages).collect::<Vec<_>>() {
            match message {
                Message::Answer { slot: CATCH_UP, seen, .. } => {
                    self.lag.see(seen);
                    self.lag.caught_up(self.connection);
                }
                Message::Answer { slot: ATTENDANT, answer, seen, .. } => {
                    self.lag.see(seen);
                    self.answer_attendant(answer);
                }
                Message::Answer { slot: MONITOR, answer, seen, .. } => {
                    self.lag.see(seen);
                    self.answer_monitor(answer);
                }
                Message::Answer { task, slot, answer, seen } => {
                    self.lag.see(seen);
                    self.tasks[task].answer(slot, answer);
                }
                Message::Event { path, change } => self.tell(&path, change),
                Message::Committed { task, node } => self.transacted(task, &node, true),
                Message::Gone { task, rank, .. } => self.leave_rank(task, rank),
            }
        }
    }

    /// Takes in one of the events that were missed.
    pub(crate) fn deliver_missed(&mut self, missed: &(Path, Change)) {
        self.missed.remove(missed);
        self.tell(&missed.0, missed.1);
    }

    fn tell(&mut self, path: &Path, change: Change) {
        for (_, watch) in self.watches().filter(|(watched, _)| watched == path) {
            watch.told.get_or_insert(change);
        }
    }

    /// The watches that it knows to be set.
    fn watches(&mut self) -> impl Iterator<Item = (Path, &mut Watch)> {
        let parent = self.lines.last_mut().and_then(|shared| shared.parent_watch.as_mut());
        let parent = parent.map(|watch| (Path::Parent, watch));
        let lingering = self.lingering.as_mut().into_iter().flat_map(Lingering::watches);
        parent.into_iter().chain(lingering).chain(self.tasks.iter_mut().flat_map(|task| task.watches()))
    }

    /// The connection is lost, and there is another. Answers which watches are to be set again on it.
    pub(crate) fn reconnect(&mut self) -> BTreeSet<Path> {
        self.connection.0 += 1;
        self.lose_messages();
        self.inbox.clear();
        self.missed.clear();
        // The janitor repeats what it does not know to be done.
        self.requests.retain(|request| {
            matches!(request.what, What::Delete { .. } | What::DeleteAndTell { .. } | What::Sweep { .. })
        });
        self.tasks.iter_mut().for_each(|task| task.lose_answers());
        self.lose_lingering_watch();
        self.watches().filter(|(_, watch)| watch.told.is_none()).map(|(path, _)| path).collect()
    }

    /// It hears that its session is over, and there is another.
    pub(crate) fn hear_expiry(&mut self) {
        self.reconnect();
        self.requests.clear();
        self.late.clear();
        self.refused.clear();
        self.has_expired = false;
        self.epoch += 1;
        self.lingering = None;
        self.lines.push(SharedLocalQueue::default().into());
        for task in 0..self.tasks.len() {
            match self.tasks[task].phase {
                Phase::Holding | Phase::Downgrading(_) | Phase::HoldingBoth | Phase::Reading => {
                    self.end(task)
                }
                Phase::Outside | Phase::Idle | Phase::InLine | Phase::Looking => {}
                Phase::Asking(_) | Phase::Awaiting | Phase::Done => {}
            }
        }
    }

    /// What somebody has an ear for.
    pub(crate) fn listens_to(&self, path: &Path) -> bool {
        let parent = self.lines.last().and_then(|shared| shared.parent_watch.as_ref());
        *path == Path::Parent && parent.is_some_and(Watch::waits)
            || self.lingering.as_ref().is_some_and(|lingering| lingering.listens_to(path))
            || self.tasks.iter().any(|task| task.listens_to(path))
    }

    /// Whether a message makes a difference.
    fn is_heard(&self, message: &Message) -> bool {
        match message {
            Message::Answer { slot: CATCH_UP, .. } => true,
            Message::Answer { slot: ATTENDANT, .. } => {
                self.lingering.as_ref().is_some_and(Lingering::is_looking)
            }
            Message::Answer { slot: MONITOR, .. } => {
                self.lingering.as_ref().is_some_and(Lingering::is_being_watched)
            }
            Message::Answer { task, slot: MINDER, .. } => self.tasks[*task].is_minder_asking(),
            Message::Answer { task, .. } => self.tasks[*task].is_asking(),
            Message::Event { path, .. } => self.listens_to(path),
            Message::Committed { task, node } => self.tasks[*task].holds_by(node),
            Message::Gone { .. } => true,
        }
    }

    /// Sessions that are over, and in which nobody is any more.
    fn old_lines(&self) -> impl Iterator<Item = usize> {
        (0..self.epoch).filter(|epoch| self.tasks.iter().all(|task| task.is_done() || task.epoch != *epoch))
    }

    /// Whether it has nothing that makes no difference any more.
    pub(crate) fn is_tidy(&self) -> bool {
        self.inbox.iter().all(|message| self.is_heard(message))
            && self.missed.iter().all(|(path, _)| self.listens_to(path))
            && self.old_lines().all(|epoch| *self.lines[epoch] == SharedLocalQueue::default())
            && self.lag.watches().all(|(_, path)| self.listens_to(path))
    }

    /// Forgets what makes no difference any more, so that states that are alike are equal.
    pub(crate) fn tidy(&mut self) {
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.retain(|message| self.is_heard(message));
        self.inbox = inbox;
        let mut missed = std::mem::take(&mut self.missed);
        missed.retain(|(path, _)| self.listens_to(path));
        self.missed = missed;
        for epoch in self.old_lines().collect::<Vec<_>>() {
            self.lines[epoch] = SharedLocalQueue::default().into();
        }
        self.tidy_lag();
    }
}
