//! Which instance a provider picks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// Which instance a [`ServiceProvider`](super::ServiceProvider) picks.
///
/// Sources: Curator's `RoundRobinStrategy`, `RandomStrategy` and `StickyStrategy`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProviderStrategy {
    /// One after the other.
    #[default]
    RoundRobin,
    /// Any.
    Random,
    /// Always the same one, which is chosen at random, for as long as it is there.
    Sticky,
}

/// Picks among the ids of instances.
#[derive(Debug)]
pub(super) enum Picker {
    RoundRobin(AtomicUsize),
    Random,
    Sticky(Mutex<Option<String>>),
}

impl Picker {
    pub(super) fn new(strategy: ProviderStrategy) -> Self {
        match strategy {
            ProviderStrategy::RoundRobin => Self::RoundRobin(AtomicUsize::new(0)),
            ProviderStrategy::Random => Self::Random,
            ProviderStrategy::Sticky => Self::Sticky(Mutex::new(None)),
        }
    }

    /// Returns the position of the picked one; `None` if there are none.
    pub(super) fn pick(&self, ids: &[&str]) -> Option<usize> {
        if ids.is_empty() {
            return None;
        }
        let any = || fastrand::usize(..ids.len());
        Some(match self {
            Self::RoundRobin(next) => next.fetch_add(1, Relaxed) % ids.len(),
            Self::Random => any(),
            Self::Sticky(last) => {
                let mut last = last.lock();
                let position = last.as_ref().and_then(|last| ids.iter().position(|id| id == last));
                position.unwrap_or_else(|| {
                    let position = any();
                    *last = Some(ids[position].to_owned());
                    position
                })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 3] = ["a", "b", "c"];

    #[test]
    fn none_of_none() {
        for strategy in [ProviderStrategy::RoundRobin, ProviderStrategy::Random, ProviderStrategy::Sticky] {
            assert_eq!(Picker::new(strategy).pick(&[]), None);
        }
    }

    #[test]
    fn one_after_the_other() {
        let picker = Picker::new(ProviderStrategy::RoundRobin);
        let picked: Vec<_> = (0..4).map(|_| picker.pick(&IDS)).collect();
        assert_eq!(picked, [Some(0), Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn any_of_them() {
        let picker = Picker::new(ProviderStrategy::Random);
        let picked: std::collections::HashSet<_> = (0..200).map(|_| picker.pick(&IDS)).collect();
        assert_eq!(picked.len(), 3);
    }

    #[test]
    fn the_same_one_while_it_is_there() {
        let picker = Picker::new(ProviderStrategy::Sticky);
        let first = picker.pick(&IDS).map(|at| IDS[at]);
        let mut others = IDS.to_vec();
        others.reverse();
        assert_eq!(picker.pick(&others).map(|at| others[at]), first);
        others.retain(|id| Some(*id) != first);
        let second = picker.pick(&others).map(|at| others[at]);
        assert_ne!(second, first);
        assert_eq!(picker.pick(&IDS).map(|at| IDS[at]), second, "it stays when the first one is back");
    }
}
