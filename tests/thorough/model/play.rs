//! Plays the games: in all ways.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::clock;
use super::games::GAMES;
use super::joint;
use super::majority;
use super::mutants::Mutant;
use super::permits;
use super::properties::{Queue, TO_BE_SEEN};
use super::seen::Seen;

/// In one game of a mutant, which may have someone retry for ever. A bound in time would depend on what else the machine
/// does.
const MOST_STATES: usize = 4_000_000;

/// What the checker asks of states and of actions.
trait State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static {}
impl<T: Clone + Debug + Hash + PartialEq + Send + Sync + 'static> State for T {}

/// Plays all games whose description has this in it, and prints figures.
pub(crate) fn all_games(which: &str) -> ExitCode {
    let mut failed = which.is_empty() && !clock::all(threads());
    let seen = Arc::new(Seen::none_of(&TO_BE_SEEN));
    for game in GAMES.iter().filter(|game| game.to_string().contains(which)) {
        failed |= !is_won(Queue::new(game, &seen), game);
    }
    let seen_of_permits = Arc::new(Seen::none_of(&permits::TO_BE_SEEN));
    for game in permits::GAMES.iter().filter(|game| game.to_string().contains(which)) {
        failed |= !is_won(permits::Permits::new(game, &seen_of_permits), game);
    }
    let seen_of_joint = Arc::new(Seen::none_of(&joint::TO_BE_SEEN));
    for game in joint::GAMES.iter().filter(|game| game.to_string().contains(which)) {
        failed |= !is_won(joint::Joint::new(game, &seen_of_joint), game);
    }
    let seen_of_majority = Arc::new(Seen::none_of(&majority::TO_BE_SEEN));
    for game in majority::GAMES.iter().filter(|game| game.to_string().contains(which)) {
        failed |= !is_won(majority::Majority::new(game, &seen_of_majority), game);
    }
    println!("{seen}\n{seen_of_permits}\n{seen_of_joint}\n{seen_of_majority}");
    let missing =
        [seen.missing(), seen_of_permits.missing(), seen_of_joint.missing(), seen_of_majority.missing()];
    for missing in missing.into_iter().flatten() {
        if which.is_empty() {
            println!("never seen: {missing}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plays one game in all ways, and prints figures. Answers whether nothing was wrong.
fn is_won<M>(model: M, game: &impl Display) -> bool
where
    M: Model<State: State, Action: State> + Send + Sync + 'static,
{
    let start = Instant::now();
    let checker = model.checker().threads(threads());
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "{:>9} states, {:>8} unique, depth {:>3}, {:>5.1} s: {game}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f64()
    );
    let violations = checker.discoveries();
    let is_won = violations.is_empty();
    for (property, path) in violations {
        println!("violated: {property}, by");
        for step in path.into_actions() {
            println!("    {step:?}");
        }
    }
    is_won
}

/// Plays one game after the other in which a mutant shows, until something is wrong, and prints what. Fails if that is
/// nothing.
pub(crate) fn until_noticed(mutant: &Mutant) -> ExitCode {
    if mutant.is_of_the_clock() {
        return clock::until_noticed(threads());
    }
    let games = GAMES.iter().filter(|game| (mutant.shows_in)(game));
    let permits = permits::GAMES.iter().filter(|game| (mutant.shows_in_permits)(game));
    let joint = joint::GAMES.iter().filter(|game| (mutant.shows_in_joint)(game));
    let majority = majority::GAMES.iter().filter(|game| (mutant.shows_in_majority)(game));
    let seen = |things| Arc::new(Seen::none_of(things));
    let (seen, seen_of_permits, seen_of_joint, seen_of_majority) = (
        seen(&TO_BE_SEEN),
        seen(&permits::TO_BE_SEEN),
        seen(&joint::TO_BE_SEEN),
        seen(&majority::TO_BE_SEEN),
    );
    let noticed = games
        .filter_map(|game| what_is_wrong(Queue::new(game, &seen), game))
        .chain(permits.filter_map(|game| what_is_wrong(permits::Permits::new(game, &seen_of_permits), game)))
        .chain(joint.filter_map(|game| what_is_wrong(joint::Joint::new(game, &seen_of_joint), game)))
        .chain(
            majority.filter_map(|game| what_is_wrong(majority::Majority::new(game, &seen_of_majority), game)),
        )
        .next();
    match noticed {
        Some(noticed) => {
            println!("{noticed}");
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

fn what_is_wrong<M>(model: M, game: &impl Display) -> Option<String>
where
    M: Model<State: State, Action: State> + Send + Sync + 'static,
{
    let checker = model.checker().threads(threads()).target_state_count(MOST_STATES);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let noticed = checker.discoveries().into_keys().next()?;
    Some(format!("{noticed} ({game})"))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
