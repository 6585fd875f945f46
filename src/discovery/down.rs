//! Which instances a provider leaves out because of errors that its user has reported.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::instance::{Identity, ServiceInstance};

/// When a [`ServiceProvider`](super::ServiceProvider) leaves out an instance for which errors were
/// [reported](super::ServiceProvider::note_error).
///
/// Source: Curator's `DownInstancePolicy`, with its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownInstancePolicy {
    /// From how many errors on. The default is 2; 0 is taken for 1.
    pub errors: u32,
    /// For how long after the first of these errors. After that, they are forgotten. The default is 30 s.
    pub timeout: Duration,
}

impl Default for DownInstancePolicy {
    fn default() -> Self {
        Self { errors: 2, timeout: Duration::from_secs(30) }
    }
}

/// The errors that were reported.
#[derive(Debug, Default)]
pub(super) struct Errors(HashMap<Identity, ErrorsOfOne>);

#[derive(Debug)]
struct ErrorsOfOne {
    since: Instant,
    count: u32,
}

impl Errors {
    pub(super) fn note<T>(
        &mut self,
        instance: &ServiceInstance<T>,
        policy: DownInstancePolicy,
        now: Instant,
    ) {
        // So that what is remembered is bounded by the errors of the last time-out.
        self.0.retain(|_, errors| !errors.are_over(policy, now));
        let errors = self.0.entry(Identity::of(instance)).or_insert(ErrorsOfOne { since: now, count: 0 });
        errors.count = errors.count.saturating_add(1);
    }

    /// Whether the instance is left out.
    pub(super) fn is_down<T>(
        &self,
        instance: &ServiceInstance<T>,
        policy: DownInstancePolicy,
        now: Instant,
    ) -> bool {
        self.0
            .get(&Identity::of(instance))
            .is_some_and(|errors| !errors.are_over(policy, now) && errors.count >= policy.errors.max(1))
    }
}

impl ErrorsOfOne {
    fn are_over(&self, policy: DownInstancePolicy, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= policy.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(id: &str) -> ServiceInstance {
        ServiceInstance::new("orders").id(id)
    }

    #[test]
    fn an_instance_is_down_from_the_threshold_until_the_time_is_over() {
        let policy = DownInstancePolicy::default();
        let (mut errors, start) = (Errors::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let [a, b] = ["a", "b"].map(instance);
        errors.note(&a, policy, start);
        assert!(!errors.is_down(&a, policy, start));
        errors.note(&a, policy, after(10));
        assert!(errors.is_down(&a, policy, after(29)));
        assert!(!errors.is_down(&b, policy, after(29)));
        assert!(!errors.is_down(&a, policy, after(30)), "counted from the first error");
        errors.note(&a, policy, after(31));
        assert!(!errors.is_down(&a, policy, after(31)), "the earlier errors are forgotten");
        errors.note(&b, policy, after(100));
        assert_eq!(errors.0.len(), 1);
    }

    #[test]
    fn the_errors_of_one_registration_are_not_those_of_another() {
        let policy = DownInstancePolicy { errors: 1, ..DownInstancePolicy::default() };
        let (mut errors, now) = (Errors::default(), Instant::now());
        let failed = instance("a").address("10.0.0.7").port(1).ssl_port(2);
        errors.note(&failed, policy, now);
        assert!(errors.is_down(&failed.clone().enabled(false), policy, now), "it only tells more of itself");
        let later = failed.registration_time + Duration::from_millis(1);
        for other in [
            ServiceInstance { registration_time: later, ..failed.clone() },
            failed.clone().address("10.0.0.8"),
            failed.clone().port(3),
            failed.clone().ssl_port(3),
        ] {
            assert!(!errors.is_down(&other, policy, now), "{other:?}");
        }
    }

    #[test]
    fn a_threshold_of_zero_is_one() {
        let policy = DownInstancePolicy { errors: 0, ..DownInstancePolicy::default() };
        let (mut errors, now) = (Errors::default(), Instant::now());
        let a = instance("a");
        assert!(!errors.is_down(&a, policy, now));
        errors.note(&a, policy, now);
        assert!(errors.is_down(&a, policy, now));
    }
}
