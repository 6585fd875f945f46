//! The games that are played: who wants how many permits, and what may go wrong.

use std::fmt;

/// How often each may happen in one game.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Somebody gives up before it has its permits.
    pub(crate) cancel: u8,
    pub(crate) expire: u8,
    /// A client loses its connection, and finds a server that may lag behind.
    pub(crate) relocate: u8,
    /// A transaction under way at such a moment may be done afterwards.
    pub(crate) late: u8,
    /// An operator deletes a node at the gate.
    pub(crate) rob: u8,
    /// The gate, or where the leases are, is deleted while no one is there, and made again: its numbers begin anew.
    pub(crate) reap: u8,
    /// One of Curator's that has lost its place at the gate takes a lease, while no one is there.
    pub(crate) stray: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Game {
    pub(crate) limit: u32,
    /// How many permits each task of each client wants.
    pub(crate) clients: &'static [&'static [u32]],
    /// How many contenders that do as Curator's: a lease first, then the count.
    pub(crate) foreigners: usize,
    /// Whether the local queue of each client knows that the gate is empty.
    pub(crate) is_known: bool,
    /// Whether each client knows besides how many leases there are: none, or those of the foreigners if they hold.
    pub(crate) has_stock: bool,
    /// Whether each client knows besides that the leases are its own, by their numbers.
    pub(crate) knows_numbers: bool,
    /// Whether the foreigners hold from the beginning, and the number of permits was higher when they were counted.
    pub(crate) is_lowered: bool,
    pub(crate) faults: Faults,
}

impl fmt::Display for Game {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} permits, {:?} + {} foreign", self.limit, self.clients, self.foreigners)?;
        let Faults { cancel, expire, relocate, late, rob, reap, stray } = self.faults;
        let faults = [
            (cancel, "cancel"),
            (expire, "expire"),
            (relocate, "relocate"),
            (late, "late transaction"),
            (rob, "rob"),
            (reap, "reap"),
            (stray, "stray"),
        ];
        let mut faults = faults.iter().filter(|(count, _)| *count > 0);
        faults.try_for_each(|(count, name)| write!(f, ", {count} {name}"))?;
        match (self.is_known, self.has_stock, self.is_lowered) {
            _ if self.knows_numbers => write!(f, ", known numbers"),
            (_, _, true) => write!(f, ", a stock that was known before a permit was withdrawn"),
            (_, true, false) => write!(f, ", a known stock"),
            (true, false, false) => write!(f, ", a known gate"),
            (false, false, false) => Ok(()),
        }
    }
}

const NONE: Faults = Faults { cancel: 0, expire: 0, relocate: 0, late: 0, rob: 0, reap: 0, stray: 0 };
const CANCEL: Faults = Faults { cancel: 1, ..NONE };
const EXPIRE: Faults = Faults { expire: 1, ..NONE };
const RELOCATE: Faults = Faults { relocate: 1, ..NONE };
const ROB: Faults = Faults { rob: 1, ..NONE };
const REAP: Faults = Faults { reap: 1, ..NONE };
const STRAY: Faults = Faults { stray: 1, ..NONE };

/// All games, the short ones first.
pub(crate) const GAMES: &[Game] = &[
    known(1, &[&[1, 1]], 0, NONE),
    game(1, &[&[1], &[1]], 0, NONE),
    stocked(1, &[&[1], &[1]], 0, NONE),
    numbered(1, &[&[1]], 1, STRAY),
    numbered(1, &[&[1]], 1, Faults { reap: 1, ..STRAY }),
    numbered(1, &[&[1], &[1]], 0, NONE),
    numbered(1, &[&[1, 1]], 1, STRAY),
    numbered(2, &[&[2, 1]], 0, CANCEL),
    numbered(1, &[&[1], &[1]], 0, REAP),
    numbered(1, &[&[1], &[1]], 0, EXPIRE),
    numbered(1, &[&[1], &[1]], 0, Faults { relocate: 1, late: 1, ..NONE }),
    numbered(2, &[&[1], &[1]], 1, NONE),
    stocked(1, &[&[1], &[1]], 0, REAP),
    stocked(1, &[&[1]], 1, REAP),
    stocked(2, &[&[2], &[2]], 1, NONE),
    stocked(1, &[&[1], &[1]], 0, CANCEL),
    stocked(1, &[&[1], &[1]], 0, EXPIRE),
    stocked(1, &[&[1], &[1]], 0, ROB),
    stocked(1, &[&[1], &[1]], 0, Faults { relocate: 1, late: 1, ..NONE }),
    stocked(2, &[&[1, 2]], 0, CANCEL),
    stocked(2, &[&[2], &[1]], 1, CANCEL),
    stocked(1, &[&[1], &[1]], 1, REAP),
    Game { is_lowered: true, ..stocked(1, &[&[1]], 1, NONE) },
    Game { is_lowered: true, ..stocked(1, &[&[1], &[1]], 1, NONE) },
    game(2, &[&[2], &[1]], 1, NONE),
    known(1, &[&[1, 1]], 1, NONE),
    known(1, &[&[1, 1]], 0, CANCEL),
    known(1, &[&[1, 1]], 0, ROB),
    known(1, &[&[1, 1]], 0, RELOCATE),
    known(1, &[&[1, 1]], 0, EXPIRE),
    game(1, &[&[1], &[1]], 0, ROB),
    game(1, &[&[1], &[1]], 0, Faults { relocate: 1, late: 1, ..NONE }),
    game(1, &[&[1]], 2, RELOCATE),
    game(1, &[&[1]], 2, ROB),
    known(2, &[&[1, 2]], 1, CANCEL),
    known(1, &[&[1, 1], &[1]], 0, NONE),
    game(2, &[&[2], &[2]], 1, CANCEL),
    known(1, &[&[1, 1, 1]], 0, NONE),
];

const fn game(limit: u32, clients: &'static [&'static [u32]], foreigners: usize, faults: Faults) -> Game {
    Game {
        limit,
        clients,
        foreigners,
        is_known: false,
        has_stock: false,
        knows_numbers: false,
        is_lowered: false,
        faults,
    }
}

const fn known(limit: u32, clients: &'static [&'static [u32]], foreigners: usize, faults: Faults) -> Game {
    Game { is_known: true, ..game(limit, clients, foreigners, faults) }
}

const fn stocked(limit: u32, clients: &'static [&'static [u32]], foreigners: usize, faults: Faults) -> Game {
    Game { has_stock: true, ..known(limit, clients, foreigners, faults) }
}

const fn numbered(limit: u32, clients: &'static [&'static [u32]], foreigners: usize, faults: Faults) -> Game {
    Game { knows_numbers: true, ..stocked(limit, clients, foreigners, faults) }
}
