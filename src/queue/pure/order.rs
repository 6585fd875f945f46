//! The order of the contenders in a queue, also where sequence numbers overflow.

use super::name::{Kind, Names};

/// One recognised contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Queued {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) sequence: i32,
}

impl Queued {
    /// Whether its number does not determine the order: at 2^31 a server repeats the greatest number or turns negative.
    pub(crate) fn is_past_the_last_number(&self) -> bool {
        is_past_the_last_number(self.sequence)
    }

    /// Returns the recipe of the contender if it is another one than ours.
    pub(crate) fn foreign_recipe(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Foreign(recipe) => Some(recipe),
            Kind::Exclusive | Kind::Shared => None,
        }
    }
}

pub(crate) fn is_past_the_last_number(sequence: i32) -> bool {
    sequence == i32::MAX || sequence < 0
}

/// The contenders among the children of a lock path, unordered.
#[derive(Debug)]
pub(crate) struct Contenders(Vec<Queued>);

impl Contenders {
    /// Selects the contenders in a list of children, and passes the other children to `unrecognized`.
    pub(crate) fn among(children: Vec<String>, names: &Names, mut unrecognized: impl FnMut(&str)) -> Self {
        let recognise = |name: String| match names.read(&name) {
            Some((kind, sequence)) => Some(Queued { name, kind, sequence }),
            None => {
                unrecognized(&name);
                None
            }
        };
        Self(children.into_iter().filter_map(recognise).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Selects the contenders of all recipes, and passes every child that is not a contender of ours to `unrecognized`.
    pub(crate) fn of_any_recipe(
        children: Vec<String>,
        names: &Names,
        mut unrecognized: impl FnMut(&str),
    ) -> Self {
        let recognise = |name: String| {
            let read = names.read_any(&name);
            if !matches!(read, Some((Kind::Exclusive | Kind::Shared, _))) {
                unrecognized(&name);
            }
            read.map(|(kind, sequence)| Queued { name, kind, sequence })
        };
        Self(children.into_iter().filter_map(recognise).collect())
    }

    /// Returns the contenders in queue order, if sequence numbers determine it.
    ///
    /// # Errors
    /// If they cannot, returns the contenders, to be ordered by the transactions that created them. See
    /// [`in_order_of_creation`].
    pub(crate) fn in_order(self) -> Result<Vec<Queued>, Vec<Queued>> {
        let Self(mut queue) = self;
        if queue.iter().any(Queued::is_past_the_last_number) {
            return Err(queue);
        }
        queue.sort_unstable_by(by_number);
        Ok(queue)
    }
}

/// Orders contenders by the transaction that created each (its czxid).
///
/// Only a downgraded reader can be younger than its place: it has the number of its writer. So where there are
/// readers, numbers decide as far as they determine the order.
pub(crate) fn in_order_of_creation(created: Vec<(Queued, i64)>) -> Vec<Queued> {
    let readers = created.iter().any(|(queued, _)| queued.kind == Kind::Shared);
    let (mut numbered, mut dated): (Vec<_>, Vec<_>) =
        created.into_iter().partition(|(queued, _)| readers && !queued.is_past_the_last_number());
    numbered.sort_unstable_by(|(a, _), (b, _)| by_number(a, b));
    dated.sort_unstable_by(|(a, a_zxid), (b, b_zxid)| (a_zxid, &a.name).cmp(&(b_zxid, &b.name)));
    numbered.into_iter().chain(dated).map(|(queued, _)| queued).collect()
}

/// Compares by number. A writer and the reader that it downgraded to have the same number; the reader comes second.
fn by_number(a: &Queued, b: &Queued) -> std::cmp::Ordering {
    (a.sequence, a.kind, &a.name).cmp(&(b.sequence, b.kind, &b.name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::name::{MUTEX, READ_WRITE};
    use super::*;

    fn contenders(children: &[String]) -> Contenders {
        Contenders::among(children.to_vec(), &MUTEX, |_| ())
    }

    fn names(queue: Vec<Queued>) -> Vec<String> {
        queue.into_iter().map(|queued| queued.name).collect()
    }

    #[test]
    fn unrecognized_children_are_handed_out_and_do_not_count() {
        let mut unrecognized = Vec::new();
        let children = vec!["zebra".to_owned(), "a-lock-0000000001".to_owned(), "0-foreign".to_owned()];
        let contenders = Contenders::among(children, &MUTEX, |name| unrecognized.push(name.to_owned()));
        assert_eq!(unrecognized, ["zebra", "0-foreign"]);
        assert_eq!(contenders.in_order().map(names), Ok(vec!["a-lock-0000000001".to_owned()]));
    }

    #[test]
    fn a_writer_that_has_become_a_reader_keeps_its_place() {
        let children = [
            "r-__READ__0000000005",
            "w-__WRIT__0000000005",
            "v-__WRIT__0000000006",
            "u-__WRIT__2147483647",
            "t-__WRIT__2147483647",
        ]
        .map(str::to_owned);
        let queue = || Contenders::among(children[..3].to_vec(), &READ_WRITE, |_| ()).in_order();
        assert_eq!(
            queue().map(names),
            Ok(vec![children[1].clone(), children[0].clone(), children[2].clone()])
        );
        // The reader was created after all others, and numbers below the overflow still determine its place.
        let queue = Contenders::among(children.to_vec(), &READ_WRITE, |_| ()).in_order().unwrap_err();
        let dated = queue.into_iter().zip([90, 10, 20, 40, 30]).collect();
        assert_eq!(names(in_order_of_creation(dated)), [1, 0, 2, 4, 3].map(|i: usize| children[i].clone()));
    }

    proptest! {
        /// A queue as a server creates it: one create after another, with a counter that wraps or stays at its
        /// maximum.
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
            let children: Vec<String> = listed.iter().map(|(name, _)| name.clone()).collect();
            let order = contenders(&children).in_order().unwrap_or_else(|undated| {
                in_order_of_creation(undated.into_iter().zip(listed.iter().map(|(_, czxid)| *czxid)).collect())
            });
            prop_assert_eq!(names(order), expected);
        }
    }
}
