//! The games that are played: who takes part, and what may go wrong.

use std::fmt;

use super::queue::name::Kind::{self, Exclusive, Shared};
use super::queue::name::{MUTEX, Names, READ_WRITE};

/// How often each may happen in one game.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Somebody gives up before it holds.
    pub(crate) cancel: u8,
    pub(crate) expire: u8,
    pub(crate) reconnect: u8,
    /// A reconnect after which creates that were under way may yet be done.
    pub(crate) late: u8,
    /// An operator deletes a node of ours.
    pub(crate) rob: u8,
    /// An operator writes to a node of ours.
    pub(crate) touch: u8,
    /// The server removes the parent, which is empty.
    pub(crate) reap: u8,
    /// A writer goes on as a reader.
    pub(crate) downgrade: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Game {
    pub(crate) names: &'static Names,
    /// The tasks of each client.
    pub(crate) clients: &'static [&'static [Player]],
    /// Contenders of another library.
    pub(crate) foreigners: &'static [Kind],
    /// The first number that the server gives.
    pub(crate) first_number: i32,
    /// Whether contenders may read their own nodes, which a watch takes.
    pub(crate) may_read_own: bool,
    pub(crate) faults: Faults,
}

impl fmt::Display for Game {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |kind: &Kind| if *kind == Exclusive { "x" } else { "s" };
        let tasks = |tasks: &[Player]| -> String {
            tasks
                .iter()
                .map(|(kind, rounds)| letter(kind).repeat(usize::from(*rounds)))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let clients: Vec<String> = self.clients.iter().map(|client| format!("[{}]", tasks(client))).collect();
        let foreigners: String = self.foreigners.iter().map(letter).collect();
        write!(f, "{} + foreign [{foreigners}]", clients.join(" + "))?;
        let Faults { cancel, expire, reconnect, late, rob, touch, reap, downgrade } = self.faults;
        let faults = [
            (cancel, "cancel"),
            (expire, "expire"),
            (reconnect, "reconnect"),
            (late, "late create"),
            (rob, "rob"),
            (touch, "touch"),
            (reap, "reap"),
            (downgrade, "downgrade"),
        ];
        faults
            .iter()
            .filter(|(count, _)| *count > 0)
            .try_for_each(|(count, name)| write!(f, ", {count} {name}"))?;
        if !self.may_read_own {
            write!(f, ", own nodes unreadable")?;
        }
        if self.first_number > 0 { write!(f, ", at the last numbers") } else { Ok(()) }
    }
}

/// What a task wants, and how often.
pub(crate) type Player = (Kind, u8);

const X: Player = (Exclusive, 1);
const XX: Player = (Exclusive, 2);
const S: Player = (Shared, 1);

const NONE: Faults =
    Faults { cancel: 0, expire: 0, reconnect: 0, late: 0, rob: 0, touch: 0, reap: 0, downgrade: 0 };

const CANCEL: Faults = Faults { cancel: 1, ..NONE };
const EXPIRE: Faults = Faults { expire: 1, ..NONE };
const RECONNECT: Faults = Faults { reconnect: 1, ..NONE };
const ROB: Faults = Faults { rob: 1, ..NONE };
const DOWNGRADE: Faults = Faults { downgrade: 1, ..NONE };

/// All games, the short ones first.
pub(crate) const GAMES: &[Game] = &[
    mutex(&[&[X]], &[Exclusive], Faults { rob: 1, touch: 1, ..NONE }),
    mutex(&[&[X, X]], &[Exclusive], NONE),
    at_the_end_of_numbers(read_write(&[&[X, S]], &[Exclusive], DOWNGRADE)),
    at_the_end_of_numbers(mutex(&[&[X, X]], &[Exclusive], CANCEL)),
    mutex(&[&[X], &[X], &[X]], &[], NONE),
    mutex(&[&[X, X], &[X]], &[], CANCEL),
    read_write(&[&[X, S]], &[Exclusive], DOWNGRADE),
    mutex(&[&[X, X]], &[Exclusive], Faults { cancel: 1, touch: 1, ..NONE }),
    read_write(&[&[X, S], &[X]], &[], DOWNGRADE),
    without_right_to_read(mutex(&[&[X, X], &[X]], &[], ROB)),
    mutex(&[&[X, X], &[X]], &[], ROB),
    mutex(&[&[X, X], &[X]], &[], EXPIRE),
    mutex(&[&[X, X], &[X]], &[], RECONNECT),
    mutex(&[&[X, X, X]], &[Exclusive], CANCEL),
    read_write(&[&[X, S]], &[Exclusive, Shared], DOWNGRADE),
    mutex(&[&[X, X, X], &[X]], &[], NONE),
    mutex(&[&[X, X], &[X, X]], &[], NONE),
    mutex(&[&[X, X]], &[Exclusive], Faults { rob: 1, reap: 1, cancel: 1, ..NONE }),
    mutex(&[&[X, X]], &[Exclusive], Faults { reconnect: 1, rob: 1, ..NONE }),
    mutex(&[&[X, X]], &[Exclusive], Faults { reconnect: 1, late: 1, ..NONE }),
    mutex(&[&[X, X]], &[Exclusive], Faults { expire: 1, cancel: 1, reap: 1, ..NONE }),
    read_write(&[&[X, S]], &[Exclusive], Faults { downgrade: 1, cancel: 1, rob: 1, ..NONE }),
    read_write(&[&[XX, S]], &[Exclusive, Shared], NONE),
    mutex(&[&[XX, X]], &[Exclusive], Faults { rob: 1, reap: 1, ..NONE }),
    mutex(&[&[X, X, X]], &[Exclusive], ROB),
    read_write(&[&[X, X, S]], &[Exclusive], DOWNGRADE),
    read_write(&[&[X, S, S]], &[Exclusive], DOWNGRADE),
    read_write(&[&[X, S]], &[Exclusive], Faults { downgrade: 1, reconnect: 1, late: 1, ..NONE }),
];

const fn mutex(clients: &'static [&'static [Player]], foreigners: &'static [Kind], faults: Faults) -> Game {
    Game { names: &MUTEX, clients, foreigners, first_number: 0, may_read_own: true, faults }
}

const fn read_write(
    clients: &'static [&'static [Player]],
    foreigners: &'static [Kind],
    faults: Faults,
) -> Game {
    Game { names: &READ_WRITE, clients, foreigners, first_number: 0, may_read_own: true, faults }
}

const fn without_right_to_read(game: Game) -> Game {
    Game { may_read_own: false, ..game }
}

const fn at_the_end_of_numbers(game: Game) -> Game {
    Game { first_number: i32::MAX - 1, ..game }
}
