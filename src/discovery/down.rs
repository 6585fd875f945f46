//! Which instances a provider leaves out because of errors that its user has reported.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

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
pub(super) struct Errors {
    /// By the id of the instance: since when, and how many.
    of: HashMap<String, (Instant, u32)>,
}

impl Errors {
    pub(super) fn note(&mut self, id: &str, policy: DownInstancePolicy, now: Instant) {
        self.forget(policy, now);
        let (_, errors) = self.of.entry(id.to_owned()).or_insert((now, 0));
        *errors = errors.saturating_add(1);
    }

    /// Whether the instance is left out.
    pub(super) fn is_down(&self, id: &str, policy: DownInstancePolicy, now: Instant) -> bool {
        self.of.get(id).is_some_and(|(since, errors)| {
            now.saturating_duration_since(*since) < policy.timeout && *errors >= policy.errors.max(1)
        })
    }

    /// So that what is remembered is bounded by the errors of the last time-out.
    fn forget(&mut self, policy: DownInstancePolicy, now: Instant) {
        self.of.retain(|_, (since, _)| now.saturating_duration_since(*since) < policy.timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_down_from_the_threshold_until_the_time_is_over() {
        let policy = DownInstancePolicy::default();
        let (mut errors, start) = (Errors::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        errors.note("a", policy, start);
        assert!(!errors.is_down("a", policy, start));
        errors.note("a", policy, after(10));
        assert!(errors.is_down("a", policy, after(29)));
        assert!(!errors.is_down("b", policy, after(29)));
        assert!(!errors.is_down("a", policy, after(30)), "counted from the first error");
        errors.note("a", policy, after(31));
        assert!(!errors.is_down("a", policy, after(31)), "the earlier errors are forgotten");
        errors.note("b", policy, after(100));
        assert_eq!(errors.of.len(), 1);
    }

    #[test]
    fn a_threshold_of_zero_is_one() {
        let policy = DownInstancePolicy { errors: 0, ..DownInstancePolicy::default() };
        let (mut errors, now) = (Errors::default(), Instant::now());
        assert!(!errors.is_down("a", policy, now));
        errors.note("a", policy, now);
        assert!(errors.is_down("a", policy, now));
    }
}
