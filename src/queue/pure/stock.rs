//! What a session knows of a semaphore, and whether that is worth a try to take permits along with the create at the
//! gate.
//!
//! No permit is granted because of what is known here: [`PermitContender`](super::permits::PermitContender) believes
//! only a count that was made behind the create. A stock that is wrong costs a round trip, or shows others leases that
//! are given back at once.

use super::local_queue::Vacancy;
use super::permits::Limit;

/// After a try that another client has foiled, as many creates at the gate must have got the number that was expected
/// before the next try. It doubles with each try in vain up to [`MAX_DOUBT`], until one succeeds: clients that take turns
/// in a regular pattern foil one try after the other, and soon try rarely.
const DOUBT: u8 = 2;
const MAX_DOUBT: u8 = 32;

/// The stock of permits of a semaphore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stock {
    known: Option<Known>,
    doubt: u8,
    /// The doubt after the last try in vain; zero if one has succeeded since.
    last_doubt: u8,
}

/// What one of our contenders knew when it had taken its permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    /// The gate, as that contender leaves it.
    gate: Vacancy,
    /// How many leases of others there are at most, as long as no one else passes the gate.
    others: usize,
    limit: Limit,
}

impl Stock {
    /// Returns the number that a create at the gate gets if no other client was there since this session passed it last,
    /// provided that the permits are free then, beside `own` leases of the session. `gate` is the knowledge that the gate
    /// is empty now.
    ///
    /// One contender tries at a time: nothing is known until it has its permits, or another one has.
    pub(crate) fn guess(&mut self, gate: Option<Vacancy>, wanted: u32, own: usize) -> Option<i32> {
        let known = self.known.filter(|known| gate == Some(known.gate) && self.doubt == 0)?;
        let number = known.gate.next()?;
        if known.limit.free(known.others + own) < i64::from(wanted) {
            return None;
        }
        self.known = None;
        Some(number)
    }

    /// Records that a guess was wrong.
    pub(crate) fn was_wrong(&mut self) {
        self.last_doubt = self.last_doubt.saturating_mul(2).clamp(DOUBT, MAX_DOUBT);
        self.doubt = self.last_doubt;
    }

    /// Records what a contender knows that has taken permits: the gate as it will leave it, and the leases of others.
    pub(crate) fn taken(&mut self, gate: Vacancy, others: usize, limit: Limit) {
        if self.known.is_some_and(|known| gate.is_next_of(known.gate)) {
            self.doubt = self.doubt.saturating_sub(1);
        }
        if self.known.is_none() && self.doubt == 0 {
            // There was a try, and it was not foiled.
            self.last_doubt = 0;
        }
        self.known = Some(Known { gate, others, limit });
    }
}

#[cfg(test)]
mod tests;
