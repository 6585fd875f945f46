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

#[cfg(test)]
mod tests {
    use super::*;

    const LINGERS: Terms = Terms { lingers: true, cohort: 0 };
    const COHORT: Terms = Terms { lingers: false, cohort: 2 };

    const FINE: Circumstances = Circumstances {
        is_sound: true,
        is_in_time: true,
        is_in_cohort_time: true,
        is_watched: true,
        has_changed: false,
        is_asked: false,
        others_queue: false,
    };

    /// A release that no one in line waits for.
    const ENDS: Release = Release {
        pass_on: PassOn::AtOnce,
        is_next_in_line: false,
        is_in_cohort_time: true,
        is_watched: true,
    };
    const PASSES: Release = Release { is_next_in_line: true, ..ENDS };

    const ALONE: Event = Event::Looked { is_alone: true };
    const NOT_ALONE: Event = Event::Looked { is_alone: false };

    fn lingering() -> Linger {
        let mut linger = Linger::new(LINGERS);
        assert_eq!(linger.on(ALONE), Action::Keep);
        assert_eq!(linger.on(Event::Released(ENDS)), Action::Keep);
        linger
    }

    /// A node that waits for the next in line.
    fn handed_on(seen: Option<Event>) -> Linger {
        let mut linger = Linger::new(COHORT);
        seen.map(|seen| linger.on(seen));
        assert_eq!(linger.on(Event::Released(PASSES)), Action::Keep);
        linger
    }

    #[test]
    fn one_holder_after_the_other_takes_the_node() {
        let mut linger = lingering();
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Grant);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Queue, "it is held");
        assert_eq!(linger.on(Event::Deadline), Action::Keep, "it is held");
        assert_eq!(linger.on(Event::Released(ENDS)), Action::Keep);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Grant);
    }

    #[test]
    fn no_one_takes_it_before_the_list() {
        let mut linger = Linger::new(LINGERS);
        assert_eq!(linger.on(Event::Released(ENDS)), Action::Keep);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Await);
        assert_eq!(linger.on(ALONE), Action::Keep);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Grant);
    }

    #[test]
    fn whatever_speaks_against_it_ends_it() {
        let against = [
            Circumstances { is_sound: false, ..FINE },
            Circumstances { is_in_time: false, ..FINE },
            Circumstances { has_changed: true, ..FINE },
            Circumstances { is_asked: true, ..FINE },
            Circumstances { others_queue: true, ..FINE },
        ];
        for now in against {
            assert_eq!(lingering().on(Event::Wanted(now)), Action::Delete, "{now:?}");
        }
        for event in [Event::Changed, Event::Asked, Event::Deadline, NOT_ALONE] {
            assert_eq!(lingering().on(event), Action::Delete, "{event:?}");
        }
    }

    #[test]
    fn what_comes_during_a_hold_ends_it_with_the_hold() {
        for event in [Event::Changed, Event::Asked, NOT_ALONE] {
            let mut linger = Linger::new(LINGERS);
            assert_eq!(linger.on(event), Action::Keep);
            assert_eq!(linger.on(ALONE), Action::Keep, "a late answer");
            assert_eq!(linger.on(Event::Released(ENDS)), Action::Delete, "{event:?}");
        }
        for terms in [LINGERS, COHORT] {
            let open = Release { pass_on: PassOn::WhenGone, ..PASSES };
            assert_eq!(Linger::new(terms).on(Event::Released(open)), Action::Delete);
        }
    }

    #[test]
    fn a_cohort_hands_on_so_often_while_others_may_wait() {
        for seen in [NOT_ALONE, Event::Changed] {
            let mut linger = Linger::new(COHORT);
            linger.on(seen);
            for _ in 0..COHORT.cohort {
                assert_eq!(linger.on(Event::Released(PASSES)), Action::Keep, "{seen:?}");
                assert_eq!(linger.on(Event::Wanted(FINE)), Action::Grant, "{seen:?}");
            }
            assert_eq!(linger.on(Event::Released(PASSES)), Action::Delete, "{seen:?}");
        }
    }

    #[test]
    fn a_cohort_hands_on_without_end_while_it_is_alone() {
        let late = Release { is_in_cohort_time: false, ..PASSES };
        let mut linger = Linger::new(COHORT);
        assert_eq!(linger.on(Event::Released(PASSES)), Action::Keep);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Await, "nothing is known yet");
        assert_eq!(linger.on(ALONE), Action::Keep);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Grant);
        for _ in 0..10 {
            assert_eq!(linger.on(Event::Released(late)), Action::Keep);
            let now = Circumstances { is_in_cohort_time: false, ..FINE };
            assert_eq!(linger.on(Event::Wanted(now)), Action::Grant);
        }
        assert_eq!(linger.on(Event::Changed), Action::Keep);
        for _ in 0..COHORT.cohort {
            assert_eq!(linger.on(Event::Released(PASSES)), Action::Keep, "the whole number");
            assert_eq!(linger.on(Event::Wanted(FINE)), Action::Grant);
        }
        assert_eq!(linger.on(Event::Released(PASSES)), Action::Delete);
    }

    #[test]
    fn where_others_may_have_come_it_hands_on_what_it_watches() {
        let unseen = Release { is_watched: false, ..PASSES };
        let now = Circumstances { is_watched: false, ..FINE };
        assert_eq!(handed_on(Some(ALONE)).on(Event::Wanted(now)), Action::Grant);
        assert_eq!(handed_on(Some(NOT_ALONE)).on(Event::Wanted(now)), Action::Delete);
        let changed = Circumstances { has_changed: true, ..now };
        assert_eq!(handed_on(Some(ALONE)).on(Event::Wanted(changed)), Action::Delete);
        let mut linger = Linger::new(COHORT);
        linger.on(NOT_ALONE);
        assert_eq!(linger.on(Event::Released(unseen)), Action::Delete);
    }

    #[test]
    fn others_of_the_client_count_as_others() {
        let mut linger = handed_on(Some(ALONE));
        for _ in 0..COHORT.cohort {
            let now = Circumstances { others_queue: true, ..FINE };
            assert_eq!(linger.on(Event::Wanted(now)), Action::Grant);
            linger.on(Event::Released(PASSES));
        }
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Delete);
    }

    #[test]
    fn the_time_of_the_cohort_is_limited() {
        let late = Release { is_in_cohort_time: false, ..PASSES };
        assert_eq!(Linger::new(COHORT).on(Event::Released(late)), Action::Delete);
        for seen in [None, Some(NOT_ALONE), Some(Event::Changed)] {
            let now = Circumstances { is_in_cohort_time: false, ..FINE };
            assert_eq!(handed_on(seen).on(Event::Wanted(now)), Action::Delete, "{seen:?}");
            assert_eq!(handed_on(seen).on(Event::Deadline), Action::Delete, "{seen:?}");
        }
    }

    #[test]
    fn a_cohort_that_is_asked_or_in_doubt_hands_on_no_more() {
        let mut linger = Linger::new(COHORT);
        assert_eq!(linger.on(Event::Asked), Action::Keep);
        assert_eq!(linger.on(Event::Changed), Action::Keep);
        assert_eq!(linger.on(Event::Released(PASSES)), Action::Delete);
        assert_eq!(handed_on(Some(ALONE)).on(Event::Asked), Action::Delete);
        for now in [Circumstances { is_sound: false, ..FINE }, Circumstances { is_asked: true, ..FINE }] {
            assert_eq!(handed_on(Some(ALONE)).on(Event::Wanted(now)), Action::Delete, "{now:?}");
        }
    }

    #[test]
    fn a_node_whose_line_has_left_stays_only_if_it_lingers() {
        assert_eq!(handed_on(Some(ALONE)).on(Event::LineLeft), Action::Delete);
        assert_eq!(Linger::new(COHORT).on(Event::LineLeft), Action::Keep, "it is held");
        for (seen, then) in [(ALONE, Action::Keep), (NOT_ALONE, Action::Delete)] {
            let mut linger = Linger::new(Terms { lingers: true, ..COHORT });
            linger.on(seen);
            assert_eq!(linger.on(Event::Released(PASSES)), Action::Keep);
            assert_eq!(linger.on(Event::LineLeft), then);
        }
        assert_eq!(Linger::new(COHORT).on(Event::Released(ENDS)), Action::Delete);
    }

    #[test]
    fn what_lingers_after_the_line_waits_for_the_list() {
        let mut linger = Linger::new(Terms { lingers: true, ..COHORT });
        assert_eq!(linger.on(Event::Released(ENDS)), Action::Keep);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Await);
    }

    #[test]
    fn a_list_shows_whether_it_is_alone() {
        let [own, other] = ["_c_1-lock-0000000000", "_c_2-lock-0000000001"].map(str::to_owned);
        assert!(is_alone(std::slice::from_ref(&own), &own));
        assert!(!is_alone(&[own.clone(), other.clone()], &own));
        assert!(!is_alone(&[other], &own));
        assert!(!is_alone(&[], &own));
    }
}
