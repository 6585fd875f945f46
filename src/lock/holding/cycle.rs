//! Whether a wait closes a deadlock: a pure function over the waits of one client.

use std::collections::VecDeque;

/// One wait of an owner. Owners have numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocked {
    pub(super) owner: usize,
    /// Whether it ends by itself, granted or not.
    pub(super) ends: bool,
    /// The owners of the contenders ahead. All of them must leave.
    pub(super) behind: Vec<usize>,
    /// The owner of each permit that is held.
    pub(super) permits: Vec<usize>,
    /// How many of these permits need not be given back.
    pub(super) spare: usize,
}

/// Returns a cycle of waits that begins with `closing`, each of which waits for the owner of the next, if none of them
/// can ever end.
///
/// An owner goes on when any of its waits ends, and then gives everything back. An owner that does not wait goes on.
pub(super) fn cycle(waits: &[Blocked], closing: usize) -> Option<Vec<usize>> {
    let stuck = stuck(waits);
    let first = waits[closing].owner;
    if !stuck[first] {
        return None;
    }
    // The shortest one, by a search in breadth. `from[wait]` is the wait before it.
    let mut from: Vec<Option<usize>> = vec![None; waits.len()];
    let mut next = VecDeque::from([closing]);
    while let Some(wait) = next.pop_front() {
        for owner in waits[wait].blockers(&stuck) {
            if owner == first {
                let before = |wait: &usize| from[*wait].filter(|_| *wait != closing);
                let mut cycle: Vec<usize> = std::iter::successors(Some(wait), before).collect();
                cycle.reverse();
                return Some(cycle);
            }
            for (other, _) in waits.iter().enumerate().filter(|(_, other)| other.owner == owner) {
                if from[other].is_none() && other != closing {
                    from[other] = Some(wait);
                    next.push_back(other);
                }
            }
        }
    }
    None
}

/// Returns which owners can never go on: the largest set of owners of whom each only waits for others of the set.
fn stuck(waits: &[Blocked]) -> Vec<bool> {
    let owners = waits.iter().flat_map(|wait| [wait.owner].into_iter().chain(wait.all()));
    let mut stuck = vec![false; owners.max().map_or(0, |last| last + 1)];
    for wait in waits {
        stuck[wait.owner] = true;
    }
    loop {
        let mut has_changed = false;
        for wait in waits {
            if stuck[wait.owner] && !wait.is_blocked(&stuck) {
                stuck[wait.owner] = false;
                has_changed = true;
            }
        }
        if !has_changed {
            return stuck;
        }
    }
}

impl Blocked {
    fn all(&self) -> impl Iterator<Item = usize> {
        self.behind.iter().chain(&self.permits).copied()
    }

    fn is_blocked(&self, stuck: &[bool]) -> bool {
        !self.ends && (self.behind.iter().any(|owner| stuck[*owner]) || self.lacks_permits(stuck))
    }

    fn lacks_permits(&self, stuck: &[bool]) -> bool {
        self.permits.iter().filter(|owner| stuck[**owner]).count() > self.spare
    }

    /// The owners without whom it would end.
    fn blockers(&self, stuck: &[bool]) -> impl Iterator<Item = usize> {
        let permits = if self.lacks_permits(stuck) { &self.permits[..] } else { &[] };
        self.behind.iter().chain(permits).copied().filter(|owner| stuck[*owner])
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const OWNERS: usize = 5;

    fn waits() -> impl Strategy<Value = Vec<Blocked>> {
        let wait =
            (0..OWNERS, prop::bool::weighted(0.1), vec(0..OWNERS, 0..3), vec(0..OWNERS, 0..4), 0..3_usize);
        let wait = wait.prop_map(|(owner, ends, behind, permits, spare)| Blocked {
            owner,
            ends,
            behind,
            permits,
            spare,
        });
        vec(wait, 1..8)
    }

    /// Whether these owners keep each other waiting, whatever all others do.
    fn keep_each_other_waiting(owners: u32, waits: &[Blocked]) -> bool {
        let is_in = |owner: usize| owners >> owner & 1 == 1;
        (0..OWNERS).filter(|owner| is_in(*owner)).all(|owner| {
            let mut own = waits.iter().filter(|wait| wait.owner == owner).peekable();
            own.peek().is_some()
                && own.all(|wait| {
                    let kept = wait.permits.iter().filter(|owner| is_in(**owner)).count();
                    !wait.ends && (wait.behind.iter().any(|owner| is_in(*owner)) || kept > wait.spare)
                })
        })
    }

    proptest! {
        /// Tries every set of owners.
        #[test]
        fn every_cycle_of_stuck_owners_is_found_and_no_other(waits in waits()) {
            let sets = (0..1_u32 << OWNERS).filter(|owners| keep_each_other_waiting(*owners, &waits));
            let deadlocked = sets.fold(0, |all, owners| all | owners);
            let is_deadlocked = |owner: usize| deadlocked >> owner & 1 == 1;
            let waits_for = |wait: &Blocked, owner: usize| {
                let kept = wait.permits.iter().filter(|owner| is_deadlocked(**owner)).count();
                is_deadlocked(owner)
                    && (wait.behind.contains(&owner) || kept > wait.spare && wait.permits.contains(&owner))
            };
            let closing = waits.len() - 1;
            let first = waits[closing].owner;
            // Whom it waits for, directly or not.
            let mut reached: Vec<usize> =
                (0..OWNERS).filter(|owner| is_deadlocked(first) && waits_for(&waits[closing], *owner)).collect();
            for _ in 0..OWNERS {
                for wait in &waits {
                    if reached.contains(&wait.owner) {
                        reached.extend((0..OWNERS).filter(|owner| waits_for(wait, *owner)));
                    }
                }
            }
            match cycle(&waits, closing) {
                None => prop_assert!(!reached.contains(&first)),
                Some(cycle) => {
                    prop_assert_eq!(cycle[0], closing);
                    for (index, wait) in cycle.iter().enumerate() {
                        let next = &waits[cycle[(index + 1) % cycle.len()]];
                        prop_assert!(waits_for(&waits[*wait], next.owner));
                    }
                }
            }
        }
    }
}
