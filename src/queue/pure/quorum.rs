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
