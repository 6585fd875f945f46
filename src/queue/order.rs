//! The order of the contenders in a queue, also where sequence numbers end.

use super::name::Names;

/// One recognised contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) name: String,
    pub(crate) sequence: i32,
}

/// The contenders among the children of a lock path, not yet in order.
#[derive(Debug)]
pub(crate) struct Contenders(Vec<Queued>);

impl Contenders {
    /// Picks the contenders out of a list of children, and hands the rest to `stranger`.
    pub(crate) fn among(children: Vec<String>, names: &Names, mut stranger: impl FnMut(&str)) -> Self {
        let recognise = |name: String| match names.sequence_of(&name) {
            Some(sequence) => Some(Queued { name, sequence }),
            None => {
                stranger(&name);
                None
            }
        };
        Self(children.into_iter().filter_map(recognise).collect())
    }

    /// The names in queue order, if sequence numbers can tell it.
    ///
    /// # Errors
    /// At 2^31 a server repeats the greatest number or turns negative: then the names come back, and their
    /// creation transactions must tell the order. See [`in_order_of_creation`].
    pub(crate) fn in_order(self) -> Result<Vec<String>, Vec<String>> {
        let Self(mut queue) = self;
        let at_the_wrap = queue.iter().any(|queued| queued.sequence == i32::MAX || queued.sequence < 0);
        if !at_the_wrap {
            queue.sort_unstable_by(|a, b| (a.sequence, &a.name).cmp(&(b.sequence, &b.name)));
        }
        let names = queue.into_iter().map(|queued| queued.name).collect();
        if at_the_wrap { Err(names) } else { Ok(names) }
    }
}

/// Orders names by the transaction that created each (its czxid).
pub(crate) fn in_order_of_creation(mut created: Vec<(String, i64)>) -> Vec<String> {
    created.sort_unstable_by(|(a, a_zxid), (b, b_zxid)| (a_zxid, a).cmp(&(b_zxid, b)));
    created.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::name::MUTEX;
    use super::*;

    fn contenders(children: &[String]) -> Contenders {
        Contenders::among(children.to_vec(), &MUTEX, |_| ())
    }

    #[test]
    fn strangers_are_handed_out_and_do_not_count() {
        let mut strangers = Vec::new();
        let children = vec!["zebra".to_owned(), "a-lock-0000000001".to_owned(), "0-foreign".to_owned()];
        let contenders = Contenders::among(children, &MUTEX, |name| strangers.push(name.to_owned()));
        assert_eq!(strangers, ["zebra", "0-foreign"]);
        assert_eq!(contenders.in_order(), Ok(vec!["a-lock-0000000001".to_owned()]));
    }

    #[test]
    fn kazoo_go_and_curator_stand_in_one_order() {
        let children = [
            "f0__lock__0000000002",
            "_c_9a-lock-0000000010",
            "_c_0b-0c-lock-0000000009",
            "00__lock__0000000011",
        ]
        .map(str::to_owned);
        let order = [
            "f0__lock__0000000002",
            "_c_0b-0c-lock-0000000009",
            "_c_9a-lock-0000000010",
            "00__lock__0000000011",
        ]
        .map(str::to_owned);
        assert_eq!(contenders(&children).in_order(), Ok(order.to_vec()));
    }

    #[test]
    fn the_number_before_the_greatest_is_still_in_order() {
        let children = vec!["a-lock-2147483646".to_owned(), "a-lock-2147483645".to_owned()];
        assert_eq!(contenders(&children).in_order(), Ok(vec![children[1].clone(), children[0].clone()]));
    }

    #[test]
    fn repeated_and_negative_numbers_need_the_transactions() {
        for last in ["b-lock-2147483647", "b-lock--2147483648", "b-lock--000000001"] {
            let children = vec!["a-lock-2147483646".to_owned(), last.to_owned()];
            assert_eq!(contenders(&children).in_order(), Err(children));
        }
    }

    proptest! {
        /// A queue is what a server makes: creates one after the other, with a counter that wraps or sticks.
        #[test]
        fn creation_order_is_found_at_any_counter(
            start in prop_oneof![0..1000_i32, (i32::MAX - 8)..=i32::MAX, i32::MIN..(i32::MIN + 8)],
            sticks in any::<bool>(),
            ids in proptest::collection::vec("[0-9a-f]{8}", 1..24),
            shuffle in any::<u64>(),
        ) {
            let mut counter = start;
            let created: Vec<(String, i64)> = ids
                .iter()
                .enumerate()
                .map(|(i, id)| {
                    let name = format!("_c_{id}{i}-lock-{counter:010}");
                    counter = if sticks { counter.saturating_add(1) } else { counter.wrapping_add(1) };
                    (name, 100 + 7 * i as i64)
                })
                .collect();
            let expected: Vec<String> = created.iter().map(|(name, _)| name.clone()).collect();
            let mut listed = created.clone();
            fastrand::Rng::with_seed(shuffle).shuffle(&mut listed);
            let names: Vec<String> = listed.iter().map(|(name, _)| name.clone()).collect();
            let order = match contenders(&names).in_order() {
                Ok(order) => order,
                Err(_) => in_order_of_creation(listed),
            };
            prop_assert_eq!(order, expected);
        }
    }
}
