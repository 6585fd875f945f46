//! The rule for which contenders hold and which one a waiter watches, as a pure function over an ordered queue.

use super::name::Kind;
use super::order::Queued;

/// The verdict on one contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds.
    Granted,
    /// It waits for the contender at this index of the queue.
    BlockedBy(usize),
}

/// Applies the rule: an exclusive contender waits for the one right ahead of it, a shared one for the nearest
/// exclusive one.
pub(crate) fn verdict(queue: &[Queued], place: usize) -> Verdict {
    let contender = &queue[place];
    let blocker = queue[..place].iter().rposition(|before| excludes(before, contender));
    blocker.map_or(Verdict::Granted, Verdict::BlockedBy)
}

/// Returns the contender of another recipe behind which the one at this place must not hold, if there is one.
///
/// While contenders of its own recipe that it waits for are ahead of the intruder, it keeps waiting for them: the
/// intruder may be about to be refused itself, and then does no harm.
pub(crate) fn intruder(queue: &[Queued], place: usize) -> Option<&Queued> {
    let waits_for = |before: &&Queued| excludes(before, &queue[place]);
    let first =
        queue[..place].iter().find(|before| before.foreign_recipe().is_some() || waits_for(before))?;
    Some(first).filter(|first| first.foreign_recipe().is_some())
}

/// Returns how many contenders are ahead of the one of this name if it waits, and zero if it holds.
pub(crate) fn position_of(name: &str, queue: &[Queued]) -> Option<usize> {
    let place = queue.iter().position(|queued| queued.name == name)?;
    Some(if verdict(queue, place) == Verdict::Granted { 0 } else { place })
}

/// Whether the contender that is behind must wait for the one before it.
pub(crate) fn excludes(before: &Queued, behind: &Queued) -> bool {
    // A reader with the number of a writer is that writer, downgraded.
    let is_the_same = before.sequence == behind.sequence
        && behind.kind == Kind::Shared
        && !behind.is_past_the_last_number();
    before.foreign_recipe().is_none() && exclude_each_other(before.kind, behind.kind) && !is_the_same
}

pub(crate) fn exclude_each_other(one: Kind, other: Kind) -> bool {
    one == Kind::Exclusive || other == Kind::Exclusive
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(kinds: &[Kind]) -> Vec<Queued> {
        let queued =
            |(i, kind): (usize, &Kind)| Queued { name: String::new(), kind: *kind, sequence: i as i32 };
        kinds.iter().enumerate().map(queued).collect()
    }

    #[test]
    fn where_numbers_repeat_a_reader_is_nobody_s_downgrade() {
        let mut queue = queue(&[Kind::Exclusive, Kind::Shared]);
        for queued in &mut queue {
            queued.sequence = i32::MAX;
        }
        assert_eq!(verdict(&queue, 1), Verdict::BlockedBy(0));
    }

    proptest! {
        /// The slow, obvious rule: admits one contender after another, in order, as long as none inside excludes
        /// it. Then removes one blocker after another, in any order, and checks that no one waits in vain.
        #[test]
        fn holders_get_along_and_waiters_wait_for_somebody_before_them(
            shared in proptest::collection::vec(any::<bool>(), 1..30),
            leaving in any::<u64>(),
        ) {
            let kinds: Vec<Kind> = shared.iter().map(|s| if *s { Kind::Shared } else { Kind::Exclusive }).collect();
            let mut queue = queue(&kinds);
            let mut random = fastrand::Rng::with_seed(leaving);
            while !queue.is_empty() {
                let mut inside: Vec<Kind> = Vec::new();
                let mut closed = false;
                for place in 0..queue.len() {
                    let welcome = match queue[place].kind {
                        Kind::Exclusive => inside.is_empty(),
                        Kind::Shared => !inside.contains(&Kind::Exclusive),
                        Kind::Foreign(_) => unreachable!("none is generated"),
                    };
                    closed |= !welcome;
                    match verdict(&queue, place) {
                        Verdict::Granted => {
                            prop_assert!(!closed);
                            inside.push(queue[place].kind);
                        }
                        Verdict::BlockedBy(before) => {
                            prop_assert!(closed);
                            prop_assert!(before < place);
                            // No contender between the two would have to go as well.
                            let between = &queue[before + 1..place];
                            prop_assert!(between.iter().all(|b| b.kind == Kind::Shared));
                            prop_assert!(queue[place].kind == Kind::Shared || between.is_empty());
                        }
                    }
                }
                queue.remove(random.usize(..queue.len()));
            }
        }
    }
}
