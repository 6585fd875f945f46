//! The games that are played: who wants which paths, and what may go wrong.

use std::fmt;

/// How often each may happen in one game.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Somebody gives up before it holds.
    pub(crate) cancel: u8,
    pub(crate) expire: u8,
    /// An operator deletes a node of ours.
    pub(crate) rob: u8,
    /// The reply to a transaction is lost.
    pub(crate) lose: u8,
}

/// Paths are numbers, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Game {
    /// Which paths each multi-lock is given, in whatever order.
    pub(crate) multis: &'static [&'static [usize]],
    /// Contenders that take one path after the other, and hold on.
    pub(crate) others: &'static [&'static [usize]],
    /// One like these whose first node an operator puts before all others, whoever holds.
    pub(crate) intruder: Option<&'static [usize]>,
    /// Whether the lists that are sent behind a transaction come.
    pub(crate) lists_along: bool,
    pub(crate) faults: Faults,
}

impl Game {
    pub(crate) fn paths(&self) -> usize {
        let all = self.multis.iter().chain(self.others).chain(&self.intruder);
        all.flat_map(|paths| *paths).max().map_or(0, |last| last + 1)
    }
}

impl fmt::Display for Game {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "multi-locks of {:?} + {:?}", self.multis, self.others)?;
        let Faults { cancel, expire, rob, lose } = self.faults;
        let faults = [(cancel, "cancel"), (expire, "expire"), (rob, "rob"), (lose, "lost reply")];
        let mut faults = faults.iter().filter(|(count, _)| *count > 0);
        faults.try_for_each(|(count, name)| write!(f, ", {count} {name}"))?;
        if let Some(paths) = self.intruder {
            write!(f, ", an intruder at {paths:?}")?;
        }
        if self.lists_along { write!(f, ", lists along") } else { Ok(()) }
    }
}

const NONE: Faults = Faults { cancel: 0, expire: 0, rob: 0, lose: 0 };
const CANCEL: Faults = Faults { cancel: 1, ..NONE };
const EXPIRE: Faults = Faults { expire: 1, ..NONE };
const ROB: Faults = Faults { rob: 1, ..NONE };
const LOSE: Faults = Faults { lose: 1, ..NONE };

const PLAIN: Game =
    Game { multis: &[&[0, 1], &[1, 2]], others: &[], intruder: None, lists_along: false, faults: NONE };

/// All games, the short ones first.
pub(crate) const GAMES: &[Game] = &[
    PLAIN,
    Game { lists_along: true, ..PLAIN },
    Game { multis: &[&[0, 1], &[0, 1]], ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[1], &[0, 1]], ..PLAIN },
    Game { multis: &[&[1, 0], &[0, 1]], others: &[&[1]], ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[1]], intruder: Some(&[0, 1]), ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[1]], faults: ROB, ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[0], &[1]], faults: ROB, ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[0], &[0, 1]], faults: ROB, lists_along: true, ..PLAIN },
    Game { multis: &[&[0, 1, 2]], others: &[&[1], &[0, 2]], faults: Faults { cancel: 1, ..ROB }, ..PLAIN },
    Game { multis: &[&[0, 1], &[0, 1]], others: &[&[1]], faults: ROB, lists_along: true, ..PLAIN },
    Game { multis: &[&[0, 1], &[1, 2]], others: &[&[1]], faults: CANCEL, ..PLAIN },
    Game { multis: &[&[0, 1], &[1, 2]], others: &[&[1]], faults: EXPIRE, ..PLAIN },
    Game { multis: &[&[0, 1], &[0, 1]], others: &[&[1]], faults: LOSE, ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[0], &[1]], faults: Faults { rob: 2, ..NONE }, ..PLAIN },
    Game { multis: &[&[1, 0], &[0, 1]], others: &[&[0, 1]], intruder: Some(&[0, 1]), ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[0], &[1]], faults: Faults { expire: 1, ..ROB }, ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[0], &[1]], faults: Faults { lose: 1, ..ROB }, ..PLAIN },
    Game { multis: &[&[0, 1], &[1, 2]], others: &[&[1]], faults: Faults { cancel: 1, ..ROB }, ..PLAIN },
    Game { multis: &[&[0, 1]], others: &[&[1]], intruder: Some(&[0, 1]), faults: ROB, ..PLAIN },
    Game { multis: &[&[0, 1], &[0, 1], &[1, 2]], ..PLAIN },
];
