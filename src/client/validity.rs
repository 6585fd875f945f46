//! Until when a session cannot have expired at the servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// How sure it is that the session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It lives.
    Sound,
    /// It lives, but there is no connection, or no sign of the servers for half of its time.
    Suspect,
    /// It may have expired.
    Lapsed,
}

/// The clock of one session.
///
/// The servers keep a session for its timeout from the last request that reached them. Of a request that was
/// answered it is known when it was sent, and it cannot have reached them before. So the session lives at least
/// for the timeout from then on, less a margin for what the servers tell each other with delay and for clocks
/// that do not run alike.
#[derive(Debug)]
pub(crate) struct Validity {
    /// The session timeout.
    timeout: Duration,
    /// For how long a confirmed request vouches for the session.
    term: Duration,
    /// When the clock began.
    start: Instant,
    /// Until when the session is valid, in nanoseconds from the start. Zero: it never was.
    until: AtomicU64,
    health: watch::Sender<Health>,
    dependants: AtomicUsize,
    /// Whether nobody follows the clock since nobody depends on it.
    rests: AtomicBool,
    needed: Notify,
}

impl Validity {
    /// A clock that begins at that time, with a session that was established after it or, if it is not `vouched`
    /// for, at some time before.
    pub(crate) fn new(timeout: Duration, margin: Option<Duration>, start: Instant, vouched: bool) -> Self {
        let term = timeout - margin.unwrap_or(timeout / 3).min(longest_margin(timeout));
        Self {
            timeout,
            term,
            start,
            until: AtomicU64::new(if vouched { nanos(term) } else { 0 }),
            health: watch::Sender::new(Health::Sound),
            dependants: AtomicUsize::new(0),
            rests: AtomicBool::new(false),
            needed: Notify::new(),
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A request that was sent at that time was answered by the servers' leader.
    pub(crate) fn confirm(&self, sent: Instant) {
        let until = sent.saturating_duration_since(self.start) + self.term;
        self.until.fetch_max(nanos(until), SeqCst);
    }

    /// Until when the session is valid, as far as it is known now.
    pub(crate) fn until(&self) -> Instant {
        self.start + Duration::from_nanos(self.until.load(SeqCst))
    }

    pub(crate) fn is_valid(&self) -> bool {
        Instant::now() < self.until()
    }

    pub(crate) fn health(&self, is_connected: bool) -> Health {
        let now = Instant::now();
        if now >= self.until() {
            Health::Lapsed
        } else if !is_connected || now >= self.suspect_at() {
            Health::Suspect
        } else {
            Health::Sound
        }
    }

    /// When the next sign of the servers is due. Before the connection would be kept alive by a ping, so that this
    /// takes the place of the pings.
    pub(super) fn beat_at(&self) -> Instant {
        self.earlier(self.term.saturating_sub(self.timeout / 7))
    }

    pub(super) fn suspect_at(&self) -> Instant {
        self.earlier(self.term / 2)
    }

    /// So long before the validity ends.
    fn earlier(&self, time: Duration) -> Instant {
        self.start + Duration::from_nanos(self.until.load(SeqCst)).saturating_sub(time)
    }

    /// Hears of changes of the health, for as long as somebody depends on it.
    pub(crate) fn health_changes(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    pub(super) fn publish(&self, health: Health) {
        self.health.send_if_modified(|last| std::mem::replace(last, health) != health);
    }

    /// Keeps the session confirmed for as long as the answer lives.
    pub(crate) fn depend(self: &Arc<Self>) -> Dependant {
        self.dependants.fetch_add(1, SeqCst);
        if self.rests.swap(false, SeqCst) {
            self.needed.notify_one();
        }
        Dependant(self.clone())
    }

    pub(super) fn is_needed(&self) -> bool {
        self.dependants.load(SeqCst) > 0
    }

    /// Waits until somebody depends on the clock.
    pub(super) async fn rest(&self) {
        self.rests.store(true, SeqCst);
        while !self.is_needed() {
            self.needed.notified().await;
            self.rests.store(true, SeqCst);
        }
        self.rests.store(false, SeqCst);
    }
}

/// Somebody who depends on the validity of a session.
#[derive(Debug)]
pub(crate) struct Dependant(Arc<Validity>);

impl Drop for Dependant {
    fn drop(&mut self) {
        self.0.dependants.fetch_sub(1, SeqCst);
    }
}

/// What it leaves is longer than it takes from one sign of life to the next.
pub(super) fn longest_margin(timeout: Duration) -> Duration {
    timeout * 2 / 3
}

/// Of centuries, as much as there is room for.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(12);
    const MS: Duration = Duration::from_millis(1);

    fn clock() -> Validity {
        Validity::new(TIMEOUT, None, Instant::now(), true)
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_valid_from_the_sending_of_what_was_answered_for_two_thirds_of_the_timeout() {
        let validity = clock();
        tokio::time::advance(Duration::from_secs(7)).await;
        let sent = Instant::now();
        tokio::time::advance(Duration::from_secs(1) - MS).await;
        assert!(validity.is_valid());
        tokio::time::advance(MS).await;
        assert!(!validity.is_valid());
        validity.confirm(sent);
        assert_eq!(validity.until(), sent + Duration::from_secs(8));
        assert!(validity.is_valid());
        // What is answered late tells nothing new.
        validity.confirm(sent - Duration::from_secs(3));
        assert_eq!(validity.until(), sent + Duration::from_secs(8));
    }

    #[tokio::test(start_paused = true)]
    async fn it_turns_from_sound_to_suspect_to_lapsed() {
        let validity = clock();
        assert_eq!(validity.health(true), Health::Sound);
        assert_eq!(validity.health(false), Health::Suspect);
        tokio::time::advance(Duration::from_secs(4) - MS).await;
        assert_eq!(validity.health(true), Health::Sound);
        tokio::time::advance(MS).await;
        assert_eq!(validity.health(true), Health::Suspect);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(validity.health(true), Health::Lapsed);
        assert_eq!(validity.health(false), Health::Lapsed);
    }

    #[tokio::test(start_paused = true)]
    async fn the_margin_leaves_a_third_of_the_timeout_at_least() {
        for (margin, term) in [(0, 12), (5, 7), (8, 4), (11, 4)] {
            let validity = Validity::new(TIMEOUT, Some(Duration::from_secs(margin)), Instant::now(), true);
            assert_eq!(validity.until(), Instant::now() + Duration::from_secs(term));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_vouches_for_a_session_that_was_found() {
        let validity = Validity::new(TIMEOUT, None, Instant::now(), false);
        assert!(!validity.is_valid());
        validity.confirm(Instant::now());
        assert!(validity.is_valid());
    }

    #[tokio::test]
    async fn it_rests_until_somebody_depends_on_it() {
        let validity = Arc::new(clock());
        let first = validity.depend();
        validity.rest().await;
        drop(first);
        let resting = tokio::spawn({
            let validity = validity.clone();
            async move { validity.rest().await }
        });
        while !validity.rests.load(SeqCst) {
            tokio::task::yield_now().await;
        }
        // Whoever goes at once needs nothing.
        drop(validity.depend());
        tokio::task::yield_now().await;
        let _second = validity.depend();
        resting.await.unwrap();
    }
}
