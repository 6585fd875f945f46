//! One applicant for permits as a state machine: events in, actions out; no I/O, no clock.
//!
//! Leases are created only by the first at the gate. So a count of the leases is an upper bound for as long as we
//! are first, provided that it was made when we already were. All that decides whether that is so is in here, and in
//! [`Vacancy`](super::line::Vacancy).

use super::line::{Connection, Moment, Vacancy};

/// How a place entered its queue: whether the server had it first when it took what was sent right behind the create.
///
/// That the place is granted when the reply is looked at does not tell. Others before it may have come and gone in
/// between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    #[default]
    Unsent,
    /// The first create was sent, with what was known then.
    Sent(Option<Vacancy>),
    /// More than one was sent. What came with the first says nothing about the others.
    Repeated,
}

impl Entry {
    /// A create is sent.
    pub(crate) fn sent(&mut self, vacancy: Option<Vacancy>) {
        *self = match self {
            Self::Unsent => Self::Sent(vacancy),
            Self::Sent(_) | Self::Repeated => Self::Repeated,
        };
    }

    /// What the reply to the create shows, if the place is granted by it: by a list that came along, or since its number
    /// is the one after those of a queue that was empty.
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
    /// Whether the place was first already when the server took what was sent right behind its create.
    pub(crate) since_entry: bool,
}

impl Passage {
    /// Whether what a server shows on that connection is no older than the grant.
    fn is_up_to_date(self, on: Connection) -> bool {
        self.on == on
    }
}

/// How many leases are out, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Count {
    pub(crate) leases: usize,
    pub(crate) limit: Limit,
    /// The connection on which it was asked for.
    pub(crate) asked_on: Connection,
    /// Whether the server was brought up to date right before.
    pub(crate) synced: bool,
}

/// The number of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    /// Everyone must have the same.
    Fixed(u32),
    /// It may have been lowered while more permits were out.
    Shared(i32),
}

/// What became of the last action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has entered the queue at the gate; with the count that was sent right behind the create, if that came.
    Entered {
        passage: Option<Passage>,
        count: Option<Count>,
    },
    /// Where the place at the gate stands now.
    Gate(Option<Passage>),
    Counted(Count),
    /// The leases, or our node at the gate, may have changed since they were counted.
    Changed,
    /// The request failed, and nothing is known about what was asked.
    Failed,
    /// The leases are created.
    Taken,
    /// Our node at the gate does not exist, so that no leases were created.
    GateGone,
    /// The parent of the leases does not exist.
    ParentMissing,
    ParentsMade,
    /// The leases may have been created.
    TakeUnknown,
    /// Whatever was created of them is deleted.
    Undone,
    /// The session of the place at the gate is over.
    SessionOver,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Tell the caller: it has its leases, or it must wait. In the latter case the caller goes on with
    /// [`Applicant::park`] when it wants to wait.
    Report,
    /// Wait until the place at the gate is granted.
    AwaitGate,
    /// Find out where the place at the gate stands.
    LookAtGate,
    /// Count the leases: after bringing the server up to date, with watches on what may change. Our node at the gate is
    /// then watched as well, or found to be gone.
    Count {
        sync: bool,
        watch: bool,
    },
    /// Wait for those watches.
    Await,
    /// Create the leases in one transaction, on condition that our node at the gate exists.
    Take,
    MakeParents,
    /// Delete what may have been created.
    Undo,
    /// Fail: more leases are out than contenders with our number of permits can have taken.
    Refuse {
        leases: usize,
        limit: u32,
    },
}

/// One applicant for some permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Applicant {
    wanted: u32,
    /// Whether it waits for what is not available immediately.
    is_patient: bool,
    passage: Option<Passage>,
    is_granted: bool,
}

impl Applicant {
    pub(crate) fn new(wanted: u32) -> Self {
        Self { wanted, is_patient: false, passage: None, is_granted: false }
    }

    /// Whether it has its leases.
    pub(crate) fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// The next action of an applicant that was told to wait and wants to.
    pub(crate) fn park(&mut self, now: Connection) -> Action {
        self.is_patient = true;
        if self.is_granted { Action::Report } else { self.go_on(now) }
    }

    /// Takes in an event, on the present connection.
    pub(crate) fn on(&mut self, event: Event, now: Connection) -> Action {
        match event {
            Event::Entered { passage, count } => {
                self.passage = passage;
                let since_entry = passage.is_some_and(|passage| passage.since_entry);
                match count.filter(|count| since_entry && count.asked_on == now) {
                    Some(count) => self.judge(count),
                    None => self.go_on(now),
                }
            }
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

    /// What comes next when nothing is known of the leases.
    fn go_on(&self, now: Connection) -> Action {
        match self.passage {
            // An event may have granted the place, which does not oblige the next server to be as far.
            Some(passage) => Action::Count { sync: !passage.is_up_to_date(now), watch: self.is_patient },
            None if self.is_patient => Action::AwaitGate,
            None => Action::Report,
        }
    }

    /// Whether it was counted when we were first at the gate.
    ///
    /// A request that finds no connection is sent on the next one; hence the look at the present one.
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
            Action::Take
        } else if self.is_patient {
            Action::Await
        } else {
            Action::Report
        }
    }
}

impl Count {
    /// How many leases are free; negative if there are more than the limit.
    fn free(self) -> i64 {
        let limit = match self.limit {
            Limit::Fixed(limit) => i64::from(limit),
            Limit::Shared(limit) => i64::from(limit),
        };
        limit.saturating_sub(i64::try_from(self.leases).unwrap_or(i64::MAX))
    }
}

/// Whether more leases are out than contenders can have taken who all have the same number of permits.
///
/// Curator creates a lease before it counts, and deletes it when it gives up; there is at most one such lease, since it
/// is created behind the gate.
fn is_beyond(leases: usize, limit: u32) -> bool {
    u32::try_from(leases).map_or(true, |leases| leases > limit.saturating_add(1))
}
