//! The local queue: the contenders of one queue that belong to one session, and their shared knowledge of that
//! queue.
//!
//! Pure, like the contender that uses it: no I/O, no clock.

mod knowledge;
mod rank;

use std::collections::BTreeMap;
use std::ops::Bound;

use self::knowledge::Knowledge;
pub(crate) use self::knowledge::{Moment, Vacancy};
pub(crate) use self::rank::Rank;
use super::connection::Connection;
use super::dates::Dates;
use super::name::Kind;
use super::order::Queued;
use super::rule::exclude_each_other;

/// The requests to send along with a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefetch {
    /// Watch the parent, before the create.
    pub(crate) parent_watch: bool,
    /// List the queue, behind the create.
    pub(crate) list: bool,
}

/// The local queue of one queue in one session. `W` is what wakes a contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LocalQueue<W> {
    members: BTreeMap<Rank, Member<W>>,
    /// How many of them are exclusive.
    exclusive: usize,
    arrivals: u64,
    knowledge: Knowledge,
    dates: Dates,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member<W> {
    name: String,
    wake: W,
    /// The parent under which its node was last known to be; `None` if that was never known.
    ///
    /// The number of the node is one of that parent's. Under a later parent the same number may be that of another
    /// contender.
    parent: Option<u64>,
}

impl<W> Default for LocalQueue<W> {
    fn default() -> Self {
        Self {
            members: BTreeMap::new(),
            exclusive: 0,
            arrivals: 0,
            knowledge: Knowledge::default(),
            dates: Dates::default(),
        }
    }
}

impl<W: Clone> LocalQueue<W> {
    /// Returns the requests that make a queue known, or keep it known, when a node is created now. `is_being_listed` says
    /// that the reply to another such list is awaited, and that the new contender will wait for the one that asked.
    pub(crate) fn prefetch(&self, now: Connection, is_being_listed: bool) -> Prefetch {
        let is_watched = self.knowledge.is_parent_watched(now);
        // A first contender may be the only one ever, so the watch would not pay off.
        let parent_watch = !is_watched && self.arrivals > 0;
        let is_known = is_watched && self.knowledge.may_grow(now);
        Prefetch { parent_watch, list: !is_known && !is_being_listed && !self.will_block() }
    }

    /// Whether the next contender will most likely have to wait for one of the local queue: two would have to leave before
    /// it comes.
    fn will_block(&self) -> bool {
        let last = self.members.keys().rev().take(2);
        last.filter(|rank| rank.kind == Kind::Exclusive).count() == 2
    }

    /// Records whether the latest create has shown others in the queue. If so, the next one lists it as well.
    pub(crate) fn entered(&mut self, behind_others: bool) {
        self.knowledge.entered(behind_others);
    }

    /// Returns the moment of a request that is sent now.
    pub(crate) fn moment(&self, now: Connection) -> Moment {
        self.knowledge.moment(now)
    }

    /// Records that the parent is watched. Returns the moment of the requests that were sent behind that watch.
    pub(crate) fn parent_watched(&mut self, on: Connection) -> Moment {
        self.knowledge.parent_watched(on)
    }

    /// Records that the parent may have been deleted and created anew, so that its numbers start again.
    pub(crate) fn parent_changed(&mut self) {
        self.knowledge.parent_changed();
    }

    /// Adds a contender whose node exists. `created` is the moment of its create, if the create was answered.
    ///
    /// Pass `created` only for a node that took the next number; a downgraded reader has the number of its writer.
    pub(crate) fn arrive(
        &mut self,
        node: &Queued,
        created: Option<Moment>,
        now: Connection,
        wake: W,
    ) -> Rank {
        self.arrivals += 1;
        let rank = Rank { sequence: node.sequence, kind: node.kind, arrival: self.arrivals };
        let parent = created.map(|at| at.parent);
        self.members.insert(rank, Member { name: node.name.clone(), wake, parent });
        self.exclusive += usize::from(rank.kind == Kind::Exclusive);
        if let Some(up_to) = self.knowledge.known_up_to(now) {
            self.clear_up_to(self.last_in_a_row(up_to), self.moment(now));
        }
        rank
    }

    /// Adds the reader that a writer downgrades to; `None` if the writer has left the local queue. In that case a
    /// waiter behind it may have been granted already, and does not know of the reader.
    pub(crate) fn follow(
        &mut self,
        reader: &Queued,
        writer: &Queued,
        now: Connection,
        wake: W,
    ) -> Option<Rank> {
        if self.has(writer) { Some(self.arrive(reader, None, now, wake)) } else { None }
    }

    /// Returns the last number, starting from `number`, up to which all numbers belong to local contenders. Members
    /// that may be left over from an earlier parent do not count: their numbers have been given again.
    fn last_in_a_row(&self, mut number: i32) -> i32 {
        let behind = self.members.range(Rank::first_of(number.saturating_add(1))..);
        for rank in behind.filter(|(_, member)| self.is_present(member)).map(|(rank, _)| rank) {
            if rank.is_past_the_last_number() || rank.sequence > number + 1 {
                break;
            }
            number = rank.sequence;
        }
        number
    }

    /// Removes a contender, and returns those that may have waited for it.
    ///
    /// Its node is gone or is being deleted, or can never again lead to a grant.
    pub(crate) fn leave(&mut self, rank: Rank) -> Vec<W> {
        let mut woken = Vec::new();
        if self.members.remove(&rank).is_none() {
            return woken;
        }
        self.exclusive -= usize::from(rank.kind == Kind::Exclusive);
        if self.exclusive == 0 && rank.kind == Kind::Shared {
            // No one waits. There may be thousands, as of leases.
            return woken;
        }
        for (behind, member) in self.members.range(rank..) {
            woken.push(member.wake.clone());
            if behind.kind == Kind::Exclusive {
                // A waiter behind this one waits for it, or for one behind it.
                break;
            }
        }
        woken
    }

    /// Whether this contender must wait for another one of the local queue.
    ///
    /// That may be one that is left over from an earlier parent: it may as well belong to this one, and hold. It
    /// leaves the local queue when it learns that its node is gone.
    pub(crate) fn is_blocked(&self, rank: Rank) -> bool {
        // Where numbers do not determine the order, the local queue is not used.
        !rank.is_past_the_last_number()
            && self
                .members
                .range(Rank::first_of(0)..rank)
                .rev()
                .any(|(before, _)| exclude_each_other(before.kind, rank.kind))
    }

    /// Whether another contender of the local queue must wait for this one.
    pub(crate) fn is_waited_for(&self, rank: Rank) -> bool {
        let behind = self.members.range((Bound::Excluded(rank), Bound::Unbounded));
        self.is_member(rank)
            && behind.into_iter().any(|(behind, _)| exclude_each_other(rank.kind, behind.kind))
    }

    /// Returns the local contenders that others of the local queue wait for and that wait for none of it
    /// themselves, with the names of their nodes.
    pub(crate) fn front(&self) -> Vec<(Rank, String)> {
        let mut front: Vec<(Rank, String)> = Vec::new();
        // Where numbers do not determine the order, the local queue is not used.
        for (rank, member) in self.members.range(Rank::first_of(0)..Rank::first_of(i32::MAX)) {
            if front.last().is_some_and(|(before, _)| exclude_each_other(before.kind, rank.kind)) {
                return front;
            }
            front.push((*rank, member.name.clone()));
        }
        // No one waits.
        Vec::new()
    }

    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// Whether a contender that was just created with that number shows that there are no others but local ones.
    pub(crate) fn is_next(&self, number: i32, now: Connection) -> bool {
        let next = self.knowledge.vacancy(now).and_then(Vacancy::next);
        next == Some(number)
    }

    pub(crate) fn is_member(&self, rank: Rank) -> bool {
        self.members.contains_key(&rank)
    }

    /// Returns how many local contenders are ahead of this one, in a known queue.
    pub(crate) fn before(&self, rank: Rank) -> usize {
        self.members.range(Rank::first_of(0)..rank).filter(|(_, member)| self.is_present(member)).count()
    }

    /// Whether all contenders ahead of this one are in the local queue.
    pub(crate) fn is_clear(&self, rank: Rank, now: Connection) -> bool {
        !rank.is_past_the_last_number()
            && self.members.get(&rank).is_some_and(|member| self.is_present(member))
            && self.knowledge.known_up_to(now).is_some_and(|up_to| rank.sequence <= up_to)
    }

    /// Whether the node of that member is, or was when last heard of, under the current parent.
    fn is_present(&self, member: &Member<W>) -> bool {
        self.knowledge.is_current(member.parent)
    }

    /// Returns the cache of creation dates.
    pub(crate) fn dates(&mut self) -> &mut Dates {
        &mut self.dates
    }

    /// Returns the knowledge that the queue is empty, if it is known to be.
    pub(crate) fn vacancy(&self, now: Connection) -> Option<Vacancy> {
        self.knowledge.vacancy(now).filter(|_| self.members.is_empty())
    }

    /// Returns what is known when that contender is the last one that was in the queue, and leaves it.
    pub(crate) fn vacancy_behind(&self, rank: Rank, now: Connection) -> Vacancy {
        self.knowledge.vacancy_behind(rank.sequence, now)
    }

    /// Whether this is the node of a local contender.
    pub(crate) fn has(&self, node: &Queued) -> bool {
        let (first, last) = (Rank::first_of(node.sequence), Rank::last_of(node.sequence));
        self.members.range(first..=last).any(|(_, member)| member.name == node.name)
    }

    /// Records a queue as it was listed at that moment, seen from the place of a local contender. Returns the last
    /// number of the run of local contenders that begins with it.
    pub(crate) fn look(&mut self, queue: &[Queued], place: usize, at: Moment) -> i32 {
        self.confirm(queue, at);
        let run = queue[place..].iter().take_while(|queued| self.has(queued));
        let run = run.last().map_or(queue[place].sequence, |last| last.sequence);
        if queue[..place].iter().all(|before| self.has(before)) {
            self.clear_up_to(run, at);
        } else {
            self.knowledge.others_before(queue[place].sequence);
        }
        run
    }

    /// Records that the members listed at that moment are under the parent of that moment.
    fn confirm(&mut self, queue: &[Queued], at: Moment) {
        for queued in queue {
            let (first, last) = (Rank::first_of(queued.sequence), Rank::last_of(queued.sequence));
            let of_that_number = self.members.range_mut(first..=last).map(|(_, member)| member);
            for member in of_that_number.filter(|member| member.name == queued.name) {
                member.parent = member.parent.max(Some(at.parent));
            }
        }
    }

    /// Records that, as of that moment, no contender of another session lives up to that number.
    pub(crate) fn clear_up_to(&mut self, up_to: i32, at: Moment) {
        self.knowledge.clear_up_to(up_to, at);
    }
}

#[cfg(test)]
mod tests;
