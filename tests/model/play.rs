//! Plays the games: in all ways.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use super::games::{GAMES, Game};
use super::mutants::Mutant;
use super::properties::{Queue, Seen};

/// Of a mutant: it may have someone retry for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// Plays all games, and prints figures.
pub(crate) fn all_games() -> ExitCode {
    let seen = Arc::new(Seen::default());
    let mut failed = false;
    for game in GAMES {
        let start = Instant::now();
        let checker = Queue::new(game, &seen).checker().threads(threads());
        let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        println!(
            "{:>9} states, {:>8} unique, depth {:>3}, {:>5.1} s: {game}",
            checker.state_count(),
            checker.unique_state_count(),
            checker.max_depth(),
            start.elapsed().as_secs_f64()
        );
        for (property, path) in checker.discoveries() {
            println!("violated: {property}, by");
            for step in path.into_actions() {
                println!("    {step:?}");
            }
            failed = true;
        }
    }
    println!("{seen}");
    if let Some(missing) = seen.missing() {
        println!("never seen: {missing}");
        failed = true;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plays one game after the other in which a mutant shows, until something is wrong, and prints what. Fails if that is
/// nothing.
pub(crate) fn until_noticed(mutant: &Mutant) -> ExitCode {
    let notices = |game: &Game| {
        let checker = Queue::new(game, &Arc::default()).checker().threads(threads()).timeout(PATIENCE);
        let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let noticed = checker.discoveries().into_keys().next()?;
        Some(format!("{noticed} ({game})"))
    };
    match GAMES.iter().filter(|game| (mutant.shows_in)(game)).find_map(notices) {
        Some(noticed) => {
            println!("{noticed}");
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
