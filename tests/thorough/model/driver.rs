//! What `queue/place` does, step by step.

use super::client::{Answer, Client, Message, What};
use super::idle::{GIVEN_UP, Minder};
use super::queue::contender::{Action, Event, Standing, WatchState};
use super::queue::local_queue::Rank;
use super::queue::name::Kind;
use super::shared::Shared;
use super::task::{AsHash, Asking, Node, Phase, Task};
use super::zookeeper::{Change, Path};

/// What a step of a task has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) granted: Option<Ground>,
    /// It has heard of the end of its blocker, and looks at the queue.
    pub(crate) looks_early: bool,
    /// Its place had left the local queue when it was granted.
    pub(crate) has_left: bool,
    /// What it was woken by had woken it before.
    pub(crate) spins: bool,
    /// It was turned away because of another recipe.
    pub(crate) is_refused: bool,
    /// It does not go on as the reader that was created.
    pub(crate) gives_back: bool,
    /// What it has sent is done when it holds no more.
    pub(crate) writes_late: bool,
    /// It holds before others of its client who have come earlier.
    pub(crate) passes: bool,
    /// It holds by a node whose time to linger is over, or that was asked for.
    pub(crate) is_late: bool,
}

/// What a grant was made upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// The reply to the create, and nothing else.
    Create,
    /// A list.
    List,
    /// The creation of the parent along with the node.
    NewParent,
    /// A watch that told of the end of the blocker.
    BlockerGone,
    /// The local queue.
    LocalQueue,
    /// A node that lingers.
    Lingering,
    /// A node that was handed on.
    HandedOn,
}

impl Client {
    /// It begins to want the lock.
    pub(crate) fn enter(&mut self, task: usize) -> Shown {
        self.tasks[task].rounds -= 1;
        if !self.lines_up(task) || self.line_up(task) { self.take_lingering(task) } else { Shown::default() }
    }

    /// A task goes on with what has arrived. `between` messages arrive while it looks at its watches.
    pub(crate) fn poll(&mut self, task: usize, between: usize) -> Shown {
        let mut shown = Shown::default();
        match std::mem::replace(&mut self.tasks[task].phase, Phase::Outside) {
            Phase::Asking(asking) => self.answered(task, asking, &mut shown),
            Phase::InLine | Phase::Looking => shown = self.take_lingering(task),
            Phase::Awaiting => {
                let event = self.woken(task, between, &mut shown);
                let gone = matches!(event, Event::Woken { blocker: WatchState::Gone, .. });
                let action = self.on(task, event);
                shown.looks_early = gone && matches!(action, Action::List | Action::WatchAndList(_));
                self.drive(
                    task,
                    action,
                    &mut shown,
                    if gone { Ground::BlockerGone } else { Ground::LocalQueue },
                );
            }
            Phase::Downgrading(asking) => shown.gives_back = self.downgraded(task, asking),
            phase => self.tasks[task].phase = phase,
        }
        shown
    }

    /// It leaves the queue, be it as a holder or not.
    pub(crate) fn end(&mut self, task: usize) {
        let was_in_line = matches!(self.tasks[task].phase, Phase::InLine | Phase::Looking);
        self.give_back(task);
        if let Some((node, rank)) = self.tasks[task].reader.take() {
            self.leave_rank(task, rank);
            self.remove(task, node);
        }
        if let Phase::Downgrading(asking) = &self.tasks[task].phase {
            self.sweep_reader(task, &asking.clone());
        }
        if self.tasks[task].rounds > 0 {
            self.forget_answers(task);
        }
        let index = task;
        let task = &mut *self.tasks[index];
        let phase = if task.rounds > 0 { Phase::Outside } else { Phase::Done };
        let creates = if task.rounds > 0 { task.creates } else { 0 };
        *task = super::task::Task {
            phase,
            creates,
            ..super::task::Task::new(self.names, task.kind, task.rounds)
        };
        self.leave_waiting(index, was_in_line);
    }

    /// Nobody hears the answers to what it has asked.
    fn forget_answers(&mut self, task: usize) {
        let asked = self.requests.iter_mut().map(|request| (request.task, &mut request.slot));
        let answered = self.inbox.iter_mut().filter_map(|message| match message {
            Message::Answer { task, slot, .. } => Some((*task, slot)),
            _ => None,
        });
        for (_, slot) in asked.chain(answered).filter(|(of, slot)| *of == task && **slot < GIVEN_UP) {
            *slot = GIVEN_UP;
        }
    }

    /// The drop of a node.
    pub(crate) fn remove(&mut self, task: usize, node: Node) {
        if self.is_over(task) {
            return;
        }
        let what = match node.name {
            Some(name) => What::Delete { name },
            None => What::Sweep { id: node.id },
        };
        self.send(task, 0, what);
    }

    pub(crate) fn is_over(&self, task: usize) -> bool {
        self.tasks[task].epoch < self.epoch
    }

    pub(crate) fn leave_line(&mut self, task: usize) {
        if let Some(rank) = self.tasks[task].rank.take() {
            self.leave_rank(task, rank);
        }
    }

    pub(crate) fn leave_rank(&mut self, task: usize, rank: Rank) {
        let woken = self.with(self.tasks[task].epoch, |local, _| local.leave(rank));
        self.wake(woken);
    }

    pub(crate) fn on(&mut self, task: usize, event: Event) -> Action {
        let mut contender = self.tasks[task].contender.clone();
        let action =
            self.with(self.tasks[task].epoch, |local, now| contender.on(event, local, now, |_: &str| ()));
        self.tasks[task].contender = contender;
        action
    }

    pub(crate) fn drive(&mut self, task: usize, mut action: Action, shown: &mut Shown, ground: Ground) {
        loop {
            let whats = match &action {
                Action::Requeue => {
                    self.leave_line(task);
                    self.tasks[task].blocker = None;
                    self.tasks[task].node = None;
                    self.tasks[task].minder = None;
                    action = self.on(task, Event::Start);
                    continue;
                }
                Action::Create => self.create(task),
                Action::MakeParents if self.creates_parent => {
                    self.tasks[task].enters = false;
                    action = self.on(task, Event::ParentsMade);
                    continue;
                }
                Action::MakeParents => vec![What::MakeParent],
                Action::Settle => {
                    let node = self.tasks[task].node.as_ref().expect("a create is in doubt");
                    vec![What::Find { id: node.id.clone() }]
                }
                Action::List => vec![What::List],
                Action::WatchAndList(next) => {
                    vec![What::Watch(Path::Child(next.clone())), What::List]
                }
                Action::Date(undated) => {
                    let (known, undated) =
                        self.with(self.tasks[task].epoch, |local, _| local.dates().part(undated.clone()));
                    vec![What::Date { known, undated }]
                }
                Action::Watch { own, blocker } => self.watch(task, *own, blocker.as_deref()),
                Action::Await => {
                    self.tasks[task].phase = Phase::Awaiting;
                    return;
                }
                Action::Report if self.is_over(task) => {
                    action = self.on(task, Event::SessionOver);
                    continue;
                }
                Action::Report if self.tasks[task].is_ticket => {
                    self.idle(task);
                    return;
                }
                Action::Report if self.is_granted_without_node(task) => vec![What::List],
                Action::Report if self.tasks[task].contender.standing() == Standing::Granted => {
                    self.tasks[task].phase = Phase::Holding;
                    shown.has_left = self.tasks[task].minder.take() == Some(Minder::Over);
                    self.tasks[task].blocker = None;
                    self.tasks[task].wake = false;
                    shown.granted = Some(ground);
                    self.begin_lingering(task);
                    return;
                }
                Action::Refuse { .. } => {
                    shown.is_refused = true;
                    self.end(task);
                    return;
                }
                Action::Report => {
                    action = self.tasks[task].contender.park(self.connection);
                    continue;
                }
            };
            self.ask(task, action, whats);
            return;
        }
    }

    pub(crate) fn ask(&mut self, task: usize, action: Action, whats: Vec<What>) {
        // On a session that is over, nothing can be asked.
        let is_over = self.is_over(task);
        for (slot, what) in whats.iter().enumerate().filter(|_| !is_over) {
            self.send(task, slot, what.clone());
        }
        let slots = whats.into_iter().map(|what| (what, is_over.then_some(Answer::Lost))).collect();
        let at = self.with(self.tasks[task].epoch, |local, now| local.moment(now));
        let asking = Asking { action: AsHash(action), at, slots };
        self.tasks[task].phase = Phase::Asking(asking);
    }

    fn create(&mut self, task: usize) -> Vec<What> {
        self.leave_line(task);
        let epoch = self.epoch;
        let tasks = &mut self.tasks[task];
        tasks.blocker = None;
        tasks.epoch = epoch;
        tasks.creates += 1;
        let id = format!("{}{task}{}-", self.id, tasks.creates);
        tasks.node = Some(Node { id: id.clone(), name: None, under: None, watch: None });
        tasks.minder = None;
        if self.creates_parent && !self.tasks[task].enters {
            return vec![What::CreateWithParent { id }];
        }
        let is_being_listed = self.is_being_listed();
        let prefetch = self.with(epoch, |local, now| local.prefetch(now, is_being_listed));
        let parent_watch = prefetch.parent_watch.then_some(What::Watch(Path::Parent));
        let list = prefetch.list.then_some(What::List);
        parent_watch.into_iter().chain([What::Create { id }]).chain(list).collect()
    }

    /// Whether a list is on its way that is sent behind a create, where all exclude each other.
    fn is_being_listed(&self) -> bool {
        let lists = |task: &Shared<Task>| {
            let Phase::Asking(asking) = &task.phase else { return false };
            let asks = |wanted: fn(&What) -> bool| asking.slots.iter().any(|(what, _)| wanted(what));
            asks(|what| matches!(what, What::Create { .. })) && asks(|what| matches!(what, What::List))
        };
        self.tasks.iter().all(|task| task.kind == Kind::Exclusive) && self.tasks.iter().any(lists)
    }

    fn watch(&mut self, task: usize, own: bool, blocker: Option<&str>) -> Vec<What> {
        let on = self.connection;
        let task = &mut self.tasks[task];
        let is_watched = task.blocker.as_ref().is_some_and(|watched| {
            let tells = matches!(watched.watch.told, None | Some(Change::Deleted));
            Some(&*watched.name) == blocker && watched.on == on && tells
        });
        if !is_watched {
            task.blocker = None;
        }
        let own = task.node.as_ref().and_then(|node| node.name.clone()).filter(|_| own);
        let blocker = blocker.filter(|_| !is_watched).map(str::to_owned);
        own.into_iter().chain(blocker).map(|name| What::Watch(Path::Child(name))).collect()
    }
}
