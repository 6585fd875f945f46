//! One contender in several queues as a state machine: events in, actions out; no I/O, no clock.
//!
//! All contenders agree on the order of the queues, and a contender that waits in one of them is in none of those
//! behind it. So a contender that others wait for can itself wait only further along in that order, and no cycle of
//! waiters can form, even if some contenders take one queue after another.

use super::contender::Standing;

/// The outcome of the last action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has a node in each of the queues that it was not in.
    Entered,
    /// It has no node there. Nodes that may have been created are being deleted.
    NotEntered,
    /// The standing of its place in the first of those queues.
    Located(Standing),
    /// The standing of that place after a wait: the place in which it waited, or an earlier one that was lost
    /// meanwhile.
    Waited(usize, Standing),
    /// The standings of all places, each requested after [`Action::LookAtAll`].
    Looked(Vec<Standing>),
    /// It is no longer in those queues.
    Left,
    /// The session of its nodes is over.
    SessionOver,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Tell the caller that it has all places, or that it must wait. In the latter case the caller continues with
    /// [`AllOrNone::park`] if it wants to wait.
    Report,
    /// Create a node in each of the queues that it is not in, in one transaction.
    Enter,
    /// Find out where the node stands in the first queue where that is unknown.
    Locate,
    /// Wait in this place.
    Wait(usize),
    /// Find out where all places stand.
    LookAtAll,
    /// Leave the queues behind this one.
    LeaveBehind(usize),
    LeaveAll(Loss),
}

/// Why it starts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Loss {
    Node,
    Session,
}

/// One contender for places in several queues, all or none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AllOrNone {
    /// How many queues there are.
    queues: usize,
    /// The places in the first queues.
    places: Vec<Standing>,
    /// Whether it has nodes in the other queues, too.
    is_in_rest: bool,
    /// Whether no place was granted before the others were last known to exist.
    is_up_to_date: bool,
}

impl AllOrNone {
    pub(crate) fn new(queues: usize) -> Self {
        Self { queues, places: Vec::with_capacity(queues), is_in_rest: false, is_up_to_date: false }
    }

    /// Returns the first action.
    pub(crate) fn start(&mut self) -> Action {
        self.go_on()
    }

    /// Whether it has all places.
    pub(crate) fn is_granted(&self) -> bool {
        self.has_all() && self.is_up_to_date
    }

    /// Returns the queue in which it waits.
    pub(crate) fn waits_in(&self) -> Option<usize> {
        self.places.iter().position(|place| *place != Standing::Granted)
    }

    /// Returns the next action of a contender that was told to wait, and wants to.
    pub(crate) fn park(&mut self) -> Action {
        match self.go_on() {
            Action::Report => self.waits_in().map_or(Action::Report, Action::Wait),
            action => action,
        }
    }

    /// Handles an event.
    pub(crate) fn on(&mut self, event: Event) -> Action {
        match event {
            Event::Entered => {
                self.is_in_rest = true;
                // Places that were granted long ago may have been lost meanwhile.
                self.is_up_to_date = self.places.is_empty();
            }
            Event::NotEntered | Event::Left => {}
            Event::Located(standing) => {
                self.places.push(standing);
                self.is_in_rest &= self.places.len() < self.queues;
            }
            Event::Waited(place, standing) => {
                self.is_up_to_date = false;
                self.stands(place, standing);
            }
            Event::Looked(places) => {
                self.is_up_to_date = true;
                self.places = places;
            }
            Event::SessionOver => return self.leave_all(Loss::Session),
        }
        self.go_on()
    }

    fn stands(&mut self, place: usize, standing: Standing) {
        if let Some(place) = self.places.get_mut(place) {
            *place = standing;
        }
    }

    fn go_on(&mut self) -> Action {
        if self.places.contains(&Standing::Outside) {
            return self.leave_all(Loss::Node);
        }
        match self.waits_in() {
            Some(place) if self.is_behind(place) => {
                self.places.truncate(place + 1);
                self.is_in_rest = false;
                Action::LeaveBehind(place)
            }
            Some(_) => Action::Report,
            None if !self.has_all() && self.is_in_rest => Action::Locate,
            None if !self.has_all() => Action::Enter,
            None if self.is_up_to_date => Action::Report,
            None => Action::LookAtAll,
        }
    }

    /// Whether it is in a queue behind that one.
    fn is_behind(&self, place: usize) -> bool {
        self.places.len() > place + 1 || self.is_in_rest
    }

    fn has_all(&self) -> bool {
        self.places.len() == self.queues && self.waits_in().is_none()
    }

    fn leave_all(&mut self, loss: Loss) -> Action {
        *self = Self::new(self.queues);
        Action::LeaveAll(loss)
    }
}
