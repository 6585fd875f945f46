//! What a node shows about a conditional write whose reply was lost.

use super::version::{Version, Versioned};

/// What is known of a write that was sent, and was rejected when it was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It was not done, and cannot be any more.
    NotDone,
    /// It was done, or was not.
    Undecidable,
    /// The node still is as it was: it can be sent again.
    NotYet,
}

/// Decides about a write of `data` over the version `before` by what is there `now`.
pub(super) fn settle(before: Version, data: &[u8], now: Option<&Versioned<Vec<u8>>>) -> Settled {
    match now {
        Some(now) if now.version() == before => Settled::NotYet,
        // Each write adds one to the number, so the only write after `before` is the one that is seen.
        Some(now)
            if now.version().is_of_node_of(&before)
                && now.version().follows(&before)
                && now.value() != data =>
        {
            Settled::NotDone
        }
        // Somebody else may have written over it, deleted it, or written the same.
        _ => Settled::Undecidable,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A node: when it was created, when it was written last, its number, its data.
    #[derive(Clone, Debug)]
    struct Node(i64, i64, i32, u8);

    /// The writes of others: `None` deletes, a number writes it, or creates the node with it.
    fn play(node: &mut Option<Node>, zxid: &mut i64, write: Option<u8>) {
        *zxid += 1;
        *node = match (node.take(), write) {
            (_, None) => None,
            (None, Some(data)) => Some(Node(*zxid, *zxid, 0, data)),
            (Some(node), Some(data)) => Some(Node(node.0, *zxid, node.2.wrapping_add(1), data)),
        };
    }

    fn seen(node: &Option<Node>) -> Option<Versioned<Vec<u8>>> {
        let seen = |node: &Node| Versioned::new(vec![node.3], Version::new(node.0, node.1, node.2));
        node.as_ref().map(seen)
    }

    proptest! {
        /// Whatever others do before and after our write, if it was done at all: "not done" is never wrong, and
        /// "not yet" neither.
        #[test]
        fn not_done_is_never_said_of_a_write_that_was_done(
            number in prop_oneof![Just(-3), Just(-2), Just(-1), Just(i32::MAX), 0..3],
            ours in 0_u8..3,
            before in prop::collection::vec(prop::option::weighted(0.8, 0_u8..3), 0..2),
            after in prop::collection::vec(prop::option::weighted(0.8, 0_u8..3), 0..3),
        ) {
            let mut zxid = 10;
            let mut node = Some(Node(5, 9, number, 0));
            let expected = Version::new(5, 9, number);
            for write in before {
                play(&mut node, &mut zxid, write);
            }
            // As the servers carry it out: they compare the number only, and -1 is sent in a way of its own.
            let is_done = node.as_ref().is_some_and(|node| node.2 == expected.number());
            if is_done {
                play(&mut node, &mut zxid, Some(ours));
            }
            for write in after {
                play(&mut node, &mut zxid, write);
            }
            let settled = settle(expected, &[ours], seen(&node).as_ref());
            prop_assert!(!is_done || settled == Settled::Undecidable, "{node:?}");
        }
    }

    #[test]
    fn another_write_at_the_next_number_proves_that_ours_was_not_done() {
        let before = Version::new(1, 1, 4);
        let now = |version, data: u8| Versioned::new(vec![data], version);
        let settled = |version, data| settle(before, &[7], Some(&now(version, data)));
        assert_eq!(settled(Version::new(1, 2, 5), 8), Settled::NotDone);
        assert_eq!(settled(Version::new(1, 2, 5), 7), Settled::Undecidable, "it may be ours");
        assert_eq!(settled(Version::new(1, 3, 6), 8), Settled::Undecidable, "ours may have been overwritten");
        assert_eq!(settled(Version::new(2, 2, 5), 8), Settled::Undecidable, "ours may have been deleted");
        assert_eq!(settled(before, 0), Settled::NotYet);
        assert_eq!(settle(before, &[7], None), Settled::Undecidable);
        // Some servers leave -1 out, and others do not.
        let before = Version::new(1, 1, -2);
        assert_eq!(settle(before, &[7], Some(&now(Version::new(1, 2, -1), 8))), Settled::NotDone);
        assert_eq!(settle(before, &[7], Some(&now(Version::new(1, 3, 0), 8))), Settled::Undecidable);
    }
}
