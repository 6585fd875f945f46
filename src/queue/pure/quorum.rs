//! A lock on several ensembles. Its holder is the client that holds a majority of its members.
//!
//! Each member is a lock that excludes on its own ensemble. Two majorities of the same members have a member in common,
//! so there is one holder at a time, provided that each holder counts only what it holds at the same moment.

/// The number of members of which a majority holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quorum {
    members: usize,
}

impl Quorum {
    /// Returns `None` unless the number is odd and at least 3: an even number bears no more losses than the odd one
    /// below it.
    pub(crate) fn of(members: usize) -> Option<Self> {
        (members >= 3 && members % 2 == 1).then_some(Self { members })
    }

    /// More than half of all members, whether they answer or not.
    pub(crate) fn majority(self) -> usize {
        self.members / 2 + 1
    }

    /// Whether the lock is held by so many members that are valid now.
    pub(crate) fn is_held(self, valid: usize) -> bool {
        valid >= self.majority()
    }

    /// Returns the time until which a majority is certainly held: the latest by which no more than a minority has
    /// ended. `None` if there are too few.
    ///
    /// Takes for each member that was granted the time until which it is certainly held.
    pub(crate) fn valid_until<T: Ord>(self, members: impl IntoIterator<Item = T>) -> Option<T> {
        let mut members: Vec<T> = members.into_iter().collect();
        members.sort_unstable_by(|one, other| other.cmp(one));
        members.into_iter().nth(self.majority() - 1)
    }
}

/// One way through all members in their order, by a contender that wants to hold a majority.
///
/// It waits only for a member that comes after all members that it holds, so contenders never wait in a circle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pass {
    quorum: Quorum,
    members: Vec<Standing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// It was not tried yet.
    Ahead,
    Taken,
    /// It was skipped, or lost after it was taken.
    Missing,
}

/// What a contender does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Next {
    /// Take this member. If it `is_needed`, wait for its holder for as long as the caller has time. Otherwise a
    /// majority is held without it: wait only briefly.
    Take { member: usize, is_needed: bool },
    /// Ask whether the lock [is granted](Pass::is_granted).
    Check,
    /// Release everything: too many members are missing.
    GiveUp,
}

impl Pass {
    pub(crate) fn new(quorum: Quorum) -> Self {
        Self { quorum, members: vec![Standing::Ahead; quorum.members] }
    }

    pub(crate) fn next(&self) -> Next {
        if !self.can_be_granted() {
            return Next::GiveUp;
        }
        match self.members.iter().position(|member| *member == Standing::Ahead) {
            Some(member) => Next::Take { member, is_needed: !self.quorum.is_held(self.taken().count()) },
            None => Next::Check,
        }
    }

    /// Whether enough members are not missing.
    pub(crate) fn can_be_granted(&self) -> bool {
        let missing = self.members.iter().filter(|member| **member == Standing::Missing).count();
        self.quorum.is_held(self.members.len() - missing)
    }

    /// Records that a member was granted.
    pub(crate) fn takes(&mut self, member: usize) {
        self.members[member] = Standing::Taken;
    }

    /// Records that a member is skipped, or was lost.
    pub(crate) fn misses(&mut self, member: usize) {
        self.members[member] = Standing::Missing;
    }

    /// Whether the lock is granted, after all members were tried. What was granted on the way may be over: each member
    /// that was taken is asked whether it is valid now.
    pub(crate) fn is_granted(&self, is_valid: impl Fn(usize) -> bool) -> bool {
        let valid = self.taken().filter(|member| is_valid(*member)).count();
        self.quorum.is_held(valid)
    }

    fn taken(&self) -> impl Iterator<Item = usize> {
        let members = self.members.iter().enumerate();
        members.filter(|(_, member)| **member == Standing::Taken).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Quorum {
        Quorum::of(3).unwrap()
    }

    #[test]
    fn only_odd_numbers_from_three_on_have_a_majority_that_bears_losses() {
        for number in [0, 1, 2, 4, 6] {
            assert_eq!(Quorum::of(number), None);
        }
        assert_eq!([3, 5, 7].map(|number| Quorum::of(number).unwrap().majority()), [2, 3, 4]);
    }

    #[test]
    fn it_is_valid_for_as_long_as_a_majority_is() {
        assert_eq!(three().valid_until([3, 9, 5]), Some(5));
        assert_eq!(three().valid_until([9, 3]), Some(3), "one was never granted");
        assert_eq!(three().valid_until([9]), None);
        assert_eq!(Quorum::of(5).unwrap().valid_until([1, 2, 3, 4, 5]), Some(3));
    }

    #[test]
    fn a_pass_tries_all_members_in_their_order() {
        let mut pass = Pass::new(three());
        assert_eq!(pass.next(), Next::Take { member: 0, is_needed: true });
        pass.takes(0);
        assert_eq!(pass.next(), Next::Take { member: 1, is_needed: true });
        pass.takes(1);
        assert_eq!(pass.next(), Next::Take { member: 2, is_needed: false });
        pass.takes(2);
        assert_eq!(pass.next(), Next::Check);
        assert!(pass.is_granted(|_| true));
        assert!(pass.is_granted(|member| member != 0));
        assert!(!pass.is_granted(|member| member == 0));
    }

    #[test]
    fn a_minority_may_be_missing() {
        let mut pass = Pass::new(three());
        pass.misses(0);
        pass.takes(1);
        assert_eq!(pass.next(), Next::Take { member: 2, is_needed: true });
        pass.takes(2);
        assert_eq!(pass.next(), Next::Check);
        assert!(pass.is_granted(|_| true));
        pass.misses(1);
        assert_eq!(pass.next(), Next::GiveUp, "it was lost");
        assert!(!pass.is_granted(|_| true));
    }

    #[test]
    fn a_pass_ends_as_soon_as_too_many_are_missing() {
        let mut pass = Pass::new(Quorum::of(5).unwrap());
        for member in [0, 3] {
            pass.misses(member);
            assert!(pass.can_be_granted());
        }
        assert_eq!(pass.next(), Next::Take { member: 1, is_needed: true });
        pass.misses(1);
        assert_eq!(pass.next(), Next::GiveUp);
    }
}
