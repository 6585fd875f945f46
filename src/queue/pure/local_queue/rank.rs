//! Where a contender stands among those of its session.

use super::super::name::Kind;
use super::super::order::is_past_the_last_number;

/// The place of a contender in the local queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rank {
    pub(super) sequence: i32,
    pub(super) kind: Kind,
    /// A number that no other contender of the local queue has.
    pub(super) arrival: u64,
}

impl Rank {
    pub(super) fn first_of(sequence: i32) -> Self {
        Self { sequence, kind: Kind::Exclusive, arrival: 0 }
    }

    pub(super) fn last_of(sequence: i32) -> Self {
        Self { sequence, kind: Kind::Shared, arrival: u64::MAX }
    }

    pub(super) fn is_past_the_last_number(self) -> bool {
        is_past_the_last_number(self.sequence)
    }
}
