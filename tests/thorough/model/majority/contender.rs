//! One contender: what it has on each member, and what it believes.

use super::super::queue::quorum::{Next, Pass, Quorum};

/// For how long a hold is valid without contact.
const TERM: u8 = 2;

/// What it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It has not begun, or begins again.
    Outside,
    Passing(Pass),
    Holding,
    Over,
}

/// What it has on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    /// For how long its hold is still valid, if it has one.
    pub(crate) left: Option<u8>,
    pub(crate) is_cut_off: bool,
}

impl Standing {
    fn is_valid(self) -> bool {
        self.left.is_some_and(|left| left > 0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    /// In which order it takes the members.
    order: Vec<usize>,
    pub(crate) phase: Phase,
    /// By member.
    pub(crate) standings: Vec<Standing>,
    /// Whether it has a node in the queue of the member that it takes now.
    pub(crate) is_queued: bool,
    /// Whether the lock was granted at this moment, in which it believes that it holds.
    is_told: bool,
    /// For how long it still believes that it holds, without asking again.
    belief: u8,
}

impl Contender {
    pub(crate) fn new(order: &[usize]) -> Self {
        let mut order = order.to_vec();
        order.sort_unstable();
        Self {
            standings: vec![Standing { left: None, is_cut_off: false }; order.len()],
            order,
            phase: Phase::Outside,
            is_queued: false,
            is_told: false,
            belief: 0,
        }
    }

    fn quorum(&self) -> Quorum {
        Quorum::of(self.order.len()).expect("the games have odd numbers")
    }

    pub(crate) fn start(&mut self) {
        self.phase = Phase::Passing(Pass::new(self.quorum()));
    }

    /// What it does next in its pass.
    pub(crate) fn next(&self) -> Option<Next> {
        if let Phase::Passing(pass) = &self.phase { Some(pass.next()) } else { None }
    }

    /// The member that it takes now, and whether it needs it.
    pub(crate) fn takes(&self) -> Option<(usize, bool)> {
        match self.next()? {
            Next::Take { member, is_needed } => Some((self.order[member], is_needed)),
            Next::Check | Next::GiveUp => None,
        }
    }

    /// Skips the member that it takes now.
    pub(crate) fn skip(&mut self) {
        self.is_queued = false;
        if let Some(Next::Take { member, .. }) = self.next()
            && let Phase::Passing(pass) = &mut self.phase
        {
            pass.misses(member);
        }
    }

    /// Is granted the member that it takes now.
    pub(crate) fn take(&mut self) {
        self.is_queued = false;
        if let Some(Next::Take { member, .. }) = self.next()
            && let Phase::Passing(pass) = &mut self.phase
        {
            pass.takes(member);
            self.standings[self.order[member]].left = Some(TERM);
        }
    }

    /// The members whose loss it may notice.
    pub(crate) fn lapsed(&self) -> impl Iterator<Item = usize> {
        let standings = self.standings.iter().enumerate();
        standings.filter(|(_, standing)| standing.left == Some(0)).map(|(at, _)| at)
    }

    /// Notices during its pass that it has lost a member.
    pub(crate) fn notice(&mut self, member: usize) {
        let at = self.order.iter().position(|other| *other == member).expect("it has all members");
        if let Phase::Passing(pass) = &mut self.phase {
            pass.misses(at);
            self.standings[member].left = None;
        }
    }

    /// Finds out whether it holds the lock. Returns whether it does.
    pub(crate) fn check(&mut self) -> bool {
        let Phase::Passing(pass) = &self.phase else { return false };
        let is_granted = pass.is_granted(|member| self.standings[self.order[member]].is_valid());
        if is_granted {
            self.phase = Phase::Holding;
            self.is_told = true;
            self.read();
        }
        is_granted
    }

    /// Reads for how long it certainly holds.
    fn read(&mut self) {
        let left = self.standings.iter().filter_map(|standing| standing.left);
        self.belief = self.quorum().valid_until(left).unwrap_or_default();
    }

    /// Time goes on. Where there is contact, the sessions are confirmed all the time.
    pub(crate) fn tick(&mut self) {
        self.is_told = false;
        for Standing { left, is_cut_off } in &mut self.standings {
            *left = left.map(|left| if *is_cut_off { left.saturating_sub(1) } else { TERM });
        }
        if self.phase == Phase::Holding {
            self.read();
        }
    }

    /// Whether it believes that it holds: as it is told or finds now, or by what it has read.
    pub(crate) fn believes(&self) -> bool {
        let valid = self.standings.iter().filter(|standing| standing.is_valid()).count();
        self.phase == Phase::Holding && (self.is_told || self.quorum().is_held(valid) || self.belief > 0)
    }

    /// Gives up everything. What it has on the servers is to be removed.
    pub(crate) fn end(&mut self) {
        let cut_off = self.standings.iter().filter(|standing| standing.is_cut_off).count();
        let is_over = self.phase == Phase::Holding || !self.quorum().is_held(self.standings.len() - cut_off);
        self.phase = if is_over { Phase::Over } else { Phase::Outside };
        self.is_queued = false;
        (self.is_told, self.belief) = (false, 0);
        self.standings.iter_mut().for_each(|standing| standing.left = None);
    }
}
