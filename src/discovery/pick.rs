//! Which instance a provider picks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::instance::{Identity, ServiceInstance};

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

/// Picks among instances.
#[derive(Debug)]
pub(super) enum Picker {
    RoundRobin(AtomicUsize),
    Random,
    Sticky(Mutex<Option<Identity>>),
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
    pub(super) fn pick<T>(&self, instances: &[Arc<ServiceInstance<T>>]) -> Option<usize> {
        if instances.is_empty() {
            return None;
        }
        let any = || fastrand::usize(..instances.len());
        Some(match self {
            Self::RoundRobin(next) => next.fetch_add(1, Relaxed) % instances.len(),
            Self::Random => any(),
            Self::Sticky(last) => {
                let mut last = last.lock();
                let is_last = |instance: &Arc<_>| last.as_ref() == Some(&Identity::of(instance));
                instances.iter().position(is_last).unwrap_or_else(|| {
                    let position = any();
                    *last = Some(Identity::of(&instances[position]));
                    position
                })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances() -> Vec<Arc<ServiceInstance>> {
        // The ids do not tell them apart.
        [("a", 1), ("a", 2), ("c", 3)]
            .map(|(id, port)| Arc::new(ServiceInstance::new("orders").id(id).port(port)))
            .into()
    }

    #[test]
    fn none_of_none() {
        for strategy in [ProviderStrategy::RoundRobin, ProviderStrategy::Random, ProviderStrategy::Sticky] {
            assert_eq!(Picker::new(strategy).pick::<()>(&[]), None);
        }
    }

    #[test]
    fn one_after_the_other() {
        let picker = Picker::new(ProviderStrategy::RoundRobin);
        let instances = instances();
        let picked: Vec<_> = (0..4).map(|_| picker.pick(&instances)).collect();
        assert_eq!(picked, [Some(0), Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn any_of_them() {
        let picker = Picker::new(ProviderStrategy::Random);
        let instances = instances();
        let picked: std::collections::HashSet<_> = (0..200).map(|_| picker.pick(&instances)).collect();
        assert_eq!(picked.len(), 3);
    }

    #[test]
    fn the_same_one_while_it_is_there() {
        let picker = Picker::new(ProviderStrategy::Sticky);
        let instances = instances();
        let pick = |of: &[Arc<ServiceInstance>]| picker.pick(of).and_then(|at| of[at].port);
        let first = pick(&instances);
        let mut others = instances.clone();
        others.reverse();
        assert_eq!(pick(&others), first);
        others.retain(|instance| instance.port != first);
        let second = pick(&others);
        assert_ne!(second, first);
        assert_eq!(pick(&instances), second, "it stays when the first one is back");
    }
}
