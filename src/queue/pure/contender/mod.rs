//! One contender of a queue as a state machine: events in, actions out; no I/O, no clock.
//!
//! The driver carries out an [`Action`] and reports the outcome as the next [`Event`]. Every decision about who
//! holds a lock is made here and in the pure modules next to it.

mod action;
mod event;

pub(crate) use self::action::Action;
pub(crate) use self::event::{Event, WatchState};
use super::connection::Connection;
use super::local_queue::{LocalQueue, Moment, Rank};
use super::name::{Kind, Names};
use super::order::{Contenders, Queued, in_order_of_creation};
use super::rule::{Verdict, excludes, intruder, verdict};

/// Where a contender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// It is not known to be in the queue.
    Outside,
    /// It holds.
    Granted,
    /// It waits.
    Waiting {
        /// How many contenders were ahead of it at its last look.
        position: usize,
    },
}

/// One contender. It has at most one node at any time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    names: &'static Names,
    own: Option<Own>,
    standing: Standing,
    /// The contender of another session that it waits for; `None` if it waits for the local queue.
    blocker: Option<Blocker>,
}

/// Our node in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Own {
    node: Queued,
    rank: Rank,
    /// The connection on which the node is watched without any news so far.
    watched: Option<Connection>,
}

/// A contender of another session, as in the last list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Blocker {
    name: String,
    /// The one that we will wait for when this one is gone; `None` if this one is the nearest.
    next: Option<String>,
    /// Whether it is the only contender that we wait for, and no other can follow: its end is our grant.
    is_last: bool,
    /// The last number of the run of local contenders that begins with us.
    run: i32,
    /// When that list was requested.
    at: Option<Moment>,
}

impl Contender {
    pub(crate) fn new(names: &'static Names) -> Self {
        Self { names, own: None, standing: Standing::Outside, blocker: None }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns how many contenders were ahead of it at its last look.
    pub(crate) fn position(&self) -> usize {
        match self.standing {
            Standing::Waiting { position } => position,
            Standing::Granted | Standing::Outside => 0,
        }
    }

    /// Returns the next action of a contender that was told to wait, and wants to.
    pub(crate) fn park(&self, now: Connection) -> Action {
        let Standing::Waiting { .. } = self.standing else { return Action::Report };
        // A grant without another look requires that we know that our own node exists. And a contender that has
        // lost its place must queue again at once, not when its turn would have come.
        let own = !self.is_watched(now);
        match self.blocker.as_ref().map(|blocker| blocker.name.clone()) {
            None if !own => Action::Await,
            blocker => Action::Watch { own, blocker },
        }
    }

    /// Handles an event, on the current connection. Calls `unrecognized` with the children that are no contenders.
    pub(crate) fn on<W: Clone>(
        &mut self,
        event: Event,
        local: &mut LocalQueue<W>,
        now: Connection,
        unrecognized: impl FnMut(&str),
    ) -> Action {
        match event {
            Event::Start | Event::ParentsMade => Action::Create,
            Event::ParentMissing => Action::MakeParents,
            Event::CreateUnknown => Action::Settle,
            Event::Created { own, rank, children, at } => {
                self.own = Some(Own { node: own, rank, watched: None });
                let action = match children {
                    Some(children) => self.look(children, at, local, unrecognized),
                    // Once it waits for none of this client any more, it looks.
                    None if local.is_blocked(rank) => return self.stand(true, local, now),
                    None if local.is_clear(rank, now) => self.stand(true, local, now),
                    None => Action::List,
                };
                local.entered(self.blocker.is_some() || action == Action::List);
                action
            }
            // No list is needed: our node is the first one below this parent, so all others get higher numbers.
            Event::CreatedWithQueue { own, rank, at } => {
                let children = vec![own.name.clone()];
                self.own = Some(Own { node: own, rank, watched: None });
                self.look(children, at, local, unrecognized)
            }
            Event::Settled(Some((own, rank))) => {
                self.own = Some(Own { node: own, rank, watched: None });
                Action::List
            }
            Event::Settled(None) => Action::Create,
            Event::Listed { children, at } => self.look(children, at, local, unrecognized),
            // A writer that is gone may have become a reader, which is also ahead of us.
            Event::Dated { created, asked } if created.len() < asked && self.names.have_shared() => {
                Action::List
            }
            Event::Dated { created, .. } => self.judge_by_date(&in_order_of_creation(created)),
            Event::Watched { own, blocker, on } => {
                if own == WatchState::There {
                    self.set_watched(Some(on));
                }
                match (own, blocker) {
                    (WatchState::Gone | WatchState::Changed, _) | (_, WatchState::Changed) => Action::List,
                    (_, WatchState::Gone) => self.on_blocker_gone(local, now),
                    (_, WatchState::There | WatchState::Unwatched) => Action::Await,
                }
            }
            Event::Woken { own, blocker } => match (own, blocker) {
                (WatchState::Gone | WatchState::Changed, _) => {
                    self.set_watched(None);
                    Action::List
                }
                (_, WatchState::Gone) => self.on_blocker_gone(local, now),
                (_, WatchState::Changed) => Action::List,
                (_, WatchState::There | WatchState::Unwatched) => {
                    self.stand(self.is_watched(now), local, now)
                }
            },
            Event::SessionOver => {
                // A node of the old session may outlive it for a while. It must never be taken for ours.
                self.leave();
                Action::Create
            }
        }
    }

    /// Decides by what the local queue knows.
    fn stand<W: Clone>(&mut self, own_is_there: bool, local: &LocalQueue<W>, now: Connection) -> Action {
        let Some(own) = &self.own else { return self.requeue() };
        let is_clear = local.is_clear(own.rank, now);
        if local.is_blocked(own.rank) {
            let position = if is_clear { local.before(own.rank) } else { self.position() };
            self.wait(position, None)
        } else if is_clear && own_is_there {
            self.granted()
        } else if self.blocker.is_some() {
            // The watch that ended may have ended with its connection. It is set again, and that shows whether the
            // node is gone.
            Action::Report
        } else {
            Action::List
        }
    }

    fn on_blocker_gone<W: Clone>(&mut self, local: &mut LocalQueue<W>, now: Connection) -> Action {
        let (Some(own), Some(blocker)) = (&self.own, &self.blocker) else { return Action::List };
        if local.is_blocked(own.rank) {
            return self.wait(self.position(), None);
        }
        let Some(at) = blocker.at.filter(|at| at.on == now) else { return Action::List };
        if let Some(next) = &blocker.next {
            return Action::WatchAndList(next.clone());
        }
        if !blocker.is_last || !self.is_watched(now) {
            return Action::List;
        }
        if own.node.kind == Kind::Exclusive {
            local.clear_up_to(blocker.run, at);
        }
        self.granted()
    }

    fn look<W: Clone>(
        &mut self,
        children: Vec<String>,
        at: Moment,
        local: &mut LocalQueue<W>,
        unrecognized: impl FnMut(&str),
    ) -> Action {
        match Contenders::of_any_recipe(children, self.names, unrecognized).in_order() {
            Ok(queue) => self.judge(queue, at, local),
            Err(undated) => Action::Date(undated),
        }
    }

    fn judge<W: Clone>(&mut self, mut queue: Vec<Queued>, at: Moment, local: &mut LocalQueue<W>) -> Action {
        let Some((own, place)) = self.own_in(&queue) else { return self.requeue() };
        if let Some((child, found)) = intrusion(&queue, place) {
            return self.refuse(child, found);
        }
        let run = local.look(&queue, place, at);
        let foreign = queue[..place].iter().filter(|before| before.foreign_recipe().is_some()).count();
        let position = place - foreign;
        if local.is_blocked(own.rank) {
            return self.wait(position, None);
        }
        let mut blockers = (0..place)
            .rev()
            .filter(|before| excludes(&queue[*before], &own.node) && !local.has(&queue[*before]));
        let Some(nearest) = blockers.next() else { return self.granted() };
        let second = blockers.next();
        let is_exclusive = own.node.kind == Kind::Exclusive;
        // A writer ahead of a writer may downgrade to a reader, which is then ahead of us as well.
        let may_be_followed =
            is_exclusive && queue[nearest].kind == Kind::Exclusive && self.names.have_shared();
        let is_last = second.is_none() && !may_be_followed && foreign == 0;
        // When the second-nearest goes, there is time to look again while the nearest still holds. Readers do not
        // do this: many of them can be behind one writer.
        let (watched, next) = match second {
            Some(second) if is_exclusive => (second, Some(queue[nearest].name.clone())),
            _ => (nearest, None),
        };
        let name = queue.swap_remove(watched).name;
        self.wait(position, Some(Blocker { name, next, is_last, run, at: Some(at) }))
    }

    /// Decides where sequence numbers do not determine the order: without the local queue, by listing the queue each
    /// time.
    fn judge_by_date(&mut self, queue: &[Queued]) -> Action {
        let Some((_, place)) = self.own_in(queue) else { return self.requeue() };
        if let Some((child, found)) = intrusion(queue, place) {
            return self.refuse(child, found);
        }
        match verdict(queue, place) {
            Verdict::Granted => self.granted(),
            Verdict::BlockedBy(before) => {
                let name = queue[before].name.clone();
                self.wait(place, Some(Blocker { name, next: None, is_last: false, run: 0, at: None }))
            }
        }
    }

    fn own_in(&self, queue: &[Queued]) -> Option<(&Own, usize)> {
        let own = self.own.as_ref()?;
        Some((own, queue.iter().position(|queued| queued.name == own.node.name)?))
    }

    fn is_watched(&self, now: Connection) -> bool {
        self.own.as_ref().is_some_and(|own| own.watched == Some(now))
    }

    fn set_watched(&mut self, on: Option<Connection>) {
        if let Some(own) = &mut self.own {
            own.watched = on;
        }
    }

    fn granted(&mut self) -> Action {
        self.standing = Standing::Granted;
        self.blocker = None;
        Action::Report
    }

    fn wait(&mut self, position: usize, blocker: Option<Blocker>) -> Action {
        self.standing = Standing::Waiting { position };
        self.blocker = blocker;
        Action::Report
    }

    fn requeue(&mut self) -> Action {
        self.leave();
        Action::Requeue
    }

    fn refuse(&mut self, child: String, found: &'static str) -> Action {
        self.leave();
        Action::Refuse { child, found }
    }

    fn leave(&mut self) {
        self.own = None;
        self.blocker = None;
        self.standing = Standing::Outside;
    }
}

/// Returns the contender of another recipe that prevents this grant, and that recipe.
fn intrusion(queue: &[Queued], place: usize) -> Option<(String, &'static str)> {
    let intruder = intruder(queue, place)?;
    Some((intruder.name.clone(), intruder.foreign_recipe()?))
}
