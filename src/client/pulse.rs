//! Keeps a session confirmed while somebody depends on it, and tells when it is in doubt.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::{FutureExt, OptionFuture};
use tokio::time::{Instant, sleep_until};

use super::session::Session;

/// After a request that failed, which ends when the session does.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs for as long as the session is followed. While nobody depends on it, it does nothing.
pub(super) async fn beat(session: &Session) -> Infallible {
    let validity = session.validity();
    let mut state = session.state_watcher();
    let mut beat = None;
    let mut beat_after = Instant::now();
    loop {
        if !validity.is_needed() {
            validity.rest().await;
        }
        validity.publish(session.health());
        let now = Instant::now();
        let beat_at = validity.beat_at().max(beat_after);
        if beat.is_none() && beat_at <= now {
            beat = Some(session.sync("/").boxed());
        }
        let next =
            [beat_at, validity.suspect_at(), validity.until()].into_iter().filter(|at| *at > now).min();
        tokio::select! {
            Some(()) = OptionFuture::from(next.map(sleep_until)) => {}
            Some(answer) = OptionFuture::from(beat.as_mut()) => {
                beat = None;
                if answer.is_err() {
                    beat_after = Instant::now() + PAUSE;
                }
            }
            _ = state.changed() => {}
        }
    }
}
