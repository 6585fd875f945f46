//! The same histories on a server in memory and on a real one: the same replies and the same events.

use crate::history::Pair;
use crate::installed::{Generation, Peers};
use crate::support::is_thorough;

/// A history to repeat, as a failure names it.
const SEED: &str = "ZK_RECIPES_SEED";

fn play(mut pair: Pair) {
    if let Ok(seed) = std::env::var(SEED) {
        return pair.play(seed.parse().unwrap()).unwrap_or_else(|difference| panic!("{difference}"));
    }
    // Short runs have all kinds of histories too.
    let first = fastrand::u64(..1 << 32) * 3;
    for seed in first..first + if is_thorough() { 200 } else { 12 } {
        if let Err(difference) = pair.play(seed) {
            panic!("{difference}\nto repeat it: {SEED}={seed}");
        }
    }
}

#[test]
fn replies_and_events_are_those_of_the_server_found_here() {
    play(Pair::start(None));
}

#[test]
fn replies_and_events_are_those_of_zookeeper_3_9() {
    if let Some(peers) = Peers::if_installed(Generation::Current) {
        play(Pair::start(Some(&peers.class_path)));
    }
}

#[test]
fn replies_and_events_are_those_of_a_follower_found_here() {
    play(Pair::start_three(None));
}

#[test]
fn replies_and_events_are_those_of_a_follower_of_zookeeper_3_9() {
    if let Some(peers) = Peers::if_installed(Generation::Current) {
        play(Pair::start_three(Some(&peers.class_path)));
    }
}
