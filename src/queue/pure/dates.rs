//! A cache of the creation dates of contenders, which are needed where numbers do not determine the order.
//!
//! Pure, like the local queue that owns it: no I/O, no clock.

use std::collections::BTreeMap;

use super::order::Queued;

/// The transactions that created contenders, by name. They never change, so each is requested once.
///
/// A node that is deleted and created again under the same name seems older than it is. Only a hostile client does
/// that, since names contain a fresh id. The effect is harmless: others wait for that node although it is behind
/// them, and no one is granted by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Dates(BTreeMap<String, i64>);

impl Dates {
    /// Splits the contenders of a list into those with a known date and the others. Forgets all that are not in the
    /// list.
    pub(crate) fn part(&mut self, listed: Vec<Queued>) -> (Vec<(Queued, i64)>, Vec<Queued>) {
        let mut before = std::mem::take(&mut self.0);
        let (mut dated, mut undated) = (Vec::new(), Vec::new());
        for queued in listed {
            match before.remove(&queued.name) {
                Some(date) => dated.push((queued, date)),
                None => undated.push(queued),
            }
        }
        self.learn(&dated);
        (dated, undated)
    }

    /// Records the creation dates of these contenders.
    pub(crate) fn learn(&mut self, dated: &[(Queued, i64)]) {
        self.0.extend(dated.iter().map(|(queued, date)| (queued.name.clone(), *date)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::name::Kind;
    use super::*;

    fn queued(names: &[&str]) -> Vec<Queued> {
        let queued =
            |name: &&str| Queued { name: (*name).to_owned(), kind: Kind::Exclusive, sequence: i32::MAX };
        names.iter().map(queued).collect()
    }

    #[test]
    fn a_date_is_asked_for_once_and_forgotten_with_its_contender() {
        let mut dates = Dates::default();
        assert_eq!(dates.part(queued(&["a", "b"])), (vec![], queued(&["a", "b"])));
        // "b" has gone meanwhile.
        let dated: Vec<_> = queued(&["a"]).into_iter().zip([7]).collect();
        dates.learn(&dated);
        assert_eq!(dates.part(queued(&["c", "a"])), (dated.clone(), queued(&["c"])));
        assert_eq!(dates.part(queued(&["c"])), (vec![], queued(&["c"])));
        assert_eq!(dates.part(queued(&["a"])), (vec![], queued(&["a"])));
    }
}
