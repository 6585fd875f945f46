//! Whether all have entered together, and left together.

use crate::barriers::{MEMBERS, Round};

/// Returns the faults.
pub(crate) fn judge(rounds: &[Round]) -> Vec<String> {
    rounds
        .iter()
        .filter(|round| !is_right(round))
        .map(|round| format!("{}: {:?}", round.path, round.passages))
        .collect()
}

fn is_right(round: &Round) -> bool {
    let passages = &round.passages;
    // Whoever has given up may still have counted, so that each time counts.
    let all_had_come = |entered| {
        let came = passages.iter().flat_map(|passage| &passage.came).filter(|came| **came < entered);
        came.count() >= MEMBERS
    };
    // Whoever is in, and was not lost, has begun to leave when another one is told that all have left.
    let all_have_left = |left| {
        passages.iter().filter(|one| !one.is_lost).filter_map(|one| one.leaves).all(|leaves| leaves < left)
    };
    passages.iter().filter_map(|passage| passage.entered).all(all_had_come)
        && passages.iter().filter_map(|passage| passage.left).all(all_have_left)
}
