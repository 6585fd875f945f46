//! Retry policies: when to try again, and for how long.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, Result, report};

/// Decides how often, and after what delays, a request that failed for lack of a connection is retried.
///
/// These are Curator's policies (`org.apache.curator.retry`). A failure that waiting cannot fix, such as a missing
/// permission, is never retried. Retries and time are counted from the first failure; a success resets them.
///
/// # How long a call takes while the servers cannot be reached
/// A call that sends requests makes one attempt, and as many retries as the policy allows. An attempt waits for a
/// connection for up to the [connection timeout](crate::ClientBuilder::connection_timeout). Once it has one, it
/// waits for the reply for as long as that connection lasts; a connection on which nothing arrives is given up
/// after two fifths of the session timeout, and one on which only pings are answered after a session timeout. So
/// with `r` retries a call fails after `r + 1` connection timeouts plus the delays between them. If the servers have
/// only just stopped answering, the first attempt takes as long as it takes to notice that.
///
/// The error is [`Error::NotConnected`](crate::Error::NotConnected) if the last attempt had no connection, and
/// [`Error::ZooKeeper`](crate::Error::ZooKeeper) with the error of the connection if it had one. Both are
/// [retryable](crate::Error::is_retryable). Under [`forever`](Self::forever) neither occurs.
///
/// Exceptions:
///
/// | call | difference |
/// |---|---|
/// | an acquire that waits in its queue | no outage ends it while its session lives; once the session has ended, the policy applies. A request that takes permits, and whose connection is lost with it eleven times in a row, ends it: a server may refuse the request |
/// | `try_acquire_for` | its own timeout ends it as well: with `NotConnected` if it waited for the servers only, else with `None` |
/// | `release`, `resign` | ends when the lock can no longer be known to be held, with [`Error::LockLost`](crate::Error::LockLost), whatever the policy allows; the node is removed in the background in any case |
/// | a downgrade | belongs to the session of the writer, and gives `ZooKeeper` also if the last attempt had no connection |
/// | [`commit`](crate::Transaction::commit) | one attempt: [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown) |
/// | [`Client::connect`](crate::Client::connect) | one attempt, and no client if it fails; [`connect_lazily`](crate::Client::connect_lazily) returns a client in any case |
/// | [`Client::close`](crate::Client::close) | one connection timeout, and no error |
/// | `wait_present`, `set_data` of kept nodes | no outage ends them |
/// | `close` of kept nodes, `leave` of groups | no outage ends it before the session of an ephemeral node; for a persistent node, the policy applies, and the node is deleted in the background in any case |
/// | candidates and observers of elections | retry until they are closed |
///
/// The default is [`exponential_backoff`](Self::exponential_backoff) with delays from 100 ms and 3 retries, and a
/// connection timeout of 15 s, so that calls survive an outage of about a minute.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::RetryPolicy;
///
/// let patient = RetryPolicy::until_elapsed(Duration::from_secs(300), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a policy does nothing until a client is built with it"]
pub struct RetryPolicy(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Exponential { base: Duration, max_delay: Duration, max_retries: u32 },
    Times { retries: u32, delay: Duration },
    UntilElapsed { max_elapsed: Duration, delay: Duration },
    Forever { delay: Duration },
}

impl RetryPolicy {
    /// Retries with delays that double on average: a random multiple of `base`, below `base * 2^(retry + 1)`.
    ///
    /// Curator's `ExponentialBackoffRetry`.
    pub fn exponential_backoff(base: Duration, max_retries: u32) -> Self {
        Self::bounded_exponential_backoff(base, Duration::MAX, max_retries)
    }

    /// Retries as [`exponential_backoff`](Self::exponential_backoff) does, with delays of at most `max_delay`.
    /// Curator's `BoundedExponentialBackoffRetry`.
    pub fn bounded_exponential_backoff(base: Duration, max_delay: Duration, max_retries: u32) -> Self {
        Self(Kind::Exponential { base, max_delay, max_retries })
    }

    /// Retries `retries` times, with the same delay before each. Curator's `RetryNTimes`.
    pub fn n_times(retries: u32, delay: Duration) -> Self {
        Self(Kind::Times { retries, delay })
    }

    /// Retries once, after a delay. Curator's `RetryOneTime`.
    pub fn one_time(delay: Duration) -> Self {
        Self::n_times(1, delay)
    }

    /// Retries with the same delay before each until `max_elapsed` has passed since the first failure.
    ///
    /// Curator's `RetryUntilElapsed`.
    pub fn until_elapsed(max_elapsed: Duration, delay: Duration) -> Self {
        Self(Kind::UntilElapsed { max_elapsed, delay })
    }

    /// Retries forever, with the same delay before each. Curator's `RetryForever`.
    pub fn forever(delay: Duration) -> Self {
        Self(Kind::Forever { delay })
    }

    /// Rejects a policy that would retry without limit and without delay.
    pub(crate) fn validate(&self) -> Result<()> {
        match self.0 {
            Kind::UntilElapsed { delay, .. } | Kind::Forever { delay } if delay.is_zero() => {
                Err(Error::InvalidArgument {
                    argument: "retry policy",
                    reason: "unlimited retries without a delay would overload the servers; the delay must be greater than zero".into(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns the delay before retry number `retry` (from 0), `elapsed` after the first failure; `None` to give
    /// up.
    fn delay(&self, retry: u32, elapsed: Duration) -> Option<Duration> {
        match self.0 {
            Kind::Exponential { base, max_delay, max_retries } => (retry < max_retries).then(|| {
                let ceiling = 2_u32.saturating_pow(retry.saturating_add(1));
                base.saturating_mul(fastrand::u32(0..ceiling).max(1)).min(max_delay)
            }),
            Kind::Times { retries, delay } => (retry < retries).then_some(delay),
            Kind::UntilElapsed { max_elapsed, delay } => (elapsed < max_elapsed).then_some(delay),
            Kind::Forever { delay } => Some(delay),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential_backoff(Duration::from_millis(100), 3)
    }
}

/// The shortest pause of background work, and that between requests while there is no connection.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause of background work.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Counts the consecutive failures of one operation.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u32,
    first: Option<Instant>,
}

impl Failures {
    /// Waits before the next attempt.
    ///
    /// # Errors
    /// Returns `error` if a retry cannot help, or if the policy allows no more attempts.
    pub(crate) async fn pause_after(&mut self, error: Error, policy: &RetryPolicy) -> Result<()> {
        if !error.is_retryable() {
            return Err(error);
        }
        self.pause_or(error, policy).await
    }

    /// Waits before the next attempt, whatever the failure.
    ///
    /// # Errors
    /// Returns `error` if the policy allows no more attempts.
    pub(crate) async fn pause_or(&mut self, error: Error, policy: &RetryPolicy) -> Result<()> {
        let now = Instant::now();
        let elapsed = now - *self.first.get_or_insert(now);
        let Some(delay) = policy.delay(self.count, elapsed) else { return Err(error) };
        self.count += 1;
        tracing::debug!(error = %report(&error), retry = self.count, ?delay, "trying again");
        tokio::time::sleep(delay).await;
        Ok(())
    }

    /// Waits before the next attempt of background work, which never gives up: longer with each consecutive failure,
    /// whatever the error, up to [`LONGEST_PAUSE`].
    pub(crate) async fn pause_in_background(&mut self, error: Error) {
        let policy = RetryPolicy::bounded_exponential_backoff(PAUSE, LONGEST_PAUSE, u32::MAX);
        // This policy never gives up.
        let _ = self.pause_or(error, &policy).await;
    }

    /// Whether there was any since the last success.
    pub(crate) fn any(&self) -> bool {
        self.first.is_some()
    }

    /// Resets the count after a success.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn delays(policy: &RetryPolicy, up_to: u32) -> Vec<Duration> {
        (0..up_to).map_while(|retry| policy.delay(retry, Duration::ZERO)).collect()
    }

    #[test]
    fn counted_policies_end() {
        assert_eq!(delays(&RetryPolicy::n_times(3, 5 * MS), 10), [5 * MS; 3]);
        assert_eq!(delays(&RetryPolicy::one_time(MS), 10), [MS]);
        assert_eq!(delays(&RetryPolicy::n_times(0, MS), 10), []);
        assert_eq!(delays(&RetryPolicy::exponential_backoff(MS, 4), 10).len(), 4);
        assert_eq!(delays(&RetryPolicy::forever(MS), 1000).len(), 1000);
    }

    #[test]
    fn until_elapsed_ends_by_time() {
        let policy = RetryPolicy::until_elapsed(10 * MS, MS);
        assert_eq!(policy.delay(7, 9 * MS), Some(MS));
        assert_eq!(policy.delay(7, 10 * MS), None);
    }

    #[test]
    fn endless_retries_without_a_pause_are_refused() {
        for policy in [RetryPolicy::forever(Duration::ZERO), RetryPolicy::until_elapsed(MS, Duration::ZERO)] {
            assert!(matches!(policy.validate(), Err(Error::InvalidArgument { .. })), "{policy:?}");
        }
        assert_eq!(RetryPolicy::n_times(3, Duration::ZERO).validate(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_starts_the_count_anew() {
        let policy = RetryPolicy::one_time(MS);
        let mut failures = Failures::default();
        let lost = || Error::ZooKeeper {
            operation: "list",
            path: "/a".into(),
            source: zookeeper_client::Error::ConnectionLoss,
        };
        assert_eq!(failures.pause_after(lost(), &policy).await, Ok(()));
        assert_eq!(failures.pause_after(lost(), &policy).await, Err(lost()));
        failures.reset();
        assert_eq!(failures.pause_after(lost(), &policy).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_is_not_retried() {
        let policy = RetryPolicy::forever(MS);
        let outcome = Failures::default().pause_after(Error::Closed, &policy).await;
        assert_eq!(outcome, Err(Error::Closed));
    }

    proptest! {
        #[test]
        fn exponential_pauses_stay_within_their_bounds(retry in 0_u32..40, base in 1_u64..5000, cap in 1_u64..100_000) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let policy = RetryPolicy::bounded_exponential_backoff(base, cap, u32::MAX);
            let delay = policy.delay(retry, Duration::ZERO).expect("it never gives up");
            prop_assert!(delay >= base.min(cap) && delay <= cap);
            prop_assert!(delay <= base.saturating_mul(2_u32.saturating_pow(retry + 1)));
        }
    }
}
