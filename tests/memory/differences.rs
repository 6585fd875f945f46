//! The same histories on a server in memory and on a real one: the same replies and the same events.

use crate::installed::{Generation, Peers};
use crate::memory::history::{Difference, Pair};
use crate::support::is_thorough;

/// A history to repeat, as a failure names it.
const SEED: &str = "ZK_RECIPES_SEED";

/// How many histories are played, in the gate and otherwise. A write takes longer on three servers.
const ON_ONE: [u64; 2] = [100, 12];
const ON_THREE: [u64; 2] = [15, 3];

/// How often a real follower may lose its leader, as on a busy machine. The history is then played again, on other servers:
/// a difference that is one comes back.
const LOST_LEADERS: usize = 3;

fn play(start: impl Fn() -> Pair, [in_the_gate, otherwise]: [u64; 2]) {
    let mut pair = start();
    if let Ok(seed) = std::env::var(SEED) {
        let played = pair.play(seed.parse().unwrap());
        return played.unwrap_or_else(|Difference { report, .. }| panic!("{report}"));
    }
    // Short runs have all kinds of histories too.
    let first = fastrand::u64(..1 << 32) * 3;
    let mut lost_leaders = 0;
    for seed in first..first + if is_thorough() { in_the_gate } else { otherwise } {
        while let Err(Difference { report, lost_leader }) = pair.play(seed) {
            assert!(lost_leader && lost_leaders < LOST_LEADERS, "{report}\nto repeat it: {SEED}={seed}");
            lost_leaders += 1;
            pair = start();
        }
    }
}

#[test]
#[ignore = "needs a real ZooKeeper"]
fn replies_and_events_are_those_of_the_server_found_here() {
    play(|| Pair::start(None), ON_ONE);
}

#[test]
fn replies_and_events_are_those_of_zookeeper_3_9() {
    if let Some(peers) = Peers::if_installed(Generation::Current) {
        play(|| Pair::start(Some(&peers.class_path)), ON_ONE);
    }
}

#[test]
#[ignore = "needs a real ZooKeeper"]
fn replies_and_events_are_those_of_a_follower_found_here() {
    play(|| Pair::start_three(None), ON_THREE);
}

#[test]
fn replies_and_events_are_those_of_a_follower_of_zookeeper_3_9() {
    if let Some(peers) = Peers::if_installed(Generation::Current) {
        play(|| Pair::start_three(Some(&peers.class_path)), ON_THREE);
    }
}
