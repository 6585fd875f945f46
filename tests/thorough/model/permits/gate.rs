//! What `queue/place` does, step by step.

use super::super::queue::connection::Connection;
use super::super::queue::contender::{Action, Event, Standing, WatchState};
use super::super::queue::local_queue::{Moment, Prefetch, Rank};
use super::super::queue::name::{Kind, MUTEX};
use super::super::queue::order::Queued;
use super::super::queue::permits::{self, Passage};
use super::super::task::AsHash;
use super::driver::{Shown, lease};
use super::task::{
    Answer, Asking, Client, FIRST_COUNT, FirstCount, NOBODYS, Node, Phase, Request, Task, Watch, What,
};

impl Client {
    pub(crate) fn enter(&mut self, task: usize) {
        let vacancy = self.local.vacancy(self.connection);
        let own = self.leases.members();
        let Some(number) = self.stock.guess(vacancy, self.tasks[task].wanted, own) else {
            return self.drive_gate(task, Action::Create, &mut Shown::default());
        };
        let id = format!("{}{task}0-", self.id);
        let of = &mut self.tasks[task];
        of.epoch = self.epoch;
        of.creates += 1;
        of.takes += 1;
        of.entry.sent(vacancy);
        of.node = Some(Node { id: id.clone(), name: None, watch: None });
        let (take, wanted) = ((self.id, task, of.takes), of.wanted);
        let Prefetch { list, parent_watch: watches_parent } = self.leases.prefetch(self.connection, false);
        self.is_leases_parent_gone &= !watches_parent;
        let whats = [What::CreateWithLeases { id, number, take, wanted, watches_parent }];
        let whats = whats.into_iter().chain(list.then_some(What::Count { watch: false })).collect();
        self.tasks[task].leased_at = Some(self.leases.moment(self.connection));
        let asking = self.ask(task, (), whats);
        self.tasks[task].phase = Phase::Trying(asking);
    }

    /// The answers to the try to take leases along with the create.
    pub(crate) fn tried(&mut self, task: usize, asking: Asking<()>, shown: &mut Shown) {
        let Asking { at, slots, .. } = asking;
        let watched = matches!(slots[0].0, What::CreateWithLeases { watches_parent: true, .. });
        let mut answers = slots.into_iter().map(|(_, answer)| answer);
        let (created, counted) = (answers.next().flatten(), answers.next());
        if let Some(Answer::Taken(first, Some(name))) = created {
            let leases =
                if self.is_over(task) { None } else { self.counted(task, first, watched, counted, shown) };
            let of = &mut self.tasks[task];
            of.node.as_mut().expect("it was created").name = Some(name);
            let answer = Some(leases.map_or(Answer::Lost, Answer::Number));
            of.first = Some(FirstCount { asked_on: at.on, answer });
            of.has_leases = true;
            let arrived = if self.is_over(task) { None } else { self.arrive(task, Some(at)) };
            let event = match arrived {
                Some((own, rank)) => Event::Created { own, rank, children: None, at },
                None => Event::SessionOver,
            };
            let action = self.on_gate(task, event);
            return self.drive_gate(task, action, shown);
        }
        if created == Some(Answer::Missing) {
            shown.tries_in_vain = true;
            self.stock.was_wrong();
            self.tasks[task].node = None;
        } else {
            if !self.is_over(task) {
                let take = (self.id, task, self.tasks[task].takes);
                self.send(task, NOBODYS, What::GiveBack(take));
            }
            self.leave_gate(task);
        }
        let of = &mut self.tasks[task];
        (of.entry, of.creates) = (permits::Entry::default(), 0);
        self.drive_gate(task, Action::Create, shown);
    }

    /// How many leases there are right after some were created: by a list, or by their numbers.
    fn counted(
        &mut self,
        task: usize,
        first: i32,
        watched: bool,
        counted: Option<Option<Answer>>,
        shown: &mut Shown,
    ) -> Option<usize> {
        self.tasks[task].first_lease = first;
        if watched {
            let at = self.tasks[task].leased_at.expect("it was asked then");
            self.tasks[task].leased_at = Some(self.leases.parent_watched(at.on));
            if self.is_leases_parent_gone {
                self.leases.parent_changed();
            }
        }
        let Some(counted) = counted else {
            let are_all = self.are_all(first);
            shown.counts_by_numbers |= are_all;
            return are_all.then(|| self.leases.members() + self.tasks[task].wanted as usize);
        };
        let Some(Answer::Counted { leases, .. }) = counted else { return None };
        let mut queue: Vec<Queued> = leases.iter().map(|found| lease(found.number)).collect();
        queue.sort_by_key(|found| found.sequence);
        if let (Some(place), Some(at)) =
            (queue.iter().position(|found| found.sequence == first), self.tasks[task].leased_at)
        {
            self.leases.look(&queue, place, at);
            self.leases.entered(!queue[..place].iter().all(|before| self.leases.has(before)));
        }
        Some(queue.len())
    }

    /// Whether the number of a lease shows that there are none but those of the client.
    pub(crate) fn are_all(&mut self, first: i32) -> bool {
        let are_all = self.leases.is_next(first, self.connection);
        self.leases.entered(!are_all);
        are_all
    }

    pub(crate) fn is_over(&self, task: usize) -> bool {
        self.tasks[task].epoch < self.epoch
    }

    fn on_gate(&mut self, task: usize, event: Event) -> Action {
        let entered = match &event {
            Event::Created { own, children, .. } => Some((own.sequence, children.is_some())),
            _ => None,
        };
        let connection = self.connection;
        let of = &mut self.tasks[task];
        let action = of.contender.on(event, &mut self.local, connection, |_: &str| ());
        let now = self.local.moment(connection);
        let since_entry = match entered {
            Some((sequence, listed)) => of.entry.shows(sequence, listed, now),
            None => of.passage.is_some_and(|passage| passage.since_entry),
        };
        let is_granted = of.contender.standing() == Standing::Granted;
        of.passage = is_granted.then_some(Passage { on: now.on, since_entry });
        action
    }

    pub(crate) fn drive_gate(&mut self, task: usize, mut action: Action, shown: &mut Shown) {
        loop {
            let whats = match &action {
                Action::Requeue => {
                    self.leave_line(task);
                    self.tasks[task].blocker = None;
                    self.tasks[task].node = None;
                    action = self.on_gate(task, Event::Start);
                    continue;
                }
                Action::Create => self.create(task),
                Action::Settle => {
                    let node = self.tasks[task].node.as_ref().expect("a create is in doubt");
                    vec![What::Find { id: node.id.clone() }]
                }
                Action::List => vec![What::List],
                Action::WatchAndList(next) => {
                    vec![What::Watch(next.clone()), What::List]
                }
                Action::Watch { own, blocker } => self.watch(task, *own, blocker.as_deref()),
                Action::Await => {
                    self.tasks[task].phase = Phase::AwaitsGate;
                    return;
                }
                Action::Report if self.is_over(task) => {
                    action = self.on_gate(task, Event::SessionOver);
                    continue;
                }
                Action::Report => return self.at_gate(task, shown),
                Action::MakeParents | Action::Date(_) | Action::Refuse { .. } => {
                    unreachable!("the parents exist, the numbers do not end, and there is but one recipe")
                }
            };
            let is_first = matches!(action, Action::Create) && self.tasks[task].creates == 1;
            let asking = self.ask(task, action, whats);
            self.tasks[task].phase = Phase::AtGate(asking);
            if is_first {
                self.tasks[task].first = Some(FirstCount { asked_on: self.connection, answer: None });
                self.send(task, FIRST_COUNT, What::Count { watch: false });
            }
            return;
        }
    }

    /// Requests on the session of the task's node.
    pub(crate) fn ask<A>(&mut self, task: usize, action: A, whats: Vec<What>) -> Asking<A> {
        // On a session that is over, nothing can be asked.
        let is_over = self.is_over(task);
        for (slot, what) in whats.iter().enumerate().filter(|_| !is_over) {
            self.send(task, slot, what.clone());
        }
        let slots = whats.into_iter().map(|what| (what, is_over.then_some(Answer::Lost))).collect();
        let at = self.local.moment(self.connection);
        Asking { action: AsHash(action), at, slots }
    }

    pub(crate) fn send(&mut self, task: usize, slot: usize, what: What) {
        self.requests.push_back(Request { task, slot, what });
    }

    fn create(&mut self, task: usize) -> Vec<What> {
        self.leave_line(task);
        let (epoch, on) = (self.epoch, self.connection);
        let is_being_listed = self.is_being_listed();
        let Prefetch { list, parent_watch: watches_parent } = self.local.prefetch(on, is_being_listed);
        self.is_parent_gone &= !watches_parent;
        let of = &mut self.tasks[task];
        of.blocker = None;
        of.epoch = epoch;
        of.creates += 1;
        of.entry.sent(self.local.vacancy(on));
        let id = format!("{}{task}{}-", self.id, of.creates);
        of.node = Some(Node { id: id.clone(), name: None, watch: None });
        [What::Create { id, watches_parent }].into_iter().chain(list.then_some(What::List)).collect()
    }

    /// Whether a list is on its way that is sent behind a create.
    fn is_being_listed(&self) -> bool {
        let lists = |task: &Task| {
            let Phase::AtGate(asking) = &task.phase else { return false };
            let asks = |wanted: fn(&What) -> bool| asking.slots.iter().any(|(what, _)| wanted(what));
            asks(|what| matches!(what, What::Create { .. })) && asks(|what| matches!(what, What::List))
        };
        self.tasks.iter().any(lists)
    }

    fn watch(&mut self, task: usize, own: bool, blocker: Option<&str>) -> Vec<What> {
        let on = self.connection;
        let task = &mut self.tasks[task];
        task.blocker.take_if(|(name, _, set_on)| !(Some(&**name) == blocker && *set_on == on));
        let own = task.name().cloned().filter(|_| own);
        let blocker = blocker.filter(|_| task.blocker.is_none()).map(str::to_owned);
        own.into_iter().chain(blocker).map(What::Watch).collect()
    }

    /// The answers to what was asked about the gate.
    pub(crate) fn gate_answered(&mut self, task: usize, asking: Asking<Action>, shown: &mut Shown) {
        let Asking { action: AsHash(action), at, slots, .. } = asking;
        let event = match &action {
            // The local queue of an old session is gone with it.
            _ if self.is_over(task) => None,
            Action::Create => self.created(task, at, slots),
            Action::Watch { own, blocker } => self.watched(task, *own, blocker.as_deref(), at.on, slots),
            Action::WatchAndList(next) => {
                let mut answers = slots.into_iter().map(|(_, answer)| answer);
                let watched = match answers.next().flatten() {
                    Some(Answer::Watched(watch)) => Some(watch),
                    _ => None,
                };
                self.tasks[task].blocker = watched.map(|watch| (next.clone(), watch, at.on));
                match answers.next().flatten() {
                    Some(Answer::Listed(children)) => Some(Event::Listed { children, at }),
                    _ => None,
                }
            }
            _ => match slots.into_iter().next().and_then(|(_, answer)| answer) {
                Some(Answer::Found(found)) => {
                    self.tasks[task].node.as_mut().expect("it was looked for").name = found;
                    Some(Event::Settled(self.arrive(task, None)))
                }
                Some(Answer::Listed(children)) => Some(Event::Listed { children, at }),
                _ => None,
            },
        };
        let action = match event {
            _ if self.is_over(task) => self.on_gate(task, Event::SessionOver),
            Some(event) => self.on_gate(task, event),
            None => action,
        };
        self.drive_gate(task, action, shown);
    }

    fn created(&mut self, task: usize, mut at: Moment, slots: Vec<(What, Option<Answer>)>) -> Option<Event> {
        let (mut name, mut children, mut watched) = (None, None, false);
        for (what, answer) in slots {
            watched |= matches!(what, What::Create { watches_parent: true, .. });
            match answer {
                Some(Answer::Created(created)) => name = Some(created),
                Some(Answer::Listed(listed)) => children = Some(listed),
                _ => {}
            }
        }
        if name.is_none() {
            return (!self.is_over(task)).then_some(Event::CreateUnknown);
        }
        if watched {
            at = self.local.parent_watched(at.on);
            if self.is_parent_gone {
                self.local.parent_changed();
            }
        }
        self.tasks[task].node.as_mut().expect("it was created").name = name;
        let (own, rank) = self.arrive(task, Some(at))?;
        Some(Event::Created { own, rank, children, at })
    }

    fn arrive(&mut self, task: usize, created: Option<Moment>) -> Option<(Queued, Rank)> {
        let name = self.tasks[task].name()?.clone();
        let sequence = MUTEX.read(&name).map(|(_, number)| number).expect("it is a name of ours");
        let own = Queued { kind: Kind::Exclusive, sequence, name };
        let rank = self.local.arrive(&own, created, self.connection, task);
        self.tasks[task].rank = Some(rank);
        Some((own, rank))
    }

    fn watched(
        &mut self,
        task: usize,
        own: bool,
        blocker: Option<&str>,
        on: Connection,
        slots: Vec<(What, Option<Answer>)>,
    ) -> Option<Event> {
        let of = &mut self.tasks[task];
        let mut answers = slots.into_iter().filter_map(|(_, answer)| answer);
        let own = if own { answers.next() } else { None };
        if let Some(Answer::Watched(watch)) = own {
            of.node.as_mut().expect("it is watched").watch = Some(watch);
        }
        let blocker = match answers.next() {
            // It was set earlier.
            None => of.blocker.as_ref().map_or(WatchState::Unwatched, |(_, watch, _)| watch_state(watch)),
            Some(Answer::Watched(watch)) => {
                of.blocker = Some((blocker.expect("it is watched").to_owned(), watch, on));
                WatchState::There
            }
            Some(Answer::Missing) => WatchState::Gone,
            Some(_) => return None,
        };
        let own = match own {
            None if self.own_watch_state(task) == WatchState::There => WatchState::Unwatched,
            None | Some(Answer::Watched(_)) => self.own_watch_state(task),
            Some(Answer::Missing) => WatchState::Gone,
            Some(_) => return None,
        };
        Some(Event::Watched { own, blocker, on })
    }

    /// It was woken while it waited for the gate.
    pub(crate) fn gate_woken(&mut self, task: usize, shown: &mut Shown) {
        let own = self.own_watch_state(task);
        let of = &mut self.tasks[task];
        of.wake = false;
        let blocker = of.blocker.as_ref().map_or(WatchState::Unwatched, |(_, watch, _)| watch_state(watch));
        of.blocker.take_if(|(_, watch, _)| watch.has_told);
        if let Some(node) = &mut of.node {
            node.watch.take_if(|watch| watch.has_told);
        }
        let event = if self.is_over(task) { Event::SessionOver } else { Event::Woken { own, blocker } };
        let action = self.on_gate(task, event);
        self.drive_gate(task, action, shown);
    }

    fn own_watch_state(&self, task: usize) -> WatchState {
        let watch = self.tasks[task].node.as_ref().and_then(|node| node.watch.as_ref());
        watch.map_or(WatchState::Unwatched, watch_state)
    }

    pub(crate) fn leave_line(&mut self, task: usize) {
        // That of an old session is gone.
        if let Some(rank) = self.tasks[task].rank.take().filter(|_| !self.is_over(task)) {
            for woken in self.local.leave(rank) {
                self.tasks[woken].wake = true;
            }
        }
    }

    /// The drop of the place at the gate.
    pub(crate) fn leave_gate(&mut self, task: usize) {
        if let Some(node) = self.tasks[task].node.take().filter(|_| !self.is_over(task)) {
            let what = match node.name {
                Some(name) => What::Delete { name },
                None => What::Sweep { id: node.id },
            };
            self.send(task, 0, what);
        }
        self.leave_line(task);
    }

    /// The place at the gate reports.
    fn at_gate(&mut self, task: usize, shown: &mut Shown) {
        let passage = self.tasks[task].passage;
        let event = match self.tasks[task].first.take() {
            None => permits::Event::Gate(passage),
            Some(first @ FirstCount { answer: None, .. }) => {
                self.tasks[task].first = Some(first);
                self.tasks[task].phase = Phase::Entering;
                return;
            }
            Some(FirstCount { asked_on, answer }) => {
                let count = match answer {
                    Some(Answer::Counted { leases, .. }) => Some(self.count(leases.len(), asked_on, false)),
                    Some(Answer::Number(leases)) => Some(self.count(leases, asked_on, false)),
                    _ => None,
                };
                match std::mem::take(&mut self.tasks[task].has_leases) {
                    true => permits::Event::EnteredWithLeases { passage, count },
                    false => permits::Event::Entered { passage, count },
                }
            }
        };
        self.on_permits(task, event, shown);
    }

    /// The count that went with the create has come.
    pub(crate) fn entered(&mut self, task: usize, shown: &mut Shown) {
        self.at_gate(task, shown);
    }
}

fn watch_state(watch: &Watch) -> WatchState {
    if watch.has_told { WatchState::Gone } else { WatchState::There }
}
