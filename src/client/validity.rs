//! Until when the servers cannot have expired a session.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::clock::Moment;
use super::keep_alive::KeepAlive;
use super::signs::{Granting, Sign, Signs};
use crate::meters::ValidityMeter;

/// How certain it is that the session is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It is alive.
    Sound,
    /// It is alive, but there is no connection, or half of its validity has passed without a confirmation.
    Suspect,
    /// It may have expired.
    Lapsed,
    /// It is over.
    Over,
}

/// The settings of a client that determine for how long a reply proves its session alive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// The part of the session timeout that is not relied on; `None` for the default.
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
/// For a request that was answered, it is known when it was sent, and it cannot have reached the servers earlier.
/// From that, [`Signs`] determine until when the session cannot have expired. The margin covers news that the
/// servers exchange with a delay, and clocks that run at different rates.
#[derive(Debug)]
pub(crate) struct Validity {
    terms: Terms,
    /// The session timeout, in nanoseconds.
    timeout: AtomicU64,
    /// When the clock began. All other times are nanoseconds since then.
    start: Moment,
    signs: Mutex<Signs>,
    /// A copy of what the signs say, for those who only read it: until when the session is valid. Zero if it never
    /// was.
    until: AtomicU64,
    /// From when on the session is in doubt.
    suspect_at: AtomicU64,
    /// When the last request was sent that has been answered.
    heard: AtomicU64,
    /// A copy of that, which is brought up to date now and then.
    heard_lately: watch::Sender<u64>,
    health: watch::Sender<Health>,
    dependants: AtomicUsize,
    /// Notified if the session is depended on while a sign of life is overdue.
    needed: Notify,
    meter: ValidityMeter,
}

impl Validity {
    /// Creates a clock that begins at `start`. If `vouched` is true, the session was established after `start`;
    /// otherwise at an unknown time before.
    pub(crate) fn new(timeout: Duration, terms: Terms, start: Moment, vouched: bool) -> Self {
        let signs = Signs::new(nanos(timeout), nanos(terms.margin_of(timeout)), vouched);
        Self {
            terms,
            timeout: AtomicU64::new(nanos(timeout)),
            start,
            until: AtomicU64::new(signs.until()),
            suspect_at: AtomicU64::new(signs.suspect_at()),
            signs: Mutex::new(signs),
            heard: AtomicU64::new(0),
            heard_lately: watch::Sender::new(0),
            health: watch::Sender::new(Health::Sound),
            dependants: AtomicUsize::new(0),
            needed: Notify::new(),
            meter: ValidityMeter::default(),
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout.load(SeqCst))
    }

    /// Returns the time from one beat to the next.
    pub(super) fn beat(&self) -> Duration {
        Duration::from_nanos(self.signs.lock().beat())
    }

    pub(super) fn keep_alive(&self) -> KeepAlive {
        self.terms.keep_alive
    }

    /// Records a connection that continues the session, made after `since`, with the timeout that its server grants.
    pub(super) fn connected(&self, timeout: Duration, since: Moment) {
        if timeout != self.timeout() {
            tracing::info!(before = ?self.timeout(), now = ?timeout, "the servers have changed the session timeout");
            self.timeout.store(nanos(timeout), SeqCst);
        }
        let margin = nanos(self.terms.margin_of(timeout));
        let mut signs = self.signs.lock();
        signs.connected(nanos(timeout), margin, nanos(since.since(self.start)));
        self.read(&signs);
    }

    /// Returns when to give up a session that nothing is heard of: later than the servers do, unless they were down
    /// as well.
    pub(super) fn given_up_at(&self) -> Moment {
        let last_heard = self.signs.lock().last_heard();
        self.at(last_heard) + self.timeout() * 7 / 5
    }

    /// Returns when no request will have been answered for a session timeout, since `begun` at the earliest.
    pub(super) fn unanswered_at(&self, begun: Moment) -> Moment {
        let last_heard = self.signs.lock().last_heard();
        self.at(last_heard).max(begun) + self.timeout()
    }

    /// Records that a request sent at that time has been answered now.
    pub(crate) fn answered(&self, sign: Sign, sent: Moment) {
        let mut signs = self.signs.lock();
        let now = nanos(Moment::now().since(self.start));
        // Without a holder, no one cares to confirm it in time.
        if sign == Sign::Confirmed && self.is_needed() {
            self.meter.confirmed(|| Duration::from_nanos(signs.until().saturating_sub(now)));
        }
        let sent = nanos(sent.since(self.start));
        signs.answered(sign, sent, now);
        self.read(&signs);
        self.heard.fetch_max(sent, SeqCst);
    }

    /// Waits until a request has been answered that is sent after the first poll of this. Is [told](Self::publish) of it
    /// with a delay, and needs no timer.
    pub(super) async fn overtaken(&self) {
        let now = nanos(Moment::now().since(self.start));
        // The sender is ours.
        let _ = self.heard_lately.subscribe().wait_for(|sent| *sent > now).await;
    }

    fn read(&self, signs: &Signs) {
        self.until.store(signs.until(), SeqCst);
        self.suspect_at.store(signs.suspect_at(), SeqCst);
    }

    /// Returns until when the session is valid, as far as is known now.
    pub(super) fn ends_at(&self) -> Moment {
        self.at(self.until.load(SeqCst))
    }

    /// Returns [`ends_at`](Self::ends_at) on the clock of tokio's timers, as far as it can be converted now.
    pub(crate) fn until(&self) -> Instant {
        self.ends_at().instant()
    }

    /// Returns how much longer the session is valid, as far as is known now.
    pub(super) fn left(&self) -> Duration {
        self.ends_at().since(Moment::now())
    }

    pub(crate) fn is_valid(&self) -> bool {
        Moment::now() < self.ends_at()
    }

    /// Waits until the session is no longer valid.
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

    /// Returns when the next sign of life from the servers is due.
    pub(super) fn beat_at(&self) -> Moment {
        let is_needed = self.is_needed();
        self.at(self.signs.lock().beat_at(is_needed))
    }

    pub(super) fn suspect_at(&self) -> Moment {
        self.at(self.suspect_at.load(SeqCst))
    }

    /// Returns when to confirm the session before a lock is handed out on it, after so many confirmations that were made
    /// for that purpose. `None` if the lock can be handed out.
    pub(super) fn confirm_at(&self, confirmations: u32) -> Option<Moment> {
        let signs = self.signs.lock();
        match signs.granting(nanos(Moment::now().since(self.start)), confirmations) {
            Granting::Now => None,
            Granting::Confirm(at) => Some(self.at(at)),
        }
    }

    fn at(&self, time: u64) -> Moment {
        self.start + Duration::from_nanos(time)
    }

    /// Returns a receiver of changes of the health. It is updated while the session is depended on.
    pub(crate) fn health_changes(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Tells those who wait of the health, and of what was answered so far.
    pub(super) fn publish(&self, health: Health) {
        self.health.send_if_modified(|last| mem::replace(last, health) != health);
        let heard = self.heard.load(SeqCst);
        self.heard_lately.send_if_modified(|last| mem::replace(last, heard) != heard);
    }

    /// Keeps the session confirmed for as long as the returned value lives.
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

    /// Waits until the session is depended on while a sign of life is overdue.
    pub(super) async fn needed(&self) {
        self.needed.notified().await;
    }
}

/// Marks the session as depended on until it is dropped.
#[derive(Debug)]
pub(crate) struct Dependant(Arc<Validity>);

impl Drop for Dependant {
    fn drop(&mut self) {
        self.0.dependants.fetch_sub(1, SeqCst);
    }
}

/// Returns the longest margin. It leaves more time than passes from one sign of life to the next.
pub(super) fn longest_margin(timeout: Duration) -> Duration {
    timeout * 2 / 3
}

/// Durations of centuries saturate.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::super::clock::suspend;
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(12);
    const MS: Duration = Duration::from_millis(1);

    fn clock() -> Validity {
        Validity::new(TIMEOUT, Terms::default(), Moment::now(), true)
    }

    /// Makes the session hear from the servers all the time.
    async fn heard_for(validity: &Validity, time: Duration) {
        for _ in 0..(time.as_millis() / 100) {
            tokio::time::advance(100 * MS).await;
            validity.answered(Sign::Led, Moment::now());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_overtaken_when_it_is_told_that_a_later_one_was_answered() {
        let validity = clock();
        let mut overtaken = pin!(validity.overtaken());
        tokio::time::advance(MS).await;
        assert_eq!(overtaken.as_mut().now_or_never(), None);
        validity.answered(Sign::Led, Moment::now());
        validity.publish(Health::Sound);
        assert_eq!(overtaken.as_mut().now_or_never(), None, "sent at the same time");
        tokio::time::advance(MS).await;
        validity.answered(Sign::Led, Moment::now());
        assert_eq!(overtaken.as_mut().now_or_never(), None, "many answers wake no one");
        validity.publish(Health::Sound);
        assert_eq!(overtaken.now_or_never(), Some(()));
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
        // The reply to a request from before the suspension comes too late.
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
