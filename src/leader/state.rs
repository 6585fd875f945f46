//! How a candidate stands.

use super::leadership::Leadership;
use crate::error::Error;

/// How a candidate stands. Watch it with [`LeaderLatch::watch`](crate::LeaderLatch::watch) or
/// [`LeaderSelector::watch`](crate::LeaderSelector::watch).
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum LeaderState {
    /// It is no candidate now: a selector whose work is done, and that was not told to queue again.
    Idle,
    /// It waits for its turn, or is on its way into the queue.
    Waiting,
    /// It leads.
    Leading(Leadership),
    /// It leads for a last moment: it is giving the leadership up, and waits for the work under it to end.
    Resigning(Leadership),
    /// It failed, and is out of the queue. Without a right, for instance, or because the work of a selector failed.
    /// It tries again after a pause; except a selector that leads only once, whose work
    /// [failed](Error::WorkFailed) or was [stopped](Error::WorkStopped) before it was done.
    Failed(Error),
    /// It is no candidate any more.
    Closed,
}

impl LeaderState {
    /// Whether it leads, and is not about to give that up.
    pub fn is_leading(&self) -> bool {
        self.leadership().is_some()
    }

    /// The leadership, if it leads.
    pub(super) fn leadership(&self) -> Option<&Leadership> {
        match self {
            Self::Leading(leadership) => Some(leadership).filter(|it| it.is_valid() && !it.is_resigning()),
            _ => None,
        }
    }
}
