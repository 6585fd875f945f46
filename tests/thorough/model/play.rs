//! Plays the games: in all ways.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::checker::{Checkable, Found, Order, search};
use super::mutants::Mutant;
use super::seen::Seen;
use super::{clock, world};

/// In one game of a mutant, which may have someone retry for ever. A bound in time would depend on what else the machine
/// does.
const MOST_STATES: usize = 4_000_000;

/// Something to do on one of the threads. Answers whether all is well.
pub(crate) type Job = Box<dyn Fn() -> bool + Send + Sync>;

/// Does them all, as many at a time as there are processors. Answers whether all is well.
pub(crate) fn do_all(jobs: &[Job]) -> bool {
    let (next, is_well) = (AtomicUsize::new(0), AtomicBool::new(true));
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !job() {
                is_well.store(false, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    is_well.into_inner()
}

/// Plays all games whose description has this in it, and prints figures. Answers whether nothing was wrong.
pub(crate) fn all_games(which: &str) -> bool {
    let mut jobs = Vec::new();
    let seen = [add::<clock::World>(which, &mut jobs), add::<world::World>(which, &mut jobs)];
    let mut is_well = do_all(&jobs);
    for seen in seen {
        println!("{seen}");
        if let Some(missing) = seen.missing().filter(|_| which.is_empty()) {
            println!("never seen: {missing}");
            is_well = false;
        }
    }
    is_well
}

/// Adds the games of one kind of world. Answers what will be seen in them.
fn add<W: Checkable>(which: &str, jobs: &mut Vec<Job>) -> Arc<Seen> {
    let seen = Arc::new(Seen::none_of(W::TO_BE_SEEN));
    for game in W::GAMES.iter().filter(|game| game.to_string().contains(which)) {
        let seen = seen.clone();
        jobs.push(Box::new(move || is_won::<W>(game, &seen)));
    }
    seen
}

/// Plays one game in all ways, and prints figures. Answers whether nothing was wrong.
fn is_won<W: Checkable>(game: &'static W::Game, seen: &Seen) -> bool {
    let start = Instant::now();
    let Found { states, unique, wrong } = search::<W>(game, seen, Order::Latest, usize::MAX);
    println!("{states:>9} states, {unique:>8} unique, {:>5.1} s: {game}", start.elapsed().as_secs_f64());
    // Once more, for the shortest way.
    let Some(wrong) =
        wrong.map(|wrong| search::<W>(game, seen, Order::Near, usize::MAX).wrong.unwrap_or(wrong))
    else {
        return true;
    };
    println!("violated in {game}: {}, by\n    {}", wrong.0, wrong.1.join("\n    "));
    false
}

/// Plays one game after the other in which a mutant shows, until something is wrong, and prints what. Fails if that is
/// nothing.
pub(crate) fn until_noticed(mutant: &Mutant) -> ExitCode {
    let noticed = first_wrong::<clock::World>(|session| {
        mutant.is_of_the_clock() && (mutant.shows_in_sessions)(session)
    })
    .or_else(|| first_wrong::<world::World>(mutant.shows_in));
    match noticed {
        Some(noticed) => {
            println!("{noticed}");
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

fn first_wrong<W: Checkable>(shows_in: impl Fn(&W::Game) -> bool) -> Option<String> {
    let seen = Seen::none_of(W::TO_BE_SEEN);
    W::GAMES.iter().filter(|game| shows_in(game)).find_map(|game| {
        let (noticed, _) = search::<W>(game, &seen, Order::Near, MOST_STATES).wrong?;
        Some(format!("{noticed} ({game})"))
    })
}
