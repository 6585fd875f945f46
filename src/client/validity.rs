//! Until when a session cannot have expired at the servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::clock::Moment;
use super::keep_alive::KeepAlive;
use super::signs::{Sign, Signs};

/// How sure it is that the session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It lives.
    Sound,
    /// It lives, but there is no connection, or no sign of the servers for half of its time.
    Suspect,
    /// It may have expired.
    Lapsed,
    /// It is over.
    Over,
}

/// The settings of a client that say for how long an answer vouches for its session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// How much of the session timeout is not counted on; `None` for the usual part.
    pub(super) margin: Option<Duration>,
    pub(super) keep_alive: KeepAlive,
}

impl Terms {
    fn margin_of(self, timeout: Duration) -> Duration {
        self.margin.unwrap_or(timeout / 3).min(longest_margin(timeout))
    }
}

/// The clock of one session.
///
/// Of a request that was answered it is known when it was sent, and it cannot have reached the servers before. From
/// that [`Signs`] tell until when the session cannot have expired. A margin is for what the servers tell each other
/// with delay and for clocks that do not run alike.
#[derive(Debug)]
pub(crate) struct Validity {
    terms: Terms,
    /// The session timeout, in nanoseconds.
    timeout: AtomicU64,
    /// When the clock began. All other times are in nanoseconds from then on.
    start: Moment,
    signs: Mutex<Signs>,
    /// What the signs tell, for those who only look. Until when the session is valid. Zero: it never was.
    until: AtomicU64,
    /// From when on it is in doubt.
    suspect_at: AtomicU64,
    health: watch::Sender<Health>,
    dependants: AtomicUsize,
    /// Told that somebody depends on the session, and a sign of life is overdue.
    needed: Notify,
}

impl Validity {
    /// A clock that begins at that time, with a session that was established after it or, if it is not `vouched`
    /// for, at some time before.
    pub(crate) fn new(timeout: Duration, terms: Terms, start: Moment, vouched: bool) -> Self {
        let signs = Signs::new(nanos(timeout), nanos(terms.margin_of(timeout)), vouched);
        Self {
            terms,
            timeout: AtomicU64::new(nanos(timeout)),
            start,
            until: AtomicU64::new(signs.until()),
            suspect_at: AtomicU64::new(signs.suspect_at()),
            signs: Mutex::new(signs),
            health: watch::Sender::new(Health::Sound),
            dependants: AtomicUsize::new(0),
            needed: Notify::new(),
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout.load(SeqCst))
    }

    pub(super) fn keep_alive(&self) -> KeepAlive {
        self.terms.keep_alive
    }

    /// The session goes on, on a connection that was made since that time, with the timeout that its server grants.
    pub(super) fn renegotiated(&self, timeout: Duration, since: Moment) {
        if timeout != self.timeout() {
            tracing::info!(before = ?self.timeout(), now = ?timeout, "the servers have changed the session timeout");
            self.timeout.store(nanos(timeout), SeqCst);
            let margin = nanos(self.terms.margin_of(timeout));
            let mut signs = self.signs();
            signs.renegotiated(nanos(timeout), margin, nanos(since.since(self.start)));
            self.read(&signs);
        }
    }

    /// When a session is given up of which nothing is heard: later than the servers do, unless they were away as well.
    pub(super) fn given_up_at(&self) -> Moment {
        let last_heard = self.signs().last_heard();
        self.at(last_heard) + self.timeout() * 7 / 5
    }

    /// A request that was sent at that time is answered now.
    pub(crate) fn answered(&self, sign: Sign, sent: Moment) {
        let mut signs = self.signs();
        let now = Moment::now().since(self.start);
        signs.answered(sign, nanos(sent.since(self.start)), nanos(now));
        self.read(&signs);
    }

    fn read(&self, signs: &Signs) {
        self.until.store(signs.until(), SeqCst);
        self.suspect_at.store(signs.suspect_at(), SeqCst);
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        // No code that can panic runs under this lock.
        self.signs.lock()
    }

    /// Until when the session is valid, as far as it is known now.
    pub(super) fn ends_at(&self) -> Moment {
        self.at(self.until.load(SeqCst))
    }

    /// The same by the clock of tokio's timers, as far as can be told now.
    pub(crate) fn until(&self) -> Instant {
        self.ends_at().instant()
    }

    pub(crate) fn is_valid(&self) -> bool {
        Moment::now() < self.ends_at()
    }

    /// Waits until it is valid no longer.
    pub(crate) async fn lapsed(&self) {
        while self.is_valid() {
            sleep_until(self.until()).await;
        }
    }

    pub(crate) fn health(&self, is_connected: bool) -> Health {
        let now = Moment::now();
        if now >= self.ends_at() {
            Health::Lapsed
        } else if !is_connected || now >= self.suspect_at() {
            Health::Suspect
        } else {
            Health::Sound
        }
    }

    /// When the next sign of the servers is due.
    pub(super) fn beat_at(&self) -> Moment {
        let is_needed = self.is_needed();
        self.at(self.signs().beat_at(is_needed))
    }

    pub(super) fn suspect_at(&self) -> Moment {
        self.at(self.suspect_at.load(SeqCst))
    }

    /// After how long it is worth to have the session confirmed again, if that has not made it valid.
    pub(super) fn confirm_again_after(&self) -> Duration {
        Duration::from_nanos(self.signs().report())
    }

    fn at(&self, time: u64) -> Moment {
        self.start + Duration::from_nanos(time)
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
        let is_first = self.dependants.fetch_add(1, SeqCst) == 0;
        if is_first && self.beat_at() <= Moment::now() {
            self.needed.notify_one();
        }
        Dependant(self.clone())
    }

    pub(super) fn is_needed(&self) -> bool {
        self.dependants.load(SeqCst) > 0
    }

    /// Waits until somebody depends on the session while a sign of life is overdue.
    pub(super) async fn needed(&self) {
        self.needed.notified().await;
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
    use super::super::clock::suspend;
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(12);
    const MS: Duration = Duration::from_millis(1);

    fn clock() -> Validity {
        Validity::new(TIMEOUT, Terms::default(), Moment::now(), true)
    }

    /// Has the session heard from, all the time.
    async fn heard_for(validity: &Validity, time: Duration) {
        for _ in 0..(time.as_millis() / 100) {
            tokio::time::advance(100 * MS).await;
            validity.answered(Sign::Heard, Moment::now());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_valid_from_the_sending_of_what_was_answered_for_two_thirds_of_the_timeout() {
        let validity = clock();
        heard_for(&validity, Duration::from_secs(7)).await;
        let (sent, instant) = (Moment::now(), Instant::now());
        tokio::time::advance(Duration::from_secs(1) - MS).await;
        assert!(validity.is_valid());
        tokio::time::advance(MS).await;
        assert!(!validity.is_valid());
        validity.answered(Sign::Confirmed, sent);
        assert_eq!(validity.until(), instant + Duration::from_secs(8));
        assert!(validity.is_valid());
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
            let terms = Terms { margin: Some(Duration::from_secs(margin)), ..Terms::default() };
            let validity = Validity::new(TIMEOUT, terms, Moment::now(), true);
            assert_eq!(validity.until(), Instant::now() + Duration::from_secs(term));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_vouches_for_a_session_that_was_found() {
        let validity = Validity::new(TIMEOUT, Terms::default(), Moment::now(), false);
        assert!(!validity.is_valid());
        validity.answered(Sign::Confirmed, Moment::now());
        assert!(validity.is_valid());
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_stop_while_the_machine_is_suspended() {
        let validity = clock();
        let until = validity.until();
        tokio::time::advance(Duration::from_secs(1)).await;
        suspend(Duration::from_secs(3));
        assert_eq!(validity.health(true), Health::Suspect);
        assert_eq!(validity.until(), until - Duration::from_secs(3), "timers stood still meanwhile");
        suspend(Duration::from_secs(4));
        assert!(!validity.is_valid());
        assert_eq!(validity.until(), Instant::now());
        assert_eq!(validity.health(true), Health::Lapsed);
        // An answer to what was sent before the suspension comes too late.
        validity.answered(Sign::Confirmed, validity.start + MS);
        suspend(MS);
        assert!(!validity.is_valid());
    }

    #[tokio::test(start_paused = true)]
    async fn who_depends_on_it_when_a_sign_of_life_is_overdue_has_one_asked_for() {
        let validity = Arc::new(clock());
        let first = validity.depend();
        drop(first);
        heard_for(&validity, Duration::from_secs(3)).await;
        assert!(validity.beat_at() > Moment::now(), "it was heard from");
        let asked = tokio::spawn({
            let validity = validity.clone();
            async move { validity.needed().await }
        });
        tokio::task::yield_now().await;
        assert!(!asked.is_finished(), "at first none was due");
        let _second = validity.depend();
        assert!(validity.beat_at() < Moment::now(), "but not confirmed");
        asked.await.unwrap();
    }
}
