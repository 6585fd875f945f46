//! Who holds, and whom the others watch: pure functions over a queue in order.

/// What a rule says about one contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds.
    Granted,
    /// It waits for the contender at this place of the queue.
    BlockedBy(usize),
}

/// One holder at a time: whoever is first holds, and each other waits for the one right before it.
pub(crate) fn exclusive(place: usize) -> Verdict {
    match place.checked_sub(1) {
        None => Verdict::Granted,
        Some(before) => Verdict::BlockedBy(before),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The slow, obvious rule: try everybody; whoever has nobody before it is the holder.
        #[test]
        fn one_holder_and_a_chain_of_waiters(queue in proptest::collection::vec(any::<u32>(), 0..50)) {
            for place in 0..queue.len() {
                let before = &queue[..place];
                match exclusive(place) {
                    Verdict::Granted => prop_assert!(before.is_empty()),
                    Verdict::BlockedBy(blocker) => prop_assert_eq!(before[blocker..].len(), 1),
                }
            }
        }
    }
}
