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
    /// A reconnect to a server that lags behind.
    pub(crate) lag: u8,
    /// An operator deletes a node of ours.
    pub(crate) rob: u8,
    /// An operator writes to a node of ours.
    pub(crate) touch: u8,
    /// The server removes the parent, which is empty.
    pub(crate) reap: u8,
    /// An operator deletes the parent with all that is in it.
    pub(crate) wipe: u8,
    /// A writer goes on as a reader.
    pub(crate) downgrade: u8,
    /// A writer loses its lock meanwhile.
    pub(crate) lose: u8,
    /// A holder sends a transaction.
    pub(crate) transact: u8,
    /// A delete is refused because it was sent together with that of a node elsewhere, which is gone.
    pub(crate) refuse: u8,
    /// The time of a node to linger is over.
    pub(crate) lapse: u8,
    /// Somebody asks for the lock.
    pub(crate) ask: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Game {
    pub(crate) names: &'static Names,
    /// The tasks of each client.
    pub(crate) clients: &'static [&'static [Player]],
    /// Contenders of another library, or of another recipe.
    pub(crate) foreigners: &'static [Kind],
    /// The first number that the server gives.
    pub(crate) first_number: i32,
    /// Whether the first client knows the queue up to that number, as after an acquire that was released.
    pub(crate) is_known: bool,
    /// Whether there is no parent at first.
    pub(crate) is_new: bool,
    /// Whether contenders try to create the parent along with their nodes.
    pub(crate) creates_parent: bool,
    /// Whether contenders may read their own nodes, which a watch takes.
    pub(crate) may_read_own: bool,
    /// Whether the first task has a ticket, which is awaited at some time or never.
    pub(crate) has_ticket: bool,
    /// Whether the nodes of holders may linger.
    pub(crate) lingers: bool,
    /// How often nodes are handed on while others may wait; zero without cohorts.
    pub(crate) cohort: u32,
    pub(crate) faults: Faults,
}

impl fmt::Display for Game {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |kind: &Kind| match kind {
            Exclusive => "x",
            Shared => "s",
            Kind::Foreign(_) => "o",
        };
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
        let Faults {
            cancel,
            expire,
            reconnect,
            late,
            lag,
            rob,
            touch,
            reap,
            wipe,
            downgrade,
            lose,
            transact,
            refuse,
            lapse,
            ask,
        } = self.faults;
        let faults = [
            (cancel, "cancel"),
            (expire, "expire"),
            (reconnect, "reconnect"),
            (late, "late write"),
            (lag, "lag"),
            (rob, "rob"),
            (touch, "touch"),
            (reap, "reap"),
            (wipe, "wipe"),
            (downgrade, "downgrade"),
            (lose, "loss"),
            (transact, "transaction"),
            (refuse, "refused delete"),
            (lapse, "end of lingering"),
            (ask, "request"),
        ];
        faults
            .iter()
            .filter(|(count, _)| *count > 0)
            .try_for_each(|(count, name)| write!(f, ", {count} {name}"))?;
        if self.has_ticket {
            write!(f, ", the first has a ticket")?;
        }
        if self.lingers {
            write!(f, ", lingering")?;
        }
        if self.cohort > 0 {
            write!(f, ", in cohorts that hand on {} times", self.cohort)?;
        }
        if !self.may_read_own {
            write!(f, ", own nodes unreadable")?;
        }
        if self.is_known {
            write!(f, ", in a known queue")?;
        }
        if self.creates_parent {
            write!(f, ", creating the parent, which is {}", if self.is_new { "new" } else { "there" })?;
        }
        match self.first_number {
            0 => Ok(()),
            1 => write!(f, ", from the second number on"),
            _ => write!(f, ", at the last numbers"),
        }
    }
}

/// What a task wants, and how often.
pub(crate) type Player = (Kind, u8);

const X: Player = (Exclusive, 1);
const XX: Player = (Exclusive, 2);
const S: Player = (Shared, 1);
const SS: Player = (Shared, 2);

/// Of another recipe. It takes all children for contenders, as Curator does.
const OTHER: Kind = Kind::Foreign("another recipe");

const NONE: Faults = Faults {
    cancel: 0,
    expire: 0,
    reconnect: 0,
    late: 0,
    lag: 0,
    rob: 0,
    touch: 0,
    reap: 0,
    wipe: 0,
    downgrade: 0,
    lose: 0,
    transact: 0,
    refuse: 0,
    lapse: 0,
    ask: 0,
};

const CANCEL: Faults = Faults { cancel: 1, ..NONE };
const EXPIRE: Faults = Faults { expire: 1, ..NONE };
const RECONNECT: Faults = Faults { reconnect: 1, ..NONE };
const ROB: Faults = Faults { rob: 1, ..NONE };
const LAG: Faults = Faults { lag: 1, ..NONE };
const WIPE: Faults = Faults { wipe: 1, ..NONE };
const DOWNGRADE: Faults = Faults { downgrade: 1, ..NONE };
const LOSE: Faults = Faults { downgrade: 1, lose: 1, ..NONE };
const TRANSACT: Faults = Faults { transact: 1, ..NONE };
const LAPSE: Faults = Faults { lapse: 1, ..NONE };
const ASK: Faults = Faults { ask: 1, ..NONE };
const REFUSE: Faults = Faults { refuse: 1, ..NONE };

/// All games, the short ones first.
pub(crate) const GAMES: &[Game] = &[
    mutex(&[&[X]], &[Exclusive], Faults { rob: 1, touch: 1, ..NONE }),
    mutex(&[&[X]], &[OTHER], NONE),
    at_the_end_of_numbers(mutex(&[&[X]], &[OTHER], NONE)),
    mutex(&[&[X]], &[Exclusive, OTHER], NONE),
    mutex(&[&[X, X]], &[OTHER], CANCEL),
    read_write(&[&[X, S]], &[OTHER], NONE),
    read_write(&[&[S]], &[Shared, OTHER], NONE),
    mutex(&[&[X, X]], &[Exclusive], NONE),
    at_the_end_of_numbers(read_write(&[&[X, S]], &[Exclusive], DOWNGRADE)),
    at_the_end_of_numbers(mutex(&[&[X, X]], &[Exclusive], CANCEL)),
    mutex(&[&[X], &[X], &[X]], &[], NONE),
    mutex(&[&[X, X], &[X]], &[], CANCEL),
    read_write(&[&[X, S]], &[Exclusive], DOWNGRADE),
    mutex(&[&[X, X]], &[Exclusive], Faults { cancel: 1, touch: 1, ..NONE }),
    read_write(&[&[X, S], &[X]], &[], DOWNGRADE),
    read_write(&[&[X, S]], &[Exclusive], Faults { touch: 1, ..DOWNGRADE }),
    without_right_to_read(mutex(&[&[X, X], &[X]], &[], ROB)),
    mutex(&[&[X, X], &[X]], &[], ROB),
    mutex(&[&[X, X], &[X]], &[], EXPIRE),
    mutex(&[&[X, X], &[X]], &[], RECONNECT),
    read_write(&[&[X, X]], &[], LOSE),
    mutex(&[&[X, X], &[X]], &[], TRANSACT),
    mutex(&[&[X, X]], &[], Faults { transact: 1, reconnect: 1, late: 1, ..NONE }),
    mutex(&[&[X, X], &[X]], &[], REFUSE),
    mutex(&[&[XX, X]], &[], REFUSE),
    mutex(&[&[X, X]], &[Exclusive], Faults { transact: 1, ..REFUSE }),
    mutex(&[&[X, X]], &[], Faults { transact: 1, reconnect: 1, late: 1, ..REFUSE }),
    in_a_known_queue(mutex(&[&[X, X]], &[Exclusive], Faults { cancel: 1, ..REFUSE })),
    read_write(&[&[X, X]], &[Shared], Faults { transact: 1, ..LOSE }),
    read_write(&[&[X, S, X]], &[], Faults { transact: 1, ..LOSE }),
    read_write(&[&[X, X]], &[], Faults { reconnect: 1, late: 1, ..LOSE }),
    mutex(&[&[X, X]], &[Exclusive], Faults { transact: 2, cancel: 1, rob: 1, ..NONE }),
    with_a_ticket(mutex(&[&[X, X]], &[Exclusive], ROB)),
    with_a_ticket(mutex(&[&[X, X]], &[], Faults { rob: 1, reconnect: 1, ..NONE })),
    with_a_ticket(read_write(&[&[X, S]], &[], ROB)),
    with_a_ticket(mutex(&[&[X, X]], &[], WIPE)),
    mutex(&[&[X], &[X]], &[], WIPE),
    from_the_second_number(mutex(&[&[X, X, X]], &[], WIPE)),
    from_the_second_number(read_write(&[&[S, SS]], &[Exclusive], WIPE)),
    in_a_known_queue(read_write(&[&[S, SS]], &[], WIPE)),
    with_a_new_parent(mutex(&[&[X]], &[OTHER], NONE)),
    with_a_new_parent(mutex(&[&[X], &[X]], &[Exclusive], NONE)),
    with_a_new_parent(mutex(&[&[X, X]], &[Exclusive], CANCEL)),
    with_an_old_parent(mutex(&[&[X, X]], &[Exclusive], NONE)),
    with_a_new_parent(mutex(&[&[X, X], &[X]], &[], NONE)),
    with_a_new_parent(mutex(&[&[X], &[X]], &[], EXPIRE)),
    with_a_new_parent(mutex(&[&[X], &[X]], &[], Faults { reconnect: 1, late: 1, ..NONE })),
    with_a_new_parent(mutex(&[&[X, X]], &[], Faults { reconnect: 1, late: 1, ..NONE })),
    with_a_new_parent(mutex(&[&[X, X]], &[Exclusive], Faults { rob: 1, reap: 1, ..NONE })),
    with_a_new_parent(mutex(&[&[XX]], &[Exclusive], Faults { reap: 1, ..NONE })),
    with_a_new_parent(mutex(&[&[X], &[X]], &[], WIPE)),
    with_a_new_parent(mutex(&[&[X, X]], &[Exclusive], WIPE)),
    with_a_new_parent(mutex(&[&[X], &[X]], &[], LAG)),
    with_a_new_parent(mutex(&[&[XX, X]], &[Exclusive], Faults { reap: 1, wipe: 1, ..NONE })),
    with_a_new_parent(read_write(&[&[X, S]], &[Shared], NONE)),
    with_a_new_parent(read_write(&[&[X, S]], &[], DOWNGRADE)),
    lingering(mutex(&[&[X, X]], &[], LAPSE)),
    lingering(mutex(&[&[XX]], &[Exclusive], LAPSE)),
    lingering(mutex(&[&[XX]], &[Exclusive], EXPIRE)),
    lingering(mutex(&[&[XX]], &[Exclusive], ROB)),
    lingering(mutex(&[&[XX]], &[Exclusive], Faults { ask: 1, lapse: 1, ..NONE })),
    lingering(mutex(&[&[X, X, X]], &[], NONE)),
    lingering(mutex(&[&[X, X], &[X]], &[], LAPSE)),
    lingering(mutex(&[&[X, X]], &[], TRANSACT)),
    lingering(mutex(&[&[X, X]], &[Exclusive], Faults { cancel: 1, ..NONE })),
    lingering(mutex(&[&[X, X], &[X]], &[], RECONNECT)),
    in_cohorts(1, mutex(&[&[X, X]], &[], NONE)),
    in_cohorts(1, mutex(&[&[X, X]], &[Exclusive], NONE)),
    in_cohorts(1, mutex(&[&[X, X]], &[Exclusive], LAPSE)),
    in_cohorts(1, mutex(&[&[X, X]], &[Exclusive], CANCEL)),
    in_cohorts(1, mutex(&[&[X, X]], &[Exclusive], ASK)),
    in_cohorts(1, mutex(&[&[X, X]], &[], EXPIRE)),
    in_cohorts(1, mutex(&[&[X, X]], &[Exclusive], ROB)),
    in_cohorts(1, mutex(&[&[X, X]], &[Exclusive], RECONNECT)),
    in_cohorts(1, mutex(&[&[X, X]], &[Exclusive], Faults { rob: 1, ..RECONNECT })),
    in_cohorts(1, mutex(&[&[X, X]], &[], TRANSACT)),
    in_cohorts(1, mutex(&[&[X, X], &[X]], &[], NONE)),
    in_cohorts(1, mutex(&[&[X, X, X]], &[Exclusive], NONE)),
    in_cohorts(2, mutex(&[&[XX, XX]], &[Exclusive], NONE)),
    in_cohorts(1, mutex(&[&[X, X, X]], &[], CANCEL)),
    in_cohorts(1, with_a_ticket(mutex(&[&[X, X, X, X]], &[], NONE))),
    lingering(in_cohorts(1, mutex(&[&[X, X]], &[Exclusive], Faults { cancel: 1, ..LAPSE }))),
    lingering(in_cohorts(1, mutex(&[&[XX, X]], &[Exclusive], NONE))),
    mutex(&[&[X, X]], &[Exclusive], LAG),
    mutex(&[&[X], &[X]], &[], LAG),
    mutex(&[&[XX]], &[Exclusive], Faults { wipe: 1, lag: 1, ..NONE }),
    read_write(&[&[X, S]], &[Exclusive], LAG),
    mutex(&[&[X]], &[Exclusive], Faults { wipe: 1, reconnect: 1, ..NONE }),
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
    game(&MUTEX, clients, foreigners, faults)
}

const fn read_write(
    clients: &'static [&'static [Player]],
    foreigners: &'static [Kind],
    faults: Faults,
) -> Game {
    game(&READ_WRITE, clients, foreigners, faults)
}

const fn game(
    names: &'static Names,
    clients: &'static [&'static [Player]],
    foreigners: &'static [Kind],
    faults: Faults,
) -> Game {
    Game {
        names,
        clients,
        foreigners,
        first_number: 0,
        is_known: false,
        is_new: false,
        creates_parent: false,
        may_read_own: true,
        has_ticket: false,
        lingers: false,
        cohort: 0,
        faults,
    }
}

const fn with_a_ticket(game: Game) -> Game {
    Game { has_ticket: true, ..game }
}

const fn lingering(game: Game) -> Game {
    Game { lingers: true, ..game }
}

const fn in_cohorts(cohort: u32, game: Game) -> Game {
    Game { cohort, ..game }
}

const fn without_right_to_read(game: Game) -> Game {
    Game { may_read_own: false, ..game }
}

/// So that a parent that was made again gives a number that the first task may have had, but not as its first one.
const fn from_the_second_number(game: Game) -> Game {
    Game { first_number: 1, ..game }
}

const fn in_a_known_queue(game: Game) -> Game {
    Game { is_known: true, ..from_the_second_number(game) }
}

const fn with_a_new_parent(game: Game) -> Game {
    Game { is_new: true, creates_parent: true, ..game }
}

const fn with_an_old_parent(game: Game) -> Game {
    Game { is_new: false, ..with_a_new_parent(game) }
}

const fn at_the_end_of_numbers(game: Game) -> Game {
    Game { first_number: i32::MAX - 1, ..game }
}
