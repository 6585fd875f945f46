//! Keeps a session confirmed while it is depended on, and reports when it is in doubt.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::{FutureExt, OptionFuture};
use tokio::time::sleep_until;

use super::clock::Moment;
use super::session::Session;
use crate::failure::Failure;

/// The pause after a request that failed. The next one waits for a connection, or fails when the session ends.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs for as long as the session is followed. While nothing depends on the session, its leader is only heard from, by
/// `sync` in place of pings: a later confirmation counts in full only if it has answered shortly before.
pub(super) async fn run(session: &Session) -> Infallible {
    let validity = session.validity();
    let mut connectivity = session.connectivity();
    let mut beat = None;
    let mut beat_after = Moment::now();
    let mut refusals = 0;
    loop {
        validity.publish(session.health());
        let now = Moment::now();
        let beat_at = validity.beat_at().max(beat_after);
        if beat.is_none() && beat_at <= now {
            let is_needed = validity.is_needed();
            let beating = async move {
                session.ready().await;
                if is_needed { session.confirm().await } else { session.sync("/").await }
            };
            beat = Some(beating.boxed());
        }
        // Timers stand still while the machine is suspended, so no wait may be long.
        let look = now + validity.beat();
        let next = [beat_at, validity.suspect_at(), validity.ends_at()].into_iter().filter(|at| *at > now);
        let next = next.fold(look, Moment::min);
        tokio::select! {
            () = sleep_until(next.instant()) => {}
            () = validity.needed() => {}
            Some(answer) = OptionFuture::from(beat.as_mut()) => {
                beat = None;
                let failure = answer.err().map(|error| Failure::of(&error));
                refusals = if failure.is_none_or(|failure| failure == Failure::Unknown) { 0 } else { refusals + 1 };
                if failure.is_some() {
                    let left = validity.is_needed().then(|| validity.left());
                    beat_after = Moment::now() + pause_after(refusals, validity.beat(), left);
                }
            }
            _ = connectivity.changed() => {}
        }
    }
}

/// A server that answers with errors, since it has too much to do, is asked ever less often: in the end no more often than any
/// other. Not at once, which would cost locks; and while there are any, in time for another attempt before the session is
/// valid no longer.
fn pause_after(refusals: u32, beat: Duration, left: Option<Duration>) -> Duration {
    let pause = PAUSE.saturating_mul(1_u32.checked_shl(refusals).unwrap_or(u32::MAX)).min(beat);
    match left {
        Some(left) if !left.is_zero() => pause.min((left / 2).max(PAUSE)),
        _ => pause,
    }
}

#[cfg(test)]
mod tests {
    use super::super::signs::{Sign, Signs};
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(7);
    const BEAT: Duration = Duration::from_secs(1);

    #[test]
    fn a_server_that_throttles_is_soon_asked_no_more_often_than_any_other() {
        assert_eq!(pause_after(0, BEAT, None), PAUSE);
        let pauses = (1..200).map(|refusals| pause_after(refusals, BEAT, Some(TIMEOUT)));
        assert_eq!(pauses.take_while(|pause| *pause < BEAT).count(), 4);
        for left in [None, Some(Duration::ZERO), Some(TIMEOUT)] {
            assert_eq!(pause_after(u32::MAX, BEAT, left), BEAT, "{left:?}");
        }
        assert_eq!(pause_after(u32::MAX, BEAT, Some(BEAT)), BEAT / 2);
        assert_eq!(pause_after(u32::MAX, BEAT, Some(PAUSE / 10)), PAUSE);
    }

    /// Whether a session stays valid whose beats are answered after so long; those that are sent at these times, in
    /// milliseconds, with an error.
    fn is_kept(took: Duration, is_refused: impl Fn(u32, u64) -> bool) -> bool {
        let millis = |duration: Duration| duration.as_millis() as u64;
        let mut signs = Signs::new(millis(TIMEOUT), millis(TIMEOUT / 3), true);
        let (mut now, mut beat_after, mut refusals) = (0, 0, 0);
        (1..100).all(|beat| {
            let sent = signs.beat_at(true).max(beat_after).max(now);
            now = sent + millis(took);
            let is_valid = now < signs.until();
            if is_refused(beat, sent) {
                refusals += 1;
                let left = Duration::from_millis(signs.until().saturating_sub(now));
                beat_after = now + millis(pause_after(refusals, BEAT, Some(left)));
            } else {
                refusals = 0;
                signs.answered(Sign::Confirmed, sent, now);
            }
            is_valid
        })
    }

    #[test]
    fn a_server_that_throttles_at_times_costs_no_lock() {
        assert!(is_kept(TIMEOUT / 100, |beat, _| (20..23).contains(&beat)), "three in a row");
        assert!(is_kept(TIMEOUT / 20, |beat, _| beat % 2 == 0), "each second one");
        assert!(!is_kept(TIMEOUT / 100, |beat, _| beat > 50), "all");
    }

    #[test]
    fn a_server_that_throttles_for_less_than_a_third_of_the_timeout_costs_no_lock() {
        let (begin, burst) = (30_000, TIMEOUT.as_millis() as u64 * 3 / 10);
        for begin in begin..begin + 1000 {
            assert!(
                is_kept(TIMEOUT / 100, |_, sent| (begin..begin + burst).contains(&sent)),
                "from {begin} on"
            );
        }
    }
}
