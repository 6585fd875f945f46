//! The games that are played: who contends, and what may go wrong.

use std::fmt;

#[derive(Clone, Debug)]
pub(crate) struct Game {
    /// In which order each contender is given the members.
    pub(crate) contenders: &'static [&'static [usize]],
    /// How often a contender loses contact with a member, for good.
    pub(crate) cuts: u8,
    /// How often a contender skips a member that is only slow.
    pub(crate) skips: u8,
    /// A member that somebody else holds for ever.
    pub(crate) stays_at: Option<usize>,
}

impl Game {
    pub(crate) fn members(&self) -> usize {
        self.contenders[0].len()
    }
}

impl fmt::Display for Game {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quorum locks, {} contenders, {} members", self.contenders.len(), self.members())?;
        let faults = [(self.cuts, "cuts"), (self.skips, "skips")];
        let mut faults = faults.iter().filter(|(count, _)| *count > 0);
        faults.try_for_each(|(count, name)| write!(f, ", {count} {name}"))?;
        if let Some(member) = self.stays_at { write!(f, ", one that stays at {member}") } else { Ok(()) }
    }
}

const TWO: Game = Game { contenders: &[&[0, 1, 2], &[2, 1, 0]], cuts: 0, skips: 0, stays_at: None };
const THREE: Game = Game { contenders: &[&[0, 1, 2], &[2, 1, 0], &[1, 2, 0]], ..TWO };
const FIVE: Game = Game { contenders: &[&[0, 1, 2, 3, 4], &[4, 3, 2, 1, 0]], ..TWO };

/// All games, the short ones first.
pub(crate) const GAMES: &[Game] = &[
    TWO,
    Game { stays_at: Some(2), ..TWO },
    Game { skips: 2, ..TWO },
    Game { cuts: 1, ..TWO },
    Game { cuts: 2, ..TWO },
    Game { cuts: 2, skips: 1, ..TWO },
    Game { skips: 2, ..THREE },
    Game { cuts: 2, ..THREE },
    Game { cuts: 1, skips: 1, ..THREE },
    Game { skips: 3, ..FIVE },
    Game { cuts: 1, skips: 1, ..FIVE },
];
