//! Whether a lock that no one uses keeps its node for the next holder of the same client, and who may take it.
//!
//! Pure, like the contender: no I/O, no clock.

use super::passing::PassOn;

/// The node of a lock that may stay when no one holds it, from its grant until it is deleted.
///
/// A holder by a node that has stayed makes no request, so nothing but this tells it that it may hold. That the node is
/// the first of its queue is known from its grant, and stays true for as long as it exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Linger {
    terms: Terms,
    state: State,
    seen: Seen,
    /// How often the node may yet be handed on while others may wait.
    hand_ons: u32,
}

/// For whom a node may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    /// Whether it lingers: stays for a later acquire of the client, as long as no others are in the queue.
    pub(crate) lingers: bool,
    /// How often it is handed on in the cohort, the acquires of the client that stand in line, while others may wait.
    /// Zero without a cohort.
    pub(crate) cohort: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Held,
    /// No one holds. The next in line is to hold by the node.
    HandedOn,
    /// No one holds, and no one was in line.
    Idle,
}

/// What is known of the contenders behind the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seen {
    /// The queue was not listed yet.
    Nothing,
    /// The node was alone when the queue was listed. The watch fires when someone comes.
    Alone,
    /// Someone has come, or may have come.
    Others,
    /// Someone asks for the lock, or the client is closing: the node is deleted when no one holds.
    Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// The queue was listed, and a watch was set on its children by the same request. With a cohort, the node itself is
    /// watched by now as well, unless that is not allowed.
    Looked { is_alone: bool },
    /// That request has failed; or the watch has fired, or has ended with its connection.
    Changed,
    /// Someone asks for the lock, or the client is closing.
    Asked,
    /// The time is over for which the node lingers; or, if it waits for the next in line, for which others may be kept out.
    Deadline,
    /// No one is in line any more.
    LineLeft,
    /// The last guard of a hold is gone.
    Released(Release),
    /// An owner of this client wants the lock. With a cohort, it is the next in line.
    Wanted(Circumstances),
}

/// What is found when the last guard of a hold is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Release {
    pub(crate) pass_on: PassOn,
    /// Whether someone is in line, and it is the turn of the next one when this hold ends.
    pub(crate) is_next_in_line: bool,
    /// Whether the time of the cohort is not over.
    pub(crate) is_in_cohort_time: bool,
    /// Whether the node is watched, and no event has come.
    pub(crate) is_watched: bool,
}

/// What an owner that wants the lock finds at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Circumstances {
    /// Whether a guard of this node would be valid, without a doubt about the session.
    pub(crate) is_sound: bool,
    /// Whether the time to linger is not over.
    pub(crate) is_in_time: bool,
    /// Whether the time of the cohort is not over.
    pub(crate) is_in_cohort_time: bool,
    /// Whether the node is watched, and no event has come.
    pub(crate) is_watched: bool,
    /// Whether the watch on the queue has fired or has ended.
    pub(crate) has_changed: bool,
    /// Whether someone has asked for the lock.
    pub(crate) is_asked: bool,
    /// Whether others of this client wait in the queue, or are on their way into it.
    pub(crate) others_queue: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Do nothing.
    Keep,
    /// Delete the node. An owner that wanted the lock enters the queue.
    Delete,
    /// The owner holds the lock by the node.
    Grant,
    /// The owner waits until the queue was listed, and asks again.
    Await,
    /// The owner enters the queue, since another one holds.
    Queue,
}

impl Linger {
    /// A node by which the lock was just granted. The caller lists and watches its queue.
    pub(crate) fn new(terms: Terms) -> Self {
        Self { terms, state: State::Held, seen: Seen::Nothing, hand_ons: terms.cohort }
    }

    /// Whether no one holds by the node.
    pub(crate) fn is_idle(&self) -> bool {
        self.state != State::Held
    }

    /// Whether the node waits for the next in line.
    pub(crate) fn is_handed_on(&self) -> bool {
        self.state == State::HandedOn
    }

    /// Whether others may wait, so that the time of the cohort runs.
    pub(crate) fn may_keep_others_out(&self) -> bool {
        self.seen != Seen::Alone
    }

    pub(crate) fn on(&mut self, event: Event) -> Action {
        match event {
            Event::Looked { is_alone } if is_alone && self.seen == Seen::Nothing => {
                self.seen = Seen::Alone;
                self.hand_ons = self.terms.cohort;
                Action::Keep
            }
            Event::Looked { .. } | Event::Changed => {
                self.see_others();
                if self.state == State::Idle { Action::Delete } else { Action::Keep }
            }
            Event::Asked => {
                self.seen = Seen::Asked;
                if self.is_idle() { Action::Delete } else { Action::Keep }
            }
            Event::Deadline if self.is_idle() => Action::Delete,
            Event::Deadline => Action::Keep,
            Event::LineLeft => self.line_left(),
            Event::Released(release) => self.released(release),
            Event::Wanted(now) => self.wanted(now),
        }
    }

    fn see_others(&mut self) {
        if self.seen != Seen::Asked {
            self.seen = Seen::Others;
        }
    }

    /// Whether no one has come as far as is known, so that the node may linger.
    fn may_linger(&self) -> bool {
        self.terms.lingers && matches!(self.seen, Seen::Nothing | Seen::Alone)
    }

    /// Whether the node is kept for the next in line.
    fn may_be_handed_on(&self, is_in_cohort_time: bool, is_watched: bool) -> bool {
        let is_allowed = self.hand_ons > 0 && is_in_cohort_time;
        match self.seen {
            // The watch on the queue fires at the end of the node as well.
            Seen::Alone => true,
            // The next in line waits for the answer.
            Seen::Nothing => is_allowed,
            // The queue may not be watched any more.
            Seen::Others => is_allowed && is_watched,
            Seen::Asked => false,
        }
    }

    fn line_left(&mut self) -> Action {
        if self.state != State::HandedOn {
            return Action::Keep;
        }
        self.state = State::Idle;
        if self.may_linger() { Action::Keep } else { Action::Delete }
    }

    fn released(&mut self, release: Release) -> Action {
        self.state = State::Idle;
        // A transaction of this holder may yet be carried out, as long as the node exists.
        if release.pass_on == PassOn::WhenGone {
            return Action::Delete;
        }
        if release.is_next_in_line && self.may_be_handed_on(release.is_in_cohort_time, release.is_watched) {
            self.state = State::HandedOn;
            return Action::Keep;
        }
        if self.may_linger() { Action::Keep } else { Action::Delete }
    }

    fn wanted(&mut self, now: Circumstances) -> Action {
        if self.state == State::Held {
            return Action::Queue;
        }
        if !now.is_sound || now.is_asked {
            return Action::Delete;
        }
        if now.has_changed || now.others_queue {
            self.see_others();
        }
        let is_for_it = match self.state {
            State::HandedOn => self.may_be_handed_on(now.is_in_cohort_time, now.is_watched),
            State::Idle | State::Held => now.is_in_time && self.may_linger(),
        };
        if !is_for_it {
            return Action::Delete;
        }
        if self.seen == Seen::Nothing {
            return Action::Await;
        }
        if self.seen != Seen::Alone {
            self.hand_ons = self.hand_ons.saturating_sub(1);
        }
        self.state = State::Held;
        Action::Grant
    }
}

/// Whether a list of the queue shows no one but the node. A child that is no contender counts as well, for
/// simplicity.
pub(crate) fn is_alone(children: &[String], node: &str) -> bool {
    matches!(children, [only] if only == node)
}
