//! Keeps a session confirmed while it is depended on, and reports when it is in doubt.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::{FutureExt, OptionFuture};
use tokio::time::sleep_until;
use zookeeper_client as zk;

use super::clock::Moment;
use super::session::Session;
use crate::failure::Failure;

/// The pause after a request without an answer. The next request waits for a connection, or fails when the session ends.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs for as long as the session is followed. While nothing depends on the session, its leader is only heard from, by
/// `sync` in place of pings: a later confirmation counts in full only if it has answered shortly before.
pub(super) async fn run(session: &Session) -> Infallible {
    let validity = session.validity();
    let mut connectivity = session.connectivity();
    let mut beat = None;
    let mut beat_after = Moment::now();
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
        let look = now + session.timeout() / 7;
        let next = [beat_at, validity.suspect_at(), validity.ends_at()].into_iter().filter(|at| *at > now);
        let next = next.fold(look, Moment::min);
        tokio::select! {
            () = sleep_until(next.instant()) => {}
            () = validity.needed() => {}
            Some(answer) = OptionFuture::from(beat.as_mut()) => {
                beat = None;
                if let Err(error) = answer {
                    beat_after = Moment::now() + pause_after(&error, session.timeout());
                }
            }
            _ = connectivity.changed() => {}
        }
    }
}

/// A server that answers with an error, since it has too much to do, is not asked more often than any other.
fn pause_after(error: &zk::Error, timeout: Duration) -> Duration {
    if Failure::of(error) == Failure::Unknown { PAUSE } else { timeout / 7 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_throttles_is_asked_no_more_often_than_any_other() {
        let timeout = Duration::from_secs(7);
        assert_eq!(pause_after(&zk::Error::Throttled, timeout), Duration::from_secs(1));
        assert_eq!(pause_after(&zk::Error::ConnectionLoss, timeout), PAUSE);
    }
}
