//! Whether a lock that nobody uses keeps its node for the next holder of the same client, and who may take it.
//!
//! Pure, like the contender: no I/O, no clock.

use super::passing::PassOn;

/// The node of a lock that may linger, from its grant until it is deleted.
///
/// A holder by a node that lingers makes no request, so nothing but this tells it that it may hold. That the node is
/// the first of its queue is known from its grant, and stays true for as long as it exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Linger {
    is_held: bool,
    seen: Seen,
}

/// What is known of the contenders behind the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seen {
    /// The queue was not listed yet.
    Nothing,
    /// The node was alone when the queue was listed. The watch tells of anyone who comes.
    Alone,
    /// Someone has come or may have come, or asks for the lock: the node is deleted when no one holds.
    Others,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// The queue was listed, and a watch was set on its children by the same request.
    Looked { is_alone: bool },
    /// That request has failed; or the watch has fired, or has ended with its connection.
    Changed,
    /// Someone asks for the lock.
    Asked,
    /// The time to linger is over.
    Deadline,
    /// The last guard of a hold is gone.
    Released(PassOn),
    /// An owner of this client wants the lock.
    Wanted(Circumstances),
}

/// What an owner that wants the lock finds at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Circumstances {
    /// Whether a guard of this node would be valid, without a doubt about the session.
    pub(crate) is_sound: bool,
    /// Whether the time to linger is not over.
    pub(crate) is_in_time: bool,
    /// Whether the watch has fired or has ended.
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
    pub(crate) fn new() -> Self {
        Self { is_held: true, seen: Seen::Nothing }
    }

    /// Whether no one holds by the node.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_held
    }

    pub(crate) fn on(&mut self, event: Event) -> Action {
        match event {
            Event::Looked { is_alone } if is_alone && self.seen == Seen::Nothing => {
                self.seen = Seen::Alone;
                Action::Keep
            }
            Event::Looked { .. } | Event::Changed | Event::Asked => {
                self.seen = Seen::Others;
                self.delete_unless_held()
            }
            Event::Deadline => self.delete_unless_held(),
            Event::Released(pass_on) => {
                self.is_held = false;
                // A transaction of this holder may yet be carried out, as long as the node exists.
                if self.seen == Seen::Others || pass_on == PassOn::WhenGone {
                    return Action::Delete;
                }
                Action::Keep
            }
            Event::Wanted(now) => self.wanted(now),
        }
    }

    fn delete_unless_held(&self) -> Action {
        if self.is_held { Action::Keep } else { Action::Delete }
    }

    fn wanted(&mut self, now: Circumstances) -> Action {
        if self.is_held {
            return Action::Queue;
        }
        let may_hold = now.is_sound && now.is_in_time;
        if !may_hold || now.has_changed || now.is_asked || now.others_queue {
            return Action::Delete;
        }
        if self.seen != Seen::Alone {
            return Action::Await;
        }
        self.is_held = true;
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

    const FINE: Circumstances = Circumstances {
        is_sound: true,
        is_in_time: true,
        has_changed: false,
        is_asked: false,
        others_queue: false,
    };

    fn lingering() -> Linger {
        let mut linger = Linger::new();
        assert_eq!(linger.on(Event::Looked { is_alone: true }), Action::Keep);
        assert_eq!(linger.on(Event::Released(PassOn::AtOnce)), Action::Keep);
        linger
    }

    #[test]
    fn one_holder_after_the_other_takes_the_node() {
        let mut linger = lingering();
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Grant);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Queue, "it is held");
        assert_eq!(linger.on(Event::Deadline), Action::Keep, "it is held");
        assert_eq!(linger.on(Event::Released(PassOn::AtOnce)), Action::Keep);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Grant);
    }

    #[test]
    fn no_one_takes_it_before_the_list() {
        let mut linger = Linger::new();
        assert_eq!(linger.on(Event::Released(PassOn::AtOnce)), Action::Keep);
        assert_eq!(linger.on(Event::Wanted(FINE)), Action::Await);
        assert_eq!(linger.on(Event::Looked { is_alone: true }), Action::Keep);
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
        for event in [Event::Changed, Event::Asked, Event::Deadline, Event::Looked { is_alone: false }] {
            assert_eq!(lingering().on(event), Action::Delete, "{event:?}");
        }
    }

    #[test]
    fn what_comes_during_a_hold_ends_it_with_the_hold() {
        for event in [Event::Changed, Event::Asked, Event::Looked { is_alone: false }] {
            let mut linger = Linger::new();
            assert_eq!(linger.on(event), Action::Keep);
            assert_eq!(linger.on(Event::Looked { is_alone: true }), Action::Keep, "a late answer");
            assert_eq!(linger.on(Event::Released(PassOn::AtOnce)), Action::Delete, "{event:?}");
        }
        assert_eq!(Linger::new().on(Event::Released(PassOn::WhenGone)), Action::Delete);
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
