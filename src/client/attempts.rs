//! Attempts in the background to remove a node.

use std::time::Duration;

use zookeeper_client as zk;

use super::session::Session;
use crate::failure::Failure;

const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Whether a node may still exist and another attempt may remove it.
pub(super) fn needs_another_attempt(session: &Session, node: &str, outcome: Result<(), zk::Error>) -> bool {
    let error = match outcome {
        Ok(()) | Err(zk::Error::NoNode) => return false,
        Err(error) => error,
    };
    let failure = Failure::of(&error);
    if failure == Failure::Refused {
        tracing::warn!(node, %error, "cannot remove; it stays until the session ends");
    }
    failure.is_passing() && !session.is_over()
}

/// Increasing pauses between attempts. The connection is down then, and requests wait for it anyway.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(MIN_PAUSE)
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(MAX_PAUSE);
        pause
    }
}
