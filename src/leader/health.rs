//! What probes ask a candidate.

use tokio::time::Instant;

use super::state::LeaderState;

/// What a candidate does at the moment, for probes. From [`LeaderLatch::health`](crate::LeaderLatch::health) and
/// [`LeaderSelector::health`](crate::LeaderSelector::health).
///
/// ```no_run
/// # use std::time::Duration;
/// # use zk_recipes::LeaderRole;
/// # fn example(latch: zk_recipes::LeaderLatch) -> bool {
/// let health = latch.health();
/// println!("{:?} for {:?}", health.role, health.since.elapsed());
/// // Something is wrong that time alone has not fixed.
/// health.role == LeaderRole::Failed && health.since.elapsed() > Duration::from_secs(60)
/// # }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderHealth {
    /// Its role.
    pub role: LeaderRole,
    /// Since when it has had this role. For one that has failed, since the first of its consecutive failures, between
    /// which a selector may have led, if its work failed in each of these terms.
    pub since: Instant,
}

/// The role of a candidate: its [`LeaderState`](crate::LeaderState) in one word.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaderRole {
    /// It leads.
    Leader,
    /// It leads, but is giving the leadership up.
    Resigning,
    /// It waits in the queue, or is about to enter it.
    Candidate,
    /// It does not stand for election, because it is not
    /// [eligible](crate::LeaderOptions::eligible_while).
    Ineligible,
    /// It does not stand for election, because its work is done.
    Idle,
    /// It failed, and tries again unless it leads only once.
    Failed,
    /// It has left the election for good.
    Closed,
}

impl LeaderState {
    /// The role of a candidate in this state. One that has lost its leadership waits again, even before it has
    /// noticed the loss.
    pub(super) fn role(&self) -> LeaderRole {
        match self {
            Self::Leading(leadership) | Self::Resigning(leadership) if !leadership.is_valid() => {
                LeaderRole::Candidate
            }
            Self::Leading(leadership) if !leadership.is_resigning() => LeaderRole::Leader,
            Self::Leading(_) | Self::Resigning(_) => LeaderRole::Resigning,
            Self::Waiting => LeaderRole::Candidate,
            Self::Ineligible => LeaderRole::Ineligible,
            Self::Idle => LeaderRole::Idle,
            Self::Failed(_) => LeaderRole::Failed,
            Self::Closed => LeaderRole::Closed,
        }
    }
}
