//! What `multi_waiter.rs` does, step by step.

use std::collections::VecDeque;

use super::super::queue::all_or_none::{Action, AllOrNone, Event};
use super::super::queue::contender::Standing;
use super::world::{Node, Owner, Queues};

/// What should not have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    /// Somebody believes to hold with a node that was gone when its last place was granted.
    Stale,
    /// Somebody believes to hold, but not all.
    Partial,
    /// Somebody waits where there is nothing to wait for, or asks a session that is over.
    Spin,
}

/// What a step has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) granted_at_once: bool,
    pub(crate) granted_after_a_look: bool,
    pub(crate) waits: bool,
    pub(crate) leaves_behind: bool,
    pub(crate) starts_anew: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Multi {
    owner: Owner,
    /// In their order.
    paths: Vec<usize>,
    lists_along: bool,
    machine: AllOrNone,
    places: Vec<Place>,
    newcomers: VecDeque<Place>,
    pub(crate) phase: Phase,
    /// The nodes that are to be deleted.
    pub(crate) janitor: VecDeque<Place>,
    /// Its session has expired at the server, and it has not heard.
    pub(crate) has_expired: bool,
    pub(crate) breach: Option<Breach>,
}

/// A node in one of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    path: usize,
    node: Node,
    /// As far as is known.
    standing: Option<Standing>,
    /// It was gone already when another one was granted.
    is_stale: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Outside,
    /// A request is under way, or its answer.
    Asking(Asked),
    /// It has given up while its transaction was under way.
    Abandoned(Vec<Place>),
    Holding,
    Done,
}

/// A request, with the answer as far as it is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    Enter {
        nodes: Vec<Place>,
        is_served: bool,
    },
    Locate(Place),
    /// Answered with the place that is granted or lost.
    Wait {
        queue: usize,
        answer: Option<(usize, Standing)>,
    },
    LookAtAll(Vec<Standing>),
}

impl Place {
    /// Where it stands in truth.
    fn stands(&self, queues: &Queues) -> Standing {
        match queues[self.path].iter().position(|node| *node == self.node) {
            None => Standing::Outside,
            Some(0) => Standing::Granted,
            // How many are before it makes no difference.
            Some(_) => Standing::Waiting { position: 1 },
        }
    }
}

impl Multi {
    pub(crate) fn new(owner: Owner, paths: &[usize], lists_along: bool) -> Self {
        let mut paths = paths.to_vec();
        // As `multi.rs` does.
        paths.sort_unstable();
        Self {
            owner,
            machine: AllOrNone::new(paths.len()),
            paths,
            lists_along,
            places: Vec::new(),
            newcomers: VecDeque::new(),
            phase: Phase::Outside,
            janitor: VecDeque::new(),
            has_expired: false,
            breach: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Done && self.janitor.is_empty()
    }

    /// Whether it believes to hold there, with a node that exists. Of one whose session has expired at the server, its
    /// validity tells, which is no part of this model.
    pub(crate) fn holds(&self, path: usize, queues: &Queues) -> bool {
        let exists = |place: &Place| place.path == path && place.stands(queues) != Standing::Outside;
        self.phase == Phase::Holding && !self.has_expired && self.places.iter().any(exists)
    }

    pub(crate) fn start(&mut self) -> Shown {
        let action = self.machine.start();
        self.drive(action)
    }

    /// Whether the server has something to do for the request under way.
    pub(crate) fn can_be_served(&self, queues: &Queues) -> bool {
        let can = match &self.phase {
            Phase::Asking(Asked::Enter { is_served, .. }) => !is_served,
            Phase::Asking(Asked::Locate(place)) => place.standing.is_none(),
            Phase::Asking(Asked::Wait { queue, answer: None }) => self.awaited(*queue, queues).is_some(),
            Phase::Asking(Asked::LookAtAll(seen)) => seen.len() < self.places.len(),
            Phase::Abandoned(_) => true,
            _ => false,
        };
        can && !self.has_expired
    }

    /// The server does its part.
    pub(crate) fn serve(&mut self, queues: &mut Queues) {
        match &mut self.phase {
            Phase::Asking(Asked::Enter { nodes, is_served }) => {
                create(nodes, queues, self.lists_along);
                *is_served = true;
                self.note_stale(queues);
            }
            Phase::Asking(Asked::Locate(place)) => place.standing = Some(place.stands(queues)),
            Phase::Asking(Asked::Wait { queue, answer: None }) => {
                let queue = *queue;
                let answer = self.awaited(queue, queues);
                self.phase = Phase::Asking(Asked::Wait { queue, answer });
                self.note_stale(queues);
            }
            Phase::Asking(Asked::LookAtAll(seen)) => seen.push(self.places[seen.len()].stands(queues)),
            Phase::Abandoned(nodes) => {
                create(nodes, queues, false);
                self.janitor.extend(nodes.drain(..));
                self.phase = Phase::Done;
            }
            Phase::Asking(Asked::Wait { .. }) | Phase::Outside | Phase::Holding | Phase::Done => {
                unreachable!("nothing is asked")
            }
        }
    }

    /// What ends the wait in that queue: that place, or the loss of one before it.
    fn awaited(&self, queue: usize, queues: &Queues) -> Option<(usize, Standing)> {
        let stands = |place: usize| (place, self.places[place].stands(queues));
        let waited = Some(stands(queue)).filter(|(_, stands)| !matches!(stands, Standing::Waiting { .. }));
        waited.or_else(|| (0..queue).map(stands).find(|(_, stands)| *stands == Standing::Outside))
    }

    /// Whether it waits, though it has lost a place before, and does not hear of that.
    pub(crate) fn waits_with_a_loss(&self, queues: &Queues) -> bool {
        let Phase::Asking(Asked::Wait { queue, answer: None }) = self.phase else { return false };
        !self.has_expired
            && !self.can_be_served(queues)
            && self.places[..queue].iter().any(|place| place.stands(queues) == Standing::Outside)
    }

    /// Something was granted: what is gone by now must be noticed.
    fn note_stale(&mut self, queues: &Queues) {
        for place in &mut self.places {
            place.is_stale |= place.stands(queues) == Standing::Outside;
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        match &self.phase {
            Phase::Asking(Asked::Enter { is_served, .. }) => *is_served,
            Phase::Asking(Asked::Locate(place)) => place.standing.is_some(),
            Phase::Asking(Asked::Wait { answer, .. }) => answer.is_some(),
            Phase::Asking(Asked::LookAtAll(seen)) => seen.len() == self.places.len(),
            _ => false,
        }
    }

    /// It takes in the answer.
    pub(crate) fn deliver(&mut self) -> Shown {
        let Phase::Asking(asked) = std::mem::replace(&mut self.phase, Phase::Outside) else {
            unreachable!("something is asked");
        };
        let event = match asked {
            Asked::Enter { nodes, .. } => {
                self.newcomers = nodes.into();
                Event::Entered
            }
            Asked::Locate(place) => {
                self.places.push(place);
                Event::Located(place.standing.expect("it is answered"))
            }
            Asked::Wait { answer, .. } => {
                let (place, standing) = answer.expect("it is answered");
                self.places[place].standing = Some(standing);
                Event::Waited(place, standing)
            }
            Asked::LookAtAll(seen) => {
                for (place, standing) in self.places.iter_mut().zip(&seen) {
                    place.standing = Some(*standing);
                }
                Event::Looked(seen)
            }
        };
        self.on(event)
    }

    /// The reply to its transaction is lost. Done or not, it is undone.
    pub(crate) fn lose(&mut self, is_done: bool, queues: &mut Queues) -> Shown {
        if let Phase::Asking(Asked::Enter { nodes, .. }) = &mut self.phase
            && is_done
        {
            create(nodes, queues, false);
            self.janitor.extend(nodes.drain(..));
        }
        self.on(Event::NotEntered)
    }

    pub(crate) fn is_entering(&self) -> bool {
        matches!(self.phase, Phase::Asking(Asked::Enter { is_served: false, .. }))
    }

    /// It hears that its session is over, and there is another.
    pub(crate) fn hear_expiry(&mut self) -> Shown {
        self.has_expired = false;
        self.janitor.clear();
        let outside = Standing::Outside;
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        let is_entering = matches!(phase, Phase::Asking(Asked::Enter { .. }));
        let event = match phase {
            Phase::Asking(Asked::Enter { .. }) => Event::SessionOver,
            // A place tells it so.
            Phase::Asking(Asked::Locate(place)) => {
                self.places.push(place);
                Event::Located(outside)
            }
            Phase::Asking(Asked::Wait { queue, .. }) => Event::Waited(queue, outside),
            Phase::Asking(Asked::LookAtAll(_)) => Event::Looked(vec![outside; self.places.len()]),
            Phase::Outside => {
                self.phase = Phase::Outside;
                return Shown::default();
            }
            Phase::Abandoned(_) | Phase::Holding | Phase::Done => {
                self.places.clear();
                return Shown::default();
            }
        };
        let action = self.machine.on(event);
        if is_entering && !matches!(action, Action::LeaveAll(_)) {
            self.breach = Some(Breach::Spin);
        }
        // Their nodes are gone with the session.
        self.places.clear();
        self.newcomers.clear();
        self.drive(action)
    }

    /// It releases, or gives up.
    pub(crate) fn end(&mut self) {
        self.janitor.extend(self.places.drain(..).chain(self.newcomers.drain(..)));
        self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Asking(Asked::Enter { nodes, is_served: false }) => Phase::Abandoned(nodes),
            Phase::Asking(Asked::Enter { nodes, .. }) => {
                self.janitor.extend(nodes);
                Phase::Done
            }
            Phase::Asking(Asked::Locate(place)) => {
                self.janitor.push_back(place);
                Phase::Done
            }
            _ => Phase::Done,
        };
    }

    /// The server deletes what was given up longest ago.
    pub(crate) fn sweep(&mut self, queues: &mut Queues) {
        let Some(left) = self.janitor.pop_front() else { return };
        queues[left.path].retain(|node| *node != left.node);
    }

    fn on(&mut self, event: Event) -> Shown {
        let is_look = matches!(event, Event::Looked(_));
        let action = self.machine.on(event);
        let mut shown = self.drive(action);
        let is_granted = self.phase == Phase::Holding;
        shown.granted_after_a_look = is_granted && is_look;
        shown.granted_at_once = is_granted && !is_look;
        shown
    }

    fn drive(&mut self, mut action: Action) -> Shown {
        let mut shown = Shown::default();
        loop {
            let asked = match action {
                _ if self.breach.is_some() => return shown,
                Action::Report if self.machine.is_granted() => {
                    self.hold();
                    return shown;
                }
                Action::Report => {
                    action = self.machine.park();
                    if action == Action::Report {
                        self.breach = Some(Breach::Spin);
                    }
                    continue;
                }
                Action::LeaveBehind(queue) => {
                    shown.leaves_behind = true;
                    self.janitor.extend(self.places.drain(queue + 1..).chain(self.newcomers.drain(..)));
                    action = self.machine.on(Event::Left);
                    continue;
                }
                Action::LeaveAll(_) => {
                    shown.starts_anew = true;
                    self.janitor.extend(self.places.drain(..).chain(self.newcomers.drain(..)));
                    action = self.machine.on(Event::Left);
                    continue;
                }
                Action::Enter => Asked::Enter { nodes: self.nodes(), is_served: false },
                Action::Locate => match self.newcomers.pop_front() {
                    Some(place) => Asked::Locate(place),
                    None => {
                        self.breach = Some(Breach::Spin);
                        return shown;
                    }
                },
                Action::Wait(queue) => {
                    if !matches!(self.places[queue].standing, Some(Standing::Waiting { .. })) {
                        self.breach = Some(Breach::Spin);
                    }
                    shown.waits = true;
                    Asked::Wait { queue, answer: None }
                }
                Action::LookAtAll => Asked::LookAtAll(Vec::new()),
            };
            self.phase = Phase::Asking(asked);
            return shown;
        }
    }

    fn hold(&mut self) {
        if self.places.iter().any(|place| place.is_stale) {
            self.breach = Some(Breach::Stale);
        } else if self.places.len() < self.paths.len() {
            self.breach = Some(Breach::Partial);
        }
        self.phase = Phase::Holding;
    }

    /// Fresh nodes for the queues that it is not in.
    fn nodes(&self) -> Vec<Place> {
        let is_used = |id: u8| {
            let mut all = self.places.iter().chain(&self.janitor);
            all.any(|place| place.node.id == id)
        };
        let id = (0..).find(|id| !is_used(*id)).expect("there are enough");
        let node = Node { owner: self.owner, id };
        let place = |path: &usize| Place { path: *path, node, standing: None, is_stale: false };
        self.paths[self.places.len()..].iter().map(place).collect()
    }
}

/// In one transaction, with the lists that are sent behind it.
fn create(nodes: &mut [Place], queues: &mut Queues, lists_along: bool) {
    for place in nodes {
        queues[place.path].push(place.node);
        place.standing = lists_along.then(|| place.stands(queues));
    }
}
