//! The library and its driver with one condition broken, each of which the checker must notice.

mod table;

pub(crate) use self::table::MUTANTS;
use super::clock::{Change, Session};
use super::games::{GAMES, Game};
use super::queue::name::Kind;

/// One condition broken.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    file: &'static str,
    /// A text that stands once in the file, with what is to be broken between `[[` and `]]`.
    place: &'static str,
    /// What takes the place of that.
    broken: &'static str,
    /// In which games it shows.
    pub(crate) shows_in: fn(&Game) -> bool,
    pub(crate) shows_in_sessions: fn(&Session) -> bool,
}

const fn mutant(name: &'static str, file: &'static str, place: &'static str, broken: &'static str) -> Mutant {
    Mutant { name, file, place, broken, shows_in: |_| true, shows_in_sessions: |_| true }
}

fn robs(game: &Game) -> bool {
    game.faults.rob > 0
}

fn reaps(game: &Game) -> bool {
    game.faults.reap > 0
}

/// Games in which somebody comes back after the parent was made again.
fn reaps_twice(game: &Game) -> bool {
    game.faults.reap > 0 && game.faults.cancel == 0 || gives_a_number_again(game)
}

/// Games in which a parent that was made again gives the number of one that has not noticed.
fn gives_a_number_again(game: &Game) -> bool {
    game.faults.wipe > 0 && game.first_number == 1
}

fn gives_a_number_again_to_a_stranger(game: &Game) -> bool {
    gives_a_number_again(game) && !game.foreigners.is_empty()
}

fn meets_another_recipe(game: &Game) -> bool {
    game.foreigners.iter().any(|kind| matches!(kind, Kind::Foreign(_)))
}

fn transacts(game: &Game) -> bool {
    game.faults.transact > 0
}

fn lingers(game: &Game) -> bool {
    game.lingers && game.cohort == 0
}

fn hands_on(game: &Game) -> bool {
    game.cohort > 0
}

fn ends_the_numbers(game: &Game) -> bool {
    game.first_number > 1
}

/// Breaks a file of the library or of the model: in the way of the mutant that the program is told to be.
///
/// # Panics
/// If a mutant is out of date.
pub(crate) fn with_mutants(file: &str, text: &str) -> String {
    let mut spots: Vec<Spot> = Vec::new();
    for (index, mutant) in MUTANTS.iter().enumerate().filter(|(_, mutant)| mutant.file == file) {
        let (start, end) = mutant.find(text);
        match spots.iter_mut().find(|spot| spot.start == start) {
            Some(spot) => spot.broken.push((index, mutant.broken)),
            None => spots.push(Spot { start, end, broken: vec![(index, mutant.broken)] }),
        }
    }
    spots.sort_by_key(|spot| std::cmp::Reverse(spot.start));
    let mut result = text.to_owned();
    for spot in spots {
        result.replace_range(spot.start..spot.end, &spot.choice(&text[spot.start..spot.end]));
    }
    result
}

/// What is broken, and in which ways.
struct Spot {
    start: usize,
    end: usize,
    broken: Vec<(usize, &'static str)>,
}

impl Spot {
    fn choice(&self, right: &str) -> String {
        let broken = self.broken.iter().map(|(index, broken)| format!("Some({index}) => {{ {broken} }} "));
        let choice = format!("match crate::mutant() {{ {} _ => {{ {right} }} }}", broken.collect::<String>());
        if right.ends_with(';') { choice } else { format!("({choice})") }
    }
}

impl Mutant {
    /// Whether it shows in the games about time, not in those about queues.
    pub(crate) fn is_of_the_clock(&self) -> bool {
        self.file == table::SIGNS
    }

    /// Plays only those games, which takes less time.
    const fn shows_in(self, shows_in: fn(&Game) -> bool) -> Self {
        Self { shows_in, ..self }
    }

    /// Of the games about time, plays only these.
    const fn shows_in_sessions(self, shows_in_sessions: fn(&Session) -> bool) -> Self {
        Self { shows_in_sessions, ..self }
    }

    /// Whether it shows in games whose description has this in it.
    pub(crate) fn is_about(&self, which: &str) -> bool {
        GAMES.iter().filter(|game| (self.shows_in)(game)).any(|game| game.to_string().contains(which))
    }

    /// Where the text is that is to be broken.
    fn find(&self, text: &str) -> (usize, usize) {
        let (before, rest) = self.place.split_once("[[").expect("it is marked");
        let (right, after) = rest.split_once("]]").expect("it is marked");
        let place = format!("{before}{right}{after}");
        let found: Vec<usize> = text.match_indices(&place).map(|(at, _)| at).collect();
        let [at] = *found else {
            panic!(
                "the mutant `{}` is to be brought up to date: in {} its place is found {} times",
                self.name,
                self.file,
                found.len()
            )
        };
        (at + before.len(), at + before.len() + right.len())
    }
}
