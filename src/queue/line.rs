//! The local queue: the contenders of one queue that belong to one session, and their shared knowledge of that
//! queue.
//!
//! Pure, like the contender that uses it: no I/O, no clock.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::dates::Dates;
use super::name::Kind;
use super::order::{Queued, is_past_the_last_number};
use super::rule::exclude_each_other;

/// Distinguishes one connection to the servers from the next. What was seen on a connection is only known to be
/// followed by the events of that same connection: after a reconnect, events arrive in no particular order.
pub(crate) type Connection = u64;

/// When the queue was asked about. What was learnt then is useful as long as the same connection and the same
/// parent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Moment {
    pub(crate) on: Connection,
    parent: u64,
}

/// The place of a contender in the local queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rank {
    sequence: i32,
    kind: Kind,
    /// A number that no other contender of the local queue has.
    arrival: u64,
}

/// The requests to send along with a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefetch {
    /// Watch the parent, before the create.
    pub(crate) parent_watch: bool,
    /// List the queue, behind the create.
    pub(crate) list: bool,
}

/// The knowledge, at a moment, that the queue is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Vacancy {
    /// The last number that was ever given.
    up_to: i32,
    at: Moment,
}

/// The local queue of one queue in one session. `W` is what wakes a contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line<W> {
    members: BTreeMap<Rank, Member<W>>,
    arrivals: u64,
    known: Option<Known>,
    /// Counts the times at which the parent may have been replaced.
    parents: u64,
    /// The connection on which the parent is watched without any news so far.
    parent_watched: Option<Connection>,
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

/// Every living contender of other sessions has a number above `up_to`. Each create takes the next number, so
/// `up_to` grows with each create of ours that takes the number right behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    up_to: i32,
    on: Connection,
    /// Whether others were seen above `up_to`.
    is_closed: bool,
}

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self {
            members: BTreeMap::new(),
            arrivals: 0,
            known: None,
            parents: 0,
            parent_watched: None,
            dates: Dates::default(),
        }
    }
}

impl<W: Clone> Line<W> {
    /// Returns the requests that make a queue known, or keep it known, when a node is created now.
    pub(crate) fn prefetch(&self, now: Connection) -> Prefetch {
        let is_watched = self.parent_watched == Some(now);
        // A first contender may be the only one ever, so the watch would not pay off.
        let parent_watch = !is_watched && self.arrivals > 0;
        let is_known = self.known.is_some_and(|known| known.on == now && !known.is_closed);
        Prefetch { parent_watch, list: !is_watched || !is_known }
    }

    /// Returns the moment of a request that is sent now.
    pub(crate) fn moment(&self, now: Connection) -> Moment {
        Moment { on: now, parent: self.parents }
    }

    /// Records that the parent is watched. Returns the moment of the requests that were sent behind that watch.
    pub(crate) fn parent_watched(&mut self, on: Connection) -> Moment {
        // It may be another parent than before.
        self.parent_changed();
        self.parent_watched = Some(on);
        self.moment(on)
    }

    /// Records that the parent may have been deleted and created anew, so that its numbers start again.
    pub(crate) fn parent_changed(&mut self) {
        self.parents += 1;
        self.parent_watched = None;
        self.known = None;
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
        if let Some(up_to) = self.known_up_to(now) {
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
            && self.known_up_to(now).is_some_and(|up_to| rank.sequence <= up_to)
    }

    /// Whether the node of that member is, or was when last heard of, under the current parent.
    fn is_present(&self, member: &Member<W>) -> bool {
        member.parent == Some(self.parents)
    }

    /// Returns the cache of creation dates.
    pub(crate) fn dates(&mut self) -> &mut Dates {
        &mut self.dates
    }

    /// Returns the knowledge that the queue is empty, if it is known to be.
    pub(crate) fn vacancy(&self, now: Connection) -> Option<Vacancy> {
        let up_to = self.known_up_to(now).filter(|_| self.members.is_empty())?;
        Some(Vacancy { up_to, at: self.moment(now) })
    }

    fn known_up_to(&self, now: Connection) -> Option<i32> {
        let is_watched = self.parent_watched == Some(now);
        self.known.filter(|known| is_watched && known.on == now).map(|known| known.up_to)
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
        } else if let Some(known) = &mut self.known {
            known.is_closed |= known.up_to < queue[place].sequence;
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
}

impl Rank {
    fn first_of(sequence: i32) -> Self {
        Self { sequence, kind: Kind::Exclusive, arrival: 0 }
    }

    fn last_of(sequence: i32) -> Self {
        Self { sequence, kind: Kind::Shared, arrival: u64::MAX }
    }

    fn is_past_the_last_number(self) -> bool {
        is_past_the_last_number(self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::super::name::READ_WRITE;
    use super::*;

    fn node(end: &str) -> Queued {
        let name = format!("_c_id-__{end}");
        let (kind, sequence) = READ_WRITE.read(&name).unwrap();
        Queued { name, kind, sequence }
    }

    /// Adds contenders by the ends of their names. Each is woken by its index.
    fn line(ends: &[&str]) -> (Line<usize>, Vec<Rank>) {
        let mut line = Line::default();
        line.parent_watched(1);
        let ranks = ends
            .iter()
            .enumerate()
            .map(|(i, end)| {
                let at = line.moment(1);
                line.arrive(&node(end), Some(at), 1, i)
            })
            .collect();
        (line, ranks)
    }

    const QUEUE: [&str; 5] =
        ["WRIT__0000000001", "READ__0000000002", "READ__0000000003", "WRIT__0000000004", "READ__0000000005"];

    #[test]
    fn a_member_that_leaves_wakes_those_who_may_have_waited_for_it() {
        let (mut line, ranks) = line(&QUEUE);
        assert_eq!(
            ranks.iter().map(|rank| line.is_blocked(*rank)).collect::<Vec<_>>(),
            [false, true, true, true, true]
        );
        assert_eq!(line.leave(ranks[0]), [1, 2, 3]);
        assert_eq!(
            ranks[1..].iter().map(|rank| line.is_blocked(*rank)).collect::<Vec<_>>(),
            [false, false, true, true]
        );
        assert_eq!(line.leave(ranks[3]), [4]);
        assert!(!line.is_blocked(ranks[4]));
        assert_eq!(line.before(ranks[4]), 2);
    }

    #[test]
    fn at_the_front_are_those_that_are_waited_for_and_do_not_wait() {
        let front = |ends: &[&str]| {
            let (line, ranks) = line(ends);
            let front = line.front();
            assert!(front.iter().all(|(rank, _)| line.is_waited_for(*rank) && !line.is_blocked(*rank)));
            front
                .iter()
                .map(|(rank, _)| ranks.iter().position(|known| known == rank).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(front(&QUEUE), [0]);
        assert_eq!(front(&QUEUE[1..]), [0, 1]);
        assert_eq!(front(&QUEUE[2..4]), [0]);
        // No one waits.
        assert_eq!(front(&QUEUE[1..3]), []);
        assert_eq!(front(&QUEUE[..1]), []);
        assert_eq!(front(&["WRIT__2147483647", "WRIT__-2147483648"]), []);
    }

    #[test]
    fn a_writer_that_has_become_a_reader_keeps_the_next_one_waiting() {
        let (mut line, ranks) = line(&[QUEUE[0], QUEUE[3]]);
        let reader = line.follow(&node("READ__0000000001"), &node(QUEUE[0]), 1, 2).unwrap();
        line.leave(ranks[0]);
        assert!(line.is_blocked(ranks[1]));
        assert_eq!(line.leave(reader), [1]);
        assert!(!line.is_blocked(ranks[1]));
    }

    #[test]
    fn a_reader_does_not_follow_a_writer_that_has_left() {
        let (mut line, ranks) = line(&[QUEUE[0], QUEUE[3]]);
        let (reader, writer) = (node("READ__0000000001"), node(QUEUE[0]));
        line.leave(ranks[0]);
        assert_eq!(line.follow(&reader, &writer, 1, 2), None);
        assert!(!line.is_blocked(ranks[1]));
    }

    #[test]
    fn what_is_known_grows_with_each_number_of_ours_in_whatever_order_they_come() {
        let (mut line, ranks) = line(&QUEUE[..1]);
        let at = line.moment(1);
        line.look(&[node(QUEUE[0])], 0, at);
        let third = line.arrive(&node(QUEUE[2]), Some(at), 1, 2);
        assert!(line.is_clear(ranks[0], 1) && !line.is_clear(third, 1));
        let second = line.arrive(&node(QUEUE[1]), Some(at), 1, 1);
        assert!(line.is_clear(second, 1) && line.is_clear(third, 1));
        assert!(!line.is_clear(third, 2));
        assert_eq!(line.prefetch(1), Prefetch { parent_watch: false, list: false });
        assert_eq!(line.prefetch(2), Prefetch { parent_watch: true, list: true });
    }

    #[test]
    fn nothing_is_known_after_the_parent_has_changed() {
        let known = || {
            let (mut line, ranks) = line(&QUEUE[2..3]);
            let at = line.moment(1);
            line.look(&[node(QUEUE[2])], 0, at);
            assert!(line.is_clear(ranks[0], 1));
            (line, ranks[0])
        };
        let (mut line, rank) = known();
        line.parent_changed();
        assert!(!line.is_clear(rank, 1));
        let (mut line, rank) = known();
        let before = line.moment(1);
        line.parent_watched(1);
        assert!(!line.is_clear(rank, 1));
        // Nor by what was requested before it.
        line.look(&[node(QUEUE[2])], 0, before);
        assert!(!line.is_clear(rank, 1));
    }

    #[test]
    fn a_member_of_an_earlier_parent_vouches_for_no_number() {
        let (mut line, left) = line(&[QUEUE[1], QUEUE[2]]);
        // Under the current parent.
        let at = line.parent_watched(1);
        let first = line.arrive(&node(QUEUE[0]), Some(at), 1, 2);
        line.look(&[node(QUEUE[0])], 0, at);
        let next = line.arrive(&node(QUEUE[3]), Some(at), 1, 3);
        assert!(line.is_clear(first, 1) && !line.is_clear(left[0], 1) && !line.is_clear(next, 1));
        assert_eq!(line.before(next), 1);
        // That does not show whether it is gone, only that its number proves nothing.
        assert!(line.is_blocked(next));
        // Once it has been listed, it counts.
        line.look(&QUEUE[..4].iter().map(|end| node(end)).collect::<Vec<_>>(), 3, at);
        assert!(line.is_clear(left[0], 1) && line.is_clear(next, 1));
        assert_eq!(line.before(next), 3);
    }

    #[test]
    fn what_was_listed_under_an_earlier_parent_is_of_that_one() {
        let (mut line, ranks) = line(&[QUEUE[0], QUEUE[1]]);
        let before = line.moment(1);
        let at = line.parent_watched(1);
        line.look(&[node(QUEUE[0]), node(QUEUE[1])], 0, before);
        line.clear_up_to(5, at);
        assert!(!line.is_clear(ranks[0], 1) && !line.is_clear(ranks[1], 1));
    }

    #[test]
    fn a_contender_of_others_ends_what_is_known() {
        let (mut line, ranks) = line(&[QUEUE[1], QUEUE[3]]);
        let (queue, at) = (QUEUE.map(node), line.moment(1));
        assert_eq!(line.look(&queue[1..], 0, at), 2);
        assert!(line.is_clear(ranks[0], 1) && !line.is_clear(ranks[1], 1));
        assert!(!line.prefetch(1).list);
        assert_eq!(line.look(&queue[1..], 2, at), 4);
        assert!(line.prefetch(1).list);
    }

    #[test]
    fn where_numbers_end_nobody_goes_by_the_line() {
        let (mut line, ranks) = line(&["WRIT__2147483646", "WRIT__2147483647", "WRIT__-2147483648"]);
        line.clear_up_to(i32::MAX, line.moment(1));
        assert!(line.is_clear(ranks[0], 1));
        for rank in &ranks[1..] {
            assert!(!line.is_clear(*rank, 1) && !line.is_blocked(*rank));
        }
    }
}
