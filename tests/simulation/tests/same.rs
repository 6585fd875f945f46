//! The same seed gives the same run, also in another process, and whether or not anyone reads its time line.

use std::process::Command;
use std::time::Duration;

use zk_recipes_simulation::plan::{Conditions, Plan};
use zk_recipes_simulation::recipes::{self, Recipe};
use zk_recipes_simulation::world;

const SERVERS: usize = 3;
const STORM: Duration = Duration::from_secs(8);

fn here(recipe: Recipe, seed: u64, with_lines: bool) -> String {
    let conditions = Conditions { servers: SERVERS, storm: STORM, ..Conditions::default() };
    let report = world::play(Plan::of_seed(seed, &conditions), recipe, with_lines);
    assert!(!report.counts.is_empty(), "{} does nothing", recipe.name);
    format!("{:016x}", report.fingerprint)
}

fn elsewhere(recipe: Recipe, seed: u64) -> String {
    let play = Command::new(env!("CARGO_BIN_EXE_play"))
        .args(["--recipe", recipe.name, "--seed", &seed.to_string()])
        .args(["--servers", &SERVERS.to_string(), "--storm", &STORM.as_secs().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8(play.stdout).unwrap();
    let (_, fingerprint) = text.split_once("fingerprint ").unwrap_or_else(|| panic!("{text}"));
    fingerprint[..16].to_owned()
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for recipe in recipes::ALL {
        let first = here(recipe, 5, false);
        assert_eq!(here(recipe, 5, true), first, "{}, in one process", recipe.name);
        assert_eq!(elsewhere(recipe, 5), first, "{}, in two processes", recipe.name);
        assert_ne!(here(recipe, 6, false), first, "{}", recipe.name);
    }
}
