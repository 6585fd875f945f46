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
