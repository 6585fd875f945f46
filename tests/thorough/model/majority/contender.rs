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
    /// Until when its hold is valid, if it has one.
    pub(crate) until: Option<u8>,
    pub(crate) is_cut_off: bool,
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
    /// When the lock was granted, at which moment it believes that it holds.
    granted_at: Option<u8>,
    /// Until when it believes that it holds, without asking again.
    believes_until: u8,
}

impl Contender {
    pub(crate) fn new(order: &[usize]) -> Self {
        let mut order = order.to_vec();
        order.sort_unstable();
        Self {
            standings: vec![Standing { until: None, is_cut_off: false }; order.len()],
            order,
            phase: Phase::Outside,
            is_queued: false,
            granted_at: None,
            believes_until: 0,
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
    pub(crate) fn take(&mut self, now: u8) {
        self.is_queued = false;
        if let Some(Next::Take { member, .. }) = self.next()
            && let Phase::Passing(pass) = &mut self.phase
        {
            pass.takes(member);
            self.standings[self.order[member]].until = Some(now + TERM);
        }
    }

    /// The members whose loss it may notice.
    pub(crate) fn lapsed(&self, now: u8) -> impl Iterator<Item = usize> {
        let standings = self.standings.iter().enumerate();
        standings
            .filter(move |(_, standing)| standing.until.is_some_and(|until| until <= now))
            .map(|(at, _)| at)
    }

    /// Notices during its pass that it has lost a member.
    pub(crate) fn notice(&mut self, member: usize) {
        let at = self.order.iter().position(|other| *other == member).expect("it has all members");
        if let Phase::Passing(pass) = &mut self.phase {
            pass.misses(at);
            self.standings[member].until = None;
        }
    }

    /// Finds out whether it holds the lock. Returns whether it does.
    pub(crate) fn check(&mut self, now: u8) -> bool {
        let Phase::Passing(pass) = &self.phase else { return false };
        let is_granted = pass.is_granted(|member| self.is_valid_at(self.order[member], now));
        if is_granted {
            self.phase = Phase::Holding;
            self.granted_at = Some(now);
            self.read();
        }
        is_granted
    }

    fn is_valid_at(&self, member: usize, now: u8) -> bool {
        self.standings[member].until.is_some_and(|until| now < until)
    }

    /// Reads until when it certainly holds.
    fn read(&mut self) {
        let until = self.standings.iter().filter_map(|standing| standing.until);
        self.believes_until = self.quorum().valid_until(until).unwrap_or_default();
    }

    /// Where there is contact, the sessions are confirmed all the time.
    pub(crate) fn confirm(&mut self, now: u8) {
        for standing in self.standings.iter_mut().filter(|standing| !standing.is_cut_off) {
            standing.until = standing.until.map(|_| now + TERM);
        }
        if self.phase == Phase::Holding {
            self.read();
        }
    }

    /// Whether it believes that it holds: as it is told or finds now, or by what it has read.
    pub(crate) fn believes(&self, now: u8) -> bool {
        let valid = (0..self.standings.len()).filter(|member| self.is_valid_at(*member, now)).count();
        let is_told = self.granted_at == Some(now);
        self.phase == Phase::Holding && (is_told || self.quorum().is_held(valid) || now < self.believes_until)
    }

    /// Gives up everything. What it has on the servers is to be removed.
    pub(crate) fn end(&mut self) {
        let cut_off = self.standings.iter().filter(|standing| standing.is_cut_off).count();
        let is_over = self.phase == Phase::Holding || !self.quorum().is_held(self.standings.len() - cut_off);
        self.phase = if is_over { Phase::Over } else { Phase::Outside };
        self.is_queued = false;
        self.granted_at = None;
        self.believes_until = 0;
        self.standings.iter_mut().for_each(|standing| standing.until = None);
    }
}
