//! What is known of a queue without a list: up to which number it has no contender of another session.

use super::super::connection::Connection;
use super::super::order::is_past_the_last_number;

/// When the queue was asked about. What was learnt then is useful as long as the same connection and the same
/// parent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Moment {
    pub(crate) on: Connection,
    pub(super) parent: u64,
}

/// The knowledge, at a moment, that the queue is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Vacancy {
    /// The last number that was ever given.
    up_to: i32,
    at: Moment,
}

/// What the contenders of one session know together of their queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Knowledge {
    known: Option<Known>,
    /// Counts the times at which the parent may have been replaced.
    parents: u64,
    /// The connection on which the parent is watched without any news so far.
    parent_watched: Option<Connection>,
    /// Whether the latest create of ours has shown others in the queue: the next one probably will, too.
    is_contended: bool,
}

/// Every living contender of other sessions has a number above `up_to`. Each create takes the next number, so
/// `up_to` grows with each create of ours that takes the number right behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    up_to: i32,
    on: Connection,
    /// Whether others were seen above `up_to`.
    is_closed: bool,
}

impl Knowledge {
    /// Returns the moment of a request that is sent now.
    pub(super) fn moment(&self, now: Connection) -> Moment {
        Moment { on: now, parent: self.parents }
    }

    /// Whether that parent is the current one.
    pub(super) fn is_current(&self, parent: Option<u64>) -> bool {
        parent == Some(self.parents)
    }

    pub(super) fn is_parent_watched(&self, now: Connection) -> bool {
        self.parent_watched == Some(now)
    }

    /// Records that the parent is watched. Returns the moment of the requests that were sent behind that watch.
    pub(super) fn parent_watched(&mut self, on: Connection) -> Moment {
        // It may be another parent than before.
        self.parent_changed();
        self.parent_watched = Some(on);
        self.moment(on)
    }

    /// Records that the parent may have been deleted and created anew, so that its numbers start again.
    pub(super) fn parent_changed(&mut self) {
        self.parents += 1;
        self.parent_watched = None;
        self.known = None;
    }

    /// Whether the next create of ours is likely to extend what is known.
    pub(super) fn may_grow(&self, now: Connection) -> bool {
        !self.is_contended && self.known.is_some_and(|known| known.on == now && !known.is_closed)
    }

    /// Returns the number up to which no contender of another session lives; `None` if nothing is known.
    pub(super) fn known_up_to(&self, now: Connection) -> Option<i32> {
        let is_watched = self.is_parent_watched(now);
        self.known.filter(|known| is_watched && known.on == now).map(|known| known.up_to)
    }

    /// Returns what is known, for a queue without local contenders.
    pub(super) fn vacancy(&self, now: Connection) -> Option<Vacancy> {
        Some(Vacancy { up_to: self.known_up_to(now)?, at: self.moment(now) })
    }

    /// Returns what is known when the contender with that number is the last one that was in the queue, and leaves it.
    pub(super) fn vacancy_behind(&self, sequence: i32, now: Connection) -> Vacancy {
        Vacancy { up_to: sequence, at: self.moment(now) }
    }

    /// Records whether the latest create of ours has shown others in the queue.
    pub(super) fn entered(&mut self, behind_others: bool) {
        self.is_contended = behind_others;
    }

    /// Records that others were seen in front of that number.
    pub(super) fn others_before(&mut self, sequence: i32) {
        if let Some(known) = &mut self.known {
            known.is_closed |= known.up_to < sequence;
        }
    }

    /// Records that, as of that moment, no contender of another session lives up to that number.
    pub(super) fn clear_up_to(&mut self, up_to: i32, at: Moment) {
        let is_news = |known: Known| known.on < at.on || known.on == at.on && known.up_to < up_to;
        if at.parent == self.parents && self.known.is_none_or(is_news) {
            self.known = Some(Known { up_to, on: at.on, is_closed: false });
        }
    }
}

impl Vacancy {
    /// Whether a contender that was created at that moment with that number was immediately first. Other local
    /// contenders may be gone by now; but each of them that was ahead has taken a number, too.
    pub(crate) fn was_filled_by(self, sequence: i32, now: Moment) -> bool {
        self.at == now && self.up_to.checked_add(1) == Some(sequence)
    }

    /// Returns the number that the next contender gets if no one has been in the queue since; `None` where numbers
    /// repeat.
    pub(crate) fn next(self) -> Option<i32> {
        self.up_to.checked_add(1).filter(|next| !is_past_the_last_number(*next))
    }

    /// Whether that is the queue as the next contender leaves it, by what was known before and is known now.
    pub(crate) fn is_next_of(self, before: Self) -> bool {
        self.at == before.at && Some(self.up_to) == before.next()
    }
}
