//! One contender for permits as a state machine: events in, actions out; no I/O, no clock.
//!
//! Only the first contender at the gate creates leases. So a count of the leases is an upper bound for as long as
//! we are first, provided that we already were when it was made. Every decision about that is made here and in
//! [`Vacancy`](super::local_queue::Vacancy).
//!
//! Leases that were created along with the node at the gate are kept under the same condition.

use super::connection::Connection;
use super::local_queue::{Moment, Vacancy};

/// How a place entered its queue: whether it was already first when the server handled the requests sent right
/// behind the create.
///
/// That the place is granted when the reply is handled does not prove it: others ahead of it may have come and gone
/// in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    #[default]
    Unsent,
    /// The first create was sent, with what was known then.
    Sent(Option<Vacancy>),
    /// More than one create was sent. The replies that came with the first prove nothing about the others.
    Repeated,
}

impl Entry {
    /// Records that a create is sent.
    pub(crate) fn sent(&mut self, vacancy: Option<Vacancy>) {
        *self = match self {
            Self::Unsent => Self::Sent(vacancy),
            Self::Sent(_) | Self::Repeated => Self::Repeated,
        };
    }

    /// Whether the reply to the create proves that the place was first at once, given that the reply grants it:
    /// because of the list that came along, or because its number is the next one of a queue that was empty.
    pub(crate) fn shows(self, sequence: i32, listed: bool, now: Moment) -> bool {
        match self {
            Self::Sent(vacancy) => {
                listed || vacancy.is_some_and(|vacancy| vacancy.was_filled_by(sequence, now))
            }
            Self::Unsent | Self::Repeated => false,
        }
    }
}

/// A granted place at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Passage {
    /// The connection on which the grant was learnt.
    pub(crate) on: Connection,
    /// Whether the place was already first when the server handled the requests sent right behind its create.
    pub(crate) since_entry: bool,
}

impl Passage {
    /// Whether the replies on that connection are no older than the grant.
    fn is_up_to_date(self, on: Connection) -> bool {
        self.on == on
    }
}

/// How many leases are in use, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Count {
    pub(crate) leases: usize,
    pub(crate) limit: Limit,
    /// The connection on which it was requested.
    pub(crate) asked_on: Connection,
    /// Whether the server was brought up to date right before.
    pub(crate) synced: bool,
}

/// The number of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    /// The same number for every contender.
    Fixed(u32),
    /// A shared count, which may have been lowered while more permits were in use.
    Shared(i32),
}

/// The outcome of the last action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has entered the queue at the gate. `count` is the count that was sent right behind the create, if its
    /// reply came.
    Entered {
        passage: Option<Passage>,
        count: Option<Count>,
    },
    /// It has entered the queue at the gate, and its leases were created in the same transaction. `count` is the count
    /// that was sent right behind it, if its reply came.
    EnteredWithLeases {
        passage: Option<Passage>,
        count: Option<Count>,
    },
    /// The state of the place at the gate.
    Gate(Option<Passage>),
    Counted(Count),
    /// The leases, or our node at the gate, may have changed since the count.
    Changed,
    /// The request failed and nothing was learnt.
    Failed,
    /// The leases are created.
    Taken,
    /// Our node at the gate does not exist, so no leases were created.
    GateGone,
    /// The parent of the leases does not exist.
    ParentMissing,
    ParentsMade,
    /// The leases may have been created.
    TakeUnknown,
    /// Whatever was created of them has been deleted.
    Undone,
    /// The session of the place at the gate is over.
    SessionOver,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Tell the caller that it has its leases, or that it must wait. In the latter case the caller continues with
    /// [`PermitContender::park`] if it wants to wait.
    Report,
    /// Wait until the place at the gate is granted.
    AwaitGate,
    /// Find out whether the place at the gate is granted.
    LookAtGate,
    /// Count the leases. `sync` brings the server up to date first; `watch` sets watches on what may change, which
    /// include our node at the gate, or find it gone.
    Count {
        sync: bool,
        watch: bool,
    },
    /// Wait for those watches.
    Await,
    /// Create the leases in one transaction, on condition that our node at the gate exists. They are free by that
    /// count.
    Take(Count),
    /// Keep the leases that were created along with our node at the gate. They are among the counted ones.
    Keep(Count),
    MakeParents,
    /// Delete the leases that may have been created.
    Undo,
    /// Fail: more leases are in use than contenders with our number of permits can have taken.
    Refuse {
        leases: usize,
        limit: u32,
    },
}

/// One contender for a number of permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PermitContender {
    wanted: u32,
    /// Whether it waits for permits that are not available immediately.
    is_patient: bool,
    passage: Option<Passage>,
    is_granted: bool,
}

impl PermitContender {
    pub(crate) fn new(wanted: u32) -> Self {
        Self { wanted, is_patient: false, passage: None, is_granted: false }
    }

    /// Whether it has its leases.
    pub(crate) fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// Whether it waits for permits that are not available immediately.
    pub(crate) fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// Returns the next action of a contender that was told to wait, and wants to.
    pub(crate) fn park(&mut self, now: Connection) -> Action {
        self.is_patient = true;
        if self.is_granted { Action::Report } else { self.go_on(now) }
    }

    /// Handles an event, on the current connection.
    pub(crate) fn on(&mut self, event: Event, now: Connection) -> Action {
        match event {
            Event::Entered { passage, count } => match self.enter(passage, count, now) {
                Some(count) => self.judge(count),
                None => self.go_on(now),
            },
            Event::EnteredWithLeases { passage, count } => match self.enter(passage, count, now) {
                Some(count) if count.free() >= 0 => Action::Keep(count),
                Some(_) | None => Action::Undo,
            },
            Event::Gate(passage) => {
                self.passage = passage;
                self.go_on(now)
            }
            Event::Counted(count) if self.is_believed(count, now) => self.judge(count),
            Event::Counted(_) | Event::Changed | Event::Failed | Event::ParentsMade | Event::Undone => {
                self.go_on(now)
            }
            Event::Taken => {
                self.is_granted = true;
                Action::Report
            }
            Event::ParentMissing => Action::MakeParents,
            Event::TakeUnknown => Action::Undo,
            Event::GateGone | Event::SessionOver => {
                self.passage = None;
                Action::LookAtGate
            }
        }
    }

    /// Records how it has entered the queue at the gate. Returns the count that was sent right behind the create, if it
    /// is believed.
    fn enter(&mut self, passage: Option<Passage>, count: Option<Count>, now: Connection) -> Option<Count> {
        self.passage = passage;
        let since_entry = passage.is_some_and(|passage| passage.since_entry);
        count.filter(|count| since_entry && count.asked_on == now)
    }

    /// Returns the next action when nothing is known about the leases.
    fn go_on(&self, now: Connection) -> Action {
        match self.passage {
            // An event may have granted the place, and another server need not have caught up with it.
            Some(passage) => Action::Count { sync: !passage.is_up_to_date(now), watch: self.is_patient },
            None if self.is_patient => Action::AwaitGate,
            None => Action::Report,
        }
    }

    /// Whether it was counted when we were already first at the gate.
    ///
    /// A request without a connection is sent on the next one, so the connection of the count is compared with the
    /// current one.
    fn is_believed(&self, count: Count, now: Connection) -> bool {
        let Some(passage) = self.passage else { return false };
        count.asked_on == now && (count.synced || passage.is_up_to_date(now))
    }

    fn judge(&self, count: Count) -> Action {
        if let Limit::Fixed(limit) = count.limit
            && is_beyond(count.leases, limit)
        {
            return Action::Refuse { leases: count.leases, limit };
        }
        if count.free() >= i64::from(self.wanted) {
            Action::Take(count)
        } else if self.is_patient {
            Action::Await
        } else {
            Action::Report
        }
    }
}

impl Count {
    /// Returns how many leases are free; negative if more are in use than the limit.
    fn free(self) -> i64 {
        self.limit.free(self.leases)
    }
}

impl Limit {
    /// Returns how many permits are free beside that many leases; negative if there are too many.
    pub(super) fn free(self, leases: usize) -> i64 {
        let limit = match self {
            Self::Fixed(limit) => i64::from(limit),
            Self::Shared(limit) => i64::from(limit),
        };
        limit.saturating_sub(i64::try_from(leases).unwrap_or(i64::MAX))
    }
}

/// Whether more leases are in use than contenders can have taken that all have the same number of permits.
///
/// Curator creates a lease before it counts, and deletes it when it gives up. There is at most one such lease,
/// since it is created behind the gate.
fn is_beyond(leases: usize, limit: u32) -> bool {
    u32::try_from(leases).map_or(true, |leases| leases > limit.saturating_add(1))
}
