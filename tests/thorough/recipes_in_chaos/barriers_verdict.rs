//! Whether all have entered together, and left together.

use crate::barriers::{MEMBERS, Passage, Round};

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
    // Whoever is in has begun to leave when another one is told that all have left.
    let all_have_left =
        |left| passages.iter().filter(|one| must_be_awaited(round, one)).all(|one| one.leaves < Some(left));
    passages.iter().filter_map(|passage| passage.entered).all(all_had_come)
        && passages.iter().filter_map(|passage| passage.left).all(all_have_left)
}

/// Not one that was lost; nor one that has come again in another session, since it may do so when the others have left
/// already, but have not removed yet by what it is let in. If somebody gave up, what is not deleted yet may have counted, so
/// that the others were let in and have left before the last one came.
fn must_be_awaited(round: &Round, passage: &Passage) -> bool {
    let has_anybody_given_up = round.passages.iter().any(|one| one.came.len() > 1);
    passage.leaves.is_some() && !passage.is_lost && !passage.has_changed_session && !has_anybody_given_up
}

/// How many have come again when others had left already.
pub(crate) fn late(rounds: &[Round]) -> usize {
    let is_late = |round: &&Round| {
        let left = round.passages.iter().filter_map(|passage| passage.left).min();
        let came_again = round.passages.iter().filter(|one| !one.is_lost && !must_be_awaited(round, one));
        came_again.filter_map(|one| one.leaves).any(|leaves| Some(leaves) > left && left.is_some())
    };
    rounds.iter().filter(is_late).count()
}
