//! What `queue/place` makes of the answers to its requests, and of what its watches tell.

use super::client::{Answer, Client, Watch, What};
use super::driver::{Ground, Shown};
use super::queue::connection::Connection;
use super::queue::contender::{Action, Event, WatchState};
use super::queue::local_queue::{Moment, Rank};
use super::queue::order::Queued;
use super::task::{AsHash, Asking, BlockerWatch};
use super::zookeeper::{Change, number};

impl Client {
    pub(crate) fn answered(&mut self, task: usize, asking: Asking, shown: &mut Shown) {
        let Asking { action: AsHash(action), at, slots } = asking;
        let mut ground = Ground::List;
        let event = match &action {
            Action::Create => self.created(task, at, slots, &mut ground),
            Action::Watch { own, blocker } => {
                ground = Ground::BlockerGone;
                self.watched(task, *own, blocker.as_deref(), at.on, slots)
            }
            Action::WatchAndList(next) => {
                let mut answers = slots.into_iter().map(|(_, answer)| answer);
                let watched = match answers.next().flatten() {
                    Some(Answer::Watched(watch)) => Some(watch),
                    _ => None,
                };
                self.tasks[task].blocker =
                    watched.map(|watch| BlockerWatch { name: next.clone(), watch, on: at.on });
                match answers.next().flatten() {
                    Some(Answer::Listed(children)) => Some(Event::Listed { children, at }),
                    _ => None,
                }
            }
            Action::Date(asked) => match slots.into_iter().next() {
                Some((What::Date { known, .. }, Some(Answer::Dated(dated)))) => {
                    self.with(self.tasks[task].epoch, |local, _| local.dates().learn(&dated));
                    Some(Event::Dated { created: [known, dated].concat(), asked: asked.len() })
                }
                _ => None,
            },
            _ => match slots.into_iter().next().and_then(|(_, answer)| answer) {
                Some(Answer::Done) => Some(Event::ParentsMade),
                Some(Answer::Found(found)) => {
                    self.tasks[task].node.as_mut().expect("it was looked for").name = found;
                    let arrived = self.arrive(task, None);
                    if arrived.is_none() {
                        // It may yet be created by a server that was left.
                        let node = self.tasks[task].node.take().expect("it was looked for");
                        self.send(task, 0, What::Sweep { id: node.id });
                    }
                    Some(Event::Settled(arrived))
                }
                Some(Answer::Listed(children)) => Some(Event::Listed { children, at }),
                _ => None,
            },
        };
        let action = match event {
            Some(event) => self.on(task, event),
            None if self.is_over(task) => self.on(task, Event::SessionOver),
            None => action,
        };
        self.drive(task, action, shown, ground);
    }

    fn created(
        &mut self,
        task: usize,
        mut at: Moment,
        slots: Vec<(What, Option<Answer>)>,
        ground: &mut Ground,
    ) -> Option<Event> {
        let epoch = self.tasks[task].epoch;
        let (mut parent_watch, mut name, mut children, mut with_parent) = (None, None, None, false);
        for (what, answer) in slots {
            match answer {
                Some(Answer::Watched(watch)) => parent_watch = Some(watch),
                Some(Answer::Created(created)) => name = Some(created),
                Some(Answer::Listed(listed)) => children = Some(listed),
                Some(Answer::CreatedWithParent(created)) => (name, with_parent) = (Some(created), true),
                Some(Answer::Exists) => {
                    self.tasks[task].node = None;
                    self.tasks[task].enters = true;
                    return Some(Event::ParentsMade);
                }
                Some(Answer::Missing) if matches!(what, What::Create { .. }) => {
                    self.tasks[task].node = None;
                    return Some(Event::ParentMissing);
                }
                _ => {}
            }
        }
        if name.is_none() {
            return (!self.is_over(task)).then_some(Event::CreateUnknown);
        }
        if let Some(watch) = parent_watch {
            at = self.parent_watched(epoch, watch, at.on);
        }
        if children.is_none() {
            *ground = Ground::Create;
        }
        self.tasks[task].node.as_mut().expect("it was created").name = name;
        if with_parent {
            *ground = Ground::NewParent;
            let (own, rank) = self.arrive(task, Some(at))?;
            return Some(Event::CreatedWithQueue { own, rank, at });
        }
        let (own, rank) = self.arrive(task, Some(at))?;
        Some(Event::Created { own, rank, children, at })
    }

    /// Takes the node into the local queue, if it is known to exist.
    fn arrive(&mut self, task: usize, created: Option<Moment>) -> Option<(Queued, Rank)> {
        let name = self.tasks[task].node.as_ref()?.name.clone()?;
        let own = Queued { kind: self.tasks[task].kind, sequence: number(self.names, &name), name };
        let rank = self.with(self.tasks[task].epoch, |local, now| local.arrive(&own, created, now, task));
        self.tasks[task].rank = Some(rank);
        self.tasks[task].enters = false;
        Some((own, rank))
    }

    /// `None` if the connection was lost.
    fn watched(
        &mut self,
        task: usize,
        own: bool,
        blocker: Option<&str>,
        on: Connection,
        slots: Vec<(What, Option<Answer>)>,
    ) -> Option<Event> {
        let tasks = &mut self.tasks[task];
        let mut answers = slots.into_iter().filter_map(|(_, answer)| answer);
        let own = if own { answers.next() } else { None };
        if let Some(Answer::Watched(watch)) = &own {
            tasks.node.as_mut().expect("it is watched").watch = Some(watch.clone());
        }
        let blocker = match answers.next() {
            // It was set earlier.
            None => tasks.blocker.as_ref().map_or(WatchState::Unwatched, |set| watch_state(&set.watch)),
            Some(Answer::Watched(watch)) => {
                let name = blocker.expect("it is watched").to_owned();
                tasks.blocker = Some(BlockerWatch { name, watch, on });
                WatchState::There
            }
            Some(Answer::Missing) => WatchState::Gone,
            Some(_) => return None,
        };
        let own = match own {
            Some(Answer::Refused) => WatchState::Unwatched,
            // Set earlier, it may have told meanwhile.
            None if self.own_watch_state(task) == WatchState::There => WatchState::Unwatched,
            None | Some(Answer::Watched(_)) => self.own_watch_state(task),
            Some(Answer::Missing) => WatchState::Gone,
            Some(_) => return None,
        };
        Some(Event::Watched { own, blocker, on })
    }

    pub(crate) fn woken(&mut self, task: usize, between: usize, shown: &mut Shown) -> Event {
        self.tasks[task].wake = false;
        let watches = self.tasks[task].watches().filter(|(_, watch)| watch.told.is_some());
        shown.spins =
            watches.fold(false, |spins, (_, watch)| std::mem::replace(&mut watch.heard, true) || spins);
        let blocker = self.tasks[task].blocker.as_ref();
        let blocker = blocker.map_or(WatchState::Unwatched, |blocker| watch_state(&blocker.watch));
        self.deliver(between);
        let own = self.own_watch_state(task);
        // A watch that has told does not wake again.
        let tasks = &mut self.tasks[task];
        tasks.blocker.take_if(|blocker| blocker.watch.told.is_some());
        if let Some(node) = &mut tasks.node {
            node.watch.take_if(|watch| watch.told.is_some());
        }
        if self.is_over(task) { Event::SessionOver } else { Event::Woken { own, blocker } }
    }

    pub(crate) fn own_watch_state(&self, task: usize) -> WatchState {
        let watch = self.tasks[task].node.as_ref().and_then(|node| node.watch.as_ref());
        watch.map_or(WatchState::Unwatched, watch_state)
    }
}

/// What a watch has told of its node.
fn watch_state(watch: &Watch) -> WatchState {
    match watch.told {
        None => WatchState::There,
        Some(Change::Deleted) => WatchState::Gone,
        Some(Change::Data) => WatchState::Changed,
    }
}
