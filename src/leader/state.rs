//! The state of a candidate.

use super::leadership::Leadership;
use crate::error::Error;

/// The state of a candidate. Watch it with [`LeaderLatch::watch_state`](crate::LeaderLatch::watch_state) or
/// [`LeaderSelector::watch_state`](crate::LeaderSelector::watch_state).
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum LeaderState {
    /// It does not stand for election: a selector whose work is done and that was not told to stand again.
    Idle,
    /// It does not stand for election, because it is not [eligible](crate::LeaderOptions::eligible_while). It stands
    /// again when it is.
    Ineligible,
    /// It waits in the queue, or is about to enter it.
    Waiting,
    /// It leads.
    Leading(Leadership),
    /// It still leads, but is giving the leadership up, and waits for the work under it to end.
    Resigning(Leadership),
    /// It failed and is out of the queue, for example because permission is missing or the work of a selector
    /// failed. It tries again after a pause, except for a selector that leads only once, whose work
    /// [failed](Error::WorkFailed) or was [stopped](Error::WorkStopped) before it was done.
    Failed(Error),
    /// It has left the election for good.
    Closed,
}

impl LeaderState {
    /// Returns whether it leads and is not giving the leadership up.
    pub fn is_leading(&self) -> bool {
        self.leadership().is_some()
    }

    /// Whether watchers would see no difference.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Leading(one), Self::Leading(other)) | (Self::Resigning(one), Self::Resigning(other)) => {
                one.node_path() == other.node_path()
            }
            (Self::Failed(one), Self::Failed(other)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The leadership, if it leads and is not giving it up.
    pub(super) fn leadership(&self) -> Option<&Leadership> {
        match self {
            Self::Leading(leadership) => Some(leadership).filter(|it| it.is_valid() && !it.is_resigning()),
            _ => None,
        }
    }
}
